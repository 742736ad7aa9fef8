//! The architecture that code is compiled for.
//!
//! Until a device reports its architecture, it is the one that the recording suggests.

use mneme_builds::Target;
use mneme_system::exit;

use crate::error::Fatal;

pub struct TargetArchitecture {
    /// `None` if neither the recording nor a device has determined it.
    target: Option<Target>,
    /// The architecture of the first device.
    confirmed: Option<Target>,
}

impl TargetArchitecture {
    pub fn expected(target: Option<Target>) -> Self {
        Self { target, confirmed: None }
    }

    pub fn target(&self) -> Option<&Target> {
        self.target.as_ref()
    }

    /// Notes that a device of this name takes code for `target`. Returns whether that is new, which makes earlier
    /// builds useless.
    ///
    /// # Errors
    /// Another device takes other code.
    pub fn confirm(&mut self, target: Target, name: &str) -> Result<bool, Fatal> {
        if self.confirmed.as_ref().is_some_and(|confirmed| *confirmed != target) {
            let error =
                format!("{name} has another architecture than the other devices; replay on one device at a time");
            return Err(Fatal::new(exit::BAD_USAGE, error));
        }
        self.confirmed = Some(target.clone());
        let is_new = self.target.as_ref() != Some(&target);
        self.target = Some(target);
        Ok(is_new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(arch: &str) -> Target {
        Target::Nvptx { arch: arch.into() }
    }

    #[test]
    fn the_first_device_decides() {
        let mut architecture = TargetArchitecture::expected(Some(target("sm_80")));
        assert!(architecture.confirm(target("sm_90"), "one").unwrap());
        assert!(!architecture.confirm(target("sm_90"), "two").unwrap());
        let refused = architecture.confirm(target("sm_80"), "three").unwrap_err();
        assert!(refused.status == exit::BAD_USAGE && refused.error.contains("three"));
        assert_eq!(architecture.target(), Some(&target("sm_90")));
        assert!(!TargetArchitecture::expected(Some(target("sm_90"))).confirm(target("sm_90"), "one").unwrap());
    }
}
