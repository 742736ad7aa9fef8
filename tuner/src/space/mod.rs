//! The space of configurations that a tuning session walks: block shapes, pipelines and compiler switches.
//!
//! The presets and the rules behind them are upstream's, so that a command line of one tunes the same space with the
//! other.

mod shapes;

use clap::ValueEnum;
use mneme_core::configuration::Configuration;
use mneme_core::launch::Dim3;
use serde::{Deserialize, Serialize};
use serde_json::json;

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

/// A recorded launch, which the space is laid around.
#[derive(Clone, Copy, Debug)]
pub struct Recorded {
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
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

/// The finite space of a session.
#[derive(Clone, Debug)]
pub struct Space {
    recorded: Recorded,
    axes: [bool; 3],
    shapes: Vec<Dim3>,
    codegen: Vec<u8>,
    passes: Vec<String>,
    switches: Vec<Switches>,
}

/// The compiler switches beside pipeline and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Switches {
    specialize: bool,
    specialize_dims: bool,
    /// Minimum blocks per multiprocessor of the launch bounds; `None` without bounds.
    bounds: Option<u32>,
}

const OFF: Switches = Switches { specialize: false, specialize_dims: false, bounds: None };

/// `min_blocks_per_sm` of the full preset.
const MIN_BLOCKS: std::ops::RangeInclusive<u32> = 1..=8;

impl Space {
    pub fn new(options: &SpaceOptions, recorded: Recorded) -> Self {
        let Recorded { grid, block, .. } = recorded;
        let axes = shapes::active_axes(options.launch_dim, grid, block);
        Self {
            recorded,
            axes,
            shapes: shapes::block_shapes(grid, block, axes, options.launch_safety),
            codegen: options.codegen_opt.levels(),
            passes: options.passes.clone(),
            switches: switches(options.space_preset),
        }
    }

    pub fn len(&self) -> usize {
        self.shapes.len() * self.switches.len() * self.codegen.len() * self.passes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The recorded launch with the first pipeline and the highest code generation level.
    pub fn baseline(&self) -> Configuration {
        self.configuration(self.recorded.block, OFF, self.codegen.last().copied().unwrap_or(3), &self.passes[0])
    }

    /// Every configuration: block shapes outermost, pipelines innermost.
    pub fn configurations(&self) -> impl Iterator<Item = Configuration> {
        self.shapes.iter().flat_map(move |shape| {
            self.switches.iter().flat_map(move |switches| {
                self.codegen
                    .iter()
                    .flat_map(move |codegen| self.passes.iter().map(move |passes| self.configuration(*shape, *switches, *codegen, passes)))
            })
        })
    }

    fn configuration(&self, shape: Dim3, switches: Switches, codegen_opt: u8, passes: &str) -> Configuration {
        let Recorded { grid, block, shared_mem } = self.recorded;
        let grid = if shape == block { grid } else { shapes::grid_for(grid, block, shape, self.axes).unwrap_or(grid) };
        Configuration {
            specialize: switches.specialize.into(),
            specialize_dims: switches.specialize_dims,
            set_launch_bounds: switches.bounds.is_some(),
            // A bound below the block's threads would forbid the launch, one above it would promise less than is true.
            max_threads: Some(if switches.bounds.is_some() { shape.count() as u32 } else { 1024 }),
            min_blocks_per_sm: switches.bounds.unwrap_or(1),
            codegen_opt,
            passes: passes.into(),
            ..Configuration::recorded(grid, shape, shared_mem)
        }
    }

    /// What tells this configuration from others of the space, as in `passes=default<O1> blockDim.x=64`.
    pub fn label(&self, configuration: &Configuration) -> String {
        use std::fmt::Write;
        let mut label = format!("passes={} blockDim.x={}", configuration.passes, configuration.block.x);
        for (axis, name) in [(1, 'y'), (2, 'z')] {
            if self.axes[axis] {
                let _ = write!(label, " blockDim.{name}={}", configuration.block.as_array()[axis]);
            }
        }
        if self.codegen.len() > 1 {
            let _ = write!(label, " codegen_opt={}", configuration.codegen_opt);
        }
        if self.switches.len() > 1 {
            let _ = write!(label, " specialize={} specialize_dims={}", configuration.specialize, configuration.specialize_dims);
            if configuration.set_launch_bounds {
                let _ = write!(label, " min_blocks_per_sm={}", configuration.min_blocks_per_sm);
            }
        }
        label
    }

    /// The space for `search_space.json` and `--print-space`.
    pub fn describe(&self) -> serde_json::Value {
        let distinct = |values: Vec<serde_json::Value>| {
            let mut found: Vec<serde_json::Value> = Vec::new();
            for value in values {
                if !found.contains(&value) {
                    found.push(value);
                }
            }
            found
        };
        let of = |value: fn(&Switches) -> serde_json::Value| distinct(self.switches.iter().map(value).collect());
        json!({
            "size": self.len(),
            "baseline": self.baseline(),
            "parameters": {
                "block_shape": self.shapes,
                "passes": self.passes,
                "codegen_opt": self.codegen,
                "specialize": of(|switches| json!(switches.specialize)),
                "specialize_dims": of(|switches| json!(switches.specialize_dims)),
                "set_launch_bounds": of(|switches| json!(switches.bounds.is_some())),
                "min_blocks_per_sm": of(|switches| json!(switches.bounds.unwrap_or(0))),
            },
            "derived": {
                "grid": "ceil(recorded block * recorded grid / block) along each varied axis",
                "max_threads": "threads of the block where launch bounds are set",
            },
        })
    }
}

fn switches(preset: Preset) -> Vec<Switches> {
    if preset != Preset::Full {
        return vec![OFF];
    }
    let mut all = Vec::new();
    for specialize in [false, true] {
        for specialize_dims in [false, true] {
            all.extend(std::iter::once(None).chain(MIN_BLOCKS.map(Some)).map(|bounds| Switches { specialize, specialize_dims, bounds }));
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    const VECADD: Recorded = Recorded { grid: Dim3::new(40_000, 1, 1), block: Dim3::new(256, 1, 1), shared_mem: 0 };

    fn space(preset: Preset, passes: &[&str]) -> Space {
        Space::new(&SpaceOptions::new(preset, None, None, passes.iter().map(ToString::to_string).collect(), None), VECADD)
    }

    #[test]
    fn pipelines_vary_fastest_and_block_shapes_ascend() {
        let space = space(Preset::Launch, &["default<O1>", "default<O2>"]);
        let first: Vec<_> = space.configurations().take(3).map(|configuration| space.label(&configuration)).collect();
        assert_eq!(first, ["passes=default<O1> blockDim.x=1", "passes=default<O2> blockDim.x=1", "passes=default<O1> blockDim.x=2"]);
    }

    #[test]
    fn every_configuration_is_distinct_valid_and_counted() {
        for preset in [Preset::Quick, Preset::Standard, Preset::Launch, Preset::Compiler, Preset::Full] {
            let space = space(preset, &[]);
            let hashes: HashSet<_> = space.configurations().map(|configuration| configuration.hash()).collect();
            assert_eq!(hashes.len(), space.len(), "{preset:?}");
            assert!(space.configurations().all(|configuration| configuration.check().is_ok()));
            assert!(hashes.contains(&space.baseline().hash()), "{preset:?} has its baseline");
        }
    }

    #[test]
    fn presets_vary_what_they_are_named_for() {
        assert_eq!(space(Preset::Compiler, &[]).len(), 5 * 3);
        let launch = space(Preset::Launch, &[]);
        assert!(launch.configurations().all(|configuration| configuration.passes == "default<O3>" && configuration.codegen_opt == 3));
        assert!(launch.configurations().all(|configuration| configuration.block.x <= 512), "balanced: at most twice the recorded threads");
        let full = space(Preset::Full, &[]);
        assert_eq!(full.switches.len(), 2 * 2 * 9);
        for configuration in full.configurations().filter(|configuration| configuration.set_launch_bounds) {
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
