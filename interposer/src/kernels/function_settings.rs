//! The application's settings of a kernel's functions, which replacement code needs too.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// A setting of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Setting {
    /// An attribute by its number (`CUfunction_attribute`).
    Attribute(c_uint),
    /// The preference between shared memory and cache.
    Cache,
    Banks,
}

/// The settings of one kernel.
#[derive(Default)]
pub struct FunctionSettings {
    /// The number of changes.
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

    /// The value of a setting, if the application has set it.
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
