//! The profiling library's functions by name, and their handlers.

use std::ffi::{c_char, c_int, c_uint, c_void};

use mneme_abi::hip::rocprofiler::*;

use super::settings::settings;
use super::{FAILED, LOCKED, LOCKED_1, serve};

macro_rules! export {
    ({ $handler:path } $since:literal $name:ident($($argument:ident: $type:ty),*)) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> Status {
            // SAFETY: the caller keeps the vendor's contract.
            serve(stringify!($name), || unsafe { $handler($($argument),*) })
        }
    };
    ({ $handler:path } $since:literal $name:ident($($argument:ident: $type:ty),*) -> $return:ty) => {
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: $type),*) -> $return {
            $handler($($argument),*)
        }
    };
}

macro_rules! exports {
    ($($name:ident $handler:path;)*) => { $(mneme_abi::$name! { export { $handler } })* };
}

exports! {
    rocprofiler_get_status_string status_text;
    rocprofiler_get_version super::version;
    rocprofiler_force_configure super::force_configure;
    rocprofiler_create_context super::create_context;
    rocprofiler_start_context super::start_context;
    rocprofiler_stop_context super::stop_context;
    rocprofiler_create_buffer super::create_buffer;
    rocprofiler_flush_buffer super::flush_buffer;
    rocprofiler_destroy_buffer super::destroy_buffer;
    rocprofiler_configure_buffer_tracing_service super::configure_tracing;
    rocprofiler_get_thread_id super::thread_id;
    rocprofiler_push_external_correlation_id super::push;
    rocprofiler_pop_external_correlation_id super::pop;
}

fn status_text(status: Status) -> *const c_char {
    let text = match status {
        Status::SUCCESS => c"Success",
        FAILED => c"General error",
        LOCKED if settings().major() == 0 => c"Configuration is locked",
        LOCKED_1 if settings().major() == 1 => c"Configuration is locked",
        _ => return std::ptr::null(),
    };
    text.as_ptr()
}
