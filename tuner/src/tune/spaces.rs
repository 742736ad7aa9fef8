//! Makes spaces from options: built in, from a file, or from a Python class.

use mneme_model::architecture::Processor;
use mneme_model::configuration::Specialize;
use mneme_model::device::DeviceLimits;
use serde_json::Value;

use super::{KernelToTune, TuneError, evaluator};
use crate::bridge::{Bridge, PythonSpace};
use crate::options::{FoldedArguments, SpaceSettings, TuningSettings};
use crate::session::TunedInstance;
use crate::space::{FileSpace, Folding, ForAmd, PresetSpace, Recorded, SearchSpace, Surroundings};

/// Makes the spaces of one kernel's instances.
pub struct Spaces<'a> {
    pub settings: &'a TuningSettings,
    pub subject: &'a KernelToTune,
    pub bridge: Option<&'a Bridge>,
    /// Number of the first Python space.
    pub number: Option<u64>,
    pub limits: DeviceLimits,
    /// The arguments that all instances have in common, once computed.
    pub common: Option<Specialize>,
}

impl Spaces<'_> {
    pub fn of(&mut self, id: &str) -> Result<Box<dyn SearchSpace>, TuneError> {
        let space = match self.settings.folded {
            FoldedArguments::All => self.described(id)?,
            FoldedArguments::Common => {
                let common = match &self.common {
                    Some(common) => common.clone(),
                    None => self.common.insert(self.subject.common_arguments()?).clone(),
                };
                Box::new(Folding::new(self.described(id)?, common))
            }
        };
        Ok(match self.subject.record.ours.processor() {
            Some(processor) => Box::new(ForAmd::new(space, processor)),
            None => space,
        })
    }

    fn described(&mut self, id: &str) -> Result<Box<dyn SearchSpace>, TuneError> {
        let instance = self.subject.recorded(id);
        let (grid, block, shared_mem) = (instance.grid_dims, instance.block_dims, instance.shared_mem);
        let processor = self.subject.record.ours.processor();
        let recorded = Recorded { grid, block, shared_mem, compiled: instance.ours.compiled.clone(), processor };
        match &self.settings.space {
            SpaceSettings::Class { name, arguments } => {
                let bridge = self.bridge.expect("a class has a process to run in");
                let database = self.subject.database.to_string_lossy();
                let space = PythonSpace::new(bridge, name, arguments, (&database, id), &recorded.configuration())?;
                if let Some(problem) = space.endless().filter(|_| self.walks()) {
                    return Err(TuneError::Setting(problem));
                }
                self.number.get_or_insert(space.number());
                Ok(Box::new(space))
            }
            SpaceSettings::File(file) => {
                let arguments = instance.args.iter().map(|bits| Value::from(*bits)).collect();
                let surroundings = Surroundings { recorded, arguments, device: self.limits.clone() };
                Ok(Box::new(FileSpace::load(file, &surroundings)?))
            }
            SpaceSettings::BuiltIn(preset) => Ok(Box::new(PresetSpace::new(preset, recorded))),
            SpaceSettings::Table => unreachable!("a table has no recorded instances"),
        }
    }

    fn walks(&self) -> bool {
        !self.settings.mode.inspects() && self.settings.search.sampler.is_exhaustive()
    }

    pub fn endless(&self, space: &dyn SearchSpace) -> Option<String> {
        let name = &space.parameters().iter().find(|parameter| parameter.domain.size().is_none())?.name;
        self.walks()
            .then(|| format!("the parameter '{name}' has infinitely many values, which cannot all be tried; use --sampler random or tpe"))
    }
}

/// The device's limits, for showing a space. If no device can be queried, the limits that every CUDA device has, or
/// those of the AMD processor that the code is for.
pub fn limits_to_show(
    settings: &TuningSettings,
    instances: &[TunedInstance],
    processor: Option<&Processor>,
) -> DeviceLimits {
    match evaluator(settings, &instances[..1]) {
        Ok(evaluator) => evaluator.greeting().limits.clone(),
        Err(error) => {
            let limits = DeviceLimits::default();
            let (limits, like) = match processor {
                Some(processor) => (limits.for_code_of(processor), format!("the limits of {}", processor.name)),
                None => (limits, "the limits of every CUDA device".into()),
            };
            mneme_system::remark!(
                "mneme-tune: no device can be queried, so the space is for a device with {like}: {error}"
            );
            limits
        }
    }
}
