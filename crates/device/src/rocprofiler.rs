//! Kernel times from rocprofiler-sdk, AMD's profiling library, if it is installed.
//!
//! The library notes the start and end of each kernel on the device. Events are commands around the kernel, so they
//! also measure their own time. To tell a launch from other work on the device (copies are kernels, too), the launching
//! thread pushes a number during the launch, and the kernel's record returns it.
//!
//! A thread of the library writes the record after the device has reported the kernel as done. At the end of a series
//! the buffer is flushed until each launch has its record, or until a time limit. If a launch has no record or two (a
//! cooperative launch may have two kernels), the whole series uses its events.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::null;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::error::ProfilerError;
use crate::library;

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use mneme_abi::hip::rocprofiler::*;

/// Names the library to load, if the linker does not find it.
pub const LIBRARY_VARIABLE: &str = "MNEME_ROCPROFILER_LIBRARY";
/// The libraries that come with `libamdhip64.so.7` and `….6`.
const OF_HIP: [(&str, &str); 2] = [(".so.7", "librocprofiler-sdk.so.1"), (".so.6", "librocprofiler-sdk.so.0")];

/// The first version with all called functions, and the last major version with known records.
const OLDEST: (u32, u32) = (0, 4);
const LAST_MAJOR: u32 = 1;

/// Room for several thousand records, and the fill level at which the library empties the buffer by itself.
const BUFFER: usize = 1 << 20;
const WATERMARK: usize = BUFFER / 8 * 7;

/// The time limit for a record after its kernel's end, and the pause between two checks.
const LATEST: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(1);

macro_rules! functions {
    ($($name:ident: $symbol:ident,)*) => {
        #[derive(Clone, Copy)]
        struct Functions {
            $($name: pointers::$symbol,)*
        }

        impl Functions {
            fn of(library: &Library) -> Result<Self, ProfilerError> {
                let missing = |error: libloading::Error| ProfilerError::MissingFunction(error.to_string());
                // SAFETY: the library's ABI fixes the types of the functions with these names; it is never unloaded.
                unsafe {
                    Ok(Self {
                        $($name: *library.get(stringify!($symbol).as_bytes()).map_err(missing)?,)*
                    })
                }
            }
        }
    };
}

functions! {
    status_text: rocprofiler_get_status_string,
    version: rocprofiler_get_version,
    force_configure: rocprofiler_force_configure,
    create_context: rocprofiler_create_context,
    start_context: rocprofiler_start_context,
    stop_context: rocprofiler_stop_context,
    create_buffer: rocprofiler_create_buffer,
    flush_buffer: rocprofiler_flush_buffer,
    destroy_buffer: rocprofiler_destroy_buffer,
    configure_tracing: rocprofiler_configure_buffer_tracing_service,
    thread_id: rocprofiler_get_thread_id,
    push: rocprofiler_push_external_correlation_id,
    pop: rocprofiler_pop_external_correlation_id,
}

impl Functions {
    /// Turns a returned status into a result.
    fn check(&self, function: &'static str, status: Status) -> Result<(), ProfilerError> {
        if status == Status::SUCCESS {
            return Ok(());
        }
        // SAFETY: any number may be asked for; the answer is a constant or null.
        let text = unsafe {
            let text = (self.status_text)(status);
            if text.is_null() { "no description".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        Err(ProfilerError::Call { function, code: status.0, text: Some(text.into_owned()) })
    }

    /// Checks that the version's records are known.
    fn check_version(&self) -> Result<(), ProfilerError> {
        let (mut major, mut minor, mut patch): (c_uint, c_uint, c_uint) = (0, 0, 0);
        // SAFETY: the places are valid for the answers.
        let status = unsafe { (self.version)(&mut major, &mut minor, &mut patch) };
        self.check("rocprofiler_get_version", status)?;
        let found = (major, minor, patch);
        if (major, minor) < OLDEST {
            return Err(ProfilerError::OldVersion { found, oldest: OLDEST });
        }
        if major > LAST_MAJOR {
            return Err(ProfilerError::NewVersion { found, last: LAST_MAJOR });
        }
        Ok(())
    }
}

/// The library's objects that this tool creates during configuration.
#[derive(Clone, Copy)]
struct Session {
    context: ContextId,
    buffer: BufferId,
}

/// State shared with the callbacks. A process has one such library.
struct Shared {
    functions: Option<Functions>,
    /// The result of configuring; `None` before that.
    session: Option<Result<Session, ProfilerError>>,
    /// The number of the current series' first launch; 0 for no series.
    first: u64,
    kernels: Vec<Kernel>,
    /// Records dropped for lack of space, since the start of the process.
    dropped: u64,
    /// The reason for unreadable records.
    unreadable: Option<ProfilerError>,
}

static SHARED: Mutex<Shared> =
    Mutex::new(Shared { functions: None, session: None, first: 0, kernels: Vec::new(), dropped: 0, unreadable: None });
/// Signals new records.
static ARRIVED: Condvar = Condvar::new();

fn shared() -> MutexGuard<'static, Shared> {
    SHARED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The contents of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Kernel {
    launch: u64,
    agent: u64,
    start: u64,
    end: u64,
}

/// A configured rocprofiler-sdk.
pub struct Rocprofiler {
    functions: Functions,
    session: Session,
    /// The library's name for the launching thread.
    thread: u64,
    /// Number of the last launch of a series.
    last: Cell<u64>,
    /// Numbers of the current series' launches that have ended.
    series: RefCell<Option<Vec<u64>>>,
    /// The reason for timing no further series.
    lost: RefCell<Option<ProfilerError>>,
}

/// A launch in progress, until this is dropped.
pub struct Tagged<'a> {
    profiler: &'a Rocprofiler,
    number: u64,
}

impl Rocprofiler {
    /// Loads the library that belongs to this HIP library, and lets it note the kernels of this process. Call this
    /// before any function of HIP.
    ///
    /// # Errors
    /// The library cannot time kernels; the error tells the reason.
    pub fn start(hip: &Path) -> Result<Self, ProfilerError> {
        let library = load(hip)?;
        let functions = Functions::of(&library);
        // The library has threads, and HIP calls it from now on, so it must stay loaded.
        std::mem::forget(library);
        let refused = |why| ProfilerError::Rocprofiler(Box::new(why));
        Self::configure(functions.map_err(refused)?).map_err(refused)
    }

    fn configure(functions: Functions) -> Result<Self, ProfilerError> {
        functions.check_version()?;
        shared().functions = Some(functions);
        // SAFETY: the callback is a static function.
        let status = unsafe { (functions.force_configure)(Some(configure)) };
        functions.check("rocprofiler_force_configure", status)?;
        let session = shared().session.clone().unwrap_or(Err(ProfilerError::NotConfigured))?;
        let mut thread = 0;
        // SAFETY: the place is valid for the answer.
        functions.check("rocprofiler_get_thread_id", unsafe { (functions.thread_id)(&mut thread) })?;
        Ok(Self {
            functions,
            session,
            thread,
            last: Cell::new(0),
            series: RefCell::new(None),
            lost: RefCell::new(None),
        })
    }

    /// Begins to note launches.
    pub fn begin_series(&self) {
        self.abandon_series();
        if self.lost.borrow().is_some() {
            return;
        }
        {
            let mut shared = shared();
            shared.first = self.last.get() + 1;
            shared.kernels.clear();
        }
        // SAFETY: no pointers.
        let status = unsafe { (self.functions.start_context)(self.session.context) };
        match self.functions.check("rocprofiler_start_context", status) {
            Ok(()) => *self.series.borrow_mut() = Some(Vec::new()),
            Err(why) => *self.lost.borrow_mut() = Some(why),
        }
    }

    /// Numbers launches until the result is dropped; `None` outside a series.
    pub fn tag(&self) -> Option<Tagged<'_>> {
        self.series.borrow().as_ref()?;
        let number = self.last.get() + 1;
        self.last.set(number);
        // SAFETY: no pointers.
        let status = unsafe { (self.functions.push)(self.session.context, self.thread, UserData { value: number }) };
        match self.functions.check("rocprofiler_push_external_correlation_id", status) {
            Ok(()) => Some(Tagged { profiler: self, number }),
            Err(why) => {
                self.lost.borrow_mut().get_or_insert(why);
                None
            }
        }
    }

    /// Ends the series and returns the time of each of its finished launches, ns, in order.
    ///
    /// # Errors
    /// The times are unknown; the error tells the reason.
    pub fn end_series(&self) -> Result<Vec<u64>, ProfilerError> {
        let launches = self.series.take();
        if let Some(why) = self.lost.borrow().as_ref() {
            self.stop(launches.is_some());
            return Err(why.clone());
        }
        let launches = launches.unwrap_or_default();
        self.wait_for(launches.len());
        self.stop(true);
        // A duplicate record comes with the last flush.
        let flushed = self.flush();
        let (kernels, dropped, unreadable) = {
            let mut shared = shared();
            shared.first = 0;
            (std::mem::take(&mut shared.kernels), shared.dropped, shared.unreadable.clone())
        };
        let times = match unreadable.map_or(flushed, Err) {
            Ok(()) => times(&launches, &kernels, dropped),
            Err(why) => Err(why),
        };
        if times.is_err() && kernels.is_empty() && !launches.is_empty() {
            // Later series would not get records either, and each would wait for them.
            *self.lost.borrow_mut() = times.as_ref().err().cloned();
        }
        times
    }

    /// Abandons a series that did not reach its end.
    fn abandon_series(&self) {
        if self.series.take().is_some() {
            self.stop(true);
        }
    }

    /// Waits for records of `count` kernels, up to the time limit.
    fn wait_for(&self, count: usize) {
        let end = Instant::now() + LATEST;
        while self.flush().is_ok() {
            let shared = shared();
            let done = |shared: &Shared| shared.kernels.len() >= count || shared.unreadable.is_some();
            if done(&shared) || Instant::now() >= end {
                return;
            }
            // New records go to the buffer, which must be flushed again.
            drop(ARRIVED.wait_timeout_while(shared, PAUSE, |shared| !done(shared)));
        }
    }

    fn flush(&self) -> Result<(), ProfilerError> {
        // SAFETY: no pointers; no lock is held, which the callback takes.
        let status = unsafe { (self.functions.flush_buffer)(self.session.buffer) };
        self.functions.check("rocprofiler_flush_buffer", status)
    }

    fn stop(&self, started: bool) {
        if started {
            // If the context cannot be stopped, it only notes kernels that are ignored.
            // SAFETY: no pointers.
            let _ = unsafe { (self.functions.stop_context)(self.session.context) };
        }
    }
}

impl Tagged<'_> {
    /// Notes that the launch has ended successfully.
    pub fn ended(self) {
        if let Some(series) = self.profiler.series.borrow_mut().as_mut() {
            series.push(self.number);
        }
    }
}

impl Drop for Tagged<'_> {
    fn drop(&mut self) {
        let Rocprofiler { functions, session, thread, .. } = self.profiler;
        let mut popped = UserData::default();
        // SAFETY: the place is valid for the answer.
        let status = unsafe { (functions.pop)(session.context, *thread, &mut popped) };
        let known = functions.check("rocprofiler_pop_external_correlation_id", status);
        if let Err(why) = known {
            self.profiler.lost.borrow_mut().get_or_insert(why);
        }
    }
}

impl Drop for Rocprofiler {
    fn drop(&mut self) {
        self.abandon_series();
        let _ = self.flush();
        // SAFETY: no pointers; the context is stopped, and what is still on its way finds no buffer.
        let _ = unsafe { (self.functions.destroy_buffer)(self.session.buffer) };
    }
}

/// Loads the library that the variable names, or the one that comes with this HIP library.
fn load(hip: &Path) -> Result<Library, ProfilerError> {
    let name = match library::named(LIBRARY_VARIABLE) {
        Some(named) => {
            library::check(LIBRARY_VARIABLE, &named)?;
            named
        }
        None => name_for(hip).ok_or_else(|| ProfilerError::UnknownHip(hip.into()))?.into(),
    };
    // HIP notifies the profiling library that it finds among the process's global symbols; otherwise it would load
    // another one.
    // SAFETY: the constructors of the vendor's library are made to run when a process loads it.
    unsafe { Library::open(Some(&name), RTLD_NOW | RTLD_GLOBAL) }.map_err(|error| {
        let why = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
        ProfilerError::NotInstalled { library: name.clone(), why }
    })
}

/// HIP and the profiling library share tables, so they must be of the same release.
fn name_for(hip: &Path) -> Option<&'static str> {
    let file = hip.file_name()?.to_string_lossy();
    OF_HIP.iter().find(|(version, _)| file.contains(version)).map(|(_, name)| *name)
}

/// The time of each launch, from its one kernel.
fn times(launches: &[u64], kernels: &[Kernel], dropped: u64) -> Result<Vec<u64>, ProfilerError> {
    let of = |launch: &u64| kernels.iter().filter(|kernel| kernel.launch == *launch).collect::<Vec<_>>();
    let found: Vec<Vec<&Kernel>> = launches.iter().map(of).collect();
    let number: usize = found.iter().map(Vec::len).sum();
    if found.iter().any(|kernels| kernels.len() != 1) {
        return Err(ProfilerError::Records { kernels: number, launches: launches.len(), dropped });
    }
    let kernels: Vec<&Kernel> = found.concat();
    if kernels.iter().any(|kernel| kernel.agent != kernels[0].agent) {
        return Err(ProfilerError::SeveralDevices);
    }
    let time = |kernel: &&Kernel| (kernel.start > 0).then(|| kernel.end.checked_sub(kernel.start)).flatten();
    kernels.iter().map(|kernel| time(kernel).ok_or(ProfilerError::NoTimes)).collect()
}

/// Called by the library to configure this tool.
unsafe extern "C" fn configure(_: c_uint, _: *const c_char, _: c_uint, _: *mut c_void) -> *const ToolConfiguration {
    static CONFIGURATION: ToolConfiguration = ToolConfiguration {
        size: size_of::<ToolConfiguration>(),
        initialize: Some(initialize),
        finalize: None,
        data: std::ptr::null_mut(),
    };
    &CONFIGURATION
}

/// Called by the library to let this tool create its context.
unsafe extern "C" fn initialize(_: *mut c_void, _: *mut c_void) -> c_int {
    // A panic must not unwind into the library.
    let made = catch_unwind(|| {
        let functions = shared().functions;
        let session = functions.ok_or(ProfilerError::NotConfigured).and_then(make_session);
        let is_made = session.is_ok();
        shared().session = Some(session);
        is_made
    });
    if made.unwrap_or(false) { 0 } else { -1 }
}

/// Creates a context that notes kernels in a buffer.
fn make_session(functions: Functions) -> Result<Session, ProfilerError> {
    let (mut context, mut buffer) = (ContextId::default(), BufferId::default());
    // SAFETY: the places are valid for the results, and initialised to 0 as the library requires; the callback is a
    // static function.
    unsafe {
        functions.check("rocprofiler_create_context", (functions.create_context)(&mut context))?;
        functions.check(
            "rocprofiler_create_buffer",
            (functions.create_buffer)(
                context,
                BUFFER,
                WATERMARK,
                POLICY_LOSSLESS,
                Some(take),
                std::ptr::null_mut(),
                &mut buffer,
            ),
        )?;
        functions.check(
            "rocprofiler_configure_buffer_tracing_service",
            (functions.configure_tracing)(context, KERNEL_DISPATCH, null(), 0, buffer),
        )?;
    }
    Ok(Session { context, buffer })
}

/// Called by the library with records.
unsafe extern "C" fn take(
    _: ContextId,
    _: BufferId,
    headers: *mut *mut RecordHeader,
    count: usize,
    _: *mut c_void,
    dropped: u64,
) {
    // A panic must not unwind into the library.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        let mut shared = shared();
        shared.dropped = dropped;
        for index in 0..count {
            // SAFETY: the library gives so many headers, each of a record that is there until this returns.
            let read = unsafe {
                let header = headers.add(index).read();
                let is_kernel = (*header).category == CATEGORY_TRACING && (*header).kind == KERNEL_DISPATCH;
                if is_kernel { read((*header).payload.cast()) } else { continue }
            };
            match read {
                Ok(kernel) if shared.first > 0 && kernel.launch >= shared.first => shared.kernels.push(kernel),
                Ok(_) => {}
                Err(why) => {
                    shared.unreadable.get_or_insert(why);
                }
            }
        }
        ARRIVED.notify_all();
    }));
}

/// Reads a kernel's record, which may be longer than the known one.
///
/// # Safety
/// The record is as long as its size field states, at least 8 bytes.
unsafe fn read(record: *const u8) -> Result<Kernel, ProfilerError> {
    const KNOWN: usize = size_of::<DispatchRecord>();
    const RESERVED: usize = std::mem::offset_of!(DispatchInfo, reserved);
    // SAFETY: as the caller promises.
    let size = unsafe { record.cast::<u64>().read_unaligned() };
    if size < KNOWN as u64 {
        return Err(ProfilerError::ShortRecord { found: size, needed: KNOWN });
    }
    // SAFETY: it is as long, and all values are valid.
    let record = unsafe { record.cast::<DispatchRecord>().read_unaligned() };
    // The inner structure also states its size, which reveals fields inserted before it.
    let inner = record.dispatch.size;
    if record.kind != KERNEL_DISPATCH
        || record.operation != DISPATCH_COMPLETE
        || !(RESERVED as u64..=size_of::<DispatchInfo>() as u64).contains(&inner)
    {
        return Err(ProfilerError::RecordLayout(size));
    }
    Ok(Kernel { launch: record.external.value, agent: record.dispatch.agent, start: record.start, end: record.end })
}

#[cfg(test)]
mod tests {
    use mneme_abi::hip::types::Dimensions;

    use super::*;

    fn record(launch: u64) -> DispatchRecord {
        DispatchRecord {
            size: size_of::<DispatchRecord>() as u64,
            kind: KERNEL_DISPATCH,
            operation: DISPATCH_COMPLETE,
            internal: 7,
            external: UserData { value: launch },
            thread: 1,
            start: 1000,
            end: 1000 + launch,
            dispatch: DispatchInfo {
                size: 72,
                agent: 5,
                queue: 1,
                kernel: 2,
                dispatch: 3,
                private_segment: 0,
                group_segment: 0,
                workgroup: Dimensions::default(),
                grid: Dimensions::default(),
                reserved: [0; 56],
            },
        }
    }

    fn kernel(launch: u64) -> Kernel {
        Kernel { launch, agent: 5, start: 1000, end: 1000 + launch }
    }

    /// Copies the record's bytes to an odd address, with others behind it.
    fn read_at_odd_address(record: &DispatchRecord, behind: usize) -> Result<Kernel, ProfilerError> {
        let mut bytes = vec![0xee_u8; 1 + size_of::<DispatchRecord>() + behind];
        // SAFETY: the bytes are as many; the record is plain data.
        unsafe { bytes.as_mut_ptr().add(1).cast::<DispatchRecord>().write_unaligned(*record) };
        // SAFETY: the record is as long as it says, or shorter than is known and not read further.
        unsafe { read(bytes.as_ptr().add(1)) }
    }

    #[test]
    fn records_may_be_longer_and_not_shorter() {
        assert_eq!(read_at_odd_address(&record(9), 0), Ok(kernel(9)));
        let longer = DispatchRecord { size: 200, ..record(9) };
        assert_eq!(read_at_odd_address(&longer, 16), Ok(kernel(9)));
        let shorter = DispatchRecord { size: 100, ..record(9) };
        let error = ProfilerError::ShortRecord { found: 100, needed: 184 };
        assert_eq!(read_at_odd_address(&shorter, 0), Err(error));
    }

    #[test]
    fn a_field_in_the_middle_is_found() {
        // A correlation of three numbers moves the rest by eight bytes: the end is then at the old place of the inner
        // size.
        let mut moved = DispatchRecord { size: 192, ..record(9) };
        moved.dispatch.size = moved.end;
        assert_eq!(read_at_odd_address(&moved, 8), Err(ProfilerError::RecordLayout(192)));
        for wrong in [DispatchRecord { kind: 10, ..record(9) }, DispatchRecord { operation: 1, ..record(9) }] {
            assert!(matches!(read_at_odd_address(&wrong, 0), Err(ProfilerError::RecordLayout(_))));
        }
    }

    #[test]
    fn times_are_those_of_the_launches_in_their_order() {
        let kernels = [kernel(4), kernel(2), kernel(3)];
        assert_eq!(times(&[2, 3, 4], &kernels, 0), Ok(vec![2, 3, 4]));
        assert_eq!(times(&[2, 4], &kernels, 0), Ok(vec![2, 4]), "a launch that failed is none of the series");
        assert_eq!(times(&[], &[], 0), Ok(Vec::new()));
        use ProfilerError::{NoTimes, Records, SeveralDevices};
        for (launches, kernels, dropped, expected) in [
            (&[2, 3][..], &[kernel(2)][..], 0, Records { kernels: 1, launches: 2, dropped: 0 }),
            (&[2, 3], &[kernel(2)], 6, Records { kernels: 1, launches: 2, dropped: 6 }),
            (&[2, 3], &[kernel(2), kernel(2)], 0, Records { kernels: 2, launches: 2, dropped: 0 }),
            (&[2], &[kernel(2), kernel(2)], 0, Records { kernels: 2, launches: 1, dropped: 0 }),
            (&[2, 3], &[kernel(2), Kernel { agent: 6, ..kernel(3) }], 0, SeveralDevices),
            (&[2], &[Kernel { start: 0, ..kernel(2) }], 0, NoTimes),
            (&[2], &[Kernel { end: 999, ..kernel(2) }], 0, NoTimes),
        ] {
            assert_eq!(times(launches, kernels, dropped), Err(expected));
        }
    }

    #[test]
    fn each_hip_has_its_own() {
        let of = |hip: &str| name_for(Path::new(hip));
        assert_eq!(of("libamdhip64.so.7"), Some("librocprofiler-sdk.so.1"));
        assert_eq!(of("/opt/rocm-6.3.0/lib/libamdhip64.so.6.3.60300"), Some("librocprofiler-sdk.so.0"));
        assert_eq!((of("libamdhip64.so.5"), of("/somewhere/library.so")), (None, None));
    }
}
