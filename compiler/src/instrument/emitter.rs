//! An emitter of instructions into a module that is being instrumented.
//!
//! All functions take live values of that module ([`Value`]'s invariant).

use inkwell::module::Module;
use llvm_sys::LLVMTypeKind::{self, *};
use llvm_sys::core::*;
use llvm_sys::prelude::*;
use llvm_sys::target::{
    LLVMABISizeOfType, LLVMGetModuleDataLayout, LLVMSizeOfTypeInBits, LLVMStoreSizeOfType, LLVMTargetDataRef,
};

use crate::ir::Value;
use crate::ir::edit;

unsafe extern "C" {
    fn mneme_llvm_branch(condition: LLVMValueRef, before: LLVMValueRef) -> LLVMValueRef;
}

/// Name prefix of Mneme's own functions, which are not instrumented.
pub const PREFIX: &str = "__mneme_";

/// Inserts instructions at a position.
pub struct ModuleEmitter<'m, 'ctx> {
    pub module: &'m Module<'ctx>,
    builder: LLVMBuilderRef,
    context: LLVMContextRef,
}

impl Drop for ModuleEmitter<'_, '_> {
    fn drop(&mut self) {
        // SAFETY: made by `new`, used by this object only.
        unsafe { LLVMDisposeBuilder(self.builder) }
    }
}

fn made<'m>(raw: LLVMValueRef) -> Value<'m> {
    Value::new(raw).expect("LLVM's builder returns a value")
}

impl<'m, 'ctx> ModuleEmitter<'m, 'ctx> {
    pub fn new(module: &'m Module<'ctx>) -> Self {
        // SAFETY: the module is alive; the builder is disposed of with the object.
        unsafe {
            let context = LLVMGetModuleContext(module.as_mut_ptr());
            Self { module, builder: LLVMCreateBuilderInContext(context), context }
        }
    }

    pub fn before(&self, instruction: Value<'m>) {
        // SAFETY: the builder is ours, the instruction alive.
        unsafe { LLVMPositionBuilderBefore(self.builder, instruction.raw()) }
    }

    /// Moves to the position after an instruction that does not end its block; after a phi, to the position after all
    /// phis.
    pub fn after(&self, instruction: Value<'m>) {
        // SAFETY: as above; a block continues after such an instruction.
        let mut next = made(unsafe { LLVMGetNextInstruction(instruction.raw()) });
        while edit::is_phi(next) {
            // SAFETY: a block does not end with a phi.
            next = made(unsafe { LLVMGetNextInstruction(next.raw()) });
        }
        self.before(next);
    }

    pub fn layout(&self) -> LLVMTargetDataRef {
        // SAFETY: the module is alive.
        unsafe { LLVMGetModuleDataLayout(self.module.as_mut_ptr()) }
    }

    /// Bytes that an access to a sized type touches.
    pub fn bytes(&self, ty: LLVMTypeRef) -> u64 {
        // SAFETY: a live, sized type.
        unsafe { LLVMStoreSizeOfType(self.layout(), ty) }
    }

    /// Bytes from one element of an array of a sized type to the next.
    pub fn stride(&self, ty: LLVMTypeRef) -> u64 {
        // SAFETY: a live, sized type.
        unsafe { LLVMABISizeOfType(self.layout(), ty) }
    }

    pub fn integer(&self, bits: u32) -> LLVMTypeRef {
        // SAFETY: the context is alive.
        unsafe { LLVMIntTypeInContext(self.context, bits) }
    }

    pub fn void(&self) -> LLVMTypeRef {
        // SAFETY: the context is alive.
        unsafe { LLVMVoidTypeInContext(self.context) }
    }

    /// A generic pointer.
    pub fn pointer(&self) -> LLVMTypeRef {
        // SAFETY: the context is alive.
        unsafe { LLVMPointerTypeInContext(self.context, 0) }
    }

    pub fn structure(&self, fields: &mut [LLVMTypeRef]) -> LLVMTypeRef {
        // SAFETY: the context is alive, the types belong to it.
        unsafe { LLVMStructTypeInContext(self.context, fields.as_mut_ptr(), fields.len() as u32, 0) }
    }

    pub fn number(&self, bits: u32, value: i64) -> Value<'m> {
        // SAFETY: the type is alive.
        made(unsafe { LLVMConstInt(self.integer(bits), value as u64, 1) })
    }

    /// A call of one of Mneme's functions, which is declared if necessary.
    pub fn call(&self, name: &str, result: LLVMTypeRef, arguments: &[Value<'m>]) -> Value<'m> {
        let mut types: Vec<LLVMTypeRef> = arguments.iter().map(|argument| argument.ty()).collect();
        let mut raw: Vec<LLVMValueRef> = arguments.iter().map(|argument| argument.raw()).collect();
        // SAFETY: the types are those of the arguments, and all belong to the module's context; the builder is
        // positioned.
        unsafe {
            let ty = LLVMFunctionType(result, types.as_mut_ptr(), types.len() as u32, 0);
            let function = edit::declare(self.module, name, ty);
            edit::add_enum_attribute(self.module, function, "nounwind");
            made(LLVMBuildCall2(self.builder, ty, function.raw(), raw.as_mut_ptr(), raw.len() as u32, c"".as_ptr()))
        }
    }

    /// Casts a pointer of any address space to a generic one.
    pub fn generic(&self, pointer: Value<'m>) -> Value<'m> {
        if space(pointer) == 0 {
            return pointer;
        }
        // SAFETY: a live pointer; every space is part of the generic one.
        made(unsafe { LLVMBuildAddrSpaceCast(self.builder, pointer.raw(), self.pointer(), c"".as_ptr()) })
    }

    /// Casts a generic pointer to the type of `like`.
    pub fn like(&self, pointer: Value<'m>, like: Value<'m>) -> Value<'m> {
        if pointer.ty() == like.ty() {
            return pointer;
        }
        // SAFETY: live pointers.
        made(unsafe { LLVMBuildAddrSpaceCast(self.builder, pointer.raw(), like.ty(), c"".as_ptr()) })
    }

    /// Casts a number to a pointer of an address space.
    pub fn pointed(&self, number: Value<'m>, space: u32) -> Value<'m> {
        // SAFETY: a live integer; the context is alive.
        made(unsafe {
            let ty = LLVMPointerTypeInContext(self.context, space);
            LLVMBuildIntToPtr(self.builder, number.raw(), ty, c"".as_ptr())
        })
    }

    pub fn address(&self, pointer: Value<'m>) -> Value<'m> {
        // SAFETY: a live pointer.
        made(unsafe { LLVMBuildPtrToInt(self.builder, pointer.raw(), self.integer(64), c"".as_ptr()) })
    }

    pub fn add(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe { LLVMBuildAdd(self.builder, one.raw(), other.raw(), c"".as_ptr()) })
    }

    pub fn multiply(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe { LLVMBuildMul(self.builder, one.raw(), other.raw(), c"".as_ptr()) })
    }

    pub fn subtract(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe { LLVMBuildSub(self.builder, one.raw(), other.raw(), c"".as_ptr()) })
    }

    pub fn and(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe { LLVMBuildAnd(self.builder, one.raw(), other.raw(), c"".as_ptr()) })
    }

    pub fn or(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe { LLVMBuildOr(self.builder, one.raw(), other.raw(), c"".as_ptr()) })
    }

    /// Whether one unsigned number is less than another.
    pub fn below(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe {
            LLVMBuildICmp(self.builder, llvm_sys::LLVMIntPredicate::LLVMIntULT, one.raw(), other.raw(), c"".as_ptr())
        })
    }

    pub fn not_equal(&self, one: Value<'m>, other: Value<'m>) -> Value<'m> {
        // SAFETY: live integers of one type.
        made(unsafe {
            LLVMBuildICmp(self.builder, llvm_sys::LLVMIntPredicate::LLVMIntNE, one.raw(), other.raw(), c"".as_ptr())
        })
    }

    pub fn is_zero(&self, number: Value<'m>) -> Value<'m> {
        // SAFETY: a live integer, and a zero of its type.
        made(unsafe {
            let zero = LLVMConstNull(number.ty());
            LLVMBuildICmp(self.builder, llvm_sys::LLVMIntPredicate::LLVMIntEQ, number.raw(), zero, c"".as_ptr())
        })
    }

    pub fn select(&self, condition: Value<'m>, yes: Value<'m>, no: Value<'m>) -> Value<'m> {
        // SAFETY: a live bit and live values of one type.
        made(unsafe { LLVMBuildSelect(self.builder, condition.raw(), yes.raw(), no.raw(), c"".as_ptr()) })
    }

    /// Returns `usual`, unless the condition holds at run time: then it returns the result of the code that `otherwise`
    /// adds. The code goes before `instruction`, whose block is split.
    pub fn unless(
        &self,
        condition: Value<'m>,
        instruction: Value<'m>,
        usual: Value<'m>,
        otherwise: impl FnOnce() -> Value<'m>,
    ) -> Value<'m> {
        // SAFETY: a live bit and instruction of one function, and a value that is there before the instruction. The
        // split leaves what comes before it in its block, and the instruction at the beginning of a new one, which a
        // phi may begin.
        unsafe {
            let before = LLVMGetInstructionParent(instruction.raw());
            let end = made(mneme_llvm_branch(condition.raw(), instruction.raw()));
            self.before(end);
            let other = otherwise();
            let mut values = [usual.raw(), other.raw()];
            let mut blocks = [before, LLVMGetInstructionParent(end.raw())];
            self.before(instruction);
            let phi = LLVMBuildPhi(self.builder, usual.ty(), c"".as_ptr());
            LLVMAddIncoming(phi, values.as_mut_ptr(), blocks.as_mut_ptr(), 2);
            made(phi)
        }
    }

    /// The number with all bits set, of an integer type.
    pub fn ones(&self, ty: LLVMTypeRef) -> Value<'m> {
        // SAFETY: a live integer type.
        made(unsafe { LLVMConstAllOnes(ty) })
    }

    /// An array of `count` bytes.
    pub fn bytes_of(&self, count: u64) -> LLVMTypeRef {
        // SAFETY: a live type.
        unsafe { LLVMArrayType2(self.integer(8), count) }
    }

    /// Truncates a 64-bit number to the type of `like`.
    pub fn narrowed(&self, number: Value<'m>, like: Value<'m>) -> Value<'m> {
        // SAFETY: live integers.
        made(unsafe { LLVMBuildIntCast2(self.builder, number.raw(), like.ty(), 0, c"".as_ptr()) })
    }

    /// Begins one of Mneme's functions and returns its parameters.
    pub fn define(&self, name: &str, result: LLVMTypeRef, parameters: &[LLVMTypeRef]) -> Vec<Value<'m>> {
        let mut types = parameters.to_vec();
        // SAFETY: the types belong to the module's context; the new function has no block yet.
        unsafe {
            let ty = LLVMFunctionType(result, types.as_mut_ptr(), types.len() as u32, 0);
            let function = edit::declare(self.module, name, ty);
            edit::add_enum_attribute(self.module, function, "noinline");
            let block = LLVMAppendBasicBlockInContext(self.context, function.raw(), c"".as_ptr());
            LLVMPositionBuilderAtEnd(self.builder, block);
            function.parameters()
        }
    }

    /// A structure with these values.
    pub fn tuple(&self, ty: LLVMTypeRef, values: &[Value<'m>]) -> Value<'m> {
        // SAFETY: the structure has as many fields, of these types.
        unsafe {
            let whole = values.iter().enumerate().fold(LLVMGetPoison(ty), |whole, (index, value)| {
                LLVMBuildInsertValue(self.builder, whole, value.raw(), index as u32, c"".as_ptr())
            });
            made(whole)
        }
    }

    /// Ends a function with this result.
    pub fn give_back(&self, value: Value<'m>) {
        // SAFETY: the builder is at the end of a function with this result.
        unsafe { LLVMBuildRet(self.builder, value.raw()) };
    }

    /// Sign-extends an integer to 64 bits.
    pub fn widened(&self, number: Value<'m>) -> Value<'m> {
        // SAFETY: a live integer.
        made(unsafe { LLVMBuildIntCast2(self.builder, number.raw(), self.integer(64), 1, c"".as_ptr()) })
    }

    /// The bits of a value as a 64-bit number, if its type has bits; wider values are hashed.
    pub fn bits(&self, value: Value<'m>) -> Option<Value<'m>> {
        let ty = value.ty();
        // SAFETY: a live value whose kind of type says what it can be cast to.
        unsafe {
            let whole = match LLVMGetTypeKind(ty) {
                LLVMPointerTypeKind => return Some(self.address(value)),
                LLVMIntegerTypeKind => value.raw(),
                LLVMVectorTypeKind if LLVMGetTypeKind(LLVMGetElementType(ty)) == LLVMPointerTypeKind => return None,
                LLVMHalfTypeKind | LLVMBFloatTypeKind | LLVMFloatTypeKind | LLVMDoubleTypeKind | LLVMVectorTypeKind => {
                    let bits = LLVMSizeOfTypeInBits(self.layout(), ty);
                    LLVMBuildBitCast(self.builder, value.raw(), self.integer(bits as u32), c"".as_ptr())
                }
                _ => return None,
            };
            let bits = LLVMGetIntTypeWidth(LLVMTypeOf(whole));
            if bits > 64 {
                return Some(self.hashed(whole, bits));
            }
            Some(made(LLVMBuildZExtOrBitCast(self.builder, whole, self.integer(64), c"".as_ptr())))
        }
    }

    /// A hash of an integer with `bits` bits.
    fn hashed(&self, number: LLVMValueRef, bits: u32) -> Value<'m> {
        const FACTOR: i64 = 0x9e37_79b9_7f4a_7c15_u64 as i64;
        let word = self.integer(64);
        (0..bits.div_ceil(64)).fold(self.number(64, i64::from(bits)), |hash, index| {
            // SAFETY: a live integer of more than `index` words.
            let part = unsafe {
                let shift = LLVMConstInt(LLVMTypeOf(number), u64::from(index) * 64, 0);
                let moved = LLVMBuildLShr(self.builder, number, shift, c"".as_ptr());
                made(LLVMBuildIntCast2(self.builder, moved, word, 0, c"".as_ptr()))
            };
            // SAFETY: live integers of one type.
            let mix = |one: Value<'m>, other: Value<'m>| unsafe {
                made(LLVMBuildXor(self.builder, one.raw(), other.raw(), c"".as_ptr()))
            };
            let mixed = self.multiply(mix(hash, part), self.number(64, FACTOR));
            // SAFETY: a live integer.
            let high =
                unsafe { made(LLVMBuildLShr(self.builder, mixed.raw(), self.number(64, 32).raw(), c"".as_ptr())) };
            self.multiply(mix(mixed, high), self.number(64, FACTOR))
        })
    }

    pub fn slot(&self, ty: LLVMTypeRef, alignment: u32) -> Value<'m> {
        // SAFETY: a live, sized type; the builder is positioned.
        unsafe {
            let slot = LLVMBuildAlloca(self.builder, ty, c"".as_ptr());
            LLVMSetAlignment(slot, alignment);
            made(slot)
        }
    }

    pub fn load(&self, ty: LLVMTypeRef, pointer: Value<'m>) -> Value<'m> {
        // SAFETY: a live pointer and a sized type.
        unsafe {
            let load = LLVMBuildLoad2(self.builder, ty, pointer.raw(), c"".as_ptr());
            LLVMSetAlignment(load, 1);
            made(load)
        }
    }

    pub fn store(&self, value: Value<'m>, pointer: Value<'m>) {
        // SAFETY: a live value and a live pointer.
        unsafe { LLVMSetAlignment(LLVMBuildStore(self.builder, value.raw(), pointer.raw()), 1) }
    }

    /// Fills memory with a byte.
    pub fn fill(&self, pointer: Value<'m>, byte: u8, bytes: Value<'m>) {
        let byte = self.number(8, i64::from(byte as i8));
        // SAFETY: a live pointer, byte and length.
        unsafe { LLVMBuildMemSet(self.builder, pointer.raw(), byte.raw(), bytes.raw(), 1) };
    }

    pub fn copy(&self, to: Value<'m>, from: Value<'m>, bytes: Value<'m>) {
        // SAFETY: live pointers and a length.
        unsafe { LLVMBuildMemMove(self.builder, to.raw(), 1, from.raw(), 1, bytes.raw()) };
    }

    /// A generic pointer plus a constant number of bytes.
    pub fn moved(&self, pointer: Value<'m>, bytes: u64) -> Value<'m> {
        self.displaced(pointer, self.number(64, bytes as i64))
    }

    /// A generic pointer plus a number of bytes known at run time.
    pub fn displaced(&self, pointer: Value<'m>, bytes: Value<'m>) -> Value<'m> {
        let mut index = [bytes.raw()];
        // SAFETY: a live pointer and a number.
        made(unsafe {
            LLVMBuildGEP2(self.builder, self.integer(8), pointer.raw(), index.as_mut_ptr(), 1, c"".as_ptr())
        })
    }

    /// Repeats `instruction` (`getelementptr` or a pointer cast) on another pointer.
    pub fn step(&self, instruction: Value<'m>, from: Value<'m>) -> Value<'m> {
        // SAFETY: the clone has the operands of a live instruction; the new one has the type of the one it replaces.
        unsafe {
            let clone = LLVMInstructionClone(instruction.raw());
            LLVMSetOperand(clone, 0, from.raw());
            LLVMInsertIntoBuilder(self.builder, clone);
            made(clone)
        }
    }
}

/// The address space of a pointer.
pub fn space(pointer: Value<'_>) -> u32 {
    // SAFETY: a live pointer.
    unsafe { LLVMGetPointerAddressSpace(pointer.ty()) }
}

pub fn kind(ty: LLVMTypeRef) -> LLVMTypeKind {
    // SAFETY: a live type.
    unsafe { LLVMGetTypeKind(ty) }
}
