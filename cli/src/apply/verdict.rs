//! A verdict on a recorded launch, which the cache keeps beside the code that it is on.

use mneme_core::tuned::LaunchDimensions;
use serde::{Deserialize, Serialize};

/// A recorded launch that was replayed with a winner's code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Dynamic hash, and the sums of its memory before and after.
    pub id: String,
    pub moments: [u64; 2],
    pub shape: LaunchDimensions,
    pub is_verified: bool,
}

impl Verdict {
    /// Whether both are on the same launch, with the same dimensions.
    pub fn is_on(&self, other: &Self) -> bool {
        (&self.id, self.moments, self.shape) == (&other.id, other.moments, other.shape)
    }
}
