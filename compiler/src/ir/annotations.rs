//! Kernel marks and the launch bounds of NVIDIA's kernels, in metadata or attributes.
//!
//! Up to LLVM 20, both are in the metadata `nvvm.annotations`. Each of its nodes is `!{ptr @function, !"key", i32
//! value, !"key", i32 value, …}` (LLVM 19's NVPTX usage guide). Later, a kernel has the calling convention
//! `ptx_kernel`, and its bounds are attributes of the function. When it reads a module, LLVM converts the metadata.

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::prelude::LLVMValueRef;
use mneme_ptx::CLUSTER;

use super::{Value, attributes};
use crate::version::BOUNDS_ARE_ATTRIBUTES;

const NAME: &std::ffi::CStr = c"nvvm.annotations";
/// `CallingConv::PTX_Kernel` and `CallingConv::AMDGPU_KERNEL`.
const KERNELS: [u32; 2] = [71, 91];

struct KernelMark<'m> {
    /// The metadata node, as a value.
    node: LLVMValueRef,
    /// Index of the key among the node's operands.
    index: u32,
    function: Value<'m>,
    key: String,
    value: Option<u64>,
}

fn entries<'m>(module: &'m Module<'_>) -> Vec<KernelMark<'m>> {
    let mut entries = Vec::new();
    // SAFETY: the vectors have the lengths that LLVM reports. Operands may be null if a function was deleted.
    unsafe {
        let count = LLVMGetNamedMetadataNumOperands(module.as_mut_ptr(), NAME.as_ptr()) as usize;
        let mut nodes: Vec<LLVMValueRef> = vec![std::ptr::null_mut(); count];
        LLVMGetNamedMetadataOperands(module.as_mut_ptr(), NAME.as_ptr(), nodes.as_mut_ptr());
        for node in nodes {
            let mut operands: Vec<LLVMValueRef> = vec![std::ptr::null_mut(); LLVMGetMDNodeNumOperands(node) as usize];
            LLVMGetMDNodeOperands(node, operands.as_mut_ptr());
            let Some(function) = operands.first().and_then(|value| Value::new(*value)).and_then(Value::as_function)
            else {
                continue;
            };
            for index in (1..operands.len().saturating_sub(1)).step_by(2) {
                let (Some(key), Some(value)) = (Value::new(operands[index]), Value::new(operands[index + 1])) else {
                    continue;
                };
                let Some(key) = string(key) else { continue };
                let value = (!LLVMIsAConstantInt(value.raw()).is_null()).then(|| LLVMConstIntGetZExtValue(value.raw()));
                entries.push(KernelMark { node, index: index as u32, function, key, value });
            }
        }
    }
    entries
}

fn string(value: Value<'_>) -> Option<String> {
    let mut length = 0;
    // SAFETY: LLVM returns null unless the value is a metadata string. Otherwise the context owns `length` bytes.
    unsafe {
        let start = LLVMGetMDString(value.raw(), &mut length);
        (!start.is_null()).then(|| {
            String::from_utf8_lossy(std::slice::from_raw_parts(start.cast::<u8>(), length as usize)).into_owned()
        })
    }
}

/// The module's kernels: definitions that are annotated or have a kernel's calling convention.
pub fn kernels<'m>(module: &'m Module<'_>) -> Vec<Value<'m>> {
    let annotated: Vec<Value<'_>> = entries(module)
        .into_iter()
        .filter(|entry| entry.key == "kernel" && entry.value != Some(0))
        .map(|entry| entry.function)
        .collect();
    super::functions(module)
        .into_iter()
        .filter(|function| !function.is_declaration())
        .filter(|function| {
            // SAFETY: the value is a live function.
            annotated.contains(function) || KERNELS.contains(&unsafe { LLVMGetFunctionCallConv(function.raw()) })
        })
        .collect()
}

/// The bounds of an NVIDIA kernel on its blocks and registers, in metadata by axis and as attributes.
const METADATA: [&str; 8] =
    ["maxntidx", "maxntidy", "maxntidz", "reqntidx", "reqntidy", "reqntidz", "minctasm", "maxnreg"];
const ATTRIBUTES: [&str; 4] = ["nvvm.maxntid", "nvvm.reqntid", "nvvm.minctasm", "nvvm.maxnreg"];

/// The most threads per block along each axis for which a kernel was compiled, if it has such bounds.
pub fn most_threads(module: &Module<'_>, kernel: Value<'_>) -> Vec<u64> {
    if let Some(text) = attributes::string(kernel, "nvvm.maxntid") {
        return text.split(',').filter_map(|number| number.trim().parse().ok()).collect();
    }
    let found = entries(module);
    let axis = |key: &&str| found.iter().find(|entry| entry.function == kernel && entry.key == **key)?.value;
    METADATA[..3].iter().filter_map(axis).collect()
}

/// Whether a kernel can only be launched with the block's dimensions for which it was compiled.
pub fn fixes_block(module: &Module<'_>, kernel: Value<'_>) -> bool {
    attributes::string(kernel, "nvvm.reqntid").is_some()
        || entries(module).iter().any(|entry| entry.function == kernel && METADATA[3..6].contains(&entry.key.as_str()))
}

/// Blocks of a cluster along each axis for which a lifted kernel was compiled, as recorded by the lifter ([`CLUSTER`]),
/// because LLVM's own marks differ between versions. Zeros without a cluster.
pub fn cluster(module: &Module<'_>, kernel: Value<'_>) -> [u32; 3] {
    let found = entries(module);
    let axis = |key: &str| found.iter().find(|entry| entry.function == kernel && entry.key == key)?.value;
    CLUSTER.map(|key| axis(key).and_then(|blocks| u32::try_from(blocks).ok()).unwrap_or(0))
}

/// Replaces the bounds of a kernel: the threads of a block and, unless 0, the blocks that must fit on a multiprocessor.
pub fn set_bounds(module: &Module<'_>, kernel: Value<'_>, threads: u32, blocks: u32) {
    clear(module, kernel, &METADATA);
    ATTRIBUTES.iter().for_each(|name| attributes::remove_string(kernel, name));
    set(module, kernel, "maxntidx", c"nvvm.maxntid", threads);
    if blocks > 0 {
        set(module, kernel, "minctasm", c"nvvm.minctasm", blocks);
    }
}

/// Replaces the limit on a kernel's registers.
pub fn set_registers(module: &Module<'_>, kernel: Value<'_>, registers: u32) {
    clear(module, kernel, &["maxnreg"]);
    set(module, kernel, "maxnreg", c"nvvm.maxnreg", registers);
}

/// Makes a function a kernel.
pub fn mark_kernel(module: &Module<'_>, function: Value<'_>) {
    if BOUNDS_ARE_ATTRIBUTES {
        // SAFETY: the value is a live function.
        unsafe { LLVMSetFunctionCallConv(function.raw(), KERNELS[0]) };
    } else {
        add(module, function, "kernel", 1);
    }
}

fn set(module: &Module<'_>, kernel: Value<'_>, key: &str, attribute: &std::ffi::CStr, value: u32) {
    if BOUNDS_ARE_ATTRIBUTES {
        let text = std::ffi::CString::new(value.to_string()).expect("digits have no NUL");
        attributes::set_string(kernel, attribute, &text);
    } else {
        add(module, kernel, key, value);
    }
}

/// Voids every annotation of `function` with one of `keys`.
///
/// LLVM's C interface cannot remove a node, but the back end ignores one whose key it does not know.
fn clear(module: &Module<'_>, function: Value<'_>, keys: &[&str]) {
    let void = "mneme.void";
    for entry in
        entries(module).into_iter().filter(|entry| entry.function == function && keys.contains(&entry.key.as_str()))
    {
        // SAFETY: node and index come from the walk above. The string is copied.
        unsafe {
            let context = LLVMGetModuleContext(module.as_mut_ptr());
            LLVMReplaceMDNodeOperandWith(
                entry.node,
                entry.index,
                LLVMMDStringInContext2(context, void.as_ptr().cast(), void.len()),
            );
        }
    }
}

/// Adds an annotation.
fn add(module: &Module<'_>, function: Value<'_>, key: &str, value: u32) {
    // SAFETY: all values belong to the module's context; the strings are copied.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let number = LLVMConstInt(LLVMInt32TypeInContext(context), u64::from(value), 0);
        let mut operands = [
            LLVMValueAsMetadata(function.raw()),
            LLVMMDStringInContext2(context, key.as_ptr().cast(), key.len()),
            LLVMValueAsMetadata(number),
        ];
        let node = LLVMMDNodeInContext2(context, operands.as_mut_ptr(), operands.len());
        LLVMAddNamedMetadataOperand(module.as_mut_ptr(), NAME.as_ptr(), LLVMMetadataAsValue(context, node));
    }
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;
    use inkwell::memory_buffer::MemoryBuffer;

    use super::*;

    #[test]
    fn a_kernel_that_demands_its_block_is_known_in_both_forms() {
        let context = Context::create();
        let fixes = |attribute: &str, more: &str| {
            let text = format!(
                "define void @k() {attribute} {{ ret void }}\n!nvvm.annotations = !{{!0}}\n!0 = !{{ptr @k, !\"kernel\", i32 1{more}}}"
            );
            let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "k");
            let module = context.create_module_from_ir(buffer).unwrap();
            fixes_block(&module, crate::ir::kernel(&module, "k").unwrap())
        };
        assert!(fixes("", ", !\"reqntidx\", i32 128") && fixes("\"nvvm.reqntid\"=\"128\"", ""));
        assert!(!fixes("", ", !\"maxntidx\", i32 128") && !fixes("\"nvvm.maxntid\"=\"128\"", ""));
    }
}
