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

impl ForAmd {
    pub fn new(inner: Box<dyn SearchSpace>, processor: Processor) -> Self {
        Self { inner, processor }
    }

    fn check(&self, configuration: &Configuration) -> Result<(), String> {
        let name = &self.processor.name;
        let (threads, shared) = (configuration.block.count(), configuration.shared_mem);
        if threads > MOST_THREADS {
            return Err(format!("the block has {threads} threads, but {name} allows at most {MOST_THREADS}"));
        }
        let most = shared_of_block(&self.processor);
        if shared > most {
            return Err(format!("a block needs {shared} bytes of shared memory, but {name} has {most}"));
        }
        if configuration.set_launch_bounds {
            self.check_occupancy(configuration)?;
        }
        Ok(())
    }

    /// Checks that a compute unit (or a pair, if blocks may use both) has room for the blocks that launch bounds
    /// promise. The compiler treats a larger promise like the largest possible one.
    fn check_occupancy(&self, configuration: &Configuration) -> Result<(), String> {
        let Configuration { min_blocks_per_sm: blocks, shared_mem: shared, block, .. } = configuration;
        let unit = Hardware::of(&self.processor, LARGEST_WAVE, false);
        let (threads, name) = (configuration.max_threads.map_or(block.count(), u64::from), &self.processor.name);
        let waves = threads.div_ceil(LARGEST_WAVE.into()) * u64::from(*blocks);
        let most = u64::from(unit.most_waves * unit.simds);
        if *blocks > 1 && waves > most {
            return Err(format!("{blocks} blocks of {threads} threads are {waves} waves, but {name} holds {most}"));
        }
        let needed = u64::from(*shared) * u64::from(*blocks);
        if *blocks > 1 && needed > unit.shared.into() {
            return Err(format!(
                "{blocks} blocks need {needed} bytes of shared memory, but {name} has {}",
                unit.shared
            ));
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
        self.check(&configuration).map_err(Rejection)?;
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

    fn reason(name: &str, change: impl FnOnce(&mut Configuration)) -> String {
        let (grid, block) = (Dim3::new(100, 1, 1), Dim3::new(256, 1, 1));
        let processor = Processor::parse(name).unwrap();
        let recorded = Recorded { grid, block, shared_mem: 0, compiled: None, processor: Some(processor.clone()) };
        let mut configuration = recorded.configuration();
        let space = ForAmd::new(Box::new(PresetSpace::new(&PresetOptions::default(), recorded)), processor);
        change(&mut configuration);
        space.check(&configuration).err().unwrap_or_default()
    }

    fn bounded(blocks: u32, threads: u32, shared: u32) -> impl FnOnce(&mut Configuration) {
        move |it| {
            (it.set_launch_bounds, it.min_blocks_per_sm, it.max_threads) = (true, blocks, Some(threads));
            it.shared_mem = shared;
        }
    }

    #[test]
    fn shared_memory_and_threads_have_an_end() {
        assert_eq!(reason("gfx90a", |it| it.shared_mem = 64 << 10), "");
        assert_eq!(
            reason("gfx90a:xnack-", |it| it.shared_mem = (64 << 10) + 1),
            "a block needs 65537 bytes of shared memory, but gfx90a has 65536"
        );
        assert_eq!(reason("gfx950", |it| it.shared_mem = 160 << 10), "");
        assert!(reason("gfx1030", |it| it.shared_mem = 128 << 10).contains("gfx1030 has 65536"));
        assert!(reason("gfx90a", |it| it.block.y = 8).contains("the block has 2048 threads"));
    }

    #[test]
    fn launch_bounds_promise_no_more_than_there_is_room_for() {
        assert_eq!(reason("gfx90a", bounded(8, 256, 0)), "");
        assert_eq!(reason("gfx90a", bounded(3, 1024, 0)), "3 blocks of 1024 threads are 48 waves, but gfx90a holds 32");
        assert_eq!(reason("gfx906", bounded(2, 1024, 32 << 10)), "");
        assert!(reason("gfx906", bounded(3, 256, 32 << 10)).contains("3 blocks need 98304 bytes"));
        assert_eq!(reason("gfx1030", bounded(3, 256, 32 << 10)), "", "a pair of compute units");
        assert_eq!(reason("gfx90a", bounded(1, 1024, 64 << 10)), "");
    }
}
