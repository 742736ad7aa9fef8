//! Recorded variables: how passes see them, and the addresses that the code uses for them.
//!
//! A pointer to a `__device__` variable may be anywhere in recorded memory, so in a replay the variable must be at its
//! recorded address. The code refers to that address as a constant, and the replayer maps memory there. On NVIDIA GPUs,
//! constant memory cannot be mapped at chosen addresses. Such variables stay in the module, and the replayer fills them
//! by name.
//!
//! The variables are replaced by their addresses after the passes, not before, so passes see the same as in the
//! application's compiler: the variable's type, alignment, initial value and linkage, and whether it is constant. An
//! address would tell them less in one way, because it may point to any memory, and more in another, because its low
//! bits show how it is aligned.

use std::collections::HashSet;

use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use llvm_sys::LLVMOpcode::*;
use llvm_sys::core::*;
use llvm_sys::target::{LLVMABISizeOfType, LLVMGetModuleDataLayout};
use llvm_sys::{LLVMAtomicOrdering, LLVMLinkage};
use mneme_image::ir_section::initial_copy;
use mneme_ptx::names::NamedAddress;
use mneme_recording::manifest::RecordedVariable;

use super::prune;
use crate::error::BuildError;
use crate::ir::{self, Value, edit, reach};

/// The address spaces of `__shared__` and `__constant__` variables in NVPTX and AMDGPU.
const SHARED: u32 = 3;
const CONSTANT: u32 = 4;
/// The address space of other variables. Tables of functions have none.
const GLOBAL: u32 = 1;

/// The function that represents the program's other code while passes run.
const STAND_IN: &str = "__mneme_other_code";

/// The name of an IR variable in PTX and cubins. PTX names have no `.` or `@`, and LLVM spells these `_$_`.
pub fn device_symbol(name: &str) -> String {
    name.replace(['.', '@'], "_$_")
}

/// The recorded variable that corresponds to a variable of the IR.
pub fn record_of<'r>(recorded: &'r [RecordedVariable], variable: Value<'_>) -> Option<&'r RecordedVariable> {
    let name = variable.name();
    recorded.iter().find(|record| record.name == name || record.name == device_symbol(&name))
}

/// The place of a variable in a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariableLocation {
    /// At an address. `size` bytes are recorded there, and `is_whole` says whether the module's variable has that size.
    Absolute { address: u64, size: u64, is_whole: bool },
    /// At an address. Its initial value refers to functions and stays in the module under another name: from there the
    /// replayer knows the addresses of the functions.
    Table { address: u64, is_constant: bool },
    /// In the module, where the replayer finds it by name.
    Named,
}

/// The recorded variables of a module that have no address yet, by name, because passes may replace them.
#[derive(Clone, Debug, Default)]
pub struct Placement(Vec<(String, VariableLocation)>);

impl Placement {
    /// Finds the recorded variables. With `everything`, constant ones get their addresses too (on the CPU device and on
    /// AMD GPUs, whose constant memory is ordinary memory). `as_written` says that the program was compiled from this
    /// IR, so its initial values and linkage hold.
    pub fn of(module: &Module<'_>, recorded: &[RecordedVariable], everything: bool, as_written: bool) -> Self {
        let mut found = Vec::new();
        for variable in ir::variables(module) {
            let Some(record) = record_of(recorded, variable) else { continue };
            let place = match variable.space() {
                SHARED => continue,
                CONSTANT if !everything => VariableLocation::Named,
                _ if (record.code || !record.functions.is_empty()) && !variable.is_declaration() => {
                    VariableLocation::Table { address: record.address, is_constant: record.code }
                }
                _ => {
                    let size = bytes(module, variable);
                    VariableLocation::Absolute {
                        address: record.address,
                        size: record.size,
                        is_whole: size == Some(record.size),
                    }
                }
            };
            let is_table = matches!(place, VariableLocation::Table { .. });
            if !as_written && !matches!(place, VariableLocation::Table { is_constant: true, .. }) {
                // SAFETY: a live global variable.
                unsafe { LLVMSetExternallyInitialized(variable.raw(), 1) };
            }
            if is_table || !as_written && variable.is_local() {
                show(variable, place);
            }
            found.push((variable.name(), place));
        }
        Self(found)
    }

    /// The variables that must stay in the module, used or not.
    pub fn visible<'m>(&self, module: &'m Module<'_>) -> Vec<Value<'m>> {
        self.those(module, |place| !matches!(place, VariableLocation::Absolute { .. }))
    }

    /// The variables that become addresses.
    pub fn absolute<'m>(&self, module: &'m Module<'_>) -> Vec<Value<'m>> {
        self.those(module, |place| matches!(place, VariableLocation::Absolute { .. }))
    }

    fn those<'m>(&self, module: &'m Module<'_>, wanted: impl Fn(&VariableLocation) -> bool) -> Vec<Value<'m>> {
        self.0.iter().filter(|(_, place)| wanted(place)).filter_map(|(name, _)| ir::variable(module, name)).collect()
    }

    /// Keeps passes from treating the kernel as the whole program, if variables are private to their unit.
    ///
    /// LLVM sees all accesses to such a variable, so it removes variables that are never read, and treats variables
    /// that are never written as constant. But code of the unit outside the module may read and write it, and its
    /// memory has the values that the recorded launch found. (If the application's own compiler changed a variable in
    /// this way, it has another size in the application's code, and is left alone.)
    pub fn stand_in(&self, module: &Module<'_>) {
        let private =
            self.0.iter().filter(|(_, place)| matches!(place, VariableLocation::Absolute { is_whole: true, .. }));
        let private: Vec<Value<'_>> = private
            .filter_map(|(name, _)| ir::variable(module, name))
            .filter(|variable| variable.is_local() && variable.space() != CONSTANT)
            .collect();
        if private.is_empty() {
            return;
        }
        // SAFETY: types and builder belong to the module's context. The function is new, so it has no block.
        unsafe {
            let context = LLVMGetModuleContext(module.as_mut_ptr());
            let mut byte = LLVMInt8TypeInContext(context);
            let ty = LLVMFunctionType(LLVMVoidTypeInContext(context), &mut byte, 1, 0);
            let function = edit::declare(module, STAND_IN, ty);
            let builder = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderAtEnd(builder, LLVMAppendBasicBlockInContext(context, function.raw(), c"".as_ptr()));
            for variable in private {
                let load = LLVMBuildLoad2(builder, byte, variable.raw(), c"".as_ptr());
                let store = LLVMBuildStore(builder, LLVMGetParam(function.raw(), 0), variable.raw());
                for access in [load, store] {
                    LLVMSetAlignment(access, 1);
                    LLVMSetVolatile(access, 1);
                }
            }
            LLVMBuildRetVoid(builder);
            LLVMDisposeBuilder(builder);
        }
    }

    /// The function that [`Placement::stand_in`] has created.
    pub fn other_code<'m>(module: &'m Module<'_>) -> Option<Value<'m>> {
        ir::function(module, STAND_IN)
    }

    /// Gives the remaining variables their addresses or names. With `pruned`, globals that only their initial values
    /// mention are removed. With `by_name`, those that can be resolved in the PTX are only declared, and returned.
    ///
    /// # Errors
    /// If the passes have changed a variable so that it does not match the recording.
    pub fn put(
        &mut self,
        module: &Module<'_>,
        kernel: Value<'_>,
        pruned: bool,
        by_name: bool,
        machine: &TargetMachine,
    ) -> Result<Vec<NamedAddress>, BuildError> {
        if let Some(function) = Self::other_code(module) {
            function.delete_global();
        }
        let absolute = self.absolute(module);
        let mut mentioned = if pruned { reach::closure(absolute.iter().copied()) } else { HashSet::new() };
        absolute.iter().chain(&self.visible(module)).chain([&kernel]).for_each(|global| {
            mentioned.remove(global);
        });
        let waiting: HashSet<String> = absolute
            .iter()
            .filter(|variable| by_name && variable.space() == GLOBAL && !is_in_values(**variable, &absolute))
            .map(|variable| variable.name())
            .collect();
        let mut named = Vec::new();
        for (name, place) in std::mem::take(&mut self.0) {
            let Some(variable) = ir::variable(module, &name) else { continue };
            match place {
                VariableLocation::Named if variable.is_local() => show(variable, place),
                VariableLocation::Named => {}
                VariableLocation::Table { address, .. } => {
                    variable.replace_uses_with(pointer(module, variable, address));
                    variable.set_name(&initial_copy(&name));
                }
                VariableLocation::Absolute { address, size, is_whole } => {
                    check_size(module, variable, size, is_whole)?;
                    lower_alignment(module, variable, address);
                    let stands_for_it = if waiting.contains(&name) {
                        let declared = declaration(module, variable);
                        named.push((declared.name(), address));
                        declared
                    } else {
                        pointer(module, variable, address)
                    };
                    variable.replace_uses_with(stands_for_it);
                    variable.delete_global();
                }
            }
        }
        drop_orphans(module, mentioned, machine)?;
        Ok(named)
    }
}

/// Makes a private variable visible.
fn show(variable: Value<'_>, place: VariableLocation) {
    variable.set_linkage(LLVMLinkage::LLVMExternalLinkage);
    if place == VariableLocation::Named {
        variable.set_name(&device_symbol(&variable.name()));
    }
}

/// Makes those private variables of `among` visible whose address may be known to code outside the closure of `roots`
/// (which may have been pruned), or that are `used` in ways that the IR does not show.
pub fn show_escaping<'m>(among: &[Value<'m>], roots: impl IntoIterator<Item = Value<'m>>, used: &HashSet<Value<'m>>) {
    let private: Vec<Value<'_>> = among.iter().copied().filter(|variable| variable.is_local()).collect();
    if private.is_empty() {
        return;
    }
    let reached = reach::closure(roots);
    for variable in private.into_iter().filter(|variable| used.contains(variable) || escapes(*variable, &reached)) {
        variable.set_linkage(LLVMLinkage::LLVMExternalLinkage);
    }
}

/// Whether code or a variable outside `reached` uses the address of `variable` other than to read and write there.
fn escapes(variable: Value<'_>, reached: &HashSet<Value<'_>>) -> bool {
    let mut pending = vec![variable];
    while let Some(address) = pending.pop() {
        for user in address.users() {
            let Some(instruction) = user.as_instruction() else {
                match user.as_global() {
                    Some(global) if reached.contains(&global) => {}
                    Some(_) => return true,
                    None => pending.push(user),
                }
                continue;
            };
            if function_of(instruction).is_some_and(|function| reached.contains(&function)) {
                continue;
            }
            match instruction.opcode() {
                LLVMLoad => {}
                LLVMStore if instruction.operands()[0] != address => {}
                LLVMGetElementPtr | LLVMAddrSpaceCast | LLVMBitCast => pending.push(instruction),
                _ => return true,
            }
        }
    }
    false
}

fn function_of(instruction: Value<'_>) -> Option<Value<'_>> {
    // SAFETY: a live instruction is in a block, and the block in a function.
    Value::new(unsafe { LLVMGetBasicBlockParent(LLVMGetInstructionParent(instruction.raw())) })
}

/// The size of a variable in bytes; `None` if its type has no size.
fn bytes(module: &Module<'_>, variable: Value<'_>) -> Option<u64> {
    let ty = variable.content_type();
    // SAFETY: a live type, and the module's layout. Only sized types are measured.
    unsafe { (LLVMTypeIsSized(ty) != 0).then(|| LLVMABISizeOfType(LLVMGetModuleDataLayout(module.as_mut_ptr()), ty)) }
}

fn check_size(module: &Module<'_>, variable: Value<'_>, recorded: u64, was_whole: bool) -> Result<(), BuildError> {
    let Some(size) = bytes(module, variable) else { return Ok(()) };
    if recorded == 0 || size == recorded || (size < recorded && !was_whole) {
        return Ok(());
    }
    Err(BuildError::Configuration {
        message: format!(
            "the variable {} has {size} bytes in this code, and {recorded} were recorded of it; the application's own \
             passes store it as it is there",
            variable.name()
        ),
    })
}

/// Whether the initial value of a variable that stays in the module contains the address.
fn is_in_values(variable: Value<'_>, leaving: &[Value<'_>]) -> bool {
    let mut pending = variable.users();
    while let Some(user) = pending.pop() {
        if user.as_global().is_some_and(|global| !leaving.contains(&global)) {
            return true;
        }
        if user.as_global().is_none() && user.as_instruction().is_none() {
            pending.extend(user.users());
        }
    }
    false
}

/// A declaration that can replace a variable, with its name in PTX.
fn declaration<'m>(module: &'m Module<'_>, variable: Value<'m>) -> Value<'m> {
    let name = device_symbol(&variable.name());
    variable.set_name("");
    // SAFETY: a live module and a type of its context. LLVM returns a new variable, never null.
    unsafe {
        let raw =
            LLVMAddGlobalInAddressSpace(module.as_mut_ptr(), variable.content_type(), c"".as_ptr(), variable.space());
        LLVMSetAlignment(raw, edit::alignment(variable));
        let declared = Value::new(raw).expect("LLVM returns the variable that it added");
        declared.set_name(&name);
        declared
    }
}

/// The recorded address as a pointer of the variable's type.
fn pointer<'m>(module: &'m Module<'_>, variable: Value<'m>, address: u64) -> Value<'m> {
    // SAFETY: the context is the module's. The type of a global is a pointer type.
    let raw = unsafe {
        let number = LLVMConstInt(LLVMInt64TypeInContext(LLVMGetModuleContext(module.as_mut_ptr())), address, 0);
        LLVMConstIntToPtr(number, variable.ty())
    };
    Value::new(raw).expect("LLVM has a constant for every address")
}

/// Undoes it if passes have raised a variable's alignment above that in the application (whose compiler did not, or ran
/// other passes). Accesses that rely on it get the lower alignment.
fn lower_alignment(module: &Module<'_>, variable: Value<'_>, address: u64) {
    let found = 1 << address.trailing_zeros().min(31);
    if edit::alignment(variable) <= found {
        return;
    }
    for instruction in ir::functions(module).into_iter().flat_map(Value::instructions) {
        // SAFETY: the opcode determines which queries the live instruction allows, and which attributes calls have.
        unsafe {
            match instruction.opcode() {
                LLVMLoad | LLVMStore
                    if LLVMGetOrdering(instruction.raw()) == LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic
                        && LLVMGetAlignment(instruction.raw()) > found =>
                {
                    LLVMSetAlignment(instruction.raw(), found);
                }
                LLVMCall if instruction.callee().is_some_and(|callee| callee.name().starts_with("llvm.mem")) => {
                    let kind = ir::attributes::kind("align");
                    (1..=2).for_each(|place| LLVMRemoveCallSiteEnumAttribute(instruction.raw(), place, kind));
                }
                _ => {}
            }
        }
    }
}

/// Removes globals of `mentioned` that no other global mentions any more.
fn drop_orphans(module: &Module<'_>, mentioned: HashSet<Value<'_>>, machine: &TargetMachine) -> Result<(), BuildError> {
    let all = [ir::functions(module), ir::variables(module), ir::aliases(module)].concat();
    let reached = reach::closure(all.into_iter().filter(|global| !mentioned.contains(global)));
    let orphans = mentioned.into_iter().filter(|global| !global.is_declaration() && !reached.contains(global));
    let orphans: Vec<Value<'_>> = orphans.collect();
    if orphans.is_empty() {
        return Ok(());
    }
    orphans.into_iter().for_each(prune::hide);
    prune::sweep(module, machine)
}
