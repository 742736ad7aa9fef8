//! The limit of waits for kernels and for an idle device, and the count of those in vain.
//!
//! The user sets the limit (`MNEME_KERNEL_LIMIT`). A process in which three waits were in vain is one whose kernels
//! wait for each other or for the host: from then on the recorder holds only kernels that it has seen finish, and every
//! further wait in vain halves the limit. So a process is held in vain for five limits at most, whatever it launches.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::process::settings::settings;

/// Waits in vain after which not every kernel is tried any more.
const TRUSTING: u32 = 3;

static IN_VAIN: AtomicU32 = AtomicU32::new(0);

/// How long the next wait may take.
pub fn limit() -> Duration {
    limit_after(settings().kernel_limit, IN_VAIN.load(Ordering::Relaxed))
}

fn limit_after(limit: Duration, in_vain: u32) -> Duration {
    limit / 2u32.saturating_pow(in_vain.saturating_sub(TRUSTING))
}

/// A wait was in vain.
pub fn note_in_vain() {
    IN_VAIN.fetch_add(1, Ordering::Relaxed);
}

/// Whether only kernels are recorded that were seen to finish.
pub fn is_wary() -> bool {
    IN_VAIN.load(Ordering::Relaxed) >= TRUSTING
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
