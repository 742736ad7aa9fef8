//! Folds recorded arguments into the code.
//!
//! The signature, and therefore the parameter buffer, does not change.

use inkwell::module::Module;
use llvm_sys::LLVMTypeKind;
use llvm_sys::core::*;
use llvm_sys::prelude::{LLVMBuilderRef, LLVMTypeRef, LLVMValueRef};
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout, LLVMOffsetOfElement, LLVMStoreSizeOfType};
use llvm_sys::{LLVMLinkage, LLVMOpcode, LLVMUnnamedAddr};
use mneme_model::configuration::Specialize;
use mneme_recording::manifest::is_recorded_address;

use crate::instrument::accesses;
use crate::ir::{Value, attributes, parameters};
use crate::request::RecordedLaunch;

/// An aggregate with more pointers is not split.
const MOST_POINTERS: usize = 64;

/// The most elements of an array in an aggregate to fold.
const MOST_ELEMENTS: u64 = 256;

/// The size of an address in bytes.
const WORD: usize = 8;

/// Words that may be addresses of functions. A replay has functions elsewhere.
const FUNCTIONS: std::ops::Range<u64> = 1 << 32..1 << 57;

/// Whether a word is an address in recorded memory.
type IsAddress<'a> = &'a dyn Fn(&[u8; WORD]) -> bool;

/// Replaces the parameters that `specialize` selects by their recorded values, and notes that in `log`. Pointers stay,
/// and so do addresses that are passed as integers, as in all PTX, because they are meaningless outside this recording.
pub fn fold(
    module: &Module<'_>,
    kernel: Value<'_>,
    specialize: &Specialize,
    recorded: &RecordedLaunch<'_>,
    log: &mut Vec<String>,
) {
    let has_functions = recorded.variables.iter().any(|variable| !variable.functions.is_empty());
    let is_address = |word: &[u8; WORD]| {
        let word = u64::from_le_bytes(*word);
        is_recorded_address(recorded.allocations, word) || has_functions && FUNCTIONS.contains(&word)
    };
    for (index, (parameter, layout)) in (0..).zip(kernel.parameters().into_iter().zip(parameters::of(module, kernel))) {
        if !specialize.selects(index) {
            continue;
        }
        let size = layout.size as usize;
        let Some(bytes) =
            recorded.arguments.get(index as usize).map(|argument| &*argument.bytes).filter(|bytes| bytes.len() == size)
        else {
            continue;
        };
        let folded = if let Some(ty) = attributes::by_value(kernel, index) {
            let alignment = parameters::alignment(module, kernel, index, parameter);
            aggregate(module, kernel, parameter, ty, (bytes, alignment), &is_address)
        } else if parameters::direct_aggregate(parameter).is_some() {
            parts(module, kernel, parameter, bytes, &is_address)
        } else if <&[u8; WORD]>::try_from(bytes).is_ok_and(is_address) {
            false
        } else if layout.specialisable() {
            let mut word = [0; 8];
            word[..size].copy_from_slice(bytes);
            scalar(parameter, u64::from_le_bytes(word)).map(|constant| parameter.replace_uses_with(constant)).is_some()
        } else {
            false
        };
        if folded {
            log.push(
                format!("argument {index} ({} {}) is folded into the code", layout.kind, layout.name)
                    .replace(" )", ")"),
            );
        }
    }
}

/// The constant of `like`'s type whose bits are the low bits of `bits`.
fn scalar<'m>(like: Value<'m>, bits: u64) -> Option<Value<'m>> {
    // SAFETY: the type belongs to a live value and fits the constructor by its kind. A conversion to double could lose
    // a NaN's payload, so NaNs are not folded.
    unsafe {
        match LLVMGetTypeKind(like.ty()) {
            LLVMTypeKind::LLVMIntegerTypeKind => Value::new(LLVMConstInt(like.ty(), bits, 0)),
            LLVMTypeKind::LLVMFloatTypeKind => Some(f32::from_bits(bits as u32))
                .filter(|value| !value.is_nan())
                .and_then(|value| Value::new(LLVMConstReal(like.ty(), f64::from(value)))),
            LLVMTypeKind::LLVMDoubleTypeKind => Some(f64::from_bits(bits))
                .filter(|value| !value.is_nan())
                .and_then(|value| Value::new(LLVMConstReal(like.ty(), value))),
            _ => None,
        }
    }
}

/// Replaces an aggregate that is passed by value. If the kernel only reads it and it has no pointers, a constant
/// replaces it, otherwise a local copy of the constant with the passed pointers, which SROA splits.
fn aggregate(
    module: &Module<'_>,
    kernel: Value<'_>,
    parameter: Value<'_>,
    ty: LLVMTypeRef,
    (bytes, alignment): (&[u8], u64),
    is_address: IsAddress<'_>,
) -> bool {
    let Some(mut pointers) = parameters::pointers(module, ty) else { return false };
    // SAFETY: the context is that of a live module.
    let word = unsafe { LLVMInt64TypeInContext(LLVMGetModuleContext(module.as_mut_ptr())) };
    for (offset, _) in (0..).step_by(WORD).zip(bytes.as_chunks().0).filter(|(_, bytes)| is_address(bytes)) {
        if pointers.iter().all(|(known, _)| *known != offset) {
            pointers.push((offset, word));
        }
    }
    if pointers.len() > MOST_POINTERS || bytes.is_empty() {
        return false;
    }
    // In AMD's constant memory, no code writes to it.
    let is_constant = parameter.space() != 0;
    let constant = constant(module, bytes, alignment, parameter.space());
    if is_constant && !pointers.is_empty() {
        return copies(module, parameter, constant, (bytes.len() as u64, alignment), &pointers);
    }
    if is_constant || (pointers.is_empty() && only_read(parameter)) {
        parameter.replace_uses_with(constant);
        return true;
    }
    // SAFETY: the kernel is defined, so its entry block has a first instruction. The types belong to the context, and
    // the offsets lie in the aggregate. The parameter's uses are replaced before the uses that must stay are created.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let builder = LLVMCreateBuilderInContext(context);
        LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel.raw())));
        let copy = LLVMBuildAlloca(builder, ty, c"folded".as_ptr());
        LLVMSetAlignment(copy, alignment as u32);
        if let Some(copy) = Value::new(copy) {
            parameter.replace_uses_with(copy);
        }
        let length = LLVMConstInt(LLVMInt64TypeInContext(context), bytes.len() as u64, 0);
        LLVMBuildMemCpy(builder, copy, alignment as u32, constant.raw(), alignment as u32, length);
        for pointer in pointers {
            pass_on(builder, (parameter.raw(), alignment), (copy, alignment), pointer);
        }
        LLVMDisposeBuilder(builder);
    }
    true
}

/// Copies a pointer from one aggregate to another, each given with its alignment.
///
/// # Safety
/// Both must be live pointers to aggregates that contain the offset, and the builder must be where both are available.
unsafe fn pass_on(
    builder: LLVMBuilderRef,
    from: (LLVMValueRef, u64),
    to: (LLVMValueRef, u64),
    (offset, field): (u64, LLVMTypeRef),
) {
    let aligned = |alignment: u64| if offset == 0 { alignment } else { alignment.min(1 << offset.trailing_zeros()) };
    // SAFETY: by the contract above.
    unsafe {
        let context = LLVMGetTypeContext(field);
        let mut index = [LLVMConstInt(LLVMInt64TypeInContext(context), offset, 0)];
        let byte = LLVMInt8TypeInContext(context);
        let mut place = |base| LLVMBuildInBoundsGEP2(builder, byte, base, index.as_mut_ptr(), 1, c"".as_ptr());
        let (source, target) = (place(from.0), place(to.0));
        let load = LLVMBuildLoad2(builder, field, source, c"".as_ptr());
        LLVMSetAlignment(load, aligned(from.1) as u32);
        LLVMSetAlignment(LLVMBuildStore(builder, load, target), aligned(to.1) as u32);
    }
}

/// Replaces full copies of an aggregate, with which clang's code begins, by copies of the constant with the passed
/// pointers.
fn copies(
    module: &Module<'_>,
    parameter: Value<'_>,
    constant: Value<'_>,
    (size, alignment): (u64, u64),
    pointers: &[(u64, LLVMTypeRef)],
) -> bool {
    let is_whole = |user: &Value<'_>| {
        let arguments = if user.is_call() { user.call_arguments() } else { Vec::new() };
        user.is_call()
            && user.callee().is_some_and(|callee| callee.name().starts_with("llvm.memcpy."))
            && arguments[1] == parameter
            && accesses::constant(arguments[2]) == Some(size)
    };
    let whole: Vec<Value<'_>> = parameter.users().into_iter().filter(is_whole).collect();
    // SAFETY: a copy is a live call, and its block continues after it. Offsets lie in the aggregate, the types belong
    // to the context, and the changed operand keeps its type.
    unsafe {
        let builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr()));
        for copy in &whole {
            let to = copy.call_arguments()[0];
            LLVMSetOperand(copy.raw(), 1, constant.raw());
            LLVMPositionBuilderBefore(builder, LLVMGetNextInstruction(copy.raw()));
            let declared = LLVMGetCallSiteEnumAttribute(copy.raw(), 1, attributes::kind("align"));
            let known = if declared.is_null() { 1 } else { LLVMGetEnumAttributeValue(declared).max(1) };
            for pointer in pointers {
                pass_on(builder, (parameter.raw(), alignment), (to.raw(), known), *pointer);
            }
        }
        LLVMDisposeBuilder(builder);
    }
    !whole.is_empty()
}

/// Replaces the numbers in an aggregate that is passed directly as a value. Its pointers stay.
fn parts(
    module: &Module<'_>,
    kernel: Value<'_>,
    parameter: Value<'_>,
    bytes: &[u8],
    is_address: IsAddress<'_>,
) -> bool {
    let users = parameter.users();
    // SAFETY: the kernel is defined, so its entry block has a first instruction, and no instruction before it uses the
    // parameter. The changed operands keep their types.
    unsafe {
        let builder = LLVMCreateBuilderInContext(LLVMGetModuleContext(module.as_mut_ptr()));
        LLVMPositionBuilderBefore(builder, LLVMGetFirstInstruction(LLVMGetEntryBasicBlock(kernel.raw())));
        let all = (0..).step_by(WORD).zip(bytes.as_chunks().0);
        let addresses: Vec<usize> = all.filter(|(_, word)| is_address(word)).map(|(offset, _)| offset).collect();
        let whole = folded(module, builder, parameter, bytes, 0, &addresses);
        LLVMDisposeBuilder(builder);
        if whole == parameter {
            return false;
        }
        for user in users {
            for index in 0..LLVMGetNumOperands(user.raw()) as u32 {
                if LLVMGetOperand(user.raw(), index) == parameter.raw() {
                    LLVMSetOperand(user.raw(), index, whole.raw());
                }
            }
        }
    }
    true
}

/// Returns the value, which begins at an offset of the argument, with its numbers replaced by those in `bytes`. Words
/// at the `addresses` in the argument are not replaced, nor are parts of them.
fn folded<'m>(
    module: &Module<'_>,
    builder: LLVMBuilderRef,
    value: Value<'m>,
    bytes: &[u8],
    start: usize,
    addresses: &[usize],
) -> Value<'m> {
    // SAFETY: the builder is where the live value is available, and indices are below the number of elements.
    unsafe {
        let data = LLVMGetModuleDataLayout(module.as_mut_ptr());
        let ty = value.ty();
        let elements = match LLVMGetTypeKind(ty) {
            LLVMTypeKind::LLVMStructTypeKind => LLVMCountStructElementTypes(ty),
            LLVMTypeKind::LLVMArrayTypeKind => LLVMGetArrayLength2(ty).min(MOST_ELEMENTS) as u32,
            _ => 0,
        };
        (0..elements).fold(value, |whole, index| {
            let (element, offset) = match LLVMGetTypeKind(ty) {
                LLVMTypeKind::LLVMStructTypeKind => {
                    (LLVMStructGetTypeAtIndex(ty, index), LLVMOffsetOfElement(data, ty, index))
                }
                _ => {
                    let element = LLVMGetElementType(ty);
                    (element, u64::from(index) * LLVMABISizeOfType(data, element))
                }
            };
            let size = LLVMStoreSizeOfType(data, element) as usize;
            let Some(bytes) = bytes.get(offset as usize..).and_then(|bytes| bytes.get(..size)) else { return whole };
            let old = match LLVMGetTypeKind(element) {
                LLVMTypeKind::LLVMPointerTypeKind => return whole,
                LLVMTypeKind::LLVMStructTypeKind | LLVMTypeKind::LLVMArrayTypeKind => {
                    LLVMBuildExtractValue(builder, value.raw(), index, c"".as_ptr())
                }
                // Only the type matters.
                _ => LLVMGetUndef(element),
            };
            let Some(old) = Value::new(old) else { return whole };
            let mut word = [0; 8];
            let start = start + offset as usize;
            let new = if old.as_instruction().is_some() {
                Some(folded(module, builder, old, bytes, start, addresses)).filter(|new| *new != old)
            } else if addresses.iter().any(|at| *at < start + size && start < at + WORD) {
                None
            } else if size <= word.len() {
                word[..size].copy_from_slice(bytes);
                scalar(old, u64::from_le_bytes(word))
            } else {
                None
            };
            let inserted = |new: Value<'_>| LLVMBuildInsertValue(builder, whole.raw(), new.raw(), index, c"".as_ptr());
            new.and_then(|new| Value::new(inserted(new))).unwrap_or(whole)
        })
    }
}

/// A constant with these bytes, as a pointer to the address space: generic, or AMD's constant memory.
fn constant<'m>(module: &'m Module<'_>, bytes: &[u8], alignment: u64, space: u32) -> Value<'m> {
    // SAFETY: the bytes are copied, and the global belongs to the live module.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let value = LLVMConstStringInContext2(context, bytes.as_ptr().cast(), bytes.len(), 1);
        let name = c"mneme_folded".as_ptr();
        let global = LLVMAddGlobalInAddressSpace(module.as_mut_ptr(), LLVMTypeOf(value), name, space);
        LLVMSetInitializer(global, value);
        LLVMSetGlobalConstant(global, 1);
        LLVMSetLinkage(global, LLVMLinkage::LLVMInternalLinkage);
        LLVMSetUnnamedAddress(global, LLVMUnnamedAddr::LLVMGlobalUnnamedAddr);
        LLVMSetAlignment(global, alignment as u32);
        Value::new(global).expect("LLVM returns the global that it made")
    }
}

/// Whether the memory behind `pointer` is only read.
fn only_read(pointer: Value<'_>) -> bool {
    pointer.users().into_iter().all(|user| match user.opcode() {
        LLVMOpcode::LLVMLoad => true,
        LLVMOpcode::LLVMGetElementPtr | LLVMOpcode::LLVMAddrSpaceCast | LLVMOpcode::LLVMBitCast => only_read(user),
        LLVMOpcode::LLVMCall => {
            let copies = user.callee().is_some_and(|callee| callee.name().starts_with("llvm.memcpy."));
            copies && user.call_arguments().first() != Some(&pointer)
        }
        _ => false,
    })
}
