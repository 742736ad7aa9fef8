//! `mneme_rec_annotate` and `mneme_rec_annotate_range` of `mneme.h`.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ops::Range;
use std::panic::UnwindSafe;

use mneme_model::tolerance::{Annotation, DataType, Norm, Threshold, Tolerance, ToleranceError};

use super::allocations::ALLOCATIONS;
use super::annotations::ANNOTATIONS;
use crate::process::log::warning;

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

/// The reason why the recorder leaves an annotation out.
#[derive(Debug, thiserror::Error)]
enum Unusable {
    #[error("its type, norm or kind of threshold has an unknown code")]
    Code,
    #[error(transparent)]
    Tolerance(#[from] ToleranceError),
    #[error("it begins in no allocation that Mneme knows")]
    Outside,
    #[error("its allocation ends at {0:#x}")]
    TooLong(u64),
    #[error("it splits an element of {} bytes ({})", .0.size(), .0.name())]
    Split(DataType),
    #[error("the recorder failed")]
    Failed,
}

/// Annotates the allocation that a pointer points into, or removes its annotation.
///
/// # Safety
/// `given` is null or a valid annotation, its tag null or a NUL-terminated text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mneme_rec_annotate(pointer: *const c_void, given: *const RawAnnotation) -> c_int {
    status(pointer as u64, || {
        // SAFETY: as the caller promises.
        ANNOTATIONS.set(pointer as u64, unsafe { read_or_null(given) }?);
        Ok(())
    })
}

/// Annotates a range of bytes, or removes what is annotated there.
///
/// # Safety
/// As for [`mneme_rec_annotate`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mneme_rec_annotate_range(
    pointer: *const c_void,
    bytes: usize,
    given: *const RawAnnotation,
) -> c_int {
    status(pointer as u64, || {
        // SAFETY: as the caller promises.
        let annotation = unsafe { read_or_null(given) }?;
        let addresses = pointer as u64..(pointer as u64).saturating_add(bytes as u64);
        check(&addresses, annotation.as_ref())?;
        ANNOTATIONS.set_range(addresses, annotation);
        Ok(())
    })
}

/// 0 if an annotation was accepted. Otherwise says why not, and returns 1.
fn status(address: u64, annotate: impl FnOnce() -> Result<(), Unusable> + UnwindSafe) -> c_int {
    let outcome = std::panic::catch_unwind(|| {
        let outcome = annotate();
        if let Err(why) = &outcome {
            warning!("the annotation of memory at {address:#x} is left out: {why}");
        }
        outcome
    });
    c_int::from(outcome.unwrap_or(Err(Unusable::Failed)).is_err())
}

/// Checks that a range lies in memory and has whole elements.
fn check(addresses: &Range<u64>, annotation: Option<&Annotation>) -> Result<(), Unusable> {
    // Allocators with growing segments map neighbouring allocations one by one.
    let mut end = addresses.start;
    while end < addresses.end {
        match ALLOCATIONS.containing(end) {
            Some(live) => end = live.address.saturating_add(live.size),
            None if end == addresses.start => return Err(Unusable::Outside),
            None => return Err(Unusable::TooLong(end)),
        }
    }
    let tolerance = annotation.map(|annotation| annotation.tolerance).filter(|tolerance| !tolerance.ignore);
    let splits = |dtype: &DataType| [addresses.start, addresses.end].iter().any(|at| at % dtype.size() as u64 != 0);
    tolerance.map(|tolerance| tolerance.dtype).filter(splits).map_or(Ok(()), |dtype| Err(Unusable::Split(dtype)))
}

/// # Safety
/// As for [`mneme_rec_annotate`].
unsafe fn read_or_null(given: *const RawAnnotation) -> Result<Option<Annotation>, Unusable> {
    // SAFETY: as the caller promises.
    match unsafe { given.as_ref() } {
        // SAFETY: as the caller promises.
        Some(given) => unsafe { read(given) }.map(Some),
        None => Ok(None),
    }
}

/// # Safety
/// The tag is null or a NUL-terminated text.
unsafe fn read(given: &RawAnnotation) -> Result<Annotation, Unusable> {
    let code = |code: u32| u8::try_from(code).ok();
    let codes = || {
        let dtype = DataType::from_code(code(given.dtype)?)?;
        Some((dtype, Threshold::from_code(code(given.threshold_kind)?)?, Norm::from_code(code(given.norm)?)?))
    };
    let (dtype, kind, norm) = codes().ok_or(Unusable::Code)?;
    let tolerance = Tolerance { dtype, threshold: given.threshold, kind, norm, ignore: given.ignore != 0 };
    tolerance.check()?;
    let tag = if given.tag.is_null() {
        String::new()
    } else {
        // SAFETY: as the caller promises.
        unsafe { CStr::from_ptr(given.tag) }.to_string_lossy().into_owned()
    };
    Ok(Annotation { tag, tolerance })
}

#[cfg(test)]
mod tests {
    use mneme_recording::manifest::AllocationKind;

    use super::*;
    use crate::memory::allocations::{KernelAccess, LiveAllocation};

    fn given() -> RawAnnotation {
        RawAnnotation { dtype: 10, threshold_kind: 1, norm: 2, ignore: 0, threshold: 1e-6, tag: c"pressure".as_ptr() }
    }

    fn insert(address: u64, size: u64) {
        let access = KernelAccess::Peers;
        let kind = AllocationKind::Arena;
        ALLOCATIONS.insert(LiveAllocation { address, size, kind, access, device: 0, context: 0, shared: false });
    }

    #[test]
    fn an_annotation_is_read() {
        let address = 0x7777_0000_0000u64;
        // SAFETY: a valid annotation, or null.
        unsafe {
            assert_eq!(mneme_rec_annotate(address as *const c_void, &given()), 0);
            let tolerance = Tolerance {
                dtype: DataType::F64,
                threshold: 1e-6,
                kind: Threshold::Relative,
                norm: Norm::L2,
                ignore: false,
            };
            let annotation = Annotation { tag: "pressure".into(), tolerance };
            assert_eq!(ANNOTATIONS.of(address, 64).0, Some(annotation));
            assert_eq!(mneme_rec_annotate(address as *const c_void, std::ptr::null()), 0);
            assert_eq!(ANNOTATIONS.of(address, 64).0, None);
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
        assert_eq!(ANNOTATIONS.of(0x7778_0000_0000, 1).0, None);
    }

    #[test]
    fn a_range_lies_in_memory_and_has_whole_elements() {
        let pool = 0x7779_0000_0000u64;
        insert(pool, 64);
        insert(pool + 64, 64);
        // SAFETY: a valid structure.
        let annotate = |offset: u64, bytes: usize, given: &RawAnnotation| unsafe {
            mneme_rec_annotate_range((pool + offset) as *const c_void, bytes, given)
        };
        let ignored = RawAnnotation { ignore: 1, ..given() };
        for (offset, bytes, given, status) in [
            (0, 32, &given(), 0),
            (56, 16, &given(), 0),
            (33, 3, &ignored, 0),
            (128, 0, &given(), 0),
            (4, 8, &given(), 1),
            (8, 9, &given(), 1),
            (120, 16, &given(), 1),
            (128, 8, &given(), 1),
            (0, usize::MAX, &ignored, 1),
        ] {
            assert_eq!(annotate(offset, bytes, given), status, "{bytes} at {offset}");
        }
        let ranges = |address| ANNOTATIONS.of(address, 64).1.iter().map(|it| (it.offset, it.size)).collect::<Vec<_>>();
        assert_eq!(ranges(pool), [(0, 32), (33, 3), (56, 8)]);
        assert_eq!(ranges(pool + 64), [(0, 8)], "neighbouring allocations share a range");
        // SAFETY: null removes.
        unsafe { mneme_rec_annotate_range(pool as *const c_void, 34, std::ptr::null()) };
        assert_eq!(ranges(pool), [(34, 2), (56, 8)]);
        ALLOCATIONS.remove(pool);
        ALLOCATIONS.remove(pool + 64);
        assert_eq!((ranges(pool), ranges(pool + 64)), (Vec::new(), Vec::new()));
    }
}
