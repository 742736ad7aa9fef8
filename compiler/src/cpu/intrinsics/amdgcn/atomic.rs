//! Atomic operations with their own intrinsics, and queries about addresses.

use crate::cpu::intrinsics::memory;
use crate::cpu::operations::text::{FunctionBody, FunctionSignature};

pub fn define(parts: &[&str], signature: &FunctionSignature, body: &mut FunctionBody) -> Option<()> {
    let result = signature.result.as_str();
    let pointer = signature.parameters.first()?.as_str();
    match parts {
        ["is", "shared"] => memory::define(&["isspacep", "shared"], signature, body),
        ["is", "private"] => memory::define(&["isspacep", "local"], signature, body),
        ["flat" | "global", "atomic", operation @ ("fadd" | "fmin" | "fmax"), ..]
        | ["ds", operation @ ("fadd" | "fmin" | "fmax"), ..]
            if signature.parameters.get(1).map(String::as_str) == Some(result) =>
        {
            let old = body.value(format!("atomicrmw {operation} {pointer} %a0, {result} %a1 monotonic"));
            body.ret(result, old);
            Some(())
        }
        _ => None,
    }
}
