//! The GPU's intrinsics, as functions over the CPU device's imports.
//!
//! Each intrinsic that a module declares becomes a call of an always-inlined function of the same type, whose body is
//! built here as LLVM assembly. NVVM has more than a thousand intrinsics in a few families, so each family builds the
//! body from the parts of the name. Those of AMD GPUs are in `amdgcn`.

pub mod amdgcn;
mod image;
mod instruction;
mod memory;
mod warp;

use super::operations::text::{FunctionBody, FunctionSignature, Meaning};
use super::operations::{arithmetic, bits, convert, sreg};

/// Imports and shared helpers, in LLVM assembly.
pub const RUNTIME: &str = include_str!("runtime.ll");

const PREFIX: &str = "llvm.nvvm.";

/// The meaning of a function that the module declares.
pub fn meaning(name: &str, signature: &FunctionSignature) -> Meaning {
    if let Some(nvvm) = name.strip_prefix(PREFIX) {
        return match define(nvvm, signature) {
            Some(body) => Meaning::Defined(body),
            None => Meaning::Unsupported(unsupported_intrinsic(nvvm)),
        };
    }
    // A CPU's instructions take zeros of both signs for equal.
    if let ["llvm", least @ ("minnum" | "minimumnum" | "maxnum" | "maximumnum"), "f32" | "f64"] =
        name.split('.').collect::<Vec<_>>()[..]
    {
        let mut body = FunctionBody::default();
        let operation = if least.starts_with("min") { "fmin" } else { "fmax" };
        if arithmetic::define(&[operation, ""], signature, &mut body).is_some() {
            return Meaning::Defined(body);
        }
    }
    if name.starts_with("llvm.") || name.starts_with("__mneme_cpu") {
        return Meaning::Native;
    }
    match name {
        "memcpy" | "memset" | "memmove" => Meaning::Native,
        "vprintf" => {
            let mut body = FunctionBody::default();
            let [format, arguments] = [0, 1].map(|index| pointer(&mut body, signature, index));
            let count = body.value(format!("call i32 @__mneme_cpu_printf(ptr {format}, ptr {arguments})"));
            body.ret(&signature.result, count);
            Meaning::Defined(body)
        }
        "__assertfail" | "__assert_fail" => {
            let mut body = FunctionBody::default();
            let [message, file, function] = [0, 1, 3].map(|index| pointer(&mut body, signature, index));
            body.line(format_args!(
                "call void @__mneme_cpu.failed_assertion(ptr {message}, ptr {file}, i32 %a2, ptr {function})"
            ));
            body.line("unreachable");
            Meaning::Defined(body)
        }
        // The entry of a pure virtual function in a class's table. No correct program calls it.
        "__cxa_pure_virtual" => {
            let mut body = FunctionBody::default();
            body.line("call void @__mneme_cpu_trap()");
            body.line("unreachable");
            Meaning::Defined(body)
        }
        // Remains only if the module's pipeline did not resolve it. The answer is "no" to every query.
        "__nvvm_reflect" => {
            let mut body = FunctionBody::default();
            body.ret(&signature.result, 0);
            Meaning::Defined(body)
        }
        "malloc" => {
            let mut body = FunctionBody::default();
            let mut memory = body.value("call ptr @__mneme_cpu_malloc(i64 %a0)");
            if signature.result != "ptr" {
                memory = body.value(format!("ptrtoint ptr {memory} to {}", signature.result));
            }
            body.ret(&signature.result, memory);
            Meaning::Defined(body)
        }
        "free" => {
            let mut body = FunctionBody::default();
            let memory = pointer(&mut body, signature, 0);
            body.line(format_args!("call void @__mneme_cpu_free(ptr {memory})"));
            body.ret(&signature.result, 0);
            Meaning::Defined(body)
        }
        "realloc" | "calloc" => Meaning::Unsupported(format!("device-side `{name}`")),
        _ if name.starts_with("cudaLaunch")
            || name.starts_with("cudaGetParameterBuffer")
            || name.starts_with("__cudaCDP") =>
        {
            Meaning::Unsupported(format!("dynamic parallelism (`{name}`)"))
        }
        _ => Meaning::Unsupported(format!("undefined device function `{name}`")),
    }
}

/// A pointer argument. Lifted code may pass it as an integer.
fn pointer(body: &mut FunctionBody, signature: &FunctionSignature, index: usize) -> String {
    match signature.parameters.get(index).map(String::as_str) {
        Some("i64") => body.value(format!("inttoptr i64 %a{index} to ptr")),
        _ => format!("%a{index}"),
    }
}

fn unsupported_intrinsic(nvvm: &str) -> String {
    let family = nvvm.split('.').next().unwrap_or(nvvm);
    match family {
        "tex" | "tld4" => format!("texture `{nvvm}`"),
        "suld" | "sust" | "suq" | "txq" | "texsurf" | "istypep" => format!("texture or surface `{nvvm}`"),
        "wmma" | "mma" | "wgmma" | "ldmatrix" => format!("tensor cores (`{nvvm}`)"),
        _ => format!("intrinsic `{PREFIX}{nvvm}`"),
    }
}

fn define(nvvm: &str, signature: &FunctionSignature) -> Option<FunctionBody> {
    let parts: Vec<&str> = nvvm.split('.').collect();
    let mut body = FunctionBody::default();
    if parts == ["fns"] {
        let place = bits::nth_set(&mut body, "%a0", "%a1", "%a2");
        body.ret(&signature.result, place);
        return Some(body);
    }
    let families = [
        sreg::define,
        warp::define,
        memory::define,
        image::define,
        instruction::define,
        convert::define,
        arithmetic::define,
    ];
    families.iter().find_map(|family| {
        body = FunctionBody::default();
        family(&parts, signature, &mut body).map(|()| std::mem::take(&mut body))
    })
}
