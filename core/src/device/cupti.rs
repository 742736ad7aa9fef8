//! Kernel times from CUPTI, NVIDIA's profiling library, where it is installed.
//!
//! Function names, constants and the place of a record's fields are those of cupti_activity.h and cupti_result.h.
//!
//! CUPTI has the device note the time at which a kernel starts and ends; events are two commands around it, whose own
//! time is measured too.

use std::alloc::{Layout, alloc, dealloc};
use std::ffi::{c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::Mutex;

use libloading::Library;

/// The library, the newest first.
pub(super) const NAMES: [&str; 2] = ["libcupti.so.13", "libcupti.so.12"];
/// Folders of a toolkit that may have it.
const FOLDERS: [&str; 4] = ["extras/CUPTI/lib64", TARGET, "lib64", "lib"];
/// NVIDIA's name for servers with Arm's processors is sbsa.
const TARGET: &str = if cfg!(target_arch = "aarch64") { "targets/sbsa-linux/lib" } else { "targets/x86_64-linux/lib" };

const CUPTI_SUCCESS: c_int = 0;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`: kernels are timed without being kept apart from each other.
const KIND: c_int = 10;
/// Offsets of `start` and `end`, ns, the same in all versions of `CUpti_ActivityKernel` since the fourth; `kind` is at
/// 0.
const START: usize = 16;
const END: usize = 24;

const BUFFER: usize = 256 << 10;
/// `ACTIVITY_RECORD_ALIGNMENT`.
const ALIGNMENT: usize = 8;

type NextRecord = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> c_int;
type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = unsafe extern "C" fn(*mut c_void, c_uint, *mut u8, usize, usize);

/// What CUPTI's callbacks, which have no argument of ours, share with the rest. There is one CUPTI in a process.
struct Collected {
    next: Option<NextRecord>,
    /// Start of the latest kernel and its time, ns.
    latest: Option<(u64, u64)>,
}

static COLLECTED: Mutex<Collected> = Mutex::new(Collected { next: None, latest: None });

/// Loads CUPTI, and says what was loaded; `toolkits` are roots of CUDA installations.
pub(super) fn library(toolkits: &[PathBuf]) -> Option<(Library, PathBuf)> {
    let in_toolkits = |name: &str| -> Vec<PathBuf> {
        toolkits
            .iter()
            .flat_map(|root| FOLDERS.map(|folder| root.join(folder).join(name)))
            .filter(|path| path.is_file())
            .collect()
    };
    let mut candidates = NAMES.into_iter().flat_map(|name| in_toolkits(name).into_iter().chain([PathBuf::from(name)]));
    // SAFETY: CUPTI's constructors are made to run when a process loads it.
    candidates.find_map(|path| unsafe { Library::new(&path) }.ok().map(|library| (library, path)))
}

/// CUPTI at work.
pub struct Cupti {
    flush: unsafe extern "C" fn(c_uint) -> c_int,
    now: unsafe extern "C" fn(*mut u64) -> c_int,
    /// Keeps the functions in memory.
    _library: Library,
}

impl Cupti {
    /// Loads CUPTI and lets it time all kernels of this process from now on; before the first context is made.
    /// `toolkits` are roots of CUDA installations.
    ///
    /// # Errors
    /// One sentence for the user.
    pub fn start(toolkits: &[PathBuf]) -> Result<Self, String> {
        let (library, _) = library(toolkits).ok_or_else(|| {
            format!(
                "neither {} is installed; CUDA's toolkit has it, and --timer events does without",
                NAMES.join(" nor ")
            )
        })?;
        let missing = |error: libloading::Error| error.to_string();
        // SAFETY: the types are those of the header; the callbacks are functions that live as long as the process.
        unsafe {
            let register: unsafe extern "C" fn(Request, Complete) -> c_int =
                *library.get(b"cuptiActivityRegisterCallbacks\0").map_err(missing)?;
            let enable: unsafe extern "C" fn(c_int) -> c_int =
                *library.get(b"cuptiActivityEnable\0").map_err(missing)?;
            let next: NextRecord = *library.get(b"cuptiActivityGetNextRecord\0").map_err(missing)?;
            let flush = *library.get(b"cuptiActivityFlushAll\0").map_err(missing)?;
            let now = *library.get(b"cuptiGetTimestamp\0").map_err(missing)?;
            COLLECTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next = Some(next);
            for (what, code) in
                [("cuptiActivityRegisterCallbacks", register(request, complete)), ("cuptiActivityEnable", enable(KIND))]
            {
                if code != CUPTI_SUCCESS {
                    return Err(format!("{what} returned error {code} (another profiler may be at work)"));
                }
            }
            Ok(Self { flush, now, _library: library })
        }
    }

    /// The time now, ns, on the clock that kernels are timed by.
    pub fn now(&self) -> u64 {
        let mut time = 0;
        // SAFETY: `time` is a valid place for the answer.
        unsafe { (self.now)(&mut time) };
        time
    }

    /// Time of the kernel that was started last, ns, once the device is idle; `None` where CUPTI has not seen any that
    /// was started after `since`.
    pub fn latest(&self, since: u64) -> Option<u64> {
        // SAFETY: no pointers; the callbacks lock only while they read a buffer, and no lock is held here.
        unsafe { (self.flush)(0) };
        let mut collected = COLLECTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        collected.latest.take().filter(|(start, _)| *start >= since).map(|(_, time)| time)
    }
}

const fn layout() -> Layout {
    match Layout::from_size_align(BUFFER, ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("the alignment is a power of two"),
    }
}

/// CUPTI asks for memory; none makes it drop records.
unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    // SAFETY: CUPTI's places are valid; the layout is not empty. 0 stands for as many records as fit.
    unsafe {
        *buffer = alloc(layout());
        *size = if (*buffer).is_null() { 0 } else { BUFFER };
        *most = 0;
    }
}

/// CUPTI gives a buffer back, filled.
unsafe extern "C" fn complete(_context: *mut c_void, _stream: c_uint, buffer: *mut u8, _size: usize, filled: usize) {
    let mut collected = COLLECTED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    if let Some(next) = collected.next {
        let mut record: *mut u8 = null_mut();
        // SAFETY: the buffer has `filled` bytes of records, which `next` goes through; those of kernels have the fields
        // that are read at their offsets, aligned to 8 bytes.
        while unsafe { next(buffer, filled, &mut record) } == CUPTI_SUCCESS {
            // SAFETY: as above; `kind` is the first field of every record.
            let (start, end) = unsafe {
                if record.cast::<c_int>().read() != KIND {
                    continue;
                }
                (record.add(START).cast::<u64>().read(), record.add(END).cast::<u64>().read())
            };
            // CUPTI writes 0 where it could not take the time.
            if start > 0 && end >= start && collected.latest.is_none_or(|(latest, _)| latest <= start) {
                collected.latest = Some((start, end - start));
            }
        }
    }
    // SAFETY: the buffer came from `request` with this layout, and CUPTI is done with it.
    unsafe { dealloc(buffer, layout()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goes through records of 32 bytes.
    unsafe extern "C" fn next(buffer: *mut u8, filled: usize, record: *mut *mut u8) -> c_int {
        // SAFETY: the test's buffer has `filled` bytes, and `record` is null or a record in it.
        unsafe {
            let at = if (*record).is_null() { buffer } else { (*record).add(32) };
            *record = at;
            if at.offset_from(buffer) as usize >= filled { 12 } else { CUPTI_SUCCESS }
        }
    }

    #[test]
    fn the_kernel_that_starts_last_is_meant() {
        let (mut buffer, mut size, mut most) = (null_mut(), 0, 1);
        // SAFETY: as CUPTI would call it.
        unsafe { request(&mut buffer, &mut size, &mut most) };
        assert_eq!((size, most), (BUFFER, 0));
        let records: [[u64; 4]; 5] = [
            [KIND as u64, 0, 100, 150],
            [KIND as u64, 0, 300, 307],
            [KIND as u64, 0, 200, 290],
            // Another kind, and one without times.
            [1, 0, 900, 999],
            [KIND as u64, 0, 0, 0],
        ];
        let words = records.as_flattened();
        // SAFETY: the buffer is larger than the records and aligned.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), buffer.cast(), words.len()) };
        COLLECTED.lock().unwrap().next = Some(next);
        // SAFETY: as CUPTI would call it.
        unsafe { complete(null_mut(), 0, buffer, size, words.len() * 8) };
        assert_eq!(COLLECTED.lock().unwrap().latest, Some((300, 7)));
    }
}
