//! The entry function of each kernel for the CPU device.
//!
//! It is an `extern "C" fn(params: *const u8)`, which loads the arguments and runs the inlined kernel for one thread.

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::{LLVMLinkage, LLVMUnnamedAddr};
use mneme_image::cpu_object;

use super::closure::KernelClosure;
use super::shared::SharedMemoryLayout;
use super::wave;
use crate::ir::{Value, annotations, attributes, edit, parameters};

const PREFIX: &str = "__mneme_cpu_kernel.";

/// The layout of a kernel's parameters, and its launch bound. Compute it while the module still has the GPU's data
/// layout.
pub struct EntryLayout {
    pub parameters: Vec<cpu_object::CpuParameter>,
    pub max_threads: u32,
    pub warp_size: u32,
    pub cluster: [u32; 3],
}

impl EntryLayout {
    pub fn of(module: &Module<'_>, kernel: Value<'_>) -> EntryLayout {
        let parameters = parameters::of(module, kernel)
            .into_iter()
            .map(|argument| cpu_object::CpuParameter { offset: argument.offset, size: argument.size })
            .collect();
        EntryLayout {
            parameters,
            max_threads: launch_bound(module, kernel),
            warp_size: wave::size(module, kernel),
            cluster: annotations::cluster(module, kernel),
        }
    }

    fn bytes(&self) -> u32 {
        self.parameters.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0)
    }
}

/// The most threads per block for which the kernel was compiled. AMD's kernels have the least and the most number in an
/// attribute.
fn launch_bound(module: &Module<'_>, kernel: Value<'_>) -> u32 {
    if let Some(range) = edit::string_attribute(kernel, "amdgpu-flat-work-group-size") {
        return range.split(',').nth(1).and_then(|most| most.trim().parse().ok()).unwrap_or(0);
    }
    let extents = annotations::most_threads(module, kernel);
    if extents.is_empty() { 0 } else { u32::try_from(extents.iter().product::<u64>()).unwrap_or(0) }
}

/// Defines the entry of `kernel` and returns its row.
pub fn define(
    module: &Module<'_>,
    kernel: &KernelClosure<'_>,
    interface: EntryLayout,
    extent: SharedMemoryLayout,
) -> cpu_object::CpuKernel {
    let entry = format!("{PREFIX}{}", kernel.name);
    // SAFETY: all values and types belong to the module. The kernel has as many parameters as its interface.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let pointer = LLVMPointerTypeInContext(context, 0);
        let mut parameters = [pointer];
        let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), parameters.as_mut_ptr(), 1, 0);
        let function = edit::declare(module, &entry, ty);
        let block = LLVMAppendBasicBlockInContext(context, function.raw(), c"entry".as_ptr());
        let builder = LLVMCreateBuilderInContext(context);
        LLVMPositionBuilderAtEnd(builder, block);
        let buffer = LLVMGetParam(function.raw(), 0);
        let kernel_type = kernel.function.content_type();
        let (_, types) = edit::signature(kernel_type);
        let mut arguments = Vec::new();
        for (i, (ty, parameter)) in types.iter().zip(&interface.parameters).enumerate() {
            let mut offset = [LLVMConstInt(LLVMInt64TypeInContext(context), u64::from(parameter.offset), 0)];
            let byte = LLVMInt8TypeInContext(context);
            let place = LLVMBuildInBoundsGEP2(builder, byte, buffer, offset.as_mut_ptr(), 1, c"".as_ptr());
            if is_by_value(kernel.function, i) {
                // AMD's argument segment has a separate address space.
                arguments.push(LLVMBuildPointerCast(builder, place, *ty, c"".as_ptr()));
            } else {
                let value = LLVMBuildLoad2(builder, *ty, place, c"".as_ptr());
                LLVMSetAlignment(value, 1);
                arguments.push(value);
            }
        }
        let call = LLVMBuildCall2(
            builder,
            kernel_type,
            kernel.function.raw(),
            arguments.as_mut_ptr(),
            arguments.len() as u32,
            c"".as_ptr(),
        );
        // `byval` on the call makes the inliner copy a structure unless the kernel only reads it.
        for index in 1..=arguments.len() as u32 {
            for attribute in edit::attributes(kernel.function, index) {
                LLVMAddCallSiteAttribute(call, index, attribute);
            }
        }
        LLVMBuildRetVoid(builder);
        LLVMDisposeBuilder(builder);
        LLVMSetUnnamedAddress(kernel.function.raw(), LLVMUnnamedAddr::LLVMNoUnnamedAddr);
        function.set_linkage(LLVMLinkage::LLVMExternalLinkage);
    }
    edit::remove_enum_attribute(kernel.function, "noinline");
    edit::remove_enum_attribute(kernel.function, "optnone");
    edit::add_enum_attribute(module, kernel.function, "alwaysinline");
    cpu_object::CpuKernel {
        name: kernel.name.clone(),
        entry,
        parameter_bytes: interface.bytes(),
        parameters: interface.parameters,
        dynamic_shared_offset: extent.dynamic_offset as u32,
        static_shared: extent.static_bytes as u32,
        collective: kernel.collective,
        max_threads: interface.max_threads,
        warp_size: interface.warp_size,
        cluster: interface.cluster,
    }
}

/// Whether a parameter is the address of its argument in the buffer.
fn is_by_value(kernel: Value<'_>, index: usize) -> bool {
    let index = index as u32;
    attributes::by_value(kernel, index).is_some()
}

/// Removes a refused kernel, so its needs are not looked up. If something else names the kernel, a trap replaces it.
pub fn remove(module: &Module<'_>, kernel: &KernelClosure<'_>) {
    let function = kernel.function;
    let stand_in = edit::declare(module, &format!("__mneme_cpu_refused.{}", kernel.name), function.content_type());
    // SAFETY: all values belong to the module's context.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let block = LLVMAppendBasicBlockInContext(context, stand_in.raw(), c"entry".as_ptr());
        let builder = LLVMCreateBuilderInContext(context);
        LLVMPositionBuilderAtEnd(builder, block);
        let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), std::ptr::null_mut(), 0, 0);
        let trap = edit::declare(module, "__mneme_cpu_trap", ty);
        LLVMBuildCall2(builder, ty, trap.raw(), std::ptr::null_mut(), 0, c"".as_ptr());
        LLVMBuildUnreachable(builder);
        LLVMDisposeBuilder(builder);
    }
    function.replace_uses_with(stand_in);
    function.delete_global();
}
