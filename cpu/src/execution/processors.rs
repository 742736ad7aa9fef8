//! The number of threads that run blocks of a launch.

use std::sync::OnceLock;

use mneme_system::environment;

/// The number of processors that this process may use, or `MNEME_CPU_THREADS`.
pub fn count() -> u64 {
    static COUNT: OnceLock<u64> = OnceLock::new();
    *COUNT.get_or_init(|| {
        let threads =
            environment::variable("MNEME_CPU_THREADS").and_then(|text| text.parse().ok()).filter(|count| *count > 0);
        threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |count| count.get() as u64))
    })
}
