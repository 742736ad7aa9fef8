//! The numbers of candidates, which are not those of trials.

use std::fmt;

/// Counts what the search proposes, from 0, and names it to the evaluator and the server.
///
/// Trials have numbers of their own in the results: only candidates that are run become trials, and a session that was
/// interrupted goes on with the numbers that it had.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CandidateNumber(pub u64);

impl fmt::Debug for CandidateNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
