//! The limit of waits for kernels and for an idle device, and a count of the waits that reached it.
//!
//! The user sets the limit (`MNEME_KERNEL_LIMIT`). After three waits that reached it, the process probably has kernels
//! that wait for each other or for the host. From then on the recorder waits only for kernels that it has seen finish,
//! and every further wait that reaches the limit halves it. So the application waits for five limits at most, whatever
//! it launches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::process::settings::settings;

/// How many waits may reach the limit before the recorder tries only some kernels.
const TRUSTING: u32 = 3;

static IN_VAIN: AtomicU32 = AtomicU32::new(0);

/// How long the next wait may take.
pub fn limit() -> Duration {
    limit_after(settings().kernel_limit, in_vain())
}

fn limit_after(limit: Duration, in_vain: u32) -> Duration {
    limit / 2u32.saturating_pow(in_vain.saturating_sub(TRUSTING))
}

/// Notes that a wait reached the limit.
pub fn note_in_vain() {
    IN_VAIN.fetch_add(1, Ordering::Relaxed);
}

/// How many waits have reached the limit.
pub fn in_vain() -> u32 {
    IN_VAIN.load(Ordering::Relaxed)
}

/// Whether only kernels that were seen to finish are recorded.
pub fn is_wary() -> bool {
    in_vain() >= TRUSTING
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_waits_of_a_process_come_to_a_few_limits() {
        let limit = Duration::from_secs(5);
        let waits: Vec<Duration> = (0..100).map(|in_vain| limit_after(limit, in_vain)).collect();
        assert_eq!(waits[..5], [5000, 5000, 5000, 5000, 2500].map(Duration::from_millis));
        assert!(waits.iter().sum::<Duration>() < 5 * limit + Duration::from_millis(1));
    }
}
