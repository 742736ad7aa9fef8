//! The time limit of a process on a shared machine.
//!
//! On an overloaded machine work takes longer by the clock, and a wall-clock limit would end it too early. Time in
//! which the process waits for a processor therefore does not count, if the system reports it
//! (`/proc/PID/task/TID/schedstat`). The query costs microseconds for each thread, and most work needs a fraction of
//! its time. The process is therefore only checked after half of its time, and the first half is assumed to contain as
//! much waiting.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use nix::unistd::Pid;

/// A very distant limit, for sums beyond the clock's range.
const NEVER: Duration = Duration::from_secs(1 << 30);
/// The shortest time between two checks.
const PAUSE: Duration = Duration::from_millis(2);

/// A time limit, and the part of it that a process has used.
#[derive(Clone, Debug)]
pub struct Allowance {
    limit: Duration,
    begin: Instant,
    next: Instant,
    seen: Option<(Instant, Delays)>,
}

/// The time that each thread has waited for a processor.
type Delays = BTreeMap<String, Duration>;

impl Allowance {
    /// Starts the time now.
    pub fn new(limit: Duration) -> Self {
        let (limit, begin) = (limit.min(NEVER), Instant::now());
        Self { limit, begin, next: begin + limit / 2, seen: None }
    }

    /// The time of the next check whether it is [used up](Self::is_used_up).
    pub fn next_look(&self) -> Instant {
        self.next
    }

    /// Whether the process has used all of its time.
    pub fn is_used_up(&mut self, process: Pid) -> bool {
        let now = Instant::now();
        now >= self.next && self.is_used_up_at(now, delays(process))
    }

    fn is_used_up_at(&mut self, now: Instant, delays: Delays) -> bool {
        let Some((since, before)) = &self.seen else {
            self.seen = Some((now, delays));
            self.next = (self.begin + self.limit).max(now + self.limit / 4);
            return false;
        };
        let delay = |(thread, delay): (&String, &Duration)| {
            delay.saturating_sub(before.get(thread).copied().unwrap_or_default())
        };
        let waited = delays.iter().map(delay).max().unwrap_or_default().as_secs_f64();
        let looked_at = now.duration_since(*since).as_secs_f64();
        let share = if looked_at > 0.0 { (1.0 - waited / looked_at).max(0.0) } else { 0.0 };
        let used = now.duration_since(self.begin).mul_f64(share);
        let left = self.limit.saturating_sub(used);
        self.next = now + left.max(PAUSE);
        // The remainder is too small to matter.
        left <= self.limit / 100
    }
}

fn delays(process: Pid) -> Delays {
    let delay = |thread: std::fs::DirEntry| {
        let text = std::fs::read_to_string(thread.path().join("schedstat")).ok()?;
        let waited: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some((thread.file_name().into_string().ok()?, Duration::from_nanos(waited)))
    };
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().flatten().filter_map(delay).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn waiting(seconds: &[f64]) -> Delays {
        seconds.iter().enumerate().map(|(at, it)| (at.to_string(), Duration::from_secs_f64(*it))).collect()
    }

    #[test]
    fn a_process_that_waits_for_nobody_has_its_limit() {
        let mut allowance = Allowance::new(10 * SECOND);
        let begin = allowance.begin;
        assert_eq!(allowance.next_look(), begin + 5 * SECOND);
        assert!(!allowance.is_used_up_at(begin + 5 * SECOND, waiting(&[3.0])));
        assert_eq!(allowance.next_look(), begin + 10 * SECOND);
        assert!(allowance.is_used_up_at(begin + 10 * SECOND, waiting(&[3.0, 0.0])));
    }

    #[test]
    fn time_in_which_others_had_the_processor_does_not_count() {
        let mut allowance = Allowance::new(10 * SECOND);
        let begin = allowance.begin;
        assert!(!allowance.is_used_up_at(begin + 5 * SECOND, waiting(&[1.0])));
        // Four of these five seconds.
        assert!(!allowance.is_used_up_at(begin + 10 * SECOND, waiting(&[5.0, 1.0])));
        assert_eq!(allowance.next_look(), begin + 18 * SECOND);
        assert!(!allowance.is_used_up_at(begin + 18 * SECOND, waiting(&[11.4])));
        assert!(allowance.is_used_up_at(begin + 60 * SECOND, waiting(&[45.0])));
    }

    #[test]
    fn this_process_is_known() {
        let mut allowance = Allowance::new(Duration::ZERO);
        let own = nix::unistd::getpid();
        assert!(!delays(own).is_empty());
        let start = Instant::now();
        while !allowance.is_used_up(own) {
            assert!(start.elapsed() < 60 * SECOND);
        }
        Allowance::new(Duration::MAX).next_look();
    }
}
