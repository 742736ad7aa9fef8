//! Lowers shared memory to offsets from a block's base.
//!
//! Variables that one kernel reaches never overlap; variables of different kernels may. On NVIDIA GPUs, an address of
//! shared memory fits into 32 bits, so only the low half of an integer counts if it becomes such a pointer.

use std::collections::HashMap;
use std::ffi::c_uint;

use inkwell::module::Module;
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::target::{LLVMABIAlignmentOfType, LLVMABISizeOfType, LLVMGetModuleDataLayout};
use llvm_sys::{LLVMOpcode, LLVMTypeKind};

use crate::ir::{self, Value};

use super::closure::KernelClosure;
use super::{SHARED, is_amdgcn};
use crate::ir::edit;

/// The runtime function that returns an address.
const ADDRESS: &str = "__mneme_cpu.shared";
/// The runtime function that completes the low half of an address.
const WHOLE: &str = "__mneme_cpu.from_shared";
/// The least alignment of dynamic shared memory in bytes, as on the GPU.
const DYNAMIC_ALIGNMENT: u64 = 16;

/// Shared memory of one kernel, in bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedMemoryLayout {
    pub static_bytes: u64,
    pub dynamic_offset: u64,
}

/// Chooses the offsets and replaces the variables by addresses. Returns one layout per kernel, in order.
pub fn lower<'m>(module: &'m Module<'_>, kernels: &[KernelClosure<'m>]) -> Vec<SharedMemoryLayout> {
    let variables: Vec<Value<'m>> = ir::variables(module).into_iter().filter(|v| v.space() == SHARED).collect();
    let mut extents = vec![SharedMemoryLayout::default(); kernels.len()];
    let users = |variable: &Value<'m>| -> Vec<usize> {
        (0..kernels.len()).filter(|k| kernels[*k].shared.contains(variable)).collect()
    };
    let mut offsets: HashMap<Value<'m>, u64> = HashMap::new();
    for variable in &variables {
        let (size, alignment) = size_and_alignment(module, *variable);
        if size == 0 {
            continue;
        }
        let users = users(variable);
        let end = users.iter().map(|k| extents[*k].static_bytes).max().unwrap_or(0);
        let offset = end.next_multiple_of(alignment);
        offsets.insert(*variable, offset);
        for k in users {
            extents[k].static_bytes = offset + size;
        }
    }
    place_dynamic(module, &variables, &users, &mut extents, &mut offsets);

    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        rewrite(module, function, &offsets);
    }
    if !is_amdgcn(module) {
        complete_numbers(module);
    }
    extents
}

/// Gives integers that become pointers to shared memory the upper half, which they may have lost in 32 bits.
fn complete_numbers(module: &Module<'_>) {
    // SAFETY: the builder lives for this function only, and is moved to live instructions.
    let builder = unsafe { LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr())) };
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        for instruction in function.instructions() {
            // SAFETY: a conversion has one operand, an integer or a vector of integers.
            unsafe {
                if edit::opcode(instruction) == LLVMOpcode::LLVMIntToPtr && leads_to_shared(instruction.ty()) {
                    let number = LLVMGetOperand(instruction.raw(), 0);
                    LLVMPositionBuilderBefore(builder, instruction.raw());
                    let whole = complete(module, builder, number);
                    LLVMSetOperand(instruction.raw(), 0, whole);
                }
            }
        }
    }
    // SAFETY: created above, not used again.
    unsafe { LLVMDisposeBuilder(builder) };
}

/// Whether a type is a pointer to shared memory, or a vector of such pointers.
///
/// # Safety
/// The type must belong to a live context.
unsafe fn leads_to_shared(ty: LLVMTypeRef) -> bool {
    // SAFETY: by the contract above.
    unsafe {
        let element = if is_vector(ty) { LLVMGetElementType(ty) } else { ty };
        LLVMGetTypeKind(element) == LLVMTypeKind::LLVMPointerTypeKind && LLVMGetPointerAddressSpace(element) == SHARED
    }
}

/// # Safety
/// The builder must be positioned, and `number` must be an integer, or a vector of integers, available there.
unsafe fn complete(module: &Module<'_>, builder: LLVMBuilderRef, number: LLVMValueRef) -> LLVMValueRef {
    let name = c"".as_ptr();
    // SAFETY: by the contract above. Indices are below the vector's size.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let wide = LLVMInt64TypeInContext(context);
        let mut parameter = [wide];
        let ty = LLVMFunctionType(wide, parameter.as_mut_ptr(), 1, 0);
        let function = edit::declare(module, WHOLE, ty);
        let scalar = |number: LLVMValueRef| {
            let mut argument = [LLVMBuildIntCast2(builder, number, wide, 0, name)];
            LLVMBuildCall2(builder, ty, function.raw(), argument.as_mut_ptr(), 1, name)
        };
        let own = LLVMTypeOf(number);
        if !is_vector(own) {
            return scalar(number);
        }
        let count = LLVMGetVectorSize(own);
        let mut whole = LLVMGetPoison(LLVMVectorType(wide, count));
        for i in 0..count {
            let index = LLVMConstInt(LLVMInt32TypeInContext(context), u64::from(i), 0);
            let element = scalar(LLVMBuildExtractElement(builder, number, index, name));
            whole = LLVMBuildInsertElement(builder, whole, element, index, name);
        }
        whole
    }
}

/// # Safety
/// The type must belong to a live context.
unsafe fn is_vector(ty: LLVMTypeRef) -> bool {
    // SAFETY: by the contract above.
    unsafe { LLVMGetTypeKind(ty) == LLVMTypeKind::LLVMVectorTypeKind }
}

/// Places dynamic shared memory after the static memory of every kernel that reaches the same dynamic array.
fn place_dynamic<'m>(
    module: &Module<'_>,
    variables: &[Value<'m>],
    users: &dyn Fn(&Value<'m>) -> Vec<usize>,
    extents: &mut [SharedMemoryLayout],
    offsets: &mut HashMap<Value<'m>, u64>,
) {
    for extent in extents.iter_mut() {
        extent.dynamic_offset = extent.static_bytes.next_multiple_of(DYNAMIC_ALIGNMENT);
    }
    let dynamic: Vec<Value<'m>> = variables.iter().copied().filter(|v| !offsets.contains_key(v)).collect();
    let mut changed = true;
    while changed {
        changed = false;
        for variable in &dynamic {
            let (_, alignment) = size_and_alignment(module, *variable);
            let users = users(variable);
            let offset =
                users.iter().map(|k| extents[*k].dynamic_offset).max().unwrap_or(0).next_multiple_of(alignment);
            offsets.insert(*variable, offset);
            for k in users {
                changed |= extents[k].dynamic_offset != offset;
                extents[k].dynamic_offset = offset;
            }
        }
    }
}

fn size_and_alignment(module: &Module<'_>, variable: Value<'_>) -> (u64, u64) {
    // SAFETY: a live global variable of a sized type, and its module.
    unsafe {
        let layout = LLVMGetModuleDataLayout(module.as_mut_ptr());
        let ty = variable.content_type();
        let natural = u64::from(LLVMABIAlignmentOfType(layout, ty));
        (LLVMABISizeOfType(layout, ty), natural.max(u64::from(edit::alignment(variable))).max(1))
    }
}

/// Rewrites one function.
struct Rewriter<'a, 'm> {
    module: &'a Module<'m>,
    builder: LLVMBuilderRef,
    offsets: &'a HashMap<Value<'a>, u64>,
    entry: LLVMBasicBlockRef,
    addresses: HashMap<Value<'a>, Value<'a>>,
}

fn rewrite<'a, 'm>(module: &'a Module<'m>, function: Value<'a>, offsets: &'a HashMap<Value<'a>, u64>) {
    // SAFETY: the builder lives for this function only. The function is defined, so it has an entry block.
    let (builder, entry) = unsafe {
        (LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr())), LLVMGetEntryBasicBlock(function.raw()))
    };
    let mut rewriter = Rewriter { module, builder, offsets, entry, addresses: HashMap::new() };
    for instruction in function.instructions() {
        rewriter.instruction(instruction);
    }
    // SAFETY: created above, not used again.
    unsafe { LLVMDisposeBuilder(builder) };
}

impl<'a> Rewriter<'a, '_> {
    fn instruction(&mut self, instruction: Value<'a>) {
        // One value per incoming block, because a phi may name a block twice.
        let mut incoming: HashMap<(LLVMBasicBlockRef, Value<'a>), Value<'a>> = HashMap::new();
        for (index, operand) in instruction.operands().into_iter().enumerate() {
            if !operand.is_constant() || !self.mentions_shared(operand) {
                continue;
            }
            let phi_block = edit::is_phi(instruction)
                // SAFETY: the index is below the phi's operand count.
                .then(|| unsafe { LLVMGetIncomingBlock(instruction.raw(), index as c_uint) });
            let known = phi_block.and_then(|block| incoming.get(&(block, operand)).copied());
            let new = known.unwrap_or_else(|| {
                // SAFETY: the builder is moved to a live instruction.
                let place = |builder| unsafe {
                    LLVMPositionBuilderBefore(
                        builder,
                        phi_block.map_or(instruction.raw(), |b| LLVMGetBasicBlockTerminator(b)),
                    );
                };
                self.materialise(operand, &place)
            });
            if let Some(block) = phi_block {
                incoming.insert((block, operand), new);
            }
            edit::set_operand(instruction, index as u32, new);
        }
    }

    fn mentions_shared(&self, constant: Value<'a>) -> bool {
        self.offsets.contains_key(&constant)
            || (constant.as_global().is_none()
                && constant.operands().into_iter().any(|operand| self.mentions_shared(operand)))
    }

    /// Turns the constant into instructions at `place`, with variables as addresses.
    fn materialise(&mut self, constant: Value<'a>, place: &dyn Fn(LLVMBuilderRef)) -> Value<'a> {
        if let Some(offset) = self.offsets.get(&constant) {
            return self.address(constant, *offset);
        }
        if !self.mentions_shared(constant) {
            return constant;
        }
        let operands: Vec<Value<'a>> =
            constant.operands().into_iter().map(|operand| self.materialise(operand, place)).collect();
        place(self.builder);
        let raw = self.build(constant, &operands);
        Value::new(raw).expect("LLVM's builder returns the instruction")
    }

    fn build(&self, constant: Value<'a>, operands: &[Value<'a>]) -> LLVMValueRef {
        let name = c"".as_ptr();
        let mut raw: Vec<LLVMValueRef> = operands.iter().map(|operand| operand.raw()).collect();
        let builder = self.builder;
        // SAFETY: opcode, types and operand count are those of a valid constant, and the builder is positioned.
        unsafe {
            if !edit::is_constant_expression(constant) {
                return aggregate(builder, constant.ty(), &raw);
            }
            let opcode = edit::opcode(constant);
            match opcode {
                LLVMOpcode::LLVMGetElementPtr => {
                    let (base, indices) = raw.split_at_mut(1);
                    let element = LLVMGetGEPSourceElementType(constant.raw());
                    let build = if LLVMIsInBounds(constant.raw()) != 0 { LLVMBuildInBoundsGEP2 } else { LLVMBuildGEP2 };
                    build(builder, element, base[0], indices.as_mut_ptr(), indices.len() as c_uint, name)
                }
                _ if raw.len() == 1 => LLVMBuildCast(builder, opcode, raw[0], constant.ty(), name),
                _ => LLVMBuildBinOp(builder, opcode, raw[0], raw[1], name),
            }
        }
    }

    /// The address of a variable in this function, computed once in its entry block.
    fn address(&mut self, variable: Value<'a>, offset: u64) -> Value<'a> {
        if let Some(address) = self.addresses.get(&variable) {
            return *address;
        }
        // SAFETY: the entry block has a first instruction, and types belong to the module's context.
        let raw = unsafe {
            let context = LLVMGetModuleContext(self.module.as_mut_ptr());
            let mut parameter = [LLVMInt64TypeInContext(context)];
            let ty = LLVMFunctionType(LLVMPointerTypeInContext(context, SHARED), parameter.as_mut_ptr(), 1, 0);
            let function = edit::declare(self.module, ADDRESS, ty);
            LLVMPositionBuilderBefore(self.builder, LLVMGetFirstInstruction(self.entry));
            let mut argument = [LLVMConstInt(parameter[0], offset, 0)];
            LLVMBuildCall2(self.builder, ty, function.raw(), argument.as_mut_ptr(), 1, c"".as_ptr())
        };
        let address = Value::new(raw).expect("LLVM's builder returns the instruction");
        self.addresses.insert(variable, address);
        address
    }
}

/// Builds a vector, array or structure constant, element by element.
///
/// # Safety
/// The builder must be positioned, and `elements` must be all elements of a value of type `ty`.
unsafe fn aggregate(builder: LLVMBuilderRef, ty: LLVMTypeRef, elements: &[LLVMValueRef]) -> LLVMValueRef {
    // SAFETY: by the contract above.
    unsafe {
        let vector = is_vector(ty);
        let index_type = LLVMInt32TypeInContext(LLVMGetTypeContext(ty));
        let mut whole = LLVMGetPoison(ty);
        for (i, element) in elements.iter().enumerate() {
            whole = if vector {
                LLVMBuildInsertElement(builder, whole, *element, LLVMConstInt(index_type, i as u64, 0), c"".as_ptr())
            } else {
                LLVMBuildInsertValue(builder, whole, *element, i as c_uint, c"".as_ptr())
            };
        }
        whole
    }
}
