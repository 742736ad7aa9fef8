//! One LLVM value: a global, an instruction, a constant.

use std::marker::PhantomData;

use llvm_sys::core::*;
use llvm_sys::prelude::{LLVMTypeRef, LLVMUseRef, LLVMValueRef};
use llvm_sys::{LLVMLinkage, LLVMOpcode};

/// A value of a live module. `'m` is the borrow of the module.
///
/// Invariant: the pointer is not null and points to a value that has not been deleted. Only [`Value::delete_global`]
/// and [`Value::erase_instruction`] delete, and they consume the value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Value<'m>(LLVMValueRef, PhantomData<&'m ()>);

impl<'m> Value<'m> {
    pub fn new(raw: LLVMValueRef) -> Option<Self> {
        (!raw.is_null()).then_some(Self(raw, PhantomData))
    }

    pub fn raw(self) -> LLVMValueRef {
        self.0
    }

    pub fn name(self) -> String {
        let mut length = 0;
        // SAFETY: the value is alive. LLVM returns `length` bytes that live as long as the value's name.
        let bytes = unsafe { std::slice::from_raw_parts(LLVMGetValueName2(self.0, &mut length).cast::<u8>(), length) };
        String::from_utf8_lossy(bytes).into_owned()
    }

    pub fn set_name(self, name: &str) {
        // SAFETY: the value is alive; LLVM copies the given bytes.
        unsafe { LLVMSetValueName2(self.0, name.as_ptr().cast(), name.len()) }
    }

    pub fn is_declaration(self) -> bool {
        // SAFETY: the value is a live global.
        unsafe { LLVMIsDeclaration(self.0) != 0 }
    }

    pub fn is_intrinsic(self) -> bool {
        self.name().starts_with("llvm.")
    }

    pub fn as_function(self) -> Option<Self> {
        // SAFETY: the value is alive; a checked cast.
        Self::new(unsafe { LLVMIsAFunction(self.0) })
    }

    pub fn as_variable(self) -> Option<Self> {
        // SAFETY: the value is alive; a checked cast.
        Self::new(unsafe { LLVMIsAGlobalVariable(self.0) })
    }

    pub fn as_global(self) -> Option<Self> {
        // SAFETY: the value is alive; a checked cast.
        Self::new(unsafe { LLVMIsAGlobalValue(self.0) })
    }

    pub fn is_constant(self) -> bool {
        // SAFETY: the value is alive.
        unsafe { LLVMIsConstant(self.0) != 0 }
    }

    pub fn is_user(self) -> bool {
        // SAFETY: the value is alive; a checked cast.
        unsafe { !LLVMIsAUser(self.0).is_null() }
    }

    pub fn is_call(self) -> bool {
        // SAFETY: the value is alive; a checked cast.
        unsafe { !LLVMIsACallInst(self.0).is_null() }
    }

    /// The value itself, if it is an instruction.
    pub fn as_instruction(self) -> Option<Self> {
        // SAFETY: the value is alive; a checked cast.
        Self::new(unsafe { LLVMIsAInstruction(self.0) })
    }

    /// Operands of a user (instruction, constant expression, aggregate); empty for other values.
    pub fn operands(self) -> Vec<Self> {
        if !self.is_user() {
            return Vec::new();
        }
        // SAFETY: the value is a live user, and the indices are below its operand count.
        unsafe {
            let count = LLVMGetNumOperands(self.0);
            (0..count as u32).filter_map(|index| Self::new(LLVMGetOperand(self.0, index))).collect()
        }
    }

    /// The values that use this one, once for each use.
    pub fn users(self) -> Vec<Self> {
        // SAFETY: the value is alive, and no use changes during the walk.
        unsafe {
            let first: LLVMUseRef = LLVMGetFirstUse(self.0);
            std::iter::successors((!first.is_null()).then_some(first), |edge| {
                let next = LLVMGetNextUse(*edge);
                (!next.is_null()).then_some(next)
            })
            .filter_map(|edge| Self::new(LLVMGetUser(edge)))
            .collect()
        }
    }

    /// The function that a direct call calls.
    pub fn callee(self) -> Option<Self> {
        // SAFETY: the value is a live call.
        Self::new(unsafe { LLVMGetCalledValue(self.0) })?.as_function()
    }

    /// The inline assembly that a call runs.
    pub fn inline_assembly(self) -> Option<String> {
        // SAFETY: the value is a live call. The text lives in the context and has the length that LLVM returns.
        unsafe {
            let assembly = LLVMIsAInlineAsm(LLVMGetCalledValue(self.0));
            if assembly.is_null() {
                return None;
            }
            let mut length = 0;
            let start = LLVMGetInlineAsmAsmString(assembly, &mut length);
            Some(String::from_utf8_lossy(std::slice::from_raw_parts(start.cast::<u8>(), length)).into_owned())
        }
    }

    /// Whether an instruction ends the thread inside the kernel, like PTX `exit`.
    pub fn ends_thread(self) -> bool {
        self.is_call()
            && match self.inline_assembly() {
                Some(text) => text.trim_end_matches([';', ' ', '\n', '\t']).trim() == "exit",
                None => self
                    .callee()
                    .is_some_and(|callee| ["llvm.nvvm.exit", "llvm.amdgcn.endpgm"].contains(&&*callee.name())),
            }
    }

    /// Whether an instruction ends its block.
    pub fn is_terminator(self) -> bool {
        // SAFETY: a checked cast of a live value.
        unsafe { !LLVMIsATerminatorInst(self.0).is_null() }
    }

    /// The opcode of an instruction.
    pub fn opcode(self) -> LLVMOpcode {
        // SAFETY: the value is a live instruction.
        unsafe { LLVMGetInstructionOpcode(self.0) }
    }

    /// Arguments of a call.
    pub fn call_arguments(self) -> Vec<Self> {
        // SAFETY: the value is a live call, and the indices are below its argument count.
        unsafe {
            (0..LLVMGetNumArgOperands(self.0)).filter_map(|index| Self::new(LLVMGetOperand(self.0, index))).collect()
        }
    }

    /// Parameters of a function.
    pub fn parameters(self) -> Vec<Self> {
        // SAFETY: the value is a live function, and the indices are below its parameter count.
        unsafe { (0..LLVMCountParams(self.0)).filter_map(|index| Self::new(LLVMGetParam(self.0, index))).collect() }
    }

    /// Instructions of a function, in order.
    pub fn instructions(self) -> Vec<Self> {
        let mut all = Vec::new();
        // SAFETY: the value is a live function, which does not change during the walk.
        unsafe {
            let mut block = LLVMGetFirstBasicBlock(self.0);
            while !block.is_null() {
                let mut instruction = LLVMGetFirstInstruction(block);
                while let Some(value) = Self::new(instruction) {
                    all.push(value);
                    instruction = LLVMGetNextInstruction(instruction);
                }
                block = LLVMGetNextBasicBlock(block);
            }
        }
        all
    }

    /// The initialiser of a variable definition.
    pub fn initializer(self) -> Option<Self> {
        // SAFETY: the value is a live global variable.
        Self::new(unsafe { LLVMGetInitializer(self.0) })
    }

    /// The bytes of a constant string.
    pub fn as_bytes(self) -> Option<Vec<u8>> {
        // SAFETY: LLVMGetAsString is called on a constant data array of i8 only, whose bytes live with the context.
        unsafe {
            if LLVMIsConstantString(self.0) == 0 {
                return None;
            }
            let mut length = 0;
            let start = LLVMGetAsString(self.0, &mut length);
            Some(std::slice::from_raw_parts(start.cast::<u8>(), length).to_vec())
        }
    }

    pub fn linkage(self) -> LLVMLinkage {
        // SAFETY: the value is a live global.
        unsafe { LLVMGetLinkage(self.0) }
    }

    pub fn set_linkage(self, linkage: LLVMLinkage) {
        // SAFETY: the value is a live global.
        unsafe { LLVMSetLinkage(self.0, linkage) }
    }

    /// Whether other modules cannot see it.
    pub fn is_local(self) -> bool {
        matches!(self.linkage(), LLVMLinkage::LLVMInternalLinkage | LLVMLinkage::LLVMPrivateLinkage)
    }

    /// Address space of a global.
    pub fn space(self) -> u32 {
        // SAFETY: the type of a global is a pointer type.
        unsafe { LLVMGetPointerAddressSpace(LLVMTypeOf(self.0)) }
    }

    pub fn ty(self) -> LLVMTypeRef {
        // SAFETY: the value is alive.
        unsafe { LLVMTypeOf(self.0) }
    }

    /// The type of a global's content.
    pub fn content_type(self) -> LLVMTypeRef {
        // SAFETY: the value is a live global.
        unsafe { LLVMGlobalGetValueType(self.0) }
    }

    pub fn replace_uses_with(self, other: Self) {
        debug_assert!(self.ty() == other.ty(), "LLVM requires equal types");
        // SAFETY: both values are alive and of one type.
        unsafe { LLVMReplaceAllUsesWith(self.0, other.0) }
    }

    /// Deletes a global variable or function that has no uses left.
    pub fn delete_global(self) {
        // SAFETY: the value is a live global. By contract, the caller drops all copies.
        unsafe {
            if self.as_function().is_some() {
                LLVMDeleteFunction(self.0);
            } else {
                LLVMDeleteGlobal(self.0);
            }
        }
    }

    /// Removes an instruction that has no uses left from its block.
    pub fn erase_instruction(self) {
        // SAFETY: the value is a live instruction. By contract, the caller drops all copies.
        unsafe { LLVMInstructionEraseFromParent(self.0) }
    }
}
