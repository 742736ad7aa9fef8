//! From recorded bitcode to the module that a pipeline starts from.
//!
//! The steps are the same for every target, so that a pipeline sees the same IR whether its result runs on a GPU or on
//! the CPU device.

mod bounds;
mod dimensions;
mod link;
mod prune;
mod reflect;
mod variables;

pub use link::{load, parse};
pub use variables::device_symbol;

use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::{LLVMConstInt, LLVMConstReal, LLVMGetTypeKind};
use mneme_core::recording::manifest::Argument;

use crate::ir::{self, Value, annotations, parameters};
use crate::request::{BuildError, Request, Target};
use crate::target::Architecture;

/// Specialises and trims a linked module for `request`.
pub fn specialise(
    module: &Module<'_>,
    request: &Request<'_>,
    architecture: &Architecture,
    machine: &TargetMachine,
) -> Result<(), BuildError> {
    let kernel = kernel(module, request.kernel)?;
    prune::drop_used_lists(module);
    let visible = variables::place(module, request.variables, matches!(request.target, Target::Cpu { .. }));
    reflect::resolve(module, architecture);
    let configuration = request.configuration;
    if configuration.specialize.any() {
        fold_arguments(module, kernel, request.arguments);
    }
    if configuration.specialize_dims {
        dimensions::fold(module, configuration.grid, configuration.block);
    }
    if configuration.set_launch_bounds {
        bounds::set(module, kernel, configuration);
    }
    if configuration.internalize || configuration.prune {
        prune::trim(module, kernel, &visible, configuration.internalize, configuration.prune, machine)?;
    }
    Ok(())
}

/// What [`specialise`] does without a particular kernel or launch: for the CPU device, which runs whole modules.
pub fn whole(module: &Module<'_>, architecture: &Architecture) {
    prune::drop_used_lists(module);
    reflect::resolve(module, architecture);
}

/// The kernel's definition.
pub fn kernel<'m>(module: &'m Module<'_>, name: &str) -> Result<Value<'m>, BuildError> {
    ir::function(module, name)
        .filter(|function| annotations::kernels(module).contains(function))
        .ok_or_else(|| BuildError::NoKernel { kernel: name.to_owned() })
}

/// Replaces scalar parameters by their recorded values; the signature, and so the parameter buffer, stays.
fn fold_arguments(module: &Module<'_>, kernel: Value<'_>, recorded: &[Argument]) {
    for (parameter, layout) in kernel.parameters().into_iter().zip(parameters::of(module, kernel)) {
        let found = recorded.iter().find(|argument| argument.offset == layout.offset && argument.bytes.len() >= layout.size as usize);
        let Some(argument) = found.filter(|_| layout.specialisable()) else { continue };
        let mut word = [0; 8];
        let size = layout.size as usize;
        word[..size].copy_from_slice(&argument.bytes[..size]);
        if let Some(constant) = scalar(parameter, u64::from_le_bytes(word)) {
            parameter.replace_uses_with(constant);
        }
    }
}

/// The constant of `like`'s type whose bits are the low bits of `bits`.
fn scalar<'m>(like: Value<'m>, bits: u64) -> Option<Value<'m>> {
    // SAFETY: the type is that of a live value and fits the constructor by its kind. A NaN's payload may be lost by
    // way of a double, so NaNs are left alone.
    unsafe {
        match LLVMGetTypeKind(like.ty()) {
            LLVMTypeKind::LLVMIntegerTypeKind => Value::new(LLVMConstInt(like.ty(), bits, 0)),
            LLVMTypeKind::LLVMFloatTypeKind => Some(f32::from_bits(bits as u32))
                .filter(|value| !value.is_nan())
                .and_then(|value| Value::new(LLVMConstReal(like.ty(), f64::from(value)))),
            LLVMTypeKind::LLVMDoubleTypeKind => {
                Some(f64::from_bits(bits)).filter(|value| !value.is_nan()).and_then(|value| Value::new(LLVMConstReal(like.ty(), value)))
            }
            _ => None,
        }
    }
}
