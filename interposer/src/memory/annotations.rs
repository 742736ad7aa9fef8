//! The annotations of buffers that the application makes through `mneme.h`.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mneme_model::tolerance::{Annotation, DataType, Norm, Threshold, Tolerance};

/// `struct mneme_annotation`.
#[repr(C)]
pub struct RawAnnotation {
    dtype: u32,
    threshold_kind: u32,
    norm: u32,
    ignore: u32,
    threshold: f64,
    tag: *const c_char,
}

/// Annotations by the annotated address.
#[derive(Default)]
pub struct Annotations(Mutex<BTreeMap<u64, Annotation>>);

/// The annotations of this process.
pub static ANNOTATIONS: Annotations = Annotations(Mutex::new(BTreeMap::new()));

impl Annotations {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Annotation>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, address: u64, annotation: Option<Annotation>) {
        match annotation {
            Some(annotation) => self.lock().insert(address, annotation),
            None => self.lock().remove(&address),
        };
    }

    /// The annotation of an allocation: that of the lowest annotated address in it.
    pub fn of(&self, address: u64, size: u64) -> Option<Annotation> {
        self.lock().range(address..address.saturating_add(size)).next().map(|(_, annotation)| annotation.clone())
    }

    /// Removes and returns the annotations of an allocation.
    pub fn take(&self, address: u64, size: u64) -> Vec<(u64, Annotation)> {
        let mut annotations = self.lock();
        let annotated: Vec<u64> =
            annotations.range(address..address.saturating_add(size)).map(|(address, _)| *address).collect();
        annotated.into_iter().filter_map(|address| annotations.remove_entry(&address)).collect()
    }

    pub fn put_back(&self, taken: Vec<(u64, Annotation)>) {
        self.lock().extend(taken);
    }

    /// Removes the annotations of a freed allocation, because its addresses may be reused.
    pub fn forget(&self, address: u64, size: u64) {
        drop(self.take(address, size));
    }
}

/// `mneme_rec_annotate` of `mneme.h`.
///
/// # Safety
/// `given` is null or a valid annotation, its tag null or a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mneme_rec_annotate(pointer: *const c_void, given: *const RawAnnotation) -> c_int {
    let outcome = std::panic::catch_unwind(|| {
        // SAFETY: as the caller promises.
        let annotation = match unsafe { given.as_ref() } {
            // SAFETY: as the caller promises.
            Some(given) => Some(unsafe { read(given) }?),
            None => None,
        };
        ANNOTATIONS.set(pointer as u64, annotation);
        Some(())
    });
    c_int::from(!matches!(outcome, Ok(Some(()))))
}

/// # Safety
/// The tag is null or a NUL-terminated text.
unsafe fn read(given: &RawAnnotation) -> Option<Annotation> {
    let code = |code: u32| u8::try_from(code).ok();
    let tolerance = Tolerance {
        dtype: DataType::from_code(code(given.dtype)?)?,
        threshold: given.threshold,
        kind: Threshold::from_code(code(given.threshold_kind)?)?,
        norm: Norm::from_code(code(given.norm)?)?,
        ignore: given.ignore != 0,
    };
    tolerance.check().ok()?;
    let tag = if given.tag.is_null() {
        String::new()
    } else {
        // SAFETY: as the caller promises.
        unsafe { CStr::from_ptr(given.tag) }.to_string_lossy().into_owned()
    };
    Some(Annotation { tag, tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> RawAnnotation {
        RawAnnotation { dtype: 10, threshold_kind: 1, norm: 2, ignore: 0, threshold: 1e-6, tag: c"pressure".as_ptr() }
    }

    #[test]
    fn an_annotation_lasts_until_its_memory_is_freed() {
        let address = 0x7777_0000_0000u64;
        // SAFETY: valid annotations, or null.
        unsafe {
            assert_eq!(mneme_rec_annotate(address as *const c_void, &given()), 0);
            let found = ANNOTATIONS.of(address, 64).unwrap();
            let tolerance = Tolerance {
                dtype: DataType::F64,
                threshold: 1e-6,
                kind: Threshold::Relative,
                norm: Norm::L2,
                ignore: false,
            };
            assert_eq!(found, Annotation { tag: "pressure".into(), tolerance });
            assert_eq!(ANNOTATIONS.of(address + 64, 64), None);
            ANNOTATIONS.forget(address, 64);
            assert_eq!(ANNOTATIONS.of(address, 64), None);
            mneme_rec_annotate((address + 8) as *const c_void, &given());
            assert!(ANNOTATIONS.of(address, 64).is_some(), "a pointer into the allocation counts");
            mneme_rec_annotate((address + 8) as *const c_void, std::ptr::null());
            assert_eq!(ANNOTATIONS.of(address, 64), None);
        }
    }

    #[test]
    fn nonsense_is_refused() {
        for wrong in [
            RawAnnotation { dtype: 11, ..given() },
            RawAnnotation { dtype: 266, ..given() },
            RawAnnotation { threshold_kind: 3, ..given() },
            RawAnnotation { norm: 4, ..given() },
            RawAnnotation { threshold: -1.0, ..given() },
            RawAnnotation { threshold: f64::NAN, ..given() },
        ] {
            // SAFETY: a valid structure.
            assert_eq!(unsafe { mneme_rec_annotate(0x7778_0000_0000u64 as *const c_void, &wrong) }, 1);
        }
        assert_eq!(ANNOTATIONS.of(0x7778_0000_0000, 1), None);
    }
}
