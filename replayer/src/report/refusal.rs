//! The reasons why a driver refuses a launch.
//!
//! The driver reports only "invalid value", so this names the exceeded limits.

use mneme_model::configuration::Configuration;
use mneme_model::device::DeviceLimits;

/// The limits that a configuration exceeds, as the end of a sentence; empty if none is known. `static_shared` is the
/// static shared memory of the code, bytes.
pub fn reason(configuration: &Configuration, limits: &DeviceLimits, static_shared: i64) -> String {
    let threads = configuration.block.count();
    let mut reasons = Vec::new();
    if let Some(bound) = configuration
        .max_threads
        .filter(|bound| configuration.set_launch_bounds && *bound > 0 && u64::from(*bound) < threads)
    {
        reasons.push(format!("the block has {threads} threads and max_threads bounds the code to {bound}"));
    }
    if limits.max_threads > 0 && threads > u64::from(limits.max_threads) {
        reasons.push(format!("the block has {threads} threads and the device takes {}", limits.max_threads));
    }
    let own = u64::try_from(static_shared).unwrap_or(0);
    let shared = own + u64::from(configuration.shared_mem);
    let most = u64::from(limits.shared_mem_optin.unwrap_or(limits.shared_mem));
    if most > 0 && shared > most {
        let of_its_own = if own > 0 { format!(" ({own} of them static)") } else { String::new() };
        reasons.push(format!("a block needs {shared} bytes of shared memory{of_its_own} and the device has {most}"));
    }
    let axes = [
        ("x", configuration.grid.x, limits.max_grid.x, configuration.block.x, limits.max_block.x),
        ("y", configuration.grid.y, limits.max_grid.y, configuration.block.y, limits.max_block.y),
        ("z", configuration.grid.z, limits.max_grid.z, configuration.block.z, limits.max_block.z),
    ];
    for (axis, grid, most_of_grid, block, most_of_block) in axes {
        if most_of_grid > 0 && grid > most_of_grid {
            reasons.push(format!("the grid has {grid} blocks along {axis} and the device takes {most_of_grid}"));
        }
        if most_of_block > 0 && block > most_of_block {
            reasons.push(format!("the block has {block} threads along {axis} and the device takes {most_of_block}"));
        }
    }
    if reasons.is_empty() { String::new() } else { format!(": {}", reasons.join("; ")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    #[test]
    fn limits_that_are_passed_are_named() {
        let limits = DeviceLimits {
            max_threads: 1024,
            max_grid: Dim3::new(1 << 30, 65535, 65535),
            max_block: Dim3::new(1024, 1024, 64),
            shared_mem: 49152,
            shared_mem_optin: Some(232_448),
            ..DeviceLimits::default()
        };
        let mut configuration = Configuration::recorded(Dim3::new(10, 1, 1), Dim3::new(256, 1, 1), 0);
        assert_eq!(reason(&configuration, &limits, -1), "");
        (configuration.set_launch_bounds, configuration.max_threads) = (true, Some(32));
        assert_eq!(
            reason(&configuration, &limits, 0),
            ": the block has 256 threads and max_threads bounds the code to 32"
        );
        configuration.set_launch_bounds = false;
        (configuration.shared_mem, configuration.grid.y) = (232_448, 70_000);
        assert_eq!(
            reason(&configuration, &limits, 16),
            ": a block needs 232464 bytes of shared memory (16 of them static) and the device has 232448; the grid has 70000 blocks along y \
             and the device takes 65535"
        );
    }
}
