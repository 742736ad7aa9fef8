//! The part of rocprofiler-sdk, AMD's profiling library, that times kernels.
//!
//! Names, types and layouts match rocprofiler.h, registration.h, context.h, buffer.h, buffer_tracing.h,
//! external_correlation.h and fwd.h of versions 0.4 and 0.5 (ROCm 6.2 and 6.3) and 1.3 (7). For the versions in
//! between, only the two headers with the record (buffer_tracing.h and fwd.h) were compared. `since` is the first version
//! with a function, in the library's numbering: 400 is 0.4.0. The declarations cover the common part of these versions:
//!
//! - error numbers differ between versions, so only success is named; `rocprofiler_get_status_string` describes the
//!   others;
//! - the structure with which a tool states its name begins with the name in 0.x, and with a size in 1.x, so it is not
//!   used here ([`Configure`]);
//! - newer records of kernels have additional fields after those of [`DispatchRecord`], and state their size;
//! - from 0.5 on, an id must be 0 before the library fills it.

use super::types::{Dimensions, c_char, c_int, c_uint, c_void};
use crate::declare::declare;

/// `rocprofiler_status_t`.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub c_uint);

impl Status {
    pub const SUCCESS: Self = Self(0);
}

/// `rocprofiler_context_id_t`: services that are started and stopped as one.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContextId {
    pub handle: u64,
}

/// `rocprofiler_buffer_id_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferId {
    pub handle: u64,
}

/// `rocprofiler_user_data_t`, a number or an address; here a number.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserData {
    pub value: u64,
}

/// `rocprofiler_tool_initialize_t`: creates a tool's contexts. Its arguments are a function that ends the tool early,
/// whose argument's layout depends on the major version, and the tool's own data; any result except 0 is a failure.
pub type Initialize = unsafe extern "C" fn(finalize: *mut c_void, data: *mut c_void) -> c_int;

/// `rocprofiler_tool_finalize_t`.
pub type Finalize = unsafe extern "C" fn(data: *mut c_void);

/// `rocprofiler_tool_configure_result_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ToolConfiguration {
    /// Size of this structure, bytes.
    pub size: usize,
    pub initialize: Option<Initialize>,
    pub finalize: Option<Finalize>,
    pub data: *mut c_void,
}

// SAFETY: a constant of the tool's, which the library only reads.
unsafe impl Sync for ToolConfiguration {}

/// `rocprofiler_client_id_t` of version 0.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientId0 {
    pub name: *const c_char,
    pub handle: u32,
}

/// The same in version 1.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ClientId1 {
    /// Size of this structure, bytes.
    pub size: usize,
    pub name: *const c_char,
    pub handle: u32,
}

/// `rocprofiler_configure_func_t`: version as 10,000 * major + 100 * minor + patch, the same as text, the number of
/// earlier tools, and a `rocprofiler_client_id_t`, whose layout varies.
pub type Configure = unsafe extern "C" fn(
    version: c_uint,
    text: *const c_char,
    priority: c_uint,
    client: *mut c_void,
) -> *const ToolConfiguration;

/// `rocprofiler_record_header_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RecordHeader {
    /// E.g. [`CATEGORY_TRACING`].
    pub category: c_uint,
    /// E.g. [`KERNEL_DISPATCH`].
    pub kind: c_uint,
    /// The record, e.g. a [`DispatchRecord`].
    pub payload: *mut c_void,
}

/// `rocprofiler_buffer_tracing_cb_t`. The library calls it on one of its threads, with headers of records that are
/// valid until it returns, and with the number of records dropped so far.
pub type BufferCallback = unsafe extern "C" fn(
    context: ContextId,
    buffer: BufferId,
    headers: *mut *mut RecordHeader,
    count: usize,
    data: *mut c_void,
    dropped: u64,
);

/// `ROCPROFILER_BUFFER_CATEGORY_TRACING`
pub const CATEGORY_TRACING: c_uint = 1;
/// `ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH`
pub const KERNEL_DISPATCH: c_uint = 11;
/// `ROCPROFILER_KERNEL_DISPATCH_COMPLETE`: the only operation in records of this kind.
pub const DISPATCH_COMPLETE: c_uint = 2;
/// `ROCPROFILER_BUFFER_POLICY_DISCARD` and `…_LOSSLESS`: the handling of records that do not fit in a full buffer.
pub const POLICY_DISCARD: c_uint = 1;
pub const POLICY_LOSSLESS: c_uint = 2;

/// `rocprofiler_kernel_dispatch_info_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchInfo {
    /// Size without the reserved part, bytes.
    pub size: u64,
    pub agent: u64,
    pub queue: u64,
    pub kernel: u64,
    /// Counts all kernels of the process.
    pub dispatch: u64,
    /// Scratch memory of a work item and shared memory of a block, bytes.
    pub private_segment: u32,
    pub group_segment: u32,
    pub workgroup: Dimensions,
    /// Work items.
    pub grid: Dimensions,
    pub reserved: [u8; 56],
}

/// `rocprofiler_buffer_tracing_kernel_dispatch_record_t`, limited to the part common to all versions. Its address may
/// be unaligned.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct DispatchRecord {
    /// Size of the whole record, bytes: at least that of this structure.
    pub size: u64,
    /// [`KERNEL_DISPATCH`].
    pub kind: c_uint,
    /// [`DISPATCH_COMPLETE`].
    pub operation: c_uint,
    /// The library's number of the call.
    pub internal: u64,
    /// The last value pushed by the launching thread.
    pub external: UserData,
    /// The launching thread.
    pub thread: u64,
    /// ns.
    pub start: u64,
    pub end: u64,
    pub dispatch: DispatchInfo,
}

declare! { ($)
    400 rocprofiler_get_version(major: *mut c_uint, minor: *mut c_uint, patch: *mut c_uint);
    // A constant or null
    400 rocprofiler_get_status_string(status: Status) -> *const c_char;
    400 rocprofiler_force_configure(configure: Option<Configure>);
    400 rocprofiler_create_context(context: *mut ContextId);
    400 rocprofiler_start_context(context: ContextId);
    400 rocprofiler_stop_context(context: ContextId);
    400 rocprofiler_create_buffer(
        context: ContextId, size: usize, watermark: usize, policy: c_uint, callback: Option<BufferCallback>,
        data: *mut c_void, buffer: *mut BufferId
    );
    400 rocprofiler_flush_buffer(buffer: BufferId);
    400 rocprofiler_destroy_buffer(buffer: BufferId);
    400 rocprofiler_configure_buffer_tracing_service(
        context: ContextId, kind: c_uint, operations: *const c_int, count: usize, buffer: BufferId
    );
    400 rocprofiler_get_thread_id(thread: *mut u64);
    400 rocprofiler_push_external_correlation_id(context: ContextId, thread: u64, correlation: UserData);
    400 rocprofiler_pop_external_correlation_id(context: ContextId, thread: u64, correlation: *mut UserData);
}

#[cfg(test)]
mod tests {
    use std::fmt::Write;
    use std::mem::offset_of;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output};

    use super::*;

    /// The header that includes all others, including HIP's and HSA's, and functions that only it declares.
    const WHOLE: &str = "rocprofiler.h";
    const ONLY_WHOLE: [&str; 2] = ["rocprofiler_get_version", "rocprofiler_get_thread_id"];
    const PARTS: [&str; 7] =
        ["version.h", "fwd.h", "registration.h", "context.h", "buffer.h", "buffer_tracing.h", "external_correlation.h"];

    /// A structure of the header, its size here, and its fields with their offsets here.
    type Layout = (&'static str, usize, &'static [(&'static str, usize)]);

    const LAYOUTS: &[Layout] = &[
        ("rocprofiler_context_id_t", size_of::<ContextId>(), &[("handle", 0)]),
        ("rocprofiler_buffer_id_t", size_of::<BufferId>(), &[("handle", 0)]),
        ("rocprofiler_user_data_t", size_of::<UserData>(), &[("value", 0)]),
        ("rocprofiler_status_t", size_of::<Status>(), &[]),
        (
            "rocprofiler_tool_configure_result_t",
            size_of::<ToolConfiguration>(),
            &[
                ("size", offset_of!(ToolConfiguration, size)),
                ("initialize", offset_of!(ToolConfiguration, initialize)),
                ("finalize", offset_of!(ToolConfiguration, finalize)),
                ("tool_data", offset_of!(ToolConfiguration, data)),
            ],
        ),
        (
            "rocprofiler_record_header_t",
            size_of::<RecordHeader>(),
            &[
                ("category", offset_of!(RecordHeader, category)),
                ("kind", offset_of!(RecordHeader, kind)),
                ("payload", offset_of!(RecordHeader, payload)),
            ],
        ),
        (
            "rocprofiler_kernel_dispatch_info_t",
            size_of::<DispatchInfo>(),
            &[
                ("size", offset_of!(DispatchInfo, size)),
                ("agent_id", offset_of!(DispatchInfo, agent)),
                ("queue_id", offset_of!(DispatchInfo, queue)),
                ("kernel_id", offset_of!(DispatchInfo, kernel)),
                ("dispatch_id", offset_of!(DispatchInfo, dispatch)),
                ("private_segment_size", offset_of!(DispatchInfo, private_segment)),
                ("group_segment_size", offset_of!(DispatchInfo, group_segment)),
                ("workgroup_size", offset_of!(DispatchInfo, workgroup)),
                ("grid_size", offset_of!(DispatchInfo, grid)),
                ("reserved_padding", offset_of!(DispatchInfo, reserved)),
            ],
        ),
    ];

    /// Newer versions have additional fields at the end.
    const RECORD: &str = "rocprofiler_buffer_tracing_kernel_dispatch_record_t";
    const RECORD_FIELDS: &[(&str, usize)] = &[
        ("size", offset_of!(DispatchRecord, size)),
        ("kind", offset_of!(DispatchRecord, kind)),
        ("operation", offset_of!(DispatchRecord, operation)),
        ("correlation_id.internal", offset_of!(DispatchRecord, internal)),
        ("correlation_id.external", offset_of!(DispatchRecord, external)),
        ("thread_id", offset_of!(DispatchRecord, thread)),
        ("start_timestamp", offset_of!(DispatchRecord, start)),
        ("end_timestamp", offset_of!(DispatchRecord, end)),
        ("dispatch_info", offset_of!(DispatchRecord, dispatch)),
    ];

    const NUMBERS: &[(&str, c_uint)] = &[
        ("ROCPROFILER_STATUS_SUCCESS", Status::SUCCESS.0),
        ("ROCPROFILER_BUFFER_CATEGORY_TRACING", CATEGORY_TRACING),
        ("ROCPROFILER_BUFFER_TRACING_KERNEL_DISPATCH", KERNEL_DISPATCH),
        ("ROCPROFILER_KERNEL_DISPATCH_COMPLETE", DISPATCH_COMPLETE),
        ("ROCPROFILER_BUFFER_POLICY_DISCARD", POLICY_DISCARD),
        ("ROCPROFILER_BUFFER_POLICY_LOSSLESS", POLICY_LOSSLESS),
    ];

    /// The header's name of a type declared here.
    fn in_c(declared: &str) -> &'static str {
        match declared {
            "ContextId" => "rocprofiler_context_id_t",
            "*mut ContextId" => "rocprofiler_context_id_t*",
            "BufferId" => "rocprofiler_buffer_id_t",
            "*mut BufferId" => "rocprofiler_buffer_id_t*",
            "UserData" => "rocprofiler_user_data_t",
            "*mut UserData" => "rocprofiler_user_data_t*",
            "Option<Configure>" => "rocprofiler_configure_func_t",
            "Option<BufferCallback>" => "rocprofiler_buffer_tracing_cb_t",
            "*mut c_uint" => "uint32_t*",
            "*const c_int" => "const rocprofiler_tracing_operation_t*",
            "*mut u64" => "rocprofiler_thread_id_t*",
            "u64" => "rocprofiler_thread_id_t",
            "usize" => "size_t",
            "*mut c_void" => "void*",
            "*const c_char" => "const char*",
            "Status" => "rocprofiler_status_t",
            other => panic!("{other} is not known here"),
        }
    }

    fn includes(headers: &[&str]) -> String {
        headers.iter().map(|header| format!("#include <rocprofiler-sdk/{header}>\n")).collect()
    }

    /// The headers, and assertions about them, in C, which requires identical function types.
    fn source(headers: &[&str]) -> String {
        let mut text = format!("#include <stddef.h>\n#include <stdint.h>\n{}", includes(headers));
        for (structure, size, fields) in LAYOUTS {
            writeln!(text, "_Static_assert(sizeof({structure}) == {size}, \"{structure}\");").unwrap();
            for (field, offset) in *fields {
                writeln!(text, "_Static_assert(offsetof({structure}, {field}) == {offset}, \"{field}\");").unwrap();
            }
        }
        writeln!(text, "_Static_assert(sizeof({RECORD}) >= {}, \"{RECORD}\");", size_of::<DispatchRecord>()).unwrap();
        for (field, offset) in RECORD_FIELDS {
            writeln!(text, "_Static_assert(offsetof({RECORD}, {field}) == {offset}, \"{field}\");").unwrap();
        }
        for (name, number) in NUMBERS {
            writeln!(text, "_Static_assert({name} == {number}, \"{name}\");").unwrap();
        }
        let all = headers.contains(&WHOLE);
        for function in FUNCTIONS.iter().filter(|function| all || !ONLY_WHOLE.contains(&function.name)) {
            let types = function.arguments.iter().map(|(name, declared)| match (function.name, *name) {
                ("rocprofiler_create_buffer", "policy") => "rocprofiler_buffer_policy_t",
                ("rocprofiler_configure_buffer_tracing_service", "kind") => "rocprofiler_buffer_tracing_kind_t",
                _ => in_c(declared),
            });
            let types: Vec<&str> = types.collect();
            let (name, types) = (function.name, types.join(", "));
            // The array of operations, which is null here, is not const in 0.4.
            let since = if types.contains("const rocprofiler") { 500 } else { function.since };
            writeln!(text, "#if ROCPROFILER_VERSION >= {since}").unwrap();
            let returns = in_c(function.returns);
            writeln!(text, "{returns} (*use_{name})({types}) = {name};\n#endif").unwrap();
        }
        for (name, result, types) in [
            (
                "rocprofiler_configure_func_t",
                "rocprofiler_tool_configure_result_t*",
                "uint32_t, const char*, uint32_t, rocprofiler_client_id_t*",
            ),
            ("rocprofiler_tool_initialize_t", "int", "rocprofiler_client_finalize_t, void*"),
            ("rocprofiler_tool_finalize_t", "void", "void*"),
            (
                "rocprofiler_buffer_tracing_cb_t",
                "void",
                "rocprofiler_context_id_t, rocprofiler_buffer_id_t, rocprofiler_record_header_t**, size_t, void*, \
                 uint64_t",
            ),
        ] {
            writeln!(text, "{result} (*as_{name})({types}) = ({name}) 0;").unwrap();
        }
        text
    }

    fn compile(include: &Path, text: &str) -> Output {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("layout.c");
        std::fs::write(&file, text).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-Werror=incompatible-pointer-types", "-fsyntax-only"]);
        compiler.arg("-D__HIP_PLATFORM_AMD__=1").arg("-I").arg(include).arg(file);
        compiler.output().unwrap()
    }

    #[test]
    fn all_is_as_in_the_headers() {
        let others = std::env::var_os("MNEME_TEST_HIP_INCLUDE").map(PathBuf::from);
        let folders = others.into_iter().chain(["/opt/rocm/include".into(), "/usr/include".into()]);
        let folders: Vec<PathBuf> =
            folders.filter(|folder| folder.join("rocprofiler-sdk/registration.h").exists()).collect();
        if folders.is_empty() {
            mneme_fixtures::skip("rocprofiler-sdk's headers are not installed");
        }
        for folder in folders {
            let said = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
            let compiles = |headers: &[&str]| compile(&folder, &includes(headers));
            let headers = if compiles(&[WHOLE]).status.success() { &[WHOLE][..] } else { &PARTS };
            let parts = compiles(headers);
            if !parts.status.success() {
                mneme_fixtures::skip(format_args!(
                    "{} lacks what its headers include: {}",
                    folder.display(),
                    said(&parts)
                ));
                continue;
            }
            if headers != [WHOLE] {
                println!("{}: without {WHOLE}, so that {ONLY_WHOLE:?} are not compared", folder.display());
            }
            let output = compile(&folder, &source(headers));
            assert!(output.status.success(), "{}: {}", folder.display(), said(&output));
        }
    }

    #[test]
    fn a_record_ends_where_version_0_4_ends_it() {
        assert_eq!((size_of::<DispatchRecord>(), offset_of!(DispatchRecord, dispatch)), (184, 56));
        assert_eq!((size_of::<DispatchInfo>(), offset_of!(DispatchInfo, reserved)), (128, 72));
        assert_eq!(size_of::<ToolConfiguration>(), 32);
    }

    #[test]
    fn names_are_unique_and_the_library_s() {
        let names: std::collections::BTreeSet<_> = FUNCTIONS.iter().map(|function| function.name).collect();
        assert_eq!(names.len(), FUNCTIONS.len());
        assert!(names.iter().all(|name| name.starts_with("rocprofiler_")));
    }
}
