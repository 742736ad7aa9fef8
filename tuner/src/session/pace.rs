//! Build and run times of a session, which determine the number of concurrent builds.

use mneme_model::result::ReplayResult;

/// Seconds per build from which it pays to choose candidates with fewer outcomes known. Shorter builds are hidden
/// anyway.
const LARGE: f64 = 0.1;

/// Totals of the candidates so far.
#[derive(Clone, Debug, Default)]
pub struct Pace {
    candidates: u32,
    /// Seconds in all.
    building: f64,
    running: f64,
}

impl Pace {
    /// Learns from a candidate that was built and run for itself.
    pub fn note(&mut self, result: &ReplayResult) {
        self.candidates += 1;
        self.building += result.preprocess_ir_time + result.opt_time + result.codegen_time;
        self.running += result.exec_time.iter().sum::<u64>() as f64 * 1e-9;
    }

    /// Candidates to keep in flight besides the one that runs: as many as the `builders` finish, or the device runs,
    /// during one build. Half the number of known candidates limits it, because a search that knows little chooses
    /// badly.
    pub fn ahead(&self, builders: u32) -> usize {
        let count = f64::from(self.candidates.max(1));
        let (build, run) = (self.building / count, self.running / count);
        if build < LARGE {
            return 0;
        }
        let hidden = (build / run.max(1e-9)).ceil().min(f64::from(builders)) as usize;
        hidden.min(2 + self.candidates as usize / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(candidates: u32, build: f64, run: u64) -> Pace {
        let mut pace = Pace::default();
        for _ in 0..candidates {
            pace.note(&ReplayResult { opt_time: build, exec_time: vec![run; 2], ..ReplayResult::default() });
        }
        pace
    }

    #[test]
    fn builders_have_work_where_builds_are_what_a_session_waits_for() {
        assert_eq!(after(100, 0.4, 1_000_000).ahead(16), 16, "a build takes as long as 200 candidates run");
        assert_eq!(after(100, 0.4, 260_000_000).ahead(16), 1);
        assert_eq!(after(100, 0.4, 50_000_000).ahead(16), 4);
        assert_eq!(after(100, 0.03, 60_000).ahead(16), 0, "short builds");
        assert_eq!(after(100, 0.4, 1_000_000).ahead(0), 0, "a server that does not say");
        assert_eq!([0, 1, 8, 40].map(|known| after(known, 0.4, 1_000_000).ahead(16)), [0, 2, 6, 16]);
    }
}
