//! Thread and block indices, launch dimensions, and the clock.

use crate::cpu::operations::sreg::THREAD_IDS;
use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    let value = match parts {
        [unit @ ("workitem" | "workgroup"), "id", axis] => {
            let name = if *unit == "workitem" { "tid" } else { "ctaid" };
            let base = THREAD_IDS.iter().find(|(known, _)| *known == name)?.1;
            let axis = ["x", "y", "z"].iter().position(|name| name == axis)? as u32;
            body.value(format!("call i32 @__mneme_cpu.context(i64 {})", base + 4 * axis))
        }
        ["s", "get", "waveid", "in", "workgroup"] => body.value("call i32 @__mneme_cpu.context(i64 52)"),
        ["wavefrontsize"] => body.value("call i32 @__mneme_cpu.wave_size()"),
        ["implicitarg", "ptr"] => pointer("__mneme_cpu_implicit_arguments", result, body),
        ["dispatch", "ptr"] => pointer("__mneme_cpu_dispatch_packet", result, body),
        // Byte 40 of the packet has the address.
        ["kernarg", "segment", "ptr"] => {
            let packet = body.value("call ptr @__mneme_cpu_dispatch_packet()");
            let field = body.value(format!("getelementptr inbounds i8, ptr {packet}, i64 40"));
            let address = body.value(format!("load ptr, ptr {field}, align 8"));
            body.value(format!("addrspacecast ptr {address} to {result}"))
        }
        // The device has one queue and runs one launch at a time.
        ["dispatch", "id"] => "0".into(),
        ["s", "memtime"] => body.value("call i64 @__mneme_cpu_clock()"),
        ["s", "memrealtime"] => body.value("call i64 @__mneme_cpu.steady_clock()"),
        // The remaining reads ask which unit of the GPU a wave runs on. There is only one here.
        ["s", "getreg"] => "0".into(),
        _ => return None,
    };
    body.ret(result, value);
    Some(())
}

fn pointer(import: &str, ty: &str, body: &mut FunctionBody) -> String {
    let pointer = body.value(format!("call ptr @{import}()"));
    body.value(format!("addrspacecast ptr {pointer} to {ty}"))
}
