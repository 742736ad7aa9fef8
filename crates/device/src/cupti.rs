//! Kernel times from CUPTI, NVIDIA's profiling library, if it is installed.
//!
//! With CUPTI, the device notes when a kernel starts and ends. Events are two commands around the kernel, so they also
//! measure their own time: about 5 µs on an H200. Function names, constants and the offsets of fields come from
//! cupti_activity.h and cupti_result.h.
//!
//! A request for CUPTI's records takes a tenth of a millisecond or more, so [`Cupti::end_series`] makes one for all
//! launches of a series. A record belongs to the launch during which its kernel started: the host notes the time on
//! CUPTI's clock before each launch and after the wait for it. If a launch has no kernel or several (it launches others
//! itself), the whole series uses its events.
//! others itself) leaves the whole series to its events.

use std::alloc::{Layout, alloc, dealloc};
use std::cell::RefCell;
use std::ffi::{c_int, c_uint, c_void};
use std::path::PathBuf;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use libloading::Library;

use crate::error::ProfilerError;

/// Names of the library, newest first.
const NAMES: [&str; 2] = ["libcupti.so.13", "libcupti.so.12"];
/// Folders of a toolkit that may contain it.
const FOLDERS: [&str; 4] = ["extras/CUPTI/lib64", TARGET, "lib64", "lib"];
/// NVIDIA's name for servers with Arm's processors is sbsa.
const TARGET: &str = if cfg!(target_arch = "aarch64") { "targets/sbsa-linux/lib" } else { "targets/x86_64-linux/lib" };

const CUPTI_SUCCESS: c_int = 0;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`: times kernels without serialising them.
const KIND: c_int = 10;
/// Offsets of `start` and `end`, ns, the same in all versions of `CUpti_ActivityKernel` since the fourth; `kind` is at
/// 0.
const START: usize = 16;
const END: usize = 24;

/// Room for several hundred records, and small enough that the allocator keeps the pages.
const BUFFER: usize = 64 << 10;
/// `ACTIVITY_RECORD_ALIGNMENT`.
const ALIGNMENT: usize = 8;

type NextRecord = unsafe extern "C" fn(*mut u8, usize, *mut *mut u8) -> c_int;
type Request = unsafe extern "C" fn(*mut *mut u8, *mut usize, *mut usize);
type Complete = unsafe extern "C" fn(*mut c_void, c_uint, *mut u8, usize, usize);

/// A span of time on CUPTI's clock, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Span {
    start: u64,
    end: u64,
}

/// State shared with CUPTI's callbacks, which have no user argument. A process has one CUPTI.
struct Collected {
    next: Option<NextRecord>,
    /// Kernels since the series began.
    kernels: Vec<Span>,
}

static COLLECTED: Mutex<Collected> = Mutex::new(Collected { next: None, kernels: Vec::new() });

fn collected() -> MutexGuard<'static, Collected> {
    COLLECTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Loads CUPTI, and returns the path of the library; `toolkits` are roots of CUDA installations.
pub(super) fn library(toolkits: &[PathBuf]) -> Result<(Library, PathBuf), ProfilerError> {
    let in_toolkits = |name: &str| -> Vec<PathBuf> {
        toolkits
            .iter()
            .flat_map(|root| FOLDERS.map(|folder| root.join(folder).join(name)))
            .filter(|path| path.is_file())
            .collect()
    };
    let mut candidates = NAMES.into_iter().flat_map(|name| in_toolkits(name).into_iter().chain([PathBuf::from(name)]));
    // SAFETY: CUPTI's constructors are made to run when a process loads it.
    let found = candidates.find_map(|path| unsafe { Library::new(&path) }.ok().map(|library| (library, path)));
    found.ok_or(ProfilerError::NoCupti(NAMES))
}

/// Makes the driver load a profiler's library into each process; Nsight Systems and others set it.
const INJECTION: &str = "CUDA_INJECTION64_PATH";
/// Parts of the names of libraries that Nsight Compute, Nsight Systems and Compute Sanitizer load into a process, in lower
/// case. Two users of CUPTI in one process break each other.
const PROFILERS: [&str; 4] = ["injection", "sanitizer", "cupti", "nsight"];

/// A profiler in this process, or one that will be loaded with its first context.
fn other_profiler() -> Option<String> {
    let announced = std::env::var_os(INJECTION).map(|path| path.to_string_lossy().into_owned());
    announced.or_else(|| profiler_in(&std::fs::read_to_string("/proc/self/maps").unwrap_or_default()))
}

/// The first profiler's library in the text of /proc/PID/maps.
fn profiler_in(maps: &str) -> Option<String> {
    let path = |line: &str| line.split_once('/').map(|(_, path)| format!("/{path}"));
    maps.lines().filter_map(path).find(|path| {
        let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
        name.contains(".so") && PROFILERS.iter().any(|part| name.contains(part))
    })
}

/// CUPTI, timing the kernels of this process.
pub struct Cupti {
    flush: unsafe extern "C" fn(c_uint) -> c_int,
    now: unsafe extern "C" fn(*mut u64) -> c_int,
    /// The launches of the current series, each from before the launch to after the wait for it.
    launches: RefCell<Vec<Span>>,
    /// Keeps the functions in memory.
    _library: Library,
}

impl Cupti {
    /// Loads CUPTI and lets it time all kernels of this process from now on. Call this before creating the first
    /// context. `toolkits` are roots of CUDA installations.
    ///
    /// # Errors
    /// CUPTI is not installed, is used by another profiler, or fails.
    pub fn start(toolkits: &[PathBuf]) -> Result<Self, ProfilerError> {
        if let Some(other) = other_profiler() {
            return Err(ProfilerError::OtherProfiler(other));
        }
        let (library, _) = library(toolkits)?;
        let missing = |error: libloading::Error| ProfilerError::MissingFunction(error.to_string());
        // SAFETY: the types are those of the header; the callbacks are functions that live as long as the process.
        unsafe {
            let register: unsafe extern "C" fn(Request, Complete) -> c_int =
                *library.get(b"cuptiActivityRegisterCallbacks\0").map_err(missing)?;
            let enable: unsafe extern "C" fn(c_int) -> c_int =
                *library.get(b"cuptiActivityEnable\0").map_err(missing)?;
            let next: NextRecord = *library.get(b"cuptiActivityGetNextRecord\0").map_err(missing)?;
            let flush = *library.get(b"cuptiActivityFlushAll\0").map_err(missing)?;
            let now = *library.get(b"cuptiGetTimestamp\0").map_err(missing)?;
            collected().next = Some(next);
            for (function, code) in
                [("cuptiActivityRegisterCallbacks", register(request, complete)), ("cuptiActivityEnable", enable(KIND))]
            {
                if code != CUPTI_SUCCESS {
                    let failure = ProfilerError::Call { function, code: code as u32, text: None };
                    return Err(ProfilerError::Taken(Box::new(failure)));
                }
            }
            Ok(Self { flush, now, launches: RefCell::default(), _library: library })
        }
    }

    /// The time now, ns, on the clock that times kernels.
    pub fn now(&self) -> u64 {
        let mut time = 0;
        // SAFETY: `time` is a valid place for the answer.
        unsafe { (self.now)(&mut time) };
        time
    }

    /// Notes a launch that began at `start` and that the host has waited for.
    pub fn launched(&self, start: u64) {
        self.launches.borrow_mut().push(Span { start, end: self.now() });
    }

    pub fn begin_series(&self) {
        self.launches.borrow_mut().clear();
        collected().kernels.clear();
    }

    /// The time of each launch since the series began, ns, in order. The device must be idle.
    ///
    /// # Errors
    /// A launch does not have exactly one kernel.
    pub fn end_series(&self) -> Result<Vec<u64>, ProfilerError> {
        // SAFETY: no pointers; the callbacks lock only while they read a buffer, and no lock is held here.
        unsafe { (self.flush)(0) };
        times(&self.launches.take(), &std::mem::take(&mut collected().kernels))
    }
}

/// The times of the launches' kernels, ns.
fn times(launches: &[Span], kernels: &[Span]) -> Result<Vec<u64>, ProfilerError> {
    let of = |(index, launch): (usize, &Span)| {
        let mut own = kernels.iter().filter(|kernel| (launch.start..=launch.end).contains(&kernel.start));
        match (own.next(), own.count()) {
            (Some(kernel), 0) => Ok(kernel.end - kernel.start),
            (None, _) => Err(ProfilerError::Kernels { kernels: 0, launch: index + 1 }),
            (_, further) => Err(ProfilerError::Kernels { kernels: further + 1, launch: index + 1 }),
        }
    };
    launches.iter().enumerate().map(of).collect()
}

const fn layout() -> Layout {
    match Layout::from_size_align(BUFFER, ALIGNMENT) {
        Ok(layout) => layout,
        Err(_) => panic!("the alignment is a power of two"),
    }
}

/// Called by CUPTI for memory; without it, CUPTI drops records.
unsafe extern "C" fn request(buffer: *mut *mut u8, size: *mut usize, most: *mut usize) {
    // SAFETY: CUPTI's places are valid; the layout is not empty. 0 stands for as many records as fit.
    unsafe {
        *buffer = alloc(layout());
        *size = if (*buffer).is_null() { 0 } else { BUFFER };
        *most = 0;
    }
}

/// Called by CUPTI to return a filled buffer.
unsafe extern "C" fn complete(_context: *mut c_void, _stream: c_uint, buffer: *mut u8, _size: usize, filled: usize) {
    let mut collected = collected();
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
            // CUPTI writes 0 if it could not measure the time.
            if start > 0 && end >= start {
                collected.kernels.push(Span { start, end });
            }
        }
    }
    // SAFETY: the buffer came from `request` with this layout, and CUPTI is done with it.
    unsafe { dealloc(buffer, layout()) };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Iterates over records of 32 bytes.
    unsafe extern "C" fn next(buffer: *mut u8, filled: usize, record: *mut *mut u8) -> c_int {
        // SAFETY: the test's buffer has `filled` bytes, and `record` is null or a record in it.
        unsafe {
            let at = if (*record).is_null() { buffer } else { (*record).add(32) };
            *record = at;
            if at.offset_from(buffer) as usize >= filled { 12 } else { CUPTI_SUCCESS }
        }
    }

    #[test]
    fn kernels_are_read_from_a_buffer() {
        let (mut buffer, mut size, mut most) = (null_mut(), 0, 1);
        // SAFETY: as CUPTI would call it.
        unsafe { request(&mut buffer, &mut size, &mut most) };
        assert_eq!((size, most), (BUFFER, 0));
        let records: [[u64; 4]; 4] = [
            [KIND as u64, 0, 100, 150],
            [KIND as u64, 0, 300, 307],
            // A record of another kind, and one without times.
            [1, 0, 900, 999],
            [KIND as u64, 0, 0, 0],
        ];
        let words = records.as_flattened();
        // SAFETY: the buffer is larger than the records and aligned.
        unsafe { std::ptr::copy_nonoverlapping(words.as_ptr(), buffer.cast(), words.len()) };
        collected().next = Some(next);
        // SAFETY: as CUPTI would call it.
        unsafe { complete(null_mut(), 0, buffer, size, words.len() * 8) };
        assert_eq!(collected().kernels, [span(100, 150), span(300, 307)]);
    }

    fn span(start: u64, end: u64) -> Span {
        Span { start, end }
    }

    #[test]
    fn a_profilers_library_is_found_by_its_name() {
        let line = |path: &str| format!("7f00-7f10 r-xp 00000000 fe:00 42                 {path}\n");
        let usual = line("/usr/lib/libc.so.6") + &line("[heap]") + &line("/opt/nsight/report.txt") + &line("");
        assert_eq!(profiler_in(&usual), None);
        let proxy = "/opt/nvidia/nsight-compute/target/libInterceptorInjectionTarget.so";
        assert_eq!(profiler_in(&(usual + &line(proxy))).as_deref(), Some(proxy));
    }

    #[test]
    fn a_launch_has_the_time_of_the_one_kernel_that_starts_during_it() {
        let launches = [span(90, 160), span(290, 320)];
        let between = span(200, 210);
        assert_eq!(times(&launches, &[span(300, 307), between, span(100, 150)]), Ok(vec![50, 7]));
        assert!(times(&launches, &[span(100, 150), between]).is_err(), "the second has none");
        assert!(times(&launches, &[span(100, 150), span(120, 130), span(300, 307)]).is_err(), "the first has two");
        assert_eq!(times(&[], &[between]), Ok(Vec::new()));
    }
}
