//! Changes of executable graphs, repeated on the clones that the recorder keeps.

use std::ffi::{c_uint, c_void};

use mneme_abi::cuda::structures::KernelNode;

use super::cloned::ClonedGraph;
use super::expansion::request;
use super::interface::interface;
use super::{Executable, Graph, GraphNode, followed, replaced, replaces_nodes};
use crate::driver::{self, CUevent, STREAM_LEGACY, Status, hip};
use crate::recorder;

/// Makes a change of a node, and repeats it on its clone. `brings` is whether it may bring a kernel.
fn change(
    call: &dyn Fn() -> Status,
    executable: Executable,
    node: GraphNode,
    brings: bool,
    repeat: &dyn Fn(&mut ClonedGraph, GraphNode) -> bool,
) -> Status {
    call().on_success(|| {
        if replaces_nodes() {
            replaced::note_change(executable, node);
        } else if let Some(followed) = followed(executable) {
            followed.change(node, brings, repeat);
        }
    })
}

/// Changes that a call for the node of a graph repeats, with the same arguments.
macro_rules! repeated {
    ($($name:ident($($argument:ident: $type:ty),*) => $repeat:path;)*) => {
        $(
            /// # Safety
            /// The arguments are those of a change of a node in an executable.
            #[allow(clippy::too_many_arguments, reason = "the vendor's")]
            pub unsafe fn $name(
                call: &dyn Fn() -> Status, executable: Executable, node: GraphNode, $($argument: $type),*
            ) -> Status {
                change(call, executable, node, false, &|_, twin| {
                    // SAFETY: the vendor has just accepted them for the same node of the original.
                    unsafe { $repeat(twin, $($argument),*) == Status::SUCCESS }
                })
            }
        )*
    };
}

repeated! {
    copy(parameters: *const c_void) => driver::cuGraphMemcpyNodeSetParams;
    fill(parameters: *const c_void) => driver::cuGraphMemsetNodeSetParams;
    host(parameters: *const c_void) => driver::cuGraphHostNodeSetParams;
    record(event: CUevent) => driver::cuGraphEventRecordNodeSetEvent;
    wait(event: CUevent) => driver::cuGraphEventWaitNodeSetEvent;
    copy_of_hip(parameters: *const c_void) => hip::hipGraphMemcpyNodeSetParams;
    fill_of_hip(parameters: *const c_void) => hip::hipGraphMemsetNodeSetParams;
    line_of_hip(to: *mut c_void, from: *const c_void, bytes: usize, kind: c_uint) =>
        hip::hipGraphMemcpyNodeSetParams1D;
    from_symbol(to: *mut c_void, symbol: *const c_void, bytes: usize, offset: usize, kind: c_uint) =>
        hip::hipGraphMemcpyNodeSetParamsFromSymbol;
    to_symbol(symbol: *const c_void, from: *const c_void, bytes: usize, offset: usize, kind: c_uint) =>
        hip::hipGraphMemcpyNodeSetParamsToSymbol;
}

/// Handles new parameters of a node of any kind.
///
/// # Safety
/// The arguments are those of `cuGraphExecNodeSetParams`.
pub unsafe fn any(
    call: &dyn Fn() -> Status,
    executable: Executable,
    node: GraphNode,
    parameters: *const c_void,
) -> Status {
    change(call, executable, node, true, &|_, twin| {
        // SAFETY: the vendor has just accepted them for the same node of the original.
        unsafe { driver::cuGraphNodeSetParams(twin, parameters.cast_mut()) == Status::SUCCESS }
    })
}

/// Handles another graph for a child node, which no call sets for the node of a graph.
pub fn child(call: &dyn Fn() -> Status, executable: Executable, node: GraphNode, graph: Graph) -> Status {
    change(call, executable, node, true, &|clone, twin| {
        ClonedGraph::of(graph).map(|child| clone.differences.children.insert(twin as usize, child)).is_some()
    })
}

/// Handles that a node is switched on or off.
pub fn enabled(call: &dyn Fn() -> Status, executable: Executable, node: GraphNode, enabled: c_uint) -> Status {
    change(call, executable, node, true, &|clone, twin| {
        let disabled = &mut clone.differences.disabled;
        _ = if enabled == 0 { disabled.insert(twin as usize) } else { disabled.remove(&(twin as usize)) };
        true
    })
}

/// Handles new parameters of a kernel's node.
///
/// # Safety
/// The arguments are those of `cuGraphExecKernelNodeSetParams_v2`, or of HIP's function.
pub unsafe fn kernel<P>(
    call: &dyn Fn() -> Status,
    executable: Executable,
    node: GraphNode,
    parameters: *const P,
) -> Status {
    call().on_success(|| {
        let parameters = parameters.cast();
        // SAFETY: the vendor has just accepted them for this node.
        let kernel = unsafe { interface().kernel_with(node, parameters) };
        if replaces_nodes() {
            return replaced::set(executable, node, kernel);
        }
        let Some(followed) = followed(executable) else { return };
        let stream = std::ptr::without_provenance_mut(STREAM_LEGACY);
        let brings = kernel.map_or(true, |kernel| recorder::lacks(&request(&kernel, stream)));
        // SAFETY: the same parameters for the same node of the original.
        followed
            .change(node, brings, &|_, twin| unsafe { interface().set_kernel(twin, parameters) == Status::SUCCESS });
    })
}

/// Handles new parameters of a kernel's node, in the structure from before CUDA 12.
///
/// # Safety
/// The arguments are those of `cuGraphExecKernelNodeSetParams`.
pub unsafe fn kernel_of_11(
    call: &dyn Fn() -> Status,
    executable: Executable,
    node: GraphNode,
    parameters: *const c_void,
) -> Status {
    if parameters.is_null() {
        return call();
    }
    // The older structure ends before `kern`.
    let length = std::mem::offset_of!(KernelNode, kernel);
    // SAFETY: numbers and pointers, for which all zeros are valid; the caller's structure has this length.
    let newer = unsafe {
        let mut newer: KernelNode = std::mem::zeroed();
        std::ptr::copy_nonoverlapping(parameters.cast::<u8>(), (&raw mut newer).cast::<u8>(), length);
        newer
    };
    // SAFETY: the caller's promise.
    unsafe { kernel(call, executable, node, &raw const newer) }
}
