//! Block shapes that the device keeps refusing.

use std::collections::{HashMap, HashSet};

use mneme_model::launch::Dim3;
use mneme_model::result::ReplayStatus;

/// Refused launches after which a block shape is banned. A single refusal may be due to code that needs too many
/// registers.
const REFUSALS: u32 = 2;

/// `--adaptive-invalid-ban`.
#[derive(Debug, Default)]
pub struct Bans {
    enabled: bool,
    refused: HashMap<Dim3, u32>,
    accepted: HashSet<Dim3>,
}

impl Bans {
    pub fn new(enabled: bool) -> Self {
        Self { enabled, ..Self::default() }
    }

    /// Notes the outcome of a launch with this block.
    pub fn note(&mut self, block: Dim3, status: ReplayStatus) {
        match status {
            ReplayStatus::InvalidLaunch => *self.refused.entry(block).or_default() += 1,
            ReplayStatus::Verified
            | ReplayStatus::Unproven
            | ReplayStatus::FailedVerification
            | ReplayStatus::RuntimeError => {
                self.accepted.insert(block);
            }
            // These do not show whether the device accepts the block.
            ReplayStatus::CompileError
            | ReplayStatus::InvalidConfig
            | ReplayStatus::Timeout
            | ReplayStatus::InternalError => {}
        }
    }

    /// Whether a launch with this block is banned.
    pub fn has(&self, block: Dim3) -> bool {
        self.enabled
            && !self.accepted.contains(&block)
            && self.refused.get(&block).is_some_and(|refused| *refused >= REFUSALS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_banned_when_it_is_refused_twice_and_never_accepted() {
        let (wide, narrow) = (Dim3::new(1024, 1, 1), Dim3::new(64, 1, 1));
        let mut bans = Bans::new(true);
        bans.note(wide, ReplayStatus::InvalidLaunch);
        bans.note(wide, ReplayStatus::CompileError);
        assert!(!bans.has(wide));
        bans.note(wide, ReplayStatus::InvalidLaunch);
        assert!(bans.has(wide) && !bans.has(narrow));
        bans.note(wide, ReplayStatus::Verified);
        assert!(!bans.has(wide), "another pipeline's code fits");
        let mut off = Bans::new(false);
        (0..5).for_each(|_| off.note(wide, ReplayStatus::InvalidLaunch));
        assert!(!off.has(wide));
    }
}
