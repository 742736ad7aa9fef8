//! ROCm's device library: the functions that the CPU device replaces, and those that it cannot support.
//!
//! Their definitions are part of the program's IR and talk to the host through buffers of the vendor's runtime. They
//! are removed before a pass can inline them.

use inkwell::module::Module;
use llvm_sys::LLVMLinkage;

use crate::ir::{self, Value, edit};

use super::is_amdgcn;
use super::operations::text::{FunctionBody, FunctionSignature, Meaning};

/// Turns functions that are not plain code into declarations.
pub fn cut(module: &Module<'_>) {
    if !is_amdgcn(module) {
        return;
    }
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        let name = function.name();
        let name = original(&name);
        if purpose(name).is_some() && edit::has_uses(function) {
            undefine(module, function, name);
        }
    }
}

/// The original name of a local function, before modules with equal names were linked.
fn original(name: &str) -> &str {
    match name.rsplit_once('.') {
        Some((base, number)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => base,
        _ => name,
    }
}

fn undefine(module: &Module<'_>, function: Value<'_>, name: &str) {
    function.set_name("");
    let declaration = edit::declare(module, name, function.content_type());
    declaration.set_linkage(LLVMLinkage::LLVMExternalLinkage);
    function.replace_uses_with(declaration);
    function.delete_global();
}

enum Purpose {
    /// Adds a part to a message, through this function of the device.
    Message(&'static str),
    /// Begins a message to standard output. Takes no argument.
    Output,
    /// Handled for all modules.
    Assertion,
    Nobody(&'static str),
}

fn purpose(name: &str) -> Option<Purpose> {
    if let Some(part) = name.strip_prefix("__ockl_printf_").or_else(|| name.strip_prefix("__ockl_fprintf_")) {
        return Some(match part {
            "begin" => Purpose::Message("__mneme_cpu_ockl_printf_begin"),
            "stdout_begin" => Purpose::Output,
            "stderr_begin" => Purpose::Message("__mneme_cpu_ockl_fprintf_stderr_begin"),
            "append_args" => Purpose::Message("__mneme_cpu_ockl_printf_append_args"),
            "append_string_n" => Purpose::Message("__mneme_cpu_ockl_printf_append_string_n"),
            _ => Purpose::Nobody("device-side `printf`"),
        });
    }
    Some(match name {
        "__assert_fail" | "__assertfail" => Purpose::Assertion,
        "malloc" | "__hip_malloc" | "__ockl_dm_alloc" | "__ockl_devmem_request" => {
            Purpose::Nobody("device-side `malloc`")
        }
        "free" | "__hip_free" | "__ockl_dm_dealloc" => Purpose::Nobody("device-side `free`"),
        // The compiler's alternative way to print (`-mprintf-kind=buffered`).
        "__printf_alloc" => Purpose::Nobody("a buffered `printf`"),
        _ if name.starts_with("__ockl_hostcall") || name.starts_with("__ockl_call_host") => {
            Purpose::Nobody("a call of the host")
        }
        _ if name.starts_with("__ockl_gws_") || name.starts_with("__ockl_multi_grid_sync") => {
            Purpose::Nobody("a barrier of several blocks")
        }
        _ if name.starts_with("__ockl_image_") => Purpose::Nobody("texture or image"),
        _ if name.starts_with("__asan_") || name.starts_with("__ockl_sanitizer") => Purpose::Nobody("sanitizer"),
        _ => return None,
    })
}

/// The meaning of a function of the library that a module declares; `None` if it is the same as in other modules.
pub fn meaning(name: &str, signature: &FunctionSignature) -> Option<Meaning> {
    match purpose(name)? {
        Purpose::Assertion => None,
        Purpose::Nobody(construct) => Some(Meaning::Unsupported(format!("{construct} (`{name}`)"))),
        Purpose::Output => {
            let mut body = FunctionBody::default();
            let message = body.value("call i64 @__mneme_cpu_ockl_printf_begin(i64 0)");
            body.ret(&signature.result, message);
            Some(Meaning::Defined(body))
        }
        Purpose::Message(import) => {
            let mut body = FunctionBody::default();
            let arguments: Vec<String> =
                signature.parameters.iter().enumerate().map(|(index, ty)| format!("{ty} %a{index}")).collect();
            let result = signature.result.as_str();
            let value = body.value(format!("call {result} @{import}({})", arguments.join(", ")));
            body.ret(result, value);
            Some(Meaning::Defined(body))
        }
    }
}
