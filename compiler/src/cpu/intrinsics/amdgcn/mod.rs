//! The intrinsics and library functions of AMD GPUs, as functions over the device's imports.

pub mod assembly;
mod atomic;
mod float;
mod ids;
mod integer;
mod packed;
mod wave;

pub use wave::active_lanes;

use crate::cpu::library;
use crate::cpu::operations::text::{FunctionBody, FunctionSignature, Meaning};

/// Shared helpers, in LLVM assembly.
const RUNTIME: &str = include_str!("runtime.ll");

pub const PREFIX: &str = "llvm.amdgcn.";

/// The helpers for a module with this wave size.
pub fn runtime(wave_size: u32) -> String {
    format!("{RUNTIME}\ndefine i32 @__mneme_cpu.wave_size() alwaysinline nounwind {{\n  ret i32 {wave_size}\n}}\n")
}

/// The meaning of a function that a module for AMD GPUs declares; `None` if it is the same as in other modules.
pub fn meaning(name: &str, signature: &FunctionSignature) -> Option<Meaning> {
    if let Some(intrinsic) = name.strip_prefix(PREFIX) {
        return Some(match define(intrinsic, signature) {
            Some(body) => Meaning::Defined(body),
            None => Meaning::Unsupported(unsupported(intrinsic)),
        });
    }
    if let Some(body) = generic(name, signature) {
        return Some(Meaning::Defined(body));
    }
    library::meaning(name, signature)
}

fn define(intrinsic: &str, signature: &FunctionSignature) -> Option<FunctionBody> {
    let parts: Vec<&str> = intrinsic.split('.').collect();
    let families = [ids::define, wave::define, atomic::define, integer::define, packed::define, float::define];
    families.iter().find_map(|family| {
        let mut body = FunctionBody::default();
        family(&parts, signature, &mut body).map(|()| body)
    })
}

/// LLVM's own intrinsics that CPUs lack, or that have another meaning on CPUs.
fn generic(name: &str, signature: &FunctionSignature) -> Option<FunctionBody> {
    let mut body = FunctionBody::default();
    let result = signature.result.as_str();
    let parts: Vec<&str> = name.strip_prefix("llvm.")?.split('.').collect();
    match parts[..] {
        ["trap"] => {
            body.line("call void @__mneme_cpu_trap()");
            body.line("unreachable");
        }
        ["readcyclecounter"] => {
            let time = body.value("call i64 @__mneme_cpu_clock()");
            body.ret(result, time);
        }
        ["readsteadycounter"] => {
            let time = body.value("call i64 @__mneme_cpu.steady_clock()");
            body.ret(result, time);
        }
        ["canonicalize", _] => {
            let one = float::constant(result, 1)?;
            let value = body.value(format!("fmul {result} %a0, {one}"));
            body.ret(result, value);
        }
        // The mask has the width of AMD's pointer. The bits above do not change.
        ["ptrmask", "p3" | "p5", "i32"] => {
            let address = body.value(format!("ptrtoint {result} %a0 to i64"));
            let mask = body.value("sext i32 %a1 to i64");
            let masked = body.value(format!("and i64 {address}, {mask}"));
            let pointer = body.value(format!("inttoptr i64 {masked} to {result}"));
            body.ret(result, pointer);
        }
        _ => return None,
    }
    Some(body)
}

fn unsupported(intrinsic: &str) -> String {
    let family = intrinsic.split('.').next().unwrap_or(intrinsic);
    match family {
        "image" => format!("texture or image `{intrinsic}`"),
        "mfma" | "smfmac" | "wmma" | "swmmac" => format!("matrix cores (`{intrinsic}`)"),
        _ => format!("intrinsic `{PREFIX}{intrinsic}`"),
    }
}
