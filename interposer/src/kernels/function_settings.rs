//! The settings of a kernel's functions by the application, which code in their place needs too.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What can be set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// By its number (`CUfunction_attribute`).
    Attribute(c_uint),
    /// Shared memory against cache, and the width of shared memory's banks.
    Cache,
    Banks,
}

/// Of one kernel.
#[derive(Default)]
pub struct FunctionSettings {
    /// Counts changes.
    version: AtomicU32,
    values: Mutex<BTreeMap<Setting, c_int>>,
}

impl FunctionSettings {
    #[inline]
    pub fn version(&self) -> u32 {
        self.version.load(Ordering::Acquire)
    }

    pub fn values(&self) -> Vec<(Setting, c_int)> {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.iter().map(|(setting, value)| (*setting, *value)).collect()
    }

    /// What was set, if it was.
    pub fn value(&self, setting: Setting) -> Option<c_int> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).get(&setting).copied()
    }

    pub fn set(&self, setting: Setting, value: c_int) {
        self.values.lock().unwrap_or_else(PoisonError::into_inner).insert(setting, value);
        self.version.fetch_add(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_value_counts_and_changes_are_counted() {
        let settings = FunctionSettings::default();
        assert!(settings.version() == 0 && settings.values().is_empty());
        settings.set(Setting::Attribute(8), 70_000);
        settings.set(Setting::Cache, 1);
        settings.set(Setting::Attribute(8), 90_000);
        assert_eq!(settings.version(), 3);
        assert_eq!(settings.values(), [(Setting::Attribute(8), 90_000), (Setting::Cache, 1)]);
    }
}
