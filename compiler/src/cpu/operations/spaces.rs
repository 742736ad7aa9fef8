//! The address space that a generic pointer leads to.

use super::text::FunctionBody;

/// Whether a generic pointer leads to a variable of the thread, which are on its stack.
pub fn is_local(body: &mut FunctionBody, pointer: &str) -> String {
    body.value(format!("call i1 @__mneme_cpu.is_local(ptr {pointer})"))
}

/// Whether a generic pointer leads to shared memory of a block of the cluster.
fn is_shared(body: &mut FunctionBody, pointer: &str) -> String {
    body.value(format!("call i1 @__mneme_cpu.is_cluster_shared(ptr {pointer})"))
}

/// Whether a generic pointer leads to global memory: to no shared memory of the cluster, and to no variable of the
/// thread.
pub fn is_global(body: &mut FunctionBody, pointer: &str) -> String {
    let shared = is_shared(body, pointer);
    let local = is_local(body, pointer);
    let inside = body.value(format!("or i1 {shared}, {local}"));
    body.value(format!("xor i1 {inside}, true"))
}
