//! Finds the variable that an address points into, and the offset in it.

use llvm_sys::LLVMOpcode::*;
use llvm_sys::LLVMTypeKind::*;
use llvm_sys::core::*;
use llvm_sys::target::LLVMOffsetOfElement;

use super::accesses::constant;
use super::emitter::{self, ModuleEmitter};
use super::origins;
use super::target::SHARED;
use crate::ir::edit;
use crate::ir::{Value, attributes};

/// The maximum number of steps through pointers that have several sources.
const DEPTH: u32 = 8;

/// An address: a base pointer and an offset from it.
pub struct PointerOffset<'m> {
    pub root: Value<'m>,
    /// Bytes.
    pub constant: i64,
    /// Numbers, each with its factor.
    pub variable: Vec<(Value<'m>, i64)>,
    /// A pointer into the root, computed at run time; if present, the offset counts from it instead of from the root.
    pub from: Option<Value<'m>>,
}

/// The kind of an address's root.
pub enum Root<'m> {
    /// A local variable, or an aggregate that the kernel takes by value; its size in bytes.
    Local(u64),
    /// A shared variable.
    Shared(Value<'m>),
    /// Another variable of the module; its size in bytes.
    Global(u64),
    /// The launch information of a kernel for AMD GPUs.
    Launch,
    Unknown,
}

/// Intrinsics that return pointers to the launch information of a kernel for AMD GPUs.
pub const LAUNCH: [&str; 3] =
    ["llvm.amdgcn.implicitarg.ptr", "llvm.amdgcn.dispatch.ptr", "llvm.amdgcn.kernarg.segment.ptr"];

impl<'m> PointerOffset<'m> {
    pub fn of(emitter: &ModuleEmitter<'m, '_>, pointer: Value<'m>) -> Self {
        let mut address = Self { root: pointer, constant: 0, variable: Vec::new(), from: None };
        while let Some(next) = address.step(emitter) {
            address.root = next;
        }
        address
    }

    /// The same, but also follows choices between pointers into one variable, and arithmetic on addresses.
    pub fn traced(emitter: &ModuleEmitter<'m, '_>, pointer: Value<'m>) -> Self {
        let mut address = Self::of(emitter, pointer);
        if let Some(variable) = origins::of(address.root).filter(|variable| *variable != address.root) {
            address.from = Some(std::mem::replace(&mut address.root, variable));
        }
        address
    }

    /// Follows the root one step back.
    fn step(&mut self, emitter: &ModuleEmitter<'m, '_>) -> Option<Value<'m>> {
        let value = self.root;
        if value.as_instruction().is_none() && !edit::is_constant_expression(value) {
            return None;
        }
        let operands = value.operands();
        match edit::opcode(value) {
            LLVMBitCast | LLVMAddrSpaceCast if emitter::kind(operands[0].ty()) == LLVMPointerTypeKind => {
                Some(operands[0])
            }
            LLVMGetElementPtr if emitter::kind(value.ty()) == LLVMPointerTypeKind => {
                // SAFETY: a live getelementptr, whose indices say which types it steps through.
                let mut ty = unsafe { LLVMGetGEPSourceElementType(value.raw()) };
                for (place, index) in operands[1..].iter().enumerate() {
                    let number = constant(*index);
                    if place > 0 && emitter::kind(ty) == LLVMStructTypeKind {
                        let field = number? as u32;
                        // SAFETY: the index of a structure is a constant below its number of fields.
                        unsafe {
                            self.constant += LLVMOffsetOfElement(emitter.layout(), ty, field) as i64;
                            ty = LLVMStructGetTypeAtIndex(ty, field);
                        }
                        continue;
                    }
                    if place > 0 {
                        // SAFETY: a type that is indexed and is not a structure is an array or a vector.
                        ty = unsafe { LLVMGetElementType(ty) };
                    }
                    let scale = emitter.stride(ty) as i64;
                    // SAFETY: a checked cast.
                    match number.map(|_| unsafe { LLVMConstIntGetSExtValue(index.raw()) }) {
                        Some(number) => self.constant = self.constant.wrapping_add(number.wrapping_mul(scale)),
                        None => self.variable.push((*index, scale)),
                    }
                }
                Some(operands[0])
            }
            _ => None,
        }
    }

    /// The offset as a value; instructions compute it unless it is constant.
    pub fn offset(&self, emitter: &ModuleEmitter<'m, '_>) -> Value<'m> {
        let constant = emitter.number(64, self.constant);
        let start = self.from.map_or(constant, |pointer| {
            let [from, root] = [pointer, self.root].map(|it| emitter.address(emitter.generic(it)));
            emitter.add(constant, emitter.subtract(from, root))
        });
        self.variable.iter().fold(start, |sum, (index, scale)| {
            let index = emitter.widened(*index);
            emitter.add(sum, emitter.multiply(index, emitter.number(64, *scale)))
        })
    }

    pub fn root(&self, emitter: &ModuleEmitter<'m, '_>, function: Value<'m>) -> Root<'m> {
        let root = self.root;
        if let Some(variable) = root.as_variable() {
            return match variable.space() {
                SHARED => Root::Shared(variable),
                // The variable is defined elsewhere, or another definition may replace it.
                _ if variable.is_declaration() => Root::Unknown,
                _ => Root::Global(emitter.stride(variable.content_type())),
            };
        }
        if root.as_instruction().is_some() {
            let other = if is_launch(emitter, root, DEPTH) { Root::Launch } else { Root::Unknown };
            return local_bytes(emitter, root).map_or(other, Root::Local);
        }
        let parameter = function.parameters().into_iter().position(|parameter| parameter == root);
        let by_value = parameter.and_then(|index| attributes::by_value(function, index as u32));
        by_value.map_or(Root::Unknown, |ty| Root::Local(emitter.stride(ty)))
    }

    /// Whether the access to `bytes` bytes is certainly within a root of `size` bytes.
    pub fn holds(&self, bytes: u64, size: u64) -> bool {
        let end = self.constant.checked_add_unsigned(bytes);
        self.from.is_none()
            && self.variable.is_empty()
            && self.constant >= 0
            && end.is_some_and(|end| end as u64 <= size)
    }

    /// The root's declared alignment.
    pub fn root_alignment(&self) -> u64 {
        // SAFETY: only called for live variables and allocas, which have an alignment.
        unsafe {
            let is_alloca = !LLVMIsAAllocaInst(self.root.raw()).is_null();
            if is_alloca || self.root.as_variable().is_some() {
                u64::from(LLVMGetAlignment(self.root.raw()))
            } else {
                0
            }
        }
    }
}

/// Bytes of a local variable of fixed size.
pub fn local_bytes<'m>(emitter: &ModuleEmitter<'m, '_>, instruction: Value<'m>) -> Option<u64> {
    // SAFETY: a checked cast; an alloca has a sized type and a count, its first operand.
    unsafe {
        if LLVMIsAAllocaInst(instruction.raw()).is_null() {
            return None;
        }
        let count = constant(instruction.operands()[0])?;
        Some(emitter.stride(LLVMGetAllocatedType(instruction.raw())) * count)
    }
}

/// The pointers that a phi or a select chooses from.
fn choices(value: Value<'_>) -> Vec<Value<'_>> {
    match value.as_instruction().map(Value::opcode) {
        Some(LLVMPHI) => value.operands(),
        Some(LLVMSelect) => value.operands()[1..].to_vec(),
        _ => Vec::new(),
    }
}

/// Whether an instruction can only return pointers to a kernel's launch information.
fn is_launch<'m>(emitter: &ModuleEmitter<'m, '_>, instruction: Value<'m>, depth: u32) -> bool {
    if instruction.is_call() {
        return instruction.callee().is_some_and(|callee| LAUNCH.contains(&&*callee.name()));
    }
    let is = |pointer| {
        let root = PointerOffset::of(emitter, pointer).root;
        root.as_instruction().is_some_and(|root| depth > 0 && is_launch(emitter, root, depth - 1))
    };
    let choices = choices(instruction);
    !choices.is_empty() && choices.into_iter().all(is)
}

/// Whether a pointer may point to, or into, an aggregate that the function takes by value. The run-time checks cannot
/// classify addresses of such memory.
pub fn may_be_parameter<'m>(emitter: &ModuleEmitter<'m, '_>, pointer: Value<'m>, function: Value<'m>) -> bool {
    may_be(emitter, pointer, function, DEPTH)
}

fn may_be<'m>(emitter: &ModuleEmitter<'m, '_>, pointer: Value<'m>, function: Value<'m>, depth: u32) -> bool {
    let address = PointerOffset::of(emitter, pointer);
    let root = address.root;
    if root.as_instruction().is_none() {
        return matches!(address.root(emitter, function), Root::Local(_));
    }
    depth > 0 && choices(root).into_iter().any(|value| may_be(emitter, value, function, depth - 1))
}
