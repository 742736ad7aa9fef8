//! The built-in spaces: block shapes, pipelines and compiler switches.
//!
//! Presets and rules are upstream's, so the same command line tunes the same space. AMD GPUs are an exception: their
//! blocks stay whole waves.

use clap::ValueEnum;
use mneme_model::architecture::Processor;
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::{Configuration, DEFAULT_CODEGEN_METHOD, DEFAULT_PASSES};
use mneme_model::launch::Dim3;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{Domain, Parameter, Point, Recorded, Rejection, SearchSpace, shapes};

/// A preset: the size of the built-in space.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Preset {
    /// Few pipelines and cautious block shapes, for a first look
    Quick,
    /// Block shapes, pipelines and code generation levels
    Standard,
    /// Only block shapes, with the O3 pipeline and code generation level 3 unless you pass --passes
    Launch,
    /// Only pipelines and code generation levels, at the recorded block shape
    Compiler,
    /// Everything, with specialisation and launch bounds on and off
    Full,
}

/// The axes along which the block's shape varies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockAxes {
    /// Keep the recorded block
    None,
    /// The axes along which the recorded launch has more than one block or thread
    Auto,
    X,
    Xy,
    Xyz,
}

/// How many threads a candidate block may have, besides the usual shapes of 32 to 256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LaunchSafety {
    /// As many as recorded
    Conservative,
    /// Twice as many as recorded
    Balanced,
    /// 1024
    Aggressive,
}

/// A preset with the user's changes: everything that a built-in space varies.
#[derive(Clone, Debug, PartialEq)]
pub struct PresetOptions {
    pub launch_dim: BlockAxes,
    pub launch_safety: LaunchSafety,
    /// Whether the grid stays as recorded or follows the block; values to try, at least one.
    pub keep_grid: Vec<bool>,
    /// At least one. The first is the baseline's.
    pub passes: Vec<String>,
    /// Code generation levels, 0 to 3, ascending. The last is the baseline's.
    pub codegen_opt: Vec<u32>,
    /// Written to every configuration, without effect.
    pub codegen_method: String,
    /// Values to try, at least one each.
    pub specialize: Vec<bool>,
    pub specialize_dims: Vec<bool>,
    pub launch_bounds: Vec<bool>,
    pub internalize: Vec<bool>,
    /// Blocks that should fit on a multiprocessor, with launch bounds.
    pub min_blocks_per_sm: Vec<u32>,
    pub max_threads: MaxThreads,
}

/// One pipeline, and every option at its default: only block shapes vary.
impl Default for PresetOptions {
    fn default() -> Self {
        Self {
            launch_dim: BlockAxes::Auto,
            launch_safety: LaunchSafety::Balanced,
            keep_grid: vec![false],
            passes: vec![DEFAULT_PASSES.into()],
            codegen_opt: vec![3],
            codegen_method: DEFAULT_CODEGEN_METHOD.into(),
            specialize: vec![false],
            specialize_dims: vec![false],
            launch_bounds: vec![false],
            internalize: vec![false],
            min_blocks_per_sm: vec![1],
            max_threads: MaxThreads::Block,
        }
    }
}

/// The number of threads that launch bounds promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MaxThreads {
    /// The threads of the candidate's block.
    Block,
    /// The threads of the recorded block.
    Recorded,
    /// One of these.
    OneOf(Vec<u32>),
}

/// The finite space of a preset with the user's changes.
#[derive(Clone, Debug)]
pub struct PresetSpace {
    recorded: Recorded,
    axes: [bool; 3],
    codegen_method: String,
    /// Largest number of threads in a block of this space, and with [`LaunchSafety::Aggressive`].
    most_threads: (u64, u64),
    parameters: Vec<Parameter>,
}

/// Names of the parameters. They are the existing Mneme's, except `keep_grid` and `internalize`, which is always on
/// there.
mod name {
    pub const BLOCK_SHAPE: &str = "block_shape";
    pub const KEEP_GRID: &str = "keep_grid";
    pub const SPECIALIZE: &str = "specialize";
    pub const SPECIALIZE_DIMS: &str = "specialize_dims";
    pub const LAUNCH_BOUNDS: &str = "set_launch_bounds";
    pub const INTERNALIZE: &str = "internalize";
    pub const MIN_BLOCKS_PER_SM: &str = "min_blocks_per_sm";
    pub const MAX_THREADS: &str = "max_threads";
    pub const CODEGEN_OPT: &str = "codegen_opt";
    pub const PASSES: &str = "passes";
}

/// Limit on the blocks of a multiprocessor.
const MOST_BLOCKS: u64 = 32;

/// Parameters that apply with launch bounds.
const OF_BOUNDS: [&str; 2] = [name::MIN_BLOCKS_PER_SM, name::MAX_THREADS];

impl PresetSpace {
    pub fn new(options: &PresetOptions, recorded: Recorded) -> Self {
        let (grid, block) = (recorded.grid, recorded.block);
        let axes = shapes::active_axes(options.launch_dim, grid, block);
        let wave = recorded.processor.as_ref().map_or(1, Processor::wavefront_size);
        let keeps_grid = options.keep_grid.contains(&true);
        let of = |safety| shapes::block_shapes(grid, block, axes, safety, keeps_grid, wave);
        let most = |shapes: &[Dim3]| shapes.iter().map(Dim3::count).max().unwrap_or(0);
        let shapes = of(options.launch_safety);
        let most_threads = (most(&shapes), most(&of(LaunchSafety::Aggressive)));
        let switch = |name, values: &[bool]| match values {
            [only] => Parameter::new(name, Domain::Categorical(vec![(*only).into()])),
            _ => Parameter::new(name, Domain::Boolean),
        };
        let one_of = |name, values: &[u32]| {
            Parameter::new(name, Domain::Categorical(values.iter().map(|value| json!(value)).collect()))
        };
        let mut parameters = vec![
            Parameter::new(name::BLOCK_SHAPE, Domain::Categorical(shapes.iter().map(|shape| json!(shape)).collect())),
            switch(name::KEEP_GRID, &options.keep_grid),
            switch(name::SPECIALIZE, &options.specialize),
            switch(name::SPECIALIZE_DIMS, &options.specialize_dims),
            switch(name::LAUNCH_BOUNDS, &options.launch_bounds),
        ];
        if options.launch_bounds.contains(&true) {
            parameters.push(one_of(name::MIN_BLOCKS_PER_SM, &options.min_blocks_per_sm).when(name::LAUNCH_BOUNDS));
            let threads = match &options.max_threads {
                MaxThreads::Block => None,
                MaxThreads::Recorded => Some(vec![block.count() as u32]),
                MaxThreads::OneOf(values) => Some(values.clone()),
            };
            parameters.extend(threads.map(|threads| one_of(name::MAX_THREADS, &threads).when(name::LAUNCH_BOUNDS)));
        }
        if options.internalize != [false] {
            parameters.push(switch(name::INTERNALIZE, &options.internalize));
        }
        parameters.push(one_of(name::CODEGEN_OPT, &options.codegen_opt));
        parameters.push(Parameter::new(
            name::PASSES,
            Domain::Categorical(options.passes.iter().map(|passes| json!(passes)).collect()),
        ));
        Self { recorded, axes, codegen_method: options.codegen_method.clone(), most_threads, parameters }
    }

    fn domain(&self, name: &str) -> Option<&Domain> {
        self.parameters.iter().find(|parameter| parameter.name == name).map(|parameter| &parameter.domain)
    }

    fn varies(&self, name: &str) -> bool {
        self.domain(name).is_some_and(|domain| domain.size() != Some(1))
    }

    fn configuration(&self, shape: Dim3, keeps_grid: bool) -> Configuration {
        let Recorded { grid, block, shared_mem, compiled, .. } = &self.recorded;
        let (grid, block) = (*grid, *block);
        // A low optimisation level in the application, as in a debug build, is not kept.
        let slow = compiled.as_ref().filter(|application| !application.assembles_optimised());
        let grid = if shape == block || keeps_grid {
            grid
        } else {
            shapes::grid_for(grid, block, shape, self.axes).unwrap_or(grid)
        };
        Configuration {
            // Upstream's values without launch bounds; they are not hashed.
            max_threads: Some(1024),
            min_blocks_per_sm: 1,
            codegen_method: self.codegen_method.clone(),
            ptx_opt: slow.map(|_| 3),
            ptxas_options: slow.map(CompileOptions::without_debugging),
            ..Configuration::recorded(grid, shape, *shared_mem)
        }
    }
}

/// The rule by which the grid follows the block, known to `mneme apply`.
const GRID_RULE: &str = "ceil(recorded block * recorded grid / block) along each varied axis";

/// The value of a parameter in a point.
fn of<T: serde::de::DeserializeOwned>(point: &Point, name: &str) -> Result<T, Rejection> {
    let value = point.get(name).ok_or_else(|| Rejection(format!("'{name}' has no value")))?;
    serde_json::from_value(value.clone())
        .map_err(|error| Rejection(format!("{value} is not a valid value of '{name}': {error}")))
}

impl SearchSpace for PresetSpace {
    fn parameters(&self) -> &[Parameter] {
        &self.parameters
    }

    fn is_active(&self, parameter: &Parameter, point: &Point) -> bool {
        !OF_BOUNDS.contains(&parameter.name.as_str()) || point.get(name::LAUNCH_BOUNDS) == Some(&Value::Bool(true))
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        let shape: Dim3 = of(point, name::BLOCK_SHAPE)?;
        let mut configuration = Configuration {
            specialize: of::<bool>(point, name::SPECIALIZE)?.into(),
            specialize_dims: of(point, name::SPECIALIZE_DIMS)?,
            set_launch_bounds: of(point, name::LAUNCH_BOUNDS)?,
            codegen_opt: of(point, name::CODEGEN_OPT)?,
            passes: of(point, name::PASSES)?,
            ..self.configuration(shape, of(point, name::KEEP_GRID)?)
        };
        if self.domain(name::INTERNALIZE).is_some() {
            configuration.internalize = of(point, name::INTERNALIZE)?;
        }
        if configuration.set_launch_bounds {
            let threads = shape.count() as u32;
            let bound = if self.domain(name::MAX_THREADS).is_some() { of(point, name::MAX_THREADS)? } else { threads };
            if bound < threads {
                return Err(Rejection(format!("launch bounds of {bound} threads forbid blocks of {threads}")));
            }
            configuration.max_threads = Some(bound);
            configuration.min_blocks_per_sm = of(point, name::MIN_BLOCKS_PER_SM)?;
        }
        Ok(configuration)
    }

    /// The recorded launch with the first pipeline and the highest code generation level.
    fn baseline(&self) -> Configuration {
        let highest = self.domain(name::CODEGEN_OPT).and_then(|levels| levels.nth(u64::MAX).as_u64());
        let first = self.domain(name::PASSES).map(|passes| passes.nth(0));
        Configuration {
            codegen_opt: highest.map_or(3, |level| level as u8),
            passes: first.as_ref().and_then(Value::as_str).unwrap_or_default().into(),
            ..self.configuration(self.recorded.block, true)
        }
    }

    /// Parameters of launch bounds only multiply the configurations with launch bounds.
    fn size(&self) -> Option<u64> {
        let size = |name| self.domain(name).map_or(Some(1), Domain::size);
        let on = size(name::MIN_BLOCKS_PER_SM)?.checked_mul(size(name::MAX_THREADS)?)?;
        let bounds = match self.domain(name::LAUNCH_BOUNDS) {
            Some(Domain::Boolean) => on + 1,
            _ => on,
        };
        let others = [
            name::BLOCK_SHAPE,
            name::KEEP_GRID,
            name::SPECIALIZE,
            name::SPECIALIZE_DIMS,
            name::INTERNALIZE,
            name::CODEGEN_OPT,
            name::PASSES,
        ];
        others.into_iter().try_fold(bounds, |product, name| product.checked_mul(size(name)?))
    }

    fn edges(&self, point: &Point, configuration: &Configuration) -> Vec<String> {
        let mut edges = Vec::new();
        let (threads, (most, beyond)) = (configuration.block.count(), self.most_threads);
        if threads == most && most < beyond {
            edges.push(format!(
                "its block has {threads} threads, the most in this space; to try up to {beyond}, pass --launch-safety aggressive"
            ));
        }
        let blocks = point.get(name::MIN_BLOCKS_PER_SM).and_then(Value::as_u64);
        let last = self.domain(name::MIN_BLOCKS_PER_SM).and_then(|domain| domain.nth(u64::MAX).as_u64());
        if let Some(blocks) = blocks.filter(|blocks| Some(*blocks) == last && *blocks < MOST_BLOCKS) {
            edges.push(format!(
                "min_blocks_per_sm is {blocks}, the most in this space; to try more, pass --min-blocks-per-sm-range 1:{MOST_BLOCKS}"
            ));
        }
        edges
    }

    fn label(&self, _point: &Point, configuration: &Configuration) -> String {
        use std::fmt::Write;
        let mut label = format!("passes={} block.x={}", configuration.passes, configuration.block.x);
        for (axis, name) in [(1, 'y'), (2, 'z')] {
            if self.axes[axis] {
                let _ = write!(label, " block.{name}={}", configuration.block.as_array()[axis]);
            }
        }
        if self.varies(name::KEEP_GRID) {
            let _ = write!(label, " keep_grid={}", configuration.grid == self.recorded.grid);
        }
        if self.varies(name::CODEGEN_OPT) {
            let _ = write!(label, " codegen_opt={}", configuration.codegen_opt);
        }
        if self.varies(name::SPECIALIZE) || self.varies(name::SPECIALIZE_DIMS) || self.varies(name::LAUNCH_BOUNDS) {
            let _ = write!(
                label,
                " specialize={} specialize_dims={}",
                configuration.specialize, configuration.specialize_dims
            );
        }
        if self.varies(name::INTERNALIZE) {
            let _ = write!(label, " internalize={}", configuration.internalize);
        }
        if configuration.set_launch_bounds {
            let _ = write!(label, " min_blocks_per_sm={}", configuration.min_blocks_per_sm);
            if self.varies(name::MAX_THREADS) {
                let _ = write!(label, " max_threads={}", configuration.max_threads.unwrap_or_default());
            }
        }
        label
    }

    fn describe(&self) -> Value {
        let parameters: serde_json::Map<String, Value> = self
            .parameters
            .iter()
            .map(|parameter| {
                let values =
                    (0..parameter.domain.size().unwrap_or(0)).map(|index| parameter.domain.nth(index)).collect();
                (parameter.name.clone(), Value::Array(values))
            })
            .collect();
        let mut derived = serde_json::Map::new();
        let keeps_grid =
            self.domain(name::KEEP_GRID).is_some_and(|values| *values == Domain::Categorical(vec![true.into()]));
        let grid = if keeps_grid { "as recorded" } else { GRID_RULE };
        derived.insert("grid".into(), grid.into());
        let wave = self.recorded.processor.as_ref().map(Processor::wavefront_size);
        if let Some(wave) = wave.and_then(|wave| shapes::whole_waves(self.recorded.block, wave)) {
            derived.insert("block_shape".into(), format!("whole waves of {wave} threads").into());
        }
        if self.domain(name::MIN_BLOCKS_PER_SM).is_some() && self.domain(name::MAX_THREADS).is_none() {
            derived.insert("max_threads".into(), "threads of the block, if launch bounds are set".into());
        }
        json!({"size": self.size(), "baseline": self.baseline(), "parameters": parameters, "derived": derived})
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::walk::walk;
    use std::collections::HashSet;

    const VECADD: Recorded = Recorded {
        grid: Dim3::new(40_000, 1, 1),
        block: Dim3::new(256, 1, 1),
        shared_mem: 0,
        compiled: None,
        processor: None,
    };

    fn options(passes: &[&str]) -> PresetOptions {
        PresetOptions { passes: passes.iter().map(ToString::to_string).collect(), ..PresetOptions::default() }
    }

    fn full() -> PresetOptions {
        let both = vec![false, true];
        PresetOptions {
            launch_safety: LaunchSafety::Aggressive,
            codegen_opt: vec![1, 2, 3],
            specialize: both.clone(),
            specialize_dims: both.clone(),
            launch_bounds: both.clone(),
            internalize: both,
            min_blocks_per_sm: (1..=8).collect(),
            ..options(&["default<O3>", "default<O1>"])
        }
    }

    fn configurations(space: &PresetSpace) -> Vec<Configuration> {
        walk(space).filter_map(|point| space.ground(&point).ok()).collect()
    }

    #[test]
    fn pipelines_vary_fastest_and_block_shapes_ascend() {
        let space = PresetSpace::new(&options(&["default<O1>", "default<O2>"]), VECADD);
        let first: Vec<_> =
            walk(&space).take(3).map(|point| space.label(&point, &space.ground(&point).unwrap())).collect();
        assert_eq!(
            first,
            ["passes=default<O1> block.x=1", "passes=default<O2> block.x=1", "passes=default<O1> block.x=2"]
        );
    }

    #[test]
    fn blocks_for_amd_processors_are_whole_waves() {
        let space = |name: &str, block| {
            let recorded = Recorded { processor: Processor::parse(name), block: Dim3::new(block, 1, 1), ..VECADD };
            PresetSpace::new(&full(), recorded)
        };
        let widths = |space: &PresetSpace| -> HashSet<u32> {
            configurations(space).iter().map(|configuration| configuration.block.x).collect()
        };
        let plain = space("", 256);
        let note = |space: &PresetSpace| space.describe()["derived"]["block_shape"].clone();
        assert_eq!(note(&plain), Value::Null);
        for (name, wave) in [("gfx90a:sramecc+:xnack-", 64), ("gfx1100", 32)] {
            let amd = space(name, 256);
            let whole: HashSet<u32> = widths(&plain).into_iter().filter(|width| width % wave == 0).collect();
            assert_eq!(widths(&amd), whole, "{name}");
            assert_eq!(amd.baseline(), plain.baseline());
            assert_eq!(note(&amd), format!("whole waves of {wave} threads"));
        }
        let odd = space("gfx90a", 96);
        assert_eq!((widths(&odd), note(&odd)), (widths(&space("", 96)), Value::Null), "a recorded wave and a half");
    }

    #[test]
    fn every_configuration_is_distinct_valid_and_counted() {
        for options in [options(&["default<O3>"]), full(), PresetOptions { launch_bounds: vec![true], ..full() }] {
            let space = PresetSpace::new(&options, VECADD);
            let configurations = configurations(&space);
            let hashes: HashSet<_> = configurations.iter().map(Configuration::hash).collect();
            assert_eq!(Some(hashes.len() as u64), space.size(), "{options:?}");
            assert!(configurations.iter().all(|configuration| configuration.check().is_ok()));
            assert_eq!(
                hashes.contains(&space.baseline().hash()),
                options.launch_bounds.contains(&false),
                "{options:?}"
            );
        }
    }

    #[test]
    fn code_is_assembled_for_speed_whatever_the_application_is() {
        let recorded = |ptx_opt, words: &[&str]| {
            let ptxas_options = words.iter().map(ToString::to_string).collect();
            Recorded {
                compiled: Some(CompileOptions {
                    level: "0".into(),
                    ptx_opt,
                    ptxas_options,
                    ..CompileOptions::default()
                }),
                ..VECADD
            }
        };
        let of = |recorded| {
            let baseline = PresetSpace::new(&options(&["default<O3>"]), recorded).baseline();
            (baseline.ptx_opt, baseline.ptxas_options, baseline.passes)
        };
        let limited = vec!["-maxrregcount=32".to_owned()];
        assert_eq!(of(recorded(0, &["-maxrregcount=32"])), (Some(3), Some(limited.clone()), "default<O3>".into()));
        assert_eq!(of(recorded(3, &["-g", "-maxrregcount=32"])), (Some(3), Some(limited), "default<O3>".into()));
        assert_eq!(of(recorded(3, &["-maxrregcount=32"])), (None, None, "default<O3>".into()), "as it was");
        assert_eq!(of(VECADD), (None, None, "default<O3>".into()));
    }

    #[test]
    fn the_grid_follows_the_block_or_stays() {
        let space = |keep_grid| PresetSpace::new(&PresetOptions { keep_grid, ..options(&["default<O3>"]) }, VECADD);
        let grids = |space: &PresetSpace| -> HashSet<(u32, u32)> {
            configurations(space).iter().map(|it| (it.block.x, it.grid.x)).collect()
        };
        assert!(grids(&space(vec![true])).iter().all(|(_, grid)| *grid == VECADD.grid.x));
        assert!(grids(&space(vec![false])).contains(&(128, 2 * VECADD.grid.x)));
        let both = space(vec![false, true]);
        assert!(grids(&both).is_superset(&[(128, VECADD.grid.x), (128, 2 * VECADD.grid.x)].into()));
        assert_eq!(both.baseline(), space(vec![false]).baseline());
    }

    #[test]
    fn the_largest_block_that_was_tried_is_an_edge() {
        let edges = |launch_safety, width| {
            let options = PresetOptions { launch_safety, ..options(&["default<O3>"]) };
            let space = PresetSpace::new(&options, Recorded { block: Dim3::new(64, 1, 1), ..VECADD });
            let point = walk(&space).find(|point| point[name::BLOCK_SHAPE]["x"] == width).unwrap();
            space.edges(&point, &space.ground(&point).unwrap()).len()
        };
        assert_eq!(edges(LaunchSafety::Balanced, 256), 1);
        assert_eq!(edges(LaunchSafety::Balanced, 128), 0);
        assert_eq!(edges(LaunchSafety::Aggressive, 1024), 0);
        let small = Recorded { grid: Dim3::new(1, 1, 1), block: Dim3::new(64, 1, 1), ..VECADD };
        let space = PresetSpace::new(&options(&["default<O3>"]), small);
        assert!(space.edges(&Point::new(), &space.baseline()).is_empty(), "larger blocks are in the space");
        let sums = Recorded { grid: Dim3::new(64, 1, 1), block: Dim3::new(2, 1, 1), ..VECADD };
        let space = PresetSpace::new(&PresetOptions { keep_grid: vec![true], ..options(&["default<O3>"]) }, sums);
        let last = walk(&space).last().unwrap();
        assert_eq!(last[name::BLOCK_SHAPE]["x"], 256);
        assert_eq!(space.edges(&last, &space.ground(&last).unwrap()).len(), 1);
    }

    #[test]
    fn launch_bounds_hold_the_block() {
        let with =
            |max_threads| PresetSpace::new(&PresetOptions { launch_bounds: vec![true], max_threads, ..full() }, VECADD);
        for configuration in configurations(&with(MaxThreads::Block)) {
            assert_eq!(configuration.max_threads, Some(configuration.block.x));
        }
        let recorded = configurations(&with(MaxThreads::Recorded));
        assert!(
            recorded.iter().all(|configuration| configuration.max_threads == Some(256) && configuration.block.x <= 256)
        );
        let listed = with(MaxThreads::OneOf(vec![128, 512, 1024]));
        let found = configurations(&listed);
        assert!(found.iter().all(|configuration| configuration.max_threads.unwrap() >= configuration.block.x));
        assert!((found.len() as u64) < listed.size().unwrap(), "some points are rejected");
    }

    #[test]
    fn the_baseline_is_the_recorded_launch_under_the_first_pipeline() {
        let baseline = PresetSpace::new(
            &PresetOptions { codegen_opt: vec![1, 2], ..options(&["default<Os>", "default<O1>"]) },
            VECADD,
        )
        .baseline();
        assert_eq!((baseline.grid, baseline.block), (VECADD.grid, VECADD.block));
        assert_eq!(
            (baseline.passes.as_str(), baseline.codegen_opt, baseline.set_launch_bounds),
            ("default<Os>", 2, false)
        );
    }
}
