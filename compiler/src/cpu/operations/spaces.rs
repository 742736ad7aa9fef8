//! The address space that a generic pointer leads to.

use super::text::FunctionBody;

/// Bytes of a thread's stack at most, and how far below a frame the variables of the functions that it calls may be.
const STACK: u64 = 2 << 20;
const STACK_SLACK: u64 = 64 << 10;

/// Whether a generic pointer leads to a variable of the thread. They are on its stack, which is at most 2 MiB and is
/// used downwards.
pub fn is_local(body: &mut FunctionBody, pointer: &str) -> String {
    let frame = body.value("call ptr @llvm.frameaddress.p0(i32 0)");
    let frame = body.value(format!("ptrtoint ptr {frame} to i64"));
    let lowest = body.value(format!("sub i64 {frame}, {STACK_SLACK}"));
    let address = body.value(format!("ptrtoint ptr {pointer} to i64"));
    let distance = body.value(format!("sub i64 {address}, {lowest}"));
    let inside = body.value(format!("icmp ult i64 {distance}, {}", STACK + STACK_SLACK));
    let shared = is_shared(body, pointer);
    let elsewhere = body.value(format!("xor i1 {shared}, true"));
    body.value(format!("and i1 {inside}, {elsewhere}"))
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
