//! The limits of AMD GPUs.
//!
//! Candidates beyond them are rejected, with the reason, before they are built.

use mneme_model::amd_hardware::{Hardware, shared_of_block};
use mneme_model::architecture::Processor;
use mneme_model::configuration::Configuration;
use serde_json::{Value, json};

use super::{Constraints, Parameter, Point, Rejection, SearchSpace};

/// Limit on the threads of a block.
const MOST_THREADS: u64 = 1024;
/// Lanes of the largest wave. Compilers choose the wave size on newer processors, so these bound the occupancy.
const LARGEST_WAVE: u32 = 64;

/// A space of any kind, for a kernel on an AMD processor.
pub struct ForAmd {
    inner: Box<dyn SearchSpace>,
    processor: Processor,
}

/// A limit of a processor that a configuration exceeds.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum BeyondLimit {
    #[error("the block has {threads} threads, but {name} allows at most {MOST_THREADS}")]
    Threads { threads: u64, name: String },
    #[error("{} of shared memory, but {name} has {most}", if *blocks == 1 { format!("a block needs {needed} bytes") } else { format!("{blocks} blocks need {needed} bytes") })]
    Shared { blocks: u32, needed: u64, name: String, most: u32 },
    #[error("{blocks} blocks of {threads} threads are {waves} waves, but a compute unit of {name} holds {most}")]
    Waves { blocks: u32, threads: u64, waves: u64, name: String, most: u64 },
}

impl ForAmd {
    pub fn new(inner: Box<dyn SearchSpace>, processor: Processor) -> Self {
        Self { inner, processor }
    }

    fn check(&self, configuration: &Configuration) -> Result<(), BeyondLimit> {
        let name = || self.processor.name.clone();
        let (threads, shared) = (configuration.block.count(), configuration.shared_mem);
        if threads > MOST_THREADS {
            return Err(BeyondLimit::Threads { threads, name: name() });
        }
        let most = shared_of_block(&self.processor);
        if shared > most {
            return Err(BeyondLimit::Shared { blocks: 1, needed: shared.into(), name: name(), most });
        }
        if configuration.set_launch_bounds {
            self.check_occupancy(configuration)?;
        }
        Ok(())
    }

    /// Checks that a compute unit (or a pair, if blocks may use both) has room for the blocks that launch bounds
    /// promise. The compiler treats a larger promise like the largest possible one.
    fn check_occupancy(&self, configuration: &Configuration) -> Result<(), BeyondLimit> {
        let Configuration { min_blocks_per_sm: blocks, shared_mem: shared, block, .. } = configuration;
        let unit = Hardware::of(&self.processor, LARGEST_WAVE, false);
        let (threads, name) =
            (configuration.max_threads.map_or(block.count(), u64::from), || self.processor.name.clone());
        let waves = threads.div_ceil(LARGEST_WAVE.into()) * u64::from(*blocks);
        let most = u64::from(unit.most_waves * unit.simds);
        if *blocks > 1 && waves > most {
            return Err(BeyondLimit::Waves { blocks: *blocks, threads, waves, name: name(), most });
        }
        let needed = u64::from(*shared) * u64::from(*blocks);
        if *blocks > 1 && needed > unit.shared.into() {
            return Err(BeyondLimit::Shared { blocks: *blocks, needed, name: name(), most: unit.shared });
        }
        Ok(())
    }
}

impl SearchSpace for ForAmd {
    fn parameters(&self) -> &[Parameter] {
        self.inner.parameters()
    }

    fn is_active(&self, parameter: &Parameter, point: &Point) -> bool {
        self.inner.is_active(parameter, point)
    }

    fn constraints(&self) -> Option<Box<dyn Constraints + '_>> {
        self.inner.constraints()
    }

    fn ground(&self, point: &Point) -> Result<Configuration, Rejection> {
        let configuration = self.inner.ground(point)?;
        self.check(&configuration).map_err(|error| Rejection(error.to_string()))?;
        Ok(configuration)
    }

    fn baseline(&self) -> Configuration {
        self.inner.baseline()
    }

    fn size(&self) -> Option<u64> {
        self.inner.size()
    }

    fn edges(&self, point: &Point, configuration: &Configuration) -> Vec<String> {
        self.inner.edges(point, configuration)
    }

    fn label(&self, point: &Point, configuration: &Configuration) -> String {
        self.inner.label(point, configuration)
    }

    fn describe(&self) -> Value {
        let mut described = self.inner.describe();
        described["processor"] = json!({
            "name": self.processor.to_string(),
            "warp_size": self.processor.wavefront_size(),
            "shared_mem": shared_of_block(&self.processor),
        });
        described
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::space::{PresetOptions, PresetSpace, Recorded};
    use mneme_model::launch::Dim3;

    fn limit(name: &str, change: impl FnOnce(&mut Configuration)) -> Option<BeyondLimit> {
        let (grid, block) = (Dim3::new(100, 1, 1), Dim3::new(256, 1, 1));
        let processor = Processor::parse(name).unwrap();
        let recorded = Recorded { grid, block, shared_mem: 0, compiled: None, processor: Some(processor.clone()) };
        let mut configuration = recorded.configuration();
        let space = ForAmd::new(Box::new(PresetSpace::new(&PresetOptions::default(), recorded)), processor);
        change(&mut configuration);
        space.check(&configuration).err()
    }

    fn bounded(blocks: u32, threads: u32, shared: u32) -> impl FnOnce(&mut Configuration) {
        move |it| {
            (it.set_launch_bounds, it.min_blocks_per_sm, it.max_threads) = (true, blocks, Some(threads));
            it.shared_mem = shared;
        }
    }

    #[test]
    fn shared_memory_and_threads_have_an_end() {
        assert_eq!(limit("gfx90a", |it| it.shared_mem = 64 << 10), None);
        let shared = |name: &str, needed| BeyondLimit::Shared { blocks: 1, needed, name: name.into(), most: 65536 };
        assert_eq!(limit("gfx90a:xnack-", |it| it.shared_mem = (64 << 10) + 1), Some(shared("gfx90a", 65537)));
        assert_eq!(limit("gfx950", |it| it.shared_mem = 160 << 10), None);
        assert_eq!(limit("gfx1030", |it| it.shared_mem = 128 << 10), Some(shared("gfx1030", 128 << 10)));
        assert!(matches!(limit("gfx90a", |it| it.block.y = 8), Some(BeyondLimit::Threads { threads: 2048, .. })));
    }

    #[test]
    fn launch_bounds_promise_no_more_than_there_is_room_for() {
        assert_eq!(limit("gfx90a", bounded(8, 256, 0)), None);
        let waves = limit("gfx90a", bounded(3, 1024, 0));
        assert!(matches!(waves, Some(BeyondLimit::Waves { blocks: 3, waves: 48, most: 32, .. })));
        assert_eq!(limit("gfx906", bounded(2, 1024, 32 << 10)), None);
        let shared = limit("gfx906", bounded(3, 256, 32 << 10));
        assert!(matches!(shared, Some(BeyondLimit::Shared { blocks: 3, needed: 98304, .. })));
        assert_eq!(limit("gfx1030", bounded(3, 256, 32 << 10)), None, "a pair of compute units");
        assert_eq!(limit("gfx90a", bounded(1, 1024, 64 << 10)), None);
    }
}
