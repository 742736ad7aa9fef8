//! Right and wrong calls of the profiling library.

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use mneme_abi::hip::rocprofiler::*;
use mneme_abi::hip::types::{CUdeviceptr, CUfunction, CUmodule};

use crate::done;
use crate::library::Hip;
use crate::mistakes::Mistake;
use crate::right::{function, malloc, module};

const BUFFER: usize = 4096;

/// Calls a function with its declared type.
macro_rules! call {
    ($hip:expr, $name:ident($($argument:expr),*)) => {{
        // SAFETY: the type is the function's.
        let function: pointers::$name = unsafe { $hip.function(stringify!($name)) };
        // SAFETY: the test is about these arguments, and the stand-in checks them before any effect.
        #[allow(clippy::macro_metavars_in_unsafe, reason = "arguments are expressions of tests, and safe")]
        unsafe {
            function($($argument),*)
        }
    }};
}

/// The same for a call that must succeed.
macro_rules! right {
    ($hip:expr, $name:ident($($argument:expr),*)) => {
        assert_eq!(call!($hip, $name($($argument),*)), Status::SUCCESS, stringify!($name))
    };
}

type Tool = (fn(&Hip), usize);
/// The code to run while the tool is initialised, and the address of the library.
static TOOL: Mutex<Option<Tool>> = Mutex::new(None);
/// The context and the buffer that the tool created.
static MADE: Mutex<Option<(ContextId, BufferId)>> = Mutex::new(None);
/// Launch and time of the kernels in the delivered records.
static TOLD: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

unsafe extern "C" fn initialize(_: *mut c_void, _: *mut c_void) -> c_int {
    let (run, hip) = TOOL.lock().unwrap().expect("the tool is known");
    // SAFETY: the library outlives the call.
    run(unsafe { &*(hip as *const Hip) });
    0
}

/// A function that returns a configuration.
macro_rules! tool {
    ($name:ident, $configuration:expr) => {
        unsafe extern "C" fn $name(_: c_uint, _: *const c_char, _: c_uint, _: *mut c_void) -> *const ToolConfiguration {
            static CONFIGURATION: ToolConfiguration = $configuration;
            &CONFIGURATION
        }
    };
}

const PROPER: ToolConfiguration = ToolConfiguration {
    size: size_of::<ToolConfiguration>(),
    initialize: Some(initialize),
    finalize: None,
    data: null_mut(),
};

tool!(configure, PROPER);
tool!(configure_too_short, ToolConfiguration { size: 8, ..PROPER });
tool!(configure_without, ToolConfiguration { initialize: None, ..PROPER });

/// Changes the second number of the client's structure: its handle in version 0, its size in version 1.
unsafe extern "C" fn configure_and_meddle(
    _: c_uint,
    _: *const c_char,
    _: c_uint,
    client: *mut c_void,
) -> *const ToolConfiguration {
    // SAFETY: the structure begins with a number or an address.
    unsafe { client.cast::<u64>().write(1) };
    &PROPER
}

/// Configures a tool that runs this during its initialisation.
fn with(hip: &Hip, run: fn(&Hip)) {
    *TOOL.lock().unwrap() = Some((run, std::ptr::from_ref(hip) as usize));
    call!(hip, rocprofiler_force_configure(Some(configure)));
}

fn context(hip: &Hip) -> ContextId {
    let mut context = ContextId::default();
    right!(hip, rocprofiler_create_context(&mut context));
    context
}

fn buffer(hip: &Hip, context: ContextId) -> BufferId {
    let mut buffer = BufferId::default();
    right!(
        hip,
        rocprofiler_create_buffer(context, BUFFER, BUFFER, POLICY_DISCARD, Some(take), null_mut(), &mut buffer)
    );
    buffer
}

fn make(hip: &Hip) {
    let context = context(hip);
    let buffer = buffer(hip, context);
    right!(hip, rocprofiler_configure_buffer_tracing_service(context, KERNEL_DISPATCH, null(), 0, buffer));
    *MADE.lock().unwrap() = Some((context, buffer));
}

/// A context that notes kernels, and its buffer.
fn made(hip: &Hip) -> (ContextId, BufferId) {
    with(hip, make);
    MADE.lock().unwrap().expect("the tool was initialised")
}

fn own_thread(hip: &Hip) -> u64 {
    let mut thread = 0;
    right!(hip, rocprofiler_get_thread_id(&mut thread));
    thread
}

unsafe extern "C" fn take(
    _: ContextId,
    _: BufferId,
    headers: *mut *mut RecordHeader,
    count: usize,
    _: *mut c_void,
    _: u64,
) {
    for index in 0..count {
        // SAFETY: there are this many headers, each for a record.
        unsafe {
            let header = headers.add(index).read().read();
            if (header.category, header.kind) == (CATEGORY_TRACING, KERNEL_DISPATCH) {
                let record = header.payload.cast::<DispatchRecord>().read_unaligned();
                TOLD.lock().unwrap().push((record.external.value, record.end - record.start));
            }
        }
    }
}

/// Requests records from within their delivery.
unsafe extern "C" fn take_more(
    _: ContextId,
    buffer: BufferId,
    _: *mut *mut RecordHeader,
    _: usize,
    _: *mut c_void,
    _: u64,
) {
    let (_, hip) = TOOL.lock().unwrap().expect("the tool is known");
    // SAFETY: the library outlives the call.
    let hip = unsafe { &*(hip as *const Hip) };
    call!(hip, rocprofiler_flush_buffer(buffer));
}

/// A kernel without effect: it counts to 0.
struct Kernel {
    module: CUmodule,
    function: CUfunction,
    memory: CUdeviceptr,
}

impl Kernel {
    fn load(hip: &Hip) -> Self {
        let memory = malloc(hip, 400);
        let module = module(hip);
        Self { module, function: function(hip, module), memory }
    }

    fn launch(&self, hip: &Hip) {
        let (mut to, mut from, mut count) = (self.memory, self.memory, 0_u32);
        let mut places: [*mut c_void; 3] = [(&raw mut to).cast(), (&raw mut from).cast(), (&raw mut count).cast()];
        let places = places.as_mut_ptr();
        done!(hip, hipModuleLaunchKernel(self.function, 1, 1, 1, 64, 1, 1, 0, null_mut(), places, null_mut()));
        done!(hip, hipStreamSynchronize(null_mut()));
    }

    fn unload(self, hip: &Hip) {
        done!(hip, hipModuleUnload(self.module));
        done!(hip, hipFree(self.memory));
    }
}

/// Two launches with numbers, one without, and their records.
pub fn everything(hip: &Hip) {
    let (context, buffer) = made(hip);
    let thread = own_thread(hip);
    let (mut major, mut minor) = (0, 0);
    right!(hip, rocprofiler_get_version(&mut major, &mut minor, null_mut()));
    assert_eq!((major, minor), (1, 1));
    let kernel = Kernel::load(hip);
    kernel.launch(hip);
    right!(hip, rocprofiler_start_context(context));
    for number in [41, 42] {
        right!(hip, rocprofiler_push_external_correlation_id(context, thread, UserData { value: number }));
        kernel.launch(hip);
        let mut popped = UserData::default();
        right!(hip, rocprofiler_pop_external_correlation_id(context, thread, &mut popped));
        assert_eq!(popped.value, number);
    }
    kernel.launch(hip);
    // Records arrive late, so there are none at first.
    right!(hip, rocprofiler_flush_buffer(buffer));
    let end = Instant::now() + Duration::from_secs(5);
    let numbered = || TOLD.lock().unwrap().iter().filter(|(launch, _)| *launch > 0).count();
    while numbered() < 2 && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
        right!(hip, rocprofiler_flush_buffer(buffer));
    }
    right!(hip, rocprofiler_stop_context(context));
    right!(hip, rocprofiler_flush_buffer(buffer));
    right!(hip, rocprofiler_destroy_buffer(buffer));
    let mut told: Vec<(u64, u64)> = TOLD.lock().unwrap().iter().copied().filter(|(launch, _)| *launch > 0).collect();
    told.sort_unstable();
    // The kernel before the start is missing.
    assert_eq!(told, [(41, 10_001), (42, 10_002)]);
    kernel.unload(hip);
}

pub fn leave_something(hip: &Hip) {
    let (context, _) = made(hip);
    right!(hip, rocprofiler_start_context(context));
    right!(hip, rocprofiler_push_external_correlation_id(context, own_thread(hip), UserData { value: 1 }));
    let address = malloc(hip, 100);
    done!(hip, hipFree(address));
}

pub const MISTAKES: &[Mistake] = &[
    ("rocprofiler_force_configure", "HIP was called before", |hip| {
        done!(hip, hipInit(0));
        call!(hip, rocprofiler_force_configure(Some(configure)));
    }),
    ("rocprofiler_force_configure", "no function is given", |hip| {
        call!(hip, rocprofiler_force_configure(None));
    }),
    ("rocprofiler_force_configure", "it was configured before", |hip| {
        made(hip);
        call!(hip, rocprofiler_force_configure(Some(configure)));
    }),
    ("rocprofiler_force_configure", "says that it has 8 bytes", |hip| {
        call!(hip, rocprofiler_force_configure(Some(configure_too_short)));
    }),
    ("rocprofiler_force_configure", "no function to initialise", |hip| {
        call!(hip, rocprofiler_force_configure(Some(configure_without)));
    }),
    ("rocprofiler_force_configure", "has changed its own handle or the size", |hip| {
        call!(hip, rocprofiler_force_configure(Some(configure_and_meddle)));
    }),
    ("rocprofiler_create_context", "only be called while the tool is initialised", |hip| {
        call!(hip, rocprofiler_create_context(&mut ContextId::default()));
    }),
    ("rocprofiler_create_context", "the place for the context is null", |hip| {
        with(hip, |hip| {
            call!(hip, rocprofiler_create_context(null_mut()));
        });
    }),
    ("rocprofiler_create_context", "holds 5, and not 0", |hip| {
        with(hip, |hip| {
            call!(hip, rocprofiler_create_context(&mut ContextId { handle: 5 }));
        });
    }),
    ("rocprofiler_create_buffer", "17 is no context", |hip| {
        with(hip, |hip| {
            let none = ContextId { handle: 17 };
            let place = &mut BufferId::default();
            call!(hip, rocprofiler_create_buffer(none, BUFFER, 0, POLICY_LOSSLESS, Some(take), null_mut(), place));
        });
    }),
    ("rocprofiler_create_buffer", "100 bytes have no room for a record", |hip| {
        with(hip, |hip| {
            let place = &mut BufferId::default();
            call!(hip, rocprofiler_create_buffer(context(hip), 100, 0, POLICY_LOSSLESS, Some(take), null_mut(), place));
        });
    }),
    ("rocprofiler_create_buffer", "are never reached", |hip| {
        with(hip, |hip| {
            let place = &mut BufferId::default();
            let policy = POLICY_LOSSLESS;
            call!(hip, rocprofiler_create_buffer(context(hip), BUFFER, 5000, policy, Some(take), null_mut(), place));
        });
    }),
    ("rocprofiler_create_buffer", "0 is no policy", |hip| {
        with(hip, |hip| {
            let place = &mut BufferId::default();
            call!(hip, rocprofiler_create_buffer(context(hip), BUFFER, 0, 0, Some(take), null_mut(), place));
        });
    }),
    ("rocprofiler_create_buffer", "no function to give records to", |hip| {
        with(hip, |hip| {
            let place = &mut BufferId::default();
            call!(hip, rocprofiler_create_buffer(context(hip), BUFFER, 0, POLICY_DISCARD, None, null_mut(), place));
        });
    }),
    ("rocprofiler_create_buffer", "holds 5, and not 0", |hip| {
        with(hip, |hip| {
            let place = &mut BufferId { handle: 5 };
            let policy = POLICY_LOSSLESS;
            call!(hip, rocprofiler_create_buffer(context(hip), BUFFER, 0, policy, Some(take), null_mut(), place));
        });
    }),
    ("rocprofiler_create_buffer", "only be called while the tool is initialised", |hip| {
        let (context, _) = made(hip);
        let place = &mut BufferId::default();
        call!(hip, rocprofiler_create_buffer(context, BUFFER, 0, POLICY_LOSSLESS, Some(take), null_mut(), place));
    }),
    ("rocprofiler_configure_buffer_tracing_service", "17 is no buffer", |hip| {
        with(hip, |hip| {
            let none = BufferId { handle: 17 };
            let context = context(hip);
            call!(hip, rocprofiler_configure_buffer_tracing_service(context, KERNEL_DISPATCH, null(), 0, none));
        });
    }),
    ("rocprofiler_configure_buffer_tracing_service", "is that of context", |hip| {
        with(hip, |hip| {
            let of_first = buffer(hip, context(hip));
            let second = context(hip);
            call!(hip, rocprofiler_configure_buffer_tracing_service(second, KERNEL_DISPATCH, null(), 0, of_first));
        });
    }),
    ("rocprofiler_configure_buffer_tracing_service", "of kind 12 are not served", |hip| {
        with(hip, |hip| {
            let context = context(hip);
            let buffer = buffer(hip, context);
            call!(hip, rocprofiler_configure_buffer_tracing_service(context, 12, null(), 0, buffer));
        });
    }),
    ("rocprofiler_configure_buffer_tracing_service", "do not go with their array", |hip| {
        with(hip, |hip| {
            let context = context(hip);
            let buffer = buffer(hip, context);
            call!(hip, rocprofiler_configure_buffer_tracing_service(context, KERNEL_DISPATCH, null(), 2, buffer));
        });
    }),
    ("rocprofiler_configure_buffer_tracing_service", "are asked for already", |hip| {
        with(hip, |hip| {
            make(hip);
            let (context, buffer) = MADE.lock().unwrap().unwrap();
            call!(hip, rocprofiler_configure_buffer_tracing_service(context, KERNEL_DISPATCH, null(), 0, buffer));
        });
    }),
    ("rocprofiler_start_context", "has no services", |hip| {
        with(hip, |hip| {
            call!(hip, rocprofiler_start_context(context(hip)));
        });
    }),
    ("rocprofiler_start_context", "is started already", |hip| {
        let (context, _) = made(hip);
        right!(hip, rocprofiler_start_context(context));
        call!(hip, rocprofiler_start_context(context));
    }),
    ("rocprofiler_start_context", "17 is no context", |hip| {
        call!(hip, rocprofiler_start_context(ContextId { handle: 17 }));
    }),
    ("rocprofiler_stop_context", "is not started", |hip| {
        let (context, _) = made(hip);
        call!(hip, rocprofiler_stop_context(context));
    }),
    ("rocprofiler_flush_buffer", "was destroyed before", |hip| {
        let (_, buffer) = made(hip);
        right!(hip, rocprofiler_destroy_buffer(buffer));
        call!(hip, rocprofiler_flush_buffer(buffer));
    }),
    ("rocprofiler_flush_buffer", "waits for itself", |hip| {
        with(hip, |hip| {
            let context = context(hip);
            let mut buffer = BufferId::default();
            let place = &mut buffer;
            let policy = POLICY_LOSSLESS;
            right!(hip, rocprofiler_create_buffer(context, BUFFER, 0, policy, Some(take_more), null_mut(), place));
            right!(hip, rocprofiler_configure_buffer_tracing_service(context, KERNEL_DISPATCH, null(), 0, buffer));
            *MADE.lock().unwrap() = Some((context, buffer));
        });
        let (context, buffer) = MADE.lock().unwrap().unwrap();
        right!(hip, rocprofiler_start_context(context));
        Kernel::load(hip).launch(hip);
        let end = Instant::now() + Duration::from_secs(5);
        while Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
            right!(hip, rocprofiler_flush_buffer(buffer));
        }
    }),
    ("rocprofiler_destroy_buffer", "is started, whose buffer it is", |hip| {
        let (context, buffer) = made(hip);
        right!(hip, rocprofiler_start_context(context));
        call!(hip, rocprofiler_destroy_buffer(buffer));
    }),
    ("rocprofiler_destroy_buffer", "was destroyed before", |hip| {
        let (_, buffer) = made(hip);
        right!(hip, rocprofiler_destroy_buffer(buffer));
        call!(hip, rocprofiler_destroy_buffer(buffer));
    }),
    ("rocprofiler_push_external_correlation_id", "17 is no context", |hip| {
        let none = ContextId { handle: 17 };
        call!(hip, rocprofiler_push_external_correlation_id(none, own_thread(hip), UserData { value: 1 }));
    }),
    ("rocprofiler_push_external_correlation_id", "1 is not the thread that calls", |hip| {
        let (context, _) = made(hip);
        call!(hip, rocprofiler_push_external_correlation_id(context, 1, UserData { value: 1 }));
    }),
    ("rocprofiler_pop_external_correlation_id", "nothing was pushed that is not popped", |hip| {
        let (context, _) = made(hip);
        call!(hip, rocprofiler_pop_external_correlation_id(context, own_thread(hip), null_mut()));
    }),
    ("rocprofiler_get_thread_id", "the place for the thread is null", |hip| {
        call!(hip, rocprofiler_get_thread_id(null_mut()));
    }),
];
