//! Launch bounds: what the back end may assume about block size and occupancy.

use inkwell::module::Module;
use mneme_core::configuration::Configuration;

use crate::ir::{Value, annotations};

/// Replaces the source's launch bounds by the configuration's. Without `max_threads` the bound is the block itself.
pub fn set(module: &Module<'_>, kernel: Value<'_>, configuration: &Configuration) {
    annotations::clear(
        module,
        kernel,
        &["maxntidx", "maxntidy", "maxntidz", "reqntidx", "reqntidy", "reqntidz", "minctasm", "maxnreg"],
    );
    let threads =
        configuration.max_threads.filter(|threads| *threads > 0).unwrap_or(configuration.block.count() as u32);
    annotations::add(module, kernel, "maxntidx", threads);
    if configuration.min_blocks_per_sm > 0 {
        annotations::add(module, kernel, "minctasm", configuration.min_blocks_per_sm);
    }
}

/// Replaces the source's limit on registers.
pub fn limit_registers(module: &Module<'_>, kernel: Value<'_>, registers: u32) {
    annotations::clear(module, kernel, &["maxnreg"]);
    annotations::add(module, kernel, "maxnreg", registers);
}
