//! The spaces that options describe: built in, from a file, or of a Python class.

use mneme_core::device::DeviceLimits;
use serde_json::Value;

use super::{Subject, TuneError, evaluator};
use crate::bridge::{Bridge, PythonSpace};
use crate::options::{MaxThreadsPolicy, Options, Range, Switch};
use crate::sampler::Kind;
use crate::session::Instance;
use crate::space::{FileSpace, MaxThreads, PresetOptions, PresetSpace, Recorded, Space, Surroundings};

/// Makes spaces of one kind for instances of one kernel.
pub struct Spaces<'a> {
    pub options: &'a Options,
    pub subject: &'a Subject,
    pub bridge: Option<&'a Bridge>,
    /// Of the first Python space.
    pub number: Option<u64>,
    pub limits: DeviceLimits,
}

impl Spaces<'_> {
    pub fn of(&mut self, id: &str) -> Result<Box<dyn Space>, TuneError> {
        let instance = self.subject.recorded(id);
        let (grid, block, shared_mem) = (instance.grid_dims, instance.block_dims, instance.shared_mem);
        let recorded = Recorded { grid, block, shared_mem, compiled: instance.ours.compiled.clone() };
        if let Some((class, bridge)) = self.options.space_module.as_ref().zip(self.bridge) {
            let database = self.subject.database.to_string_lossy();
            let space = PythonSpace::new(bridge, class, &self.options.space_arg, &database, id)?;
            if let Some(problem) = space.endless().filter(|_| self.walks()) {
                return Err(TuneError::Setting(problem));
            }
            self.number.get_or_insert(space.number());
            return Ok(Box::new(space));
        }
        if let Some(file) = &self.options.space {
            let arguments = instance.args.iter().map(|bits| Value::from(*bits)).collect();
            let surroundings = Surroundings { recorded, arguments, device: self.limits.clone() };
            return Ok(Box::new(FileSpace::load(file, &surroundings)?));
        }
        Ok(Box::new(PresetSpace::new(&preset_options(self.options), recorded)))
    }

    fn walks(&self) -> bool {
        let inspects = self.options.print_space || self.options.dry_run;
        !inspects && self.options.sampler.is_none_or(Kind::is_exhaustive)
    }

    pub fn endless(&self, space: &dyn Space) -> Option<String> {
        let name = &space.parameters().iter().find(|parameter| parameter.domain.size().is_none())?.name;
        self.walks()
            .then(|| format!("the parameter '{name}' has no end of values to go through; use --sampler random or tpe"))
    }
}

/// What the device can take, where only the space is to be seen; one that cannot be asked is taken to have what every
/// one has.
pub fn limits_to_show(options: &Options, instances: &[Instance]) -> DeviceLimits {
    match evaluator(options, &instances[..1]) {
        Ok(evaluator) => evaluator.greeting().limits.clone(),
        Err(error) => {
            mneme_core::remark!(
                "mneme-tune: the space is that of a device which has what every CUDA device has, because none can be asked: {error}"
            );
            DeviceLimits::default()
        }
    }
}

/// The built-in space that settled options describe.
fn preset_options(options: &Options) -> PresetOptions {
    let switch = |mode: Option<Switch>| mode.unwrap_or(Switch::Fixed).values().to_vec();
    let range = |fixed: Option<u32>, range: Option<Range>, default| {
        fixed.map(Range::one).or(range).map_or(vec![default], Range::values)
    };
    let passes = options.fixed_passes.clone().map_or_else(|| options.passes.clone(), |only| vec![only]);
    let max_threads = match (options.max_threads_range, options.max_threads_policy) {
        (Some(range), _) => MaxThreads::OneOf(range.values()),
        (_, Some(MaxThreadsPolicy::Recorded)) => MaxThreads::Recorded,
        (_, Some(MaxThreadsPolicy::PowersOfTwo)) => MaxThreads::OneOf((0..=10).map(|exponent| 1 << exponent).collect()),
        (_, Some(MaxThreadsPolicy::Hardware)) => MaxThreads::OneOf(vec![1024]),
        (_, Some(MaxThreadsPolicy::BlockThreads) | None) => MaxThreads::Block,
    };
    PresetOptions {
        launch_dim: options.launch_dim.expect("settled"),
        launch_safety: options.launch_safety.expect("settled"),
        passes,
        codegen_opt: range(options.fixed_codegen_opt, options.codegen_opt_range, 3),
        codegen_method: options.codegen_method.clone().unwrap_or_else(|| "serial".into()),
        specialize: switch(options.specialize_space),
        specialize_dims: switch(options.specialize_dims_space),
        launch_bounds: switch(options.launch_bounds_space),
        internalize: switch(options.internalize_space),
        min_blocks_per_sm: range(options.fixed_min_blocks_per_sm, options.min_blocks_per_sm_range, 1),
        max_threads,
    }
}
