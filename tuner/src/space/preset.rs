//! The built-in spaces: block shapes, pipelines and compiler switches.
//!
//! The presets and the rules behind them are upstream's, so that a command line of one tunes the same space with the
//! other.

use clap::ValueEnum;
use mneme_core::configuration::Configuration;
use mneme_core::launch::Dim3;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Domain, Parameter, Point, Recorded, Rejection, Space, shapes};

/// How much of the space is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Few pipelines, cautious block shapes: a first look.
    Quick,
    /// Block shapes, pipelines and code generation levels.
    Standard,
    /// Block shapes alone; the O3 pipeline and code generation level 3 unless --passes says otherwise.
    Launch,
    /// Pipelines and code generation levels alone, at the recorded block shape.
    Compiler,
    /// Everything, with specialisation and launch bounds on and off.
    Full,
}

/// The axes along which the block's shape is varied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchDimensions {
    /// Keep the recorded block.
    None,
    /// The axes along which the recorded launch has more than one block or thread.
    Auto,
    X,
    Xy,
    Xyz,
}

/// How many threads a candidate block may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchSafety {
    /// As many as recorded.
    Conservative,
    /// Twice as many as recorded.
    Balanced,
    /// 1024.
    Aggressive,
}

impl Preset {
    fn launch_dimensions(self) -> LaunchDimensions {
        if self == Self::Compiler { LaunchDimensions::None } else { LaunchDimensions::Auto }
    }

    fn launch_safety(self) -> LaunchSafety {
        match self {
            Self::Quick => LaunchSafety::Conservative,
            Self::Full => LaunchSafety::Aggressive,
            _ => LaunchSafety::Balanced,
        }
    }

    fn passes(self) -> &'static [&'static str] {
        match self {
            Self::Launch => &["default<O3>"],
            Self::Quick => &["default<O3>", "default<O2>"],
            _ => &["default<O3>", "default<O2>", "default<O1>", "default<Os>", "default<Oz>"],
        }
    }

    fn codegen_opt(self) -> CodegenRange {
        match self {
            Self::Launch => CodegenRange { low: 3, high: 3, step: 1 },
            Self::Quick => CodegenRange { low: 2, high: 3, step: 1 },
            _ => CodegenRange { low: 1, high: 3, step: 1 },
        }
    }
}

/// Code generation levels `low`, `low + step`, … up to `high`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodegenRange {
    pub low: u8,
    pub high: u8,
    pub step: u8,
}

impl CodegenRange {
    fn levels(self) -> Vec<u8> {
        (self.low..=self.high).step_by(usize::from(self.step)).collect()
    }
}

/// Reads `LOW:HIGH` or `LOW:HIGH:STEP`.
impl std::str::FromStr for CodegenRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let numbers: Vec<u8> =
            text.split(':').map(|part| part.parse().map_err(|_| format!("'{part}' is no level"))).collect::<Result<_, _>>()?;
        let range = match numbers[..] {
            [low, high] => Self { low, high, step: 1 },
            [low, high, step] => Self { low, high, step },
            _ => return Err("write it as LOW:HIGH or LOW:HIGH:STEP".into()),
        };
        if range.low > range.high || range.high > 3 || range.step == 0 {
            return Err("levels go from 0 to 3, LOW is at most HIGH and STEP at least 1".into());
        }
        Ok(range)
    }
}

/// A preset and what the user changed of it.
#[derive(Clone, Debug, Serialize)]
pub struct SpaceOptions {
    pub space_preset: Preset,
    pub launch_dim: LaunchDimensions,
    pub launch_safety: LaunchSafety,
    pub passes: Vec<String>,
    pub codegen_opt: CodegenRange,
}

impl SpaceOptions {
    /// What is `None` or empty is as the preset has it.
    pub fn new(
        preset: Preset,
        dimensions: Option<LaunchDimensions>,
        safety: Option<LaunchSafety>,
        passes: Vec<String>,
        codegen_opt: Option<CodegenRange>,
    ) -> Self {
        let preset_passes = || preset.passes().iter().map(ToString::to_string).collect();
        Self {
            space_preset: preset,
            launch_dim: dimensions.unwrap_or_else(|| preset.launch_dimensions()),
            launch_safety: safety.unwrap_or_else(|| preset.launch_safety()),
            passes: if passes.is_empty() { preset_passes() } else { passes },
            codegen_opt: codegen_opt.unwrap_or_else(|| preset.codegen_opt()),
        }
    }
}

/// The finite space that a preset and the user's changes of it make.
#[derive(Clone, Debug)]
pub struct PresetSpace {
    recorded: Recorded,
    axes: [bool; 3],
    parameters: Vec<Parameter>,
}

/// `min_blocks_per_sm` of the full preset.
const MIN_BLOCKS: std::ops::RangeInclusive<u32> = 1..=8;

/// Names of the parameters, which are upstream's.
mod name {
    pub const BLOCK_SHAPE: &str = "block_shape";
    pub const SPECIALIZE: &str = "specialize";
    pub const SPECIALIZE_DIMS: &str = "specialize_dims";
    pub const LAUNCH_BOUNDS: &str = "set_launch_bounds";
    pub const MIN_BLOCKS_PER_SM: &str = "min_blocks_per_sm";
    pub const CODEGEN_OPT: &str = "codegen_opt";
    pub const PASSES: &str = "passes";
}

impl PresetSpace {
    pub fn new(options: &SpaceOptions, recorded: Recorded) -> Self {
        let Recorded { grid, block, .. } = recorded;
        let axes = shapes::active_axes(options.launch_dim, grid, block);
        let shapes = shapes::block_shapes(grid, block, axes, options.launch_safety);
        let full = options.space_preset == Preset::Full;
        let switch = |name| Parameter::new(name, if full { Domain::Boolean } else { Domain::Categorical(vec![false.into()]) });
        let parameters = vec![
            Parameter::new(name::BLOCK_SHAPE, Domain::Categorical(shapes.iter().map(|shape| json!(shape)).collect())),
            switch(name::SPECIALIZE),
            switch(name::SPECIALIZE_DIMS),
            switch(name::LAUNCH_BOUNDS),
            Parameter::new(name::MIN_BLOCKS_PER_SM, Domain::Categorical(MIN_BLOCKS.map(Value::from).collect())).when(name::LAUNCH_BOUNDS),
            Parameter::new(name::CODEGEN_OPT, Domain::Categorical(options.codegen_opt.levels().into_iter().map(Value::from).collect())),
            Parameter::new(name::PASSES, Domain::Categorical(options.passes.iter().map(|passes| json!(passes)).collect())),
        ];
        Self { recorded, axes, parameters }
    }

    fn domain(&self, name: &str) -> &Domain {
        &self.parameters.iter().find(|parameter| parameter.name == name).expect("the names are constants").domain
    }

    fn varies(&self, name: &str) -> bool {
        self.domain(name).size() != Some(1)
    }

    fn configuration(&self, shape: Dim3) -> Configuration {
        let Recorded { grid, block, shared_mem } = self.recorded;
        let grid = if shape == block { grid } else { shapes::grid_for(grid, block, shape, self.axes).unwrap_or(grid) };
        // Upstream's values where there are no launch bounds; they are not hashed.
        Configuration { max_threads: Some(1024), min_blocks_per_sm: 1, ..Configuration::recorded(grid, shape, shared_mem) }
    }
}

/// The value of a parameter in a point.
fn of<T: serde::de::DeserializeOwned>(point: &Point, name: &str) -> Result<T, Rejection> {
    let value = point.get(name).ok_or_else(|| Rejection(format!("'{name}' has no value")))?;
    serde_json::from_value(value.clone()).map_err(|error| Rejection(format!("'{name}' cannot be {value}: {error}")))
}

impl Space for PresetSpace {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn is_active(&self, parameter: &Parameter, point: &Point) -> bool {
        parameter.name != name::MIN_BLOCKS_PER_SM || point.get(name::LAUNCH_BOUNDS) == Some(&Value::Bool(true))
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        let shape: Dim3 = of(point, name::BLOCK_SHAPE)?;
        let mut configuration = Configuration {
            specialize: of::<bool>(point, name::SPECIALIZE)?.into(),
            specialize_dims: of(point, name::SPECIALIZE_DIMS)?,
            set_launch_bounds: of(point, name::LAUNCH_BOUNDS)?,
            codegen_opt: of(point, name::CODEGEN_OPT)?,
            passes: of(point, name::PASSES)?,
            ..self.configuration(shape)
        };
        if configuration.set_launch_bounds {
            // A bound below the block's threads would forbid the launch, one above it would promise less than is true.
            configuration.max_threads = Some(shape.count() as u32);
            configuration.min_blocks_per_sm = of(point, name::MIN_BLOCKS_PER_SM)?;
        }
        Ok(configuration)
    }

    /// The recorded launch with the first pipeline and the highest code generation level.
    fn baseline(&self) -> Configuration {
        let highest = self.domain(name::CODEGEN_OPT).nth(u64::MAX);
        Configuration {
            codegen_opt: highest.as_u64().map_or(3, |level| level as u8),
            passes: self.domain(name::PASSES).nth(0).as_str().unwrap_or_default().into(),
            ..self.configuration(self.recorded.block)
        }
    }

    /// `min_blocks_per_sm` applies with launch bounds alone.
    fn size(&self) -> Option<u64> {
        let size = |name| self.domain(name).size();
        let bounds = if self.varies(name::LAUNCH_BOUNDS) { 1 + size(name::MIN_BLOCKS_PER_SM)? } else { 1 };
        [name::BLOCK_SHAPE, name::SPECIALIZE, name::SPECIALIZE_DIMS, name::CODEGEN_OPT, name::PASSES]
            .into_iter()
            .try_fold(bounds, |product, name| product.checked_mul(size(name)?))
    }

    fn label(&self, _point: &Point, configuration: &Configuration) -> String {
        use std::fmt::Write;
        let mut label = format!("passes={} blockDim.x={}", configuration.passes, configuration.block.x);
        for (axis, name) in [(1, 'y'), (2, 'z')] {
            if self.axes[axis] {
                let _ = write!(label, " blockDim.{name}={}", configuration.block.as_array()[axis]);
            }
        }
        if self.varies(name::CODEGEN_OPT) {
            let _ = write!(label, " codegen_opt={}", configuration.codegen_opt);
        }
        if self.varies(name::SPECIALIZE) || self.varies(name::SPECIALIZE_DIMS) || self.varies(name::LAUNCH_BOUNDS) {
            let _ = write!(label, " specialize={} specialize_dims={}", configuration.specialize, configuration.specialize_dims);
            if configuration.set_launch_bounds {
                let _ = write!(label, " min_blocks_per_sm={}", configuration.min_blocks_per_sm);
            }
        }
        label
    }

    fn describe(&self) -> Value {
        let parameters: serde_json::Map<String, Value> = self
            .parameters
            .iter()
            .filter(|parameter| parameter.name != name::MIN_BLOCKS_PER_SM || self.varies(name::LAUNCH_BOUNDS))
            .map(|parameter| {
                let values = (0..parameter.domain.size().unwrap_or(0)).map(|index| parameter.domain.nth(index)).collect();
                (parameter.name.clone(), Value::Array(values))
            })
            .collect();
        json!({
            "size": self.size(),
            "baseline": self.baseline(),
            "parameters": parameters,
            "derived": {
                "grid": "ceil(recorded block * recorded grid / block) along each varied axis",
                "max_threads": "threads of the block where launch bounds are set",
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampler::walk;
    use std::collections::HashSet;

    const VECADD: Recorded = Recorded { grid: Dim3::new(40_000, 1, 1), block: Dim3::new(256, 1, 1), shared_mem: 0 };

    fn space(preset: Preset, passes: &[&str]) -> PresetSpace {
        PresetSpace::new(&SpaceOptions::new(preset, None, None, passes.iter().map(ToString::to_string).collect(), None), VECADD)
    }

    fn configurations(space: &PresetSpace) -> Vec<Configuration> {
        walk(space).map(|point| space.ground(&point).unwrap()).collect()
    }

    #[test]
    fn pipelines_vary_fastest_and_block_shapes_ascend() {
        let space = space(Preset::Launch, &["default<O1>", "default<O2>"]);
        let first: Vec<_> = walk(&space).take(3).map(|point| space.label(&point, &space.ground(&point).unwrap())).collect();
        assert_eq!(first, ["passes=default<O1> blockDim.x=1", "passes=default<O2> blockDim.x=1", "passes=default<O1> blockDim.x=2"]);
    }

    #[test]
    fn every_configuration_is_distinct_valid_and_counted() {
        for preset in [Preset::Quick, Preset::Standard, Preset::Launch, Preset::Compiler, Preset::Full] {
            let space = space(preset, &[]);
            let hashes: HashSet<_> = configurations(&space).iter().map(Configuration::hash).collect();
            assert_eq!(Some(hashes.len() as u64), space.size(), "{preset:?}");
            assert!(configurations(&space).iter().all(|configuration| configuration.check().is_ok()));
            assert!(hashes.contains(&space.baseline().hash()), "{preset:?} has its baseline");
        }
    }

    #[test]
    fn presets_vary_what_they_are_named_for() {
        assert_eq!(space(Preset::Compiler, &[]).size(), Some(5 * 3));
        let launch = configurations(&space(Preset::Launch, &[]));
        assert!(launch.iter().all(|configuration| configuration.passes == "default<O3>" && configuration.codegen_opt == 3));
        assert!(launch.iter().all(|configuration| configuration.block.x <= 512), "balanced: at most twice the recorded threads");
        for configuration in configurations(&space(Preset::Full, &[])).iter().filter(|configuration| configuration.set_launch_bounds) {
            assert_eq!(configuration.max_threads, Some(configuration.block.x));
        }
    }

    #[test]
    fn the_baseline_is_the_recorded_launch_under_the_first_pipeline() {
        let baseline = space(Preset::Quick, &["default<Os>", "default<O1>"]).baseline();
        assert_eq!((baseline.grid, baseline.block), (VECADD.grid, VECADD.block));
        assert_eq!((baseline.passes.as_str(), baseline.codegen_opt), ("default<Os>", 3));
    }

    #[test]
    fn levels_are_read_and_checked() {
        assert_eq!("1:3".parse::<CodegenRange>().unwrap().levels(), [1, 2, 3]);
        assert_eq!("0:3:3".parse::<CodegenRange>().unwrap().levels(), [0, 3]);
        for wrong in ["", "3", "3:1", "0:4", "0:3:0", "1:2:3:4", "a:b"] {
            assert!(wrong.parse::<CodegenRange>().is_err(), "{wrong}");
        }
    }
}
