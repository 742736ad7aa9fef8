//! Build and run times of a session, from which the number of concurrent builds follows.

use mneme_core::result::ReplayResult;

/// Builds that take so long, seconds, are worth candidates that are chosen on less: short ones are hidden anyway.
const LARGE: f64 = 0.1;

/// What candidates took so far.
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

    /// Candidates that are to be under way beside the one that runs: as many as are built in the time of one build by
    /// `builders`, or run in it. A search that knows little chooses no more than half as many as it knows.
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
