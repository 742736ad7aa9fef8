//! The instructions that access memory, and the kinds of their accesses.

use llvm_sys::LLVMAtomicOrdering;
use llvm_sys::LLVMOpcode::*;
use llvm_sys::core::*;
use mneme_model::architecture::Vendor;
use mneme_model::observation::Access;

use super::emitter::{self, ModuleEmitter};
use super::target;
use crate::ir::{Value, edit};

/// How many bytes an access touches.
#[derive(Clone, Copy)]
pub enum Length<'m> {
    Fixed(u64),
    /// The size is an operand; an access of size 0 does not happen.
    Operand(u32, Value<'m>),
}

/// One access of an instruction, which may have two.
#[derive(Clone, Copy)]
pub struct MemoryAccess<'m> {
    pub instruction: Value<'m>,
    /// The number of the address operand.
    pub operand: u32,
    pub length: Length<'m>,
    /// A known alignment of the address, bytes.
    pub alignment: u64,
    pub access: Access,
    /// The written value, if it is an operand.
    pub value: Option<Value<'m>>,
}

impl<'m> MemoryAccess<'m> {
    pub fn pointer(&self) -> Value<'m> {
        self.instruction.operands()[self.operand as usize]
    }

    pub fn writes(&self) -> bool {
        self.access != Access::Read
    }

    pub fn bytes(&self) -> u64 {
        match self.length {
            Length::Fixed(bytes) => bytes,
            Length::Operand(_, value) => constant(value).unwrap_or(0),
        }
    }
}

/// The effect of an instruction on memory, as far as it can be instrumented.
pub enum MemoryEffect<'m> {
    Accesses(Vec<MemoryAccess<'m>>),
    /// The instruction may access memory in an unsupported way, which the text names.
    Unknown(String),
}

/// A constant integer.
pub fn constant(value: Value<'_>) -> Option<u64> {
    // SAFETY: a checked cast of a live value.
    unsafe { (!LLVMIsAConstantInt(value.raw()).is_null()).then(|| LLVMConstIntGetZExtValue(value.raw())) }
}

pub fn of<'m>(emitter: &ModuleEmitter<'m, '_>, instruction: Value<'m>) -> MemoryEffect<'m> {
    let effect = all(emitter, instruction);
    let MemoryEffect::Accesses(found) = &effect else { return effect };
    let vendor = target::vendor(emitter.module);
    let spaces = found.iter().map(|access| emitter::space(access.pointer()));
    match spaces.into_iter().find(|space| !target::has_generic(vendor, *space)) {
        Some(space) => MemoryEffect::Unknown(format!("an access to address space {space}")),
        None => effect,
    }
}

fn all<'m>(emitter: &ModuleEmitter<'m, '_>, instruction: Value<'m>) -> MemoryEffect<'m> {
    let fixed = |operand: u32, bytes: u64, alignment: u64, access: Access, value: Option<Value<'m>>| {
        MemoryEffect::Accesses(vec![MemoryAccess {
            instruction,
            operand,
            length: Length::Fixed(bytes),
            alignment,
            access,
            value,
        }])
    };
    let operands = instruction.operands();
    // SAFETY: the opcode says which questions may be asked of the live instruction.
    unsafe {
        let ordered = |plain| {
            let atomic = LLVMGetOrdering(instruction.raw()) != LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic;
            if atomic || LLVMGetVolatile(instruction.raw()) != 0 { Access::Atomic } else { plain }
        };
        let alignment = || u64::from(LLVMGetAlignment(instruction.raw())).max(1);
        match instruction.opcode() {
            LLVMLoad => {
                let access = if ordered(Access::Read) == Access::Atomic { Access::Atomic } else { Access::Read };
                fixed(0, emitter.bytes(instruction.ty()), alignment(), access, None)
            }
            LLVMStore => {
                fixed(1, emitter.bytes(operands[0].ty()), alignment(), ordered(Access::Write), Some(operands[0]))
            }
            LLVMAtomicRMW | LLVMAtomicCmpXchg => {
                let bytes = emitter.bytes(operands[1].ty());
                fixed(0, bytes, alignment().max(bytes), Access::Atomic, None)
            }
            LLVMCall => call(emitter, instruction, &operands),
            _ => MemoryEffect::Accesses(Vec::new()),
        }
    }
}

/// Prefixes of intrinsics with unsupported accesses to memory.
const STRANGERS: &[&str] = &[
    "llvm.masked.", "llvm.vp.", "llvm.nvvm.cp.", "llvm.nvvm.wmma", "llvm.nvvm.ldmatrix", "llvm.nvvm.stmatrix",
    "llvm.nvvm.mbarrier", "llvm.nvvm.tex", "llvm.nvvm.tld4", "llvm.nvvm.suld", "llvm.nvvm.sust", "llvm.amdgcn.raw.",
    "llvm.amdgcn.struct.", "llvm.amdgcn.s.buffer.", "llvm.amdgcn.image.", "llvm.amdgcn.global.", "llvm.amdgcn.flat.",
    "llvm.amdgcn.ds.append", "llvm.amdgcn.ds.consume", "llvm.amdgcn.ds.ordered", "llvm.amdgcn.ds.read.",
    "llvm.amdgcn.ds.bvh", "llvm.amdgcn.load.to.lds",
];
/// Atomic intrinsics of AMD GPUs, without `llvm.`.
const AMD_ATOMICS: &[&str] =
    &["amdgcn.global.atomic.f", "amdgcn.flat.atomic.f", "amdgcn.ds.fadd", "amdgcn.ds.fmin", "amdgcn.ds.fmax"];
/// PTX instructions that access memory.
const PTX_MEMORY: &[&str] = &[
    "ld.", "ldu.", "st.", "atom.", "red.", "cp.", "ldmatrix", "stmatrix", "multimem.", "mbarrier.", "wmma.", "wgmma.",
    "tcgen05.", "tensormap.", "clusterlaunchcontrol.", "tex.", "tld4.", "suld.", "sust.", "sured.",
];
/// Prefixes of AMD GPU instructions that access memory.
const AMD_MEMORY: &[&str] = &[
    "global_", "flat_", "scratch_", "buffer_", "tbuffer_", "image_", "ds_", "s_load", "s_store", "s_buffer",
    "s_scratch", "s_atomic",
];

/// Describes inline assembly if it accesses memory.
fn assembly(vendor: Vendor, text: &str) -> Option<String> {
    let (language, starts) = match vendor {
        Vendor::Nvidia => ("PTX", PTX_MEMORY),
        Vendor::Amd => ("assembly", AMD_MEMORY),
    };
    // `cp.async.commit_group` and similar instructions have no address.
    let mut words = text.split([';', '\n', '\t', ' ', '{', '}']);
    let has_address = vendor == Vendor::Amd || text.contains('[');
    (has_address && words.any(|word| starts.iter().any(|start| word.starts_with(start)))).then(|| {
        let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
        format!("inline {language} `{line}`")
    })
}

fn call<'m>(emitter: &ModuleEmitter<'m, '_>, instruction: Value<'m>, operands: &[Value<'m>]) -> MemoryEffect<'m> {
    let none = MemoryEffect::Accesses(Vec::new());
    let Some(callee) = edit::called_value(instruction) else { return none };
    if let Some((text, _)) = edit::inline_asm(callee) {
        return assembly(target::vendor(emitter.module), &text).map_or(none, MemoryEffect::Unknown);
    }
    let name = callee.name();
    let range = |operand: u32, access| MemoryAccess {
        instruction,
        operand,
        length: Length::Operand(2, operands[2]),
        alignment: 1,
        access,
        value: None,
    };
    let fixed = |operand: u32, alignment: u64, access| MemoryAccess {
        instruction,
        operand,
        length: Length::Fixed(emitter.bytes(instruction.ty())),
        alignment,
        access,
        value: None,
    };
    match name.strip_prefix("llvm.") {
        Some(name) if name.starts_with("memcpy.inline") || name.starts_with("memset.inline") => {
            MemoryEffect::Unknown(format!("llvm.{name}"))
        }
        Some(name) if name.starts_with("memcpy.") || name.starts_with("memmove.") => {
            MemoryEffect::Accesses(vec![range(1, Access::Read), range(0, Access::Write)])
        }
        Some(name) if name.starts_with("memset.") => MemoryEffect::Accesses(vec![range(0, Access::Write)]),
        Some(name) if name.starts_with("nvvm.ldg.") || name.starts_with("nvvm.ldu.") => {
            MemoryEffect::Accesses(vec![fixed(0, constant(operands[1]).unwrap_or(1).max(1), Access::Read)])
        }
        Some(name) if name.starts_with("nvvm.atomic.") => {
            MemoryEffect::Accesses(vec![fixed(0, emitter.bytes(instruction.ty()), Access::Atomic)])
        }
        // These atomics remain in LLVM 19: they add and compare numbers.
        Some(name) if AMD_ATOMICS.iter().any(|start| name.starts_with(start)) => {
            MemoryEffect::Accesses(vec![fixed(0, emitter.bytes(instruction.ty()), Access::Atomic)])
        }
        Some(_) if STRANGERS.iter().any(|stranger| name.starts_with(stranger)) => {
            MemoryEffect::Unknown(format!("`{name}`"))
        }
        _ => none,
    }
}
