//! Instrumentation that finds reads of uninitialised local variables.
//!
//! Each local variable of the front end's code gets a shadow of the same size, which is zero when the variable's
//! lifetime begins. Stores to the variable write ones to the shadow, and a read that finds zeros there is reported.
//! Passes then promote both to registers; if a variable is certainly set, its shadow disappears. A variable whose
//! address escapes is not tracked.

use std::collections::{HashMap, HashSet};

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::*;
use llvm_sys::LLVMTypeKind::*;
use llvm_sys::core::LLVMIsAAllocaInst;
use mneme_model::observation::Site;

use super::accesses::constant;
use super::copies;
use super::emitter::{self, ModuleEmitter, PREFIX};
use super::objects::{PointerOffset, local_bytes};
use super::origins;
use super::sites::Sites;
use crate::ir::{self, Value, edit};
use crate::llvm;

/// Name prefix of shadows.
pub const SHADOW: &str = "__mneme_shadow";
/// Bytes behind the shadow proper, all ones, for accesses out of bounds, which are reported elsewhere.
pub const OUTSIDE: u64 = WIDEST;
/// Larger variables are not tracked, bytes.
const LARGEST: u64 = 4096;
/// The widest read that is checked, bytes.
const WIDEST: u64 = 64;
const UNSET: &str = "__mneme_unset";

/// A use of a local variable.
enum Use<'m> {
    Derive(Value<'m>),
    Load(Value<'m>),
    Store(Value<'m>),
    /// `memset`, `memcpy` or `memmove` to it (operand 0) or from it (operand 1).
    Fill(Value<'m>),
    CopyTo(Value<'m>),
    /// The variable's lifetime begins or ends.
    Begin(Value<'m>),
    /// The lifter created the variable, for a whole frame.
    Frame,
    Nothing,
}

/// A local variable that is tracked.
struct Local<'m> {
    variable: Value<'m>,
    bytes: u64,
    /// Some access may be out of bounds.
    strays: bool,
    /// The variable is a frame of PTX, which contains several variables. A read counts only if all of its bytes are
    /// unset and it is not part of a copy.
    is_frame: bool,
    /// Pointers into the variable in the order of derivation, each with the pointer that it is derived from.
    pointers: Vec<(Value<'m>, Value<'m>)>,
    /// The uses, each with its pointer.
    uses: Vec<(Use<'m>, Value<'m>)>,
}

/// Adds shadows to all local variables that can be tracked.
pub fn shadow<'m>(module: &'m Module<'_>) -> Vec<Site> {
    let emitter = ModuleEmitter::new(module);
    let mut sites = Sites::default();
    // Inlined functions keep their pointer arguments in local variables.
    for function in ir::functions(module)
        .into_iter()
        .filter(|function| !function.is_declaration() && !function.name().starts_with(PREFIX))
    {
        llvm::forward_pointers(function.raw());
        let locals: Vec<Local<'m>> =
            function.instructions().into_iter().filter_map(|instruction| follow(&emitter, instruction)).collect();
        let mut shadows: HashMap<Value<'m>, Value<'m>> = HashMap::new();
        for local in &locals {
            make(&emitter, local, &mut shadows);
        }
        for local in &locals {
            for (what, pointer) in &local.uses {
                insert(&emitter, local, what, *pointer, &shadows, &mut sites);
            }
        }
    }
    sites.0
}

/// Drops reads that passes proved to be initialised, and numbers the others from `first`.
pub fn settle(module: &Module<'_>, shadowed: Vec<Site>, first: usize) -> Vec<Site> {
    let Some(unset) = ir::function(module, UNSET) else { return Vec::new() };
    let emitter = ModuleEmitter::new(module);
    let mut kept = Vec::new();
    for call in unset.users() {
        let arguments = call.call_arguments();
        let number = constant(arguments[1]).map_or(0, |number| number as usize);
        if constant(arguments[0]) == Some(0) {
            call.erase_instruction();
        } else {
            // Inlining may have duplicated the code.
            edit::set_operand(call, 1, emitter.number(32, (first + kept.len()) as i64));
            kept.push(shadowed[number].clone());
        }
    }
    kept
}

fn follow<'m>(emitter: &ModuleEmitter<'m, '_>, variable: Value<'m>) -> Option<Local<'m>> {
    // SAFETY: a checked cast.
    if unsafe { LLVMIsAAllocaInst(variable.raw()).is_null() } {
        return None;
    }
    let bytes = local_bytes(emitter, variable).filter(|bytes| (1..=LARGEST).contains(bytes))?;
    let mut local = Local { variable, bytes, strays: false, is_frame: false, pointers: Vec::new(), uses: Vec::new() };
    let mut pending = vec![variable];
    let mut derived: HashSet<Value<'m>> = HashSet::new();
    while let Some(pointer) = pending.pop() {
        let address = PointerOffset::traced(emitter, pointer);
        for user in pointer.users() {
            match classify(user, pointer, variable)? {
                Use::Derive(next) => {
                    if derived.insert(next) {
                        local.pointers.push((next, pointer));
                        pending.push(next);
                    }
                }
                Use::Nothing => {}
                Use::Frame => local.is_frame = true,
                what => {
                    let length = match &what {
                        Use::Load(load) => emitter.bytes(load.ty()),
                        Use::Store(store) => emitter.bytes(store.operands()[0].ty()),
                        Use::Fill(call) | Use::CopyTo(call) => constant(call.operands()[2])?,
                        _ => 0,
                    };
                    let strays = !address.holds(length, bytes);
                    if strays && length > WIDEST {
                        return None;
                    }
                    local.strays |= strays;
                    local.uses.push((what, pointer));
                }
            }
        }
    }
    Some(local)
}

/// Classifies a use of a pointer into a local variable; `None` if the use cannot be tracked.
fn classify<'m>(user: Value<'m>, pointer: Value<'m>, variable: Value<'m>) -> Option<Use<'m>> {
    let operands = user.as_instruction()?.operands();
    match user.opcode() {
        LLVMGetElementPtr | LLVMBitCast | LLVMAddrSpaceCast if emitter::kind(user.ty()) == LLVMPointerTypeKind => {
            (operands[0] == pointer && !operands[1..].contains(&pointer)).then_some(Use::Derive(user))
        }
        LLVMPHI | LLVMSelect => (origins::of(user) == Some(variable)).then_some(Use::Derive(user)),
        LLVMICmp => Some(Use::Nothing),
        LLVMLoad => Some(Use::Load(user)),
        LLVMStore => (operands[0] != pointer).then_some(Use::Store(user)),
        LLVMCall => {
            let name = user.callee()?.name();
            let name = name.strip_prefix("llvm.")?;
            if edit::has_metadata(user, mneme_ptx::FRAME) {
                Some(Use::Frame)
            } else if name.starts_with("lifetime.") {
                Some(Use::Begin(user))
            } else if name.starts_with("dbg.") {
                Some(Use::Nothing)
            } else if name.starts_with("memset.p") {
                Some(Use::Fill(user))
            } else if name.starts_with("memcpy.p") || name.starts_with("memmove.p") {
                // A copy from the variable is not checked, because it may include padding. A copy from the variable to
                // itself has two uses.
                Some(if operands[0] == pointer { Use::CopyTo(user) } else { Use::Nothing })
            } else {
                None
            }
        }
        _ => None,
    }
}

/// Creates the shadow of a variable and the pointers into it.
fn make<'m>(emitter: &ModuleEmitter<'m, '_>, local: &Local<'m>, shadows: &mut HashMap<Value<'m>, Value<'m>>) {
    emitter.after(local.variable);
    let outside = if local.strays { OUTSIDE } else { 0 };
    let shadow = emitter.slot(emitter.bytes_of(local.bytes + outside), 8);
    shadow.set_name(SHADOW);
    emitter.fill(shadow, 0, emitter.number(64, local.bytes as i64));
    if local.strays {
        emitter.fill(emitter.moved(shadow, local.bytes), 0xff, emitter.number(64, OUTSIDE as i64));
    }
    shadows.insert(local.variable, shadow);
    for (derived, from) in &local.pointers {
        let pointer = if matches!(derived.opcode(), LLVMPHI | LLVMSelect) {
            // The pointer is a choice between several: use the same offset into the shadow as into the variable.
            emitter.after(*derived);
            let offset = emitter.subtract(emitter.address(*derived), emitter.address(local.variable));
            emitter.displaced(shadow, offset)
        } else {
            emitter.before(*derived);
            let Some(base) = shadows.get(from) else { continue };
            emitter.step(*derived, *base)
        };
        shadows.insert(*derived, pointer);
    }
}

fn insert<'m>(
    emitter: &ModuleEmitter<'m, '_>,
    local: &Local<'m>,
    what: &Use<'m>,
    pointer: Value<'m>,
    shadows: &HashMap<Value<'m>, Value<'m>>,
    sites: &mut Sites,
) {
    let Some(shadow) = shadows.get(&pointer).copied() else { return };
    match what {
        Use::Load(load) => {
            let bytes = emitter.bytes(load.ty());
            if bytes == 0 || bytes > WIDEST || is_aggregate(*load) || only_changes_a_part(*load) {
                return;
            }
            if local.is_frame && copies::is_part(emitter, *load) {
                return;
            }
            let name = Some(local.variable.name()).filter(|name| !name.is_empty());
            let site = sites.add_read(
                *load,
                bytes,
                name.map(|name| format!("the local variable {}", name.trim_end_matches(".addr"))),
            );
            emitter.before(*load);
            let ty = emitter.integer(bytes as u32 * 8);
            let set = emitter.load(ty, shadow);
            let unset = if local.is_frame { emitter.is_zero(set) } else { emitter.not_equal(set, emitter.ones(ty)) };
            emitter.call(UNSET, emitter.void(), &[unset, emitter.number(32, i64::from(site))]);
        }
        Use::Store(store) => {
            let bytes = emitter.bytes(store.operands()[0].ty());
            emitter.after(*store);
            match bytes {
                0 => {}
                1..=8 => emitter.store(emitter.ones(emitter.integer(bytes as u32 * 8)), shadow),
                _ => emitter.fill(shadow, 0xff, emitter.number(64, bytes as i64)),
            }
        }
        Use::Fill(fill) => {
            emitter.after(*fill);
            emitter.fill(shadow, 0xff, emitter.widened(fill.operands()[2]));
        }
        Use::CopyTo(copy) => {
            let operands = copy.operands();
            let length = operands[2];
            emitter.after(*copy);
            match shadows.get(&operands[1]) {
                Some(from) => emitter.copy(shadow, *from, emitter.widened(length)),
                None => emitter.fill(shadow, 0xff, emitter.widened(length)),
            }
        }
        Use::Begin(begin) => {
            emitter.after(*begin);
            emitter.fill(shadow, 0, emitter.number(64, local.bytes as i64));
        }
        Use::Derive(_) | Use::Frame | Use::Nothing => {}
    }
}

/// Structures have padding, which stays unset.
fn is_aggregate(load: Value<'_>) -> bool {
    matches!(emitter::kind(load.ty()), LLVMStructTypeKind | LLVMArrayTypeKind)
}

/// Whether the value is only written back with a part of it changed: a bit-field or an element of a vector.
fn only_changes_a_part(load: Value<'_>) -> bool {
    let changes = |user: Value<'_>| match user.as_instruction().map(Value::opcode) {
        Some(LLVMAnd) => {
            user.users().into_iter().all(|next| next.as_instruction().is_some_and(|next| next.opcode() == LLVMOr))
        }
        Some(LLVMInsertElement) => true,
        _ => false,
    };
    let users = load.users();
    !users.is_empty() && users.into_iter().all(changes)
}
