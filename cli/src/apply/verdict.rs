//! A verdict on a recorded launch, kept in the cache with the code.

use mneme_winners::LaunchDimensions;
use serde::{Deserialize, Serialize};

/// The verdict on a recorded launch that was replayed with a winner's code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Dynamic hash, and the checksums of its memory before and after.
    pub id: String,
    pub moments: [u64; 2],
    pub shape: LaunchDimensions,
    pub is_verified: bool,
}

impl Verdict {
    /// Whether both verdicts are about the same launch and dimensions.
    pub fn is_on(&self, other: &Self) -> bool {
        (&self.id, self.moments, self.shape) == (&other.id, other.moments, other.shape)
    }
}
