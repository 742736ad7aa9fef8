//! Instrumentation that finds invalid accesses of a kernel.
//!
//! Every access is checked first; if the check fails, the access is redirected to other memory.

use std::collections::{BTreeSet, HashMap};

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::*;
use llvm_sys::core::*;
use mneme_builds::instrument::{Instrumented, layout};
use mneme_model::architecture::Vendor;
use mneme_model::observation::Access;

use super::accesses::{self, Length, MemoryAccess, MemoryEffect};
use super::copies;
use super::emitter::{self, ModuleEmitter, PREFIX};
use super::locals;
use super::objects::{PointerOffset, Root, may_be_parameter};
use super::order::{self, ThreadOrder};
use super::sites::{Sites, readable};
use super::target::{self, SHARED};
use super::unseen;
use crate::ir::{self, Value, edit, reach};
use crate::llvm;

/// Flags of an access, see `faults.ll`.
const READS: i64 = 1;
const WRITES: i64 = 2;
const ORDERED: i64 = 4;
const VALUE_KNOWN: i64 = 8;
const PADDING: i64 = 16;
const ALIGNMENT: u32 = 8;
/// The largest alignment that is checked.
const MOST_ALIGNMENT: u64 = 256;
/// Each shared variable's shadow begins at a multiple of this, bytes.
const SHADOW_ALIGNMENT: u64 = 16;

/// Functions that take an address as their first argument and return it, or return another address if the access is
/// invalid.
const ACCESS: &str = "__mneme_access";
const SHARED_ACCESS: &str = "__mneme_shared";
const SHARED_OBJECT: &str = "__mneme_shared_object";

/// The address that a call to one of these functions checks.
pub fn watched_address(call: Value<'_>) -> Option<Value<'_>> {
    let called = edit::called_value(call)?.name();
    if called == ACCESS || called == SHARED_ACCESS { call.operands().first().copied() } else { None }
}

/// Instruments a module before its pipeline.
pub fn watch(module: &Module<'_>, kernel: Value<'_>, known: usize) -> Instrumented {
    let shared = Shared::of(module, kernel);
    let vendor = target::vendor(module);
    let (emitter, sites) = (ModuleEmitter::new(module), Sites::default());
    let is_lifted = ir::has_named_metadata(module, mneme_ptx::LIFTED);
    let mut watcher = Watcher { emitter, vendor, is_lifted, shared, sites, known, unwatched: BTreeSet::new() };
    for function in ir::functions(module)
        .into_iter()
        .filter(|function| !function.is_declaration() && !function.name().starts_with(PREFIX))
    {
        // Determine the order first: inserted code changes the surroundings of a barrier.
        let orders = if watcher.shared.places.is_empty() { HashMap::new() } else { order::of(vendor, function) };
        for instruction in function.instructions() {
            if let Some(order) = orders.get(&instruction) {
                watcher.synchronisation(instruction, *order);
            }
            watcher.instruction(function, instruction);
        }
    }
    watcher.shared.define(&watcher.emitter);
    Instrumented {
        sites: watcher.sites.0,
        unwatched: watcher.unwatched.into_iter().collect(),
        shared_bytes: watcher.shared.bytes,
        has_shared: !watcher.shared.places.is_empty(),
    }
}

/// The shared variables that a kernel reaches, and the places of their shadows.
struct Shared<'m> {
    /// By variable: the shadow's offset in bytes of shared memory, and the variable's size; -1 for dynamic shared
    /// memory.
    places: Vec<(Value<'m>, u64, i64)>,
    /// Static shared memory, bytes.
    bytes: u64,
}

impl<'m> Shared<'m> {
    fn of(module: &'m Module<'_>, kernel: Value<'m>) -> Self {
        let emitter = ModuleEmitter::new(module);
        let reached = reach::closure([kernel]);
        let variables: Vec<Value<'m>> = ir::variables(module)
            .into_iter()
            .filter(|variable| variable.space() == SHARED && reached.contains(variable))
            .collect();
        let mut bytes = 0;
        let mut places = Vec::new();
        let (dynamic, fixed): (Vec<_>, Vec<_>) = variables.into_iter().partition(|variable| variable.is_declaration());
        for variable in fixed {
            let size = emitter.stride(variable.content_type());
            places.push((variable, bytes, size as i64));
            bytes += size.next_multiple_of(SHADOW_ALIGNMENT);
        }
        // All of dynamic shared memory begins at one address.
        places.extend(dynamic.into_iter().map(|variable| (variable, bytes, -1)));
        Self { places, bytes }
    }

    fn get(&self, variable: Value<'m>) -> Option<(u64, i64)> {
        self.places.iter().find(|(known, ..)| *known == variable).map(|(_, place, size)| (*place, *size))
    }

    /// Defines the function that finds the variable of an address. It has no callers until [`define_own`] adds them.
    fn define(&self, emitter: &ModuleEmitter<'m, '_>) {
        let word = emitter.integer(64);
        let object = emitter.structure(&mut [word, word, word]);
        let parameters = emitter.define(SHARED_OBJECT, object, &[word, word]);
        if let Some(function) = ir::function(emitter.module, SHARED_OBJECT) {
            llvm::keep(function.raw());
        }
        let (address, dynamic) = (parameters[0], parameters[1]);
        let none = emitter.number(64, -1);
        let (mut base, mut extent, mut place) = (none, none, none);
        for (variable, start, size) in &self.places {
            let first = emitter.address(emitter.generic(*variable));
            let size = if *size < 0 { dynamic } else { emitter.number(64, *size) };
            let inside = emitter.below(emitter.subtract(address, first), size);
            base = emitter.select(inside, first, base);
            extent = emitter.select(inside, size, extent);
            place = emitter.select(inside, emitter.number(64, *start as i64), place);
        }
        emitter.give_back(emitter.tuple(object, &[base, extent, place]));
    }
}

/// Defines the function that knows the module's own variables. Call it after the last pass that changes them.
pub fn define_own(module: &Module<'_>) {
    if let Some(list) = ir::variable(module, llvm::KEPT) {
        list.delete_global();
    }
    let emitter = ModuleEmitter::new(module);
    let word = emitter.integer(64);
    let parameters = emitter.define("__mneme_own_object", emitter.integer(1), &[word, word]);
    let (address, bytes) = (parameters[0], parameters[1]);
    let mut is_own = emitter.number(1, 0);
    for variable in ir::variables(module) {
        if variable.is_declaration()
            || variable.space() == SHARED
            || variable.name() == layout::STATE
            || variable.name().starts_with("llvm.")
        {
            continue;
        }
        let size = emitter.stride(variable.content_type()) as i64;
        let offset = emitter.subtract(address, emitter.address(emitter.generic(variable)));
        let starts = emitter.below(offset, emitter.number(64, size));
        let ends = emitter.below(emitter.add(offset, bytes), emitter.number(64, size.saturating_add(1)));
        is_own = emitter.or(is_own, emitter.and(starts, ends));
    }
    emitter.give_back(is_own);
}

struct Watcher<'m, 'ctx> {
    emitter: ModuleEmitter<'m, 'ctx>,
    vendor: Vendor,
    /// The code comes from PTX.
    is_lifted: bool,
    shared: Shared<'m>,
    sites: Sites,
    /// Number of sites that already have a number.
    known: usize,
    unwatched: BTreeSet<String>,
}

impl<'m> Watcher<'m, '_> {
    fn instruction(&mut self, function: Value<'m>, instruction: Value<'m>) {
        match accesses::of(&self.emitter, instruction) {
            MemoryEffect::Unknown(what) => {
                self.unwatched.insert(format!("{what} in {}", readable(&function.name())));
                if !self.shared.places.is_empty() {
                    unseen::note(&self.emitter, self.vendor, instruction);
                }
            }
            MemoryEffect::Accesses(found) => {
                for access in found {
                    self.access(function, access);
                }
            }
        }
    }

    fn site(&mut self, access: &MemoryAccess<'m>, variable: Option<String>) -> Value<'m> {
        let number = self.sites.add(access, variable) as usize + self.known;
        self.emitter.number(32, number as i64)
    }

    fn access(&mut self, function: Value<'m>, access: MemoryAccess<'m>) {
        let pointer = access.pointer();
        let address = PointerOffset::traced(&self.emitter, pointer);
        let root = address.root(&self.emitter, function);
        if let Root::Launch = root {
            return;
        }
        let bytes = access.bytes();
        let (has_fixed_length, operand) = match access.length {
            Length::Fixed(_) => (true, 0),
            Length::Operand(operand, value) => (accesses::constant(value).is_some(), operand),
        };
        if let (Root::Local(size) | Root::Global(size), true) = (&root, has_fixed_length)
            && address.holds(bytes, *size)
        {
            return;
        }
        self.emitter.before(access.instruction);
        if let (Root::Local(size), true) = (&root, address.root.name().starts_with(locals::SHADOW)) {
            self.confine(&access, &address, *size);
            return;
        }
        if let Length::Operand(..) = access.length {
            self.range(function, &access, &address, root, operand);
            return;
        }
        match root {
            Root::Shared(variable) => self.shared(&access, &address, variable),
            Root::Local(size) | Root::Global(size) => self.by_offset(&access, &address, size),
            Root::Unknown if may_be_parameter(&self.emitter, pointer, function) => {
                self.choice_of_parameters(function);
            }
            Root::Launch | Root::Unknown => {
                let site = self.site(&access, None);
                let (flags, value) = self.flags(&access, access.alignment);
                let emitter = &self.emitter;
                let generic = emitter.generic(pointer);
                let arguments = [generic, emitter.number(64, bytes as i64), site, flags, value];
                let allowed = emitter.call(ACCESS, emitter.pointer(), &arguments);
                self.redirect(&access, allowed);
            }
        }
    }

    fn choice_of_parameters(&mut self, function: Value<'m>) {
        self.unwatched.insert(format!(
            "an access to one of several parameters passed by value in {}",
            readable(&function.name())
        ));
    }

    /// Checks an access to a known shared variable.
    fn shared(&mut self, access: &MemoryAccess<'m>, address: &PointerOffset<'m>, variable: Value<'m>) {
        let Some((place, size)) = self.shared.get(variable) else { return };
        let name = readable(&variable.name());
        let site = self.site(access, Some(shared_name(&name, size)));
        let (flags, value) = self.flags(access, access.alignment);
        let emitter = &self.emitter;
        let base = emitter.address(emitter.generic(address.root));
        let generic = emitter.generic(access.pointer());
        let arguments = [
            generic,
            emitter.number(64, access.bytes() as i64),
            site,
            flags,
            value,
            base,
            emitter.number(64, size),
            emitter.number(64, place as i64),
        ];
        let allowed = emitter.call(SHARED_ACCESS, emitter.pointer(), &arguments);
        self.redirect(access, allowed);
    }

    /// Checks an access to a variable by its bounds only. Its address does not escape, so the variable may live in
    /// registers.
    fn by_offset(&mut self, access: &MemoryAccess<'m>, address: &PointerOffset<'m>, size: u64) {
        let root = address.root;
        let site = self.site(access, Some(own_name(root, size)));
        let alignment = if address.root_alignment() >= access.alignment { access.alignment } else { 1 };
        let (flags, _) = self.flags(access, alignment);
        let emitter = &self.emitter;
        let offset = address.offset(emitter);
        let generic = emitter.generic(access.pointer());
        // The check is inline so that passes can prove an access valid: for an unrolled loop over a small array, no
        // check remains.
        let last = size.checked_sub(access.bytes());
        let outside = last.map_or(emitter.number(1, 1), |last| emitter.below(emitter.number(64, last as i64), offset));
        let rest = emitter.and(offset, emitter.number(64, alignment_of(alignment) as i64 - 1));
        let wrong = emitter.or(outside, emitter.not_equal(rest, emitter.number(64, 0)));
        let allowed = emitter.unless(wrong, access.instruction, generic, || {
            let bytes = emitter.number(64, access.bytes() as i64);
            emitter.call(
                "__mneme_offset",
                emitter.pointer(),
                &[offset, bytes, emitter.number(64, size as i64), site, flags],
            )
        });
        self.redirect(access, allowed);
    }

    /// Redirects an access to a variable's shadow to the spare part of the shadow if the variable is accessed out of
    /// bounds.
    fn confine(&self, access: &MemoryAccess<'m>, address: &PointerOffset<'m>, size: u64) {
        let emitter = &self.emitter;
        let own = size.saturating_sub(locals::OUTSIDE);
        let starts = (own + 1).saturating_sub(access.bytes());
        let inside = emitter.below(address.offset(emitter), emitter.number(64, starts as i64));
        let outside = emitter.like(emitter.moved(address.root, own), access.pointer());
        let pointer = emitter.select(inside, access.pointer(), outside);
        edit::set_operand(access.instruction, access.operand, pointer);
    }

    /// Checks `memcpy` and similar calls, which are skipped entirely if one byte may not be accessed.
    fn range(
        &mut self,
        function: Value<'m>,
        access: &MemoryAccess<'m>,
        address: &PointerOffset<'m>,
        root: Root<'m>,
        operand: u32,
    ) {
        let variable = match root {
            Root::Shared(variable) => {
                self.shared.get(variable).map(|(_, size)| shared_name(&readable(&variable.name()), size))
            }
            Root::Local(size) => Some(own_name(address.root, size)),
            Root::Unknown if may_be_parameter(&self.emitter, address.root, function) => {
                self.choice_of_parameters(function);
                return;
            }
            Root::Global(_) | Root::Launch | Root::Unknown => None,
        };
        let site = self.site(access, variable);
        let (flags, _) = self.flags(access, 1);
        let emitter = &self.emitter;
        let length = access.instruction.operands()[operand as usize];
        if let Root::Local(size) = root {
            let (bytes, extent) = (emitter.widened(length), emitter.number(64, size as i64));
            let offset = address.offset(emitter);
            let allowed =
                emitter.call("__mneme_range_offset", emitter.integer(64), &[offset, bytes, extent, site, flags]);
            edit::set_operand(access.instruction, operand, emitter.narrowed(allowed, length));
            return;
        }
        let arguments = [emitter.generic(access.pointer()), emitter.widened(length), site, flags];
        let allowed = emitter.call("__mneme_range", emitter.integer(64), &arguments);
        let allowed = emitter.narrowed(allowed, length);
        edit::set_operand(access.instruction, operand, allowed);
    }

    fn flags(&self, access: &MemoryAccess<'m>, alignment: u64) -> (Value<'m>, Value<'m>) {
        let emitter = &self.emitter;
        let opcode = access.instruction.opcode();
        let value = access.value.filter(|_| access.access == Access::Write).and_then(|value| emitter.bits(value));
        let mut flags = match access.access {
            Access::Read => READS,
            Access::Write => WRITES,
            Access::Atomic => {
                ORDERED
                    | match opcode {
                        LLVMLoad => READS,
                        LLVMStore => WRITES,
                        _ => READS | WRITES,
                    }
            }
        };
        if value.is_some() {
            flags |= VALUE_KNOWN;
        }
        let aggregate = matches!(
            emitter::kind(access.instruction.ty()),
            llvm_sys::LLVMTypeKind::LLVMStructTypeKind | llvm_sys::LLVMTypeKind::LLVMArrayTypeKind
        ) && opcode == LLVMLoad;
        let is_copy = self.is_lifted && copies::is_part(emitter, access.instruction);
        if aggregate || is_copy || matches!(access.length, Length::Operand(..)) {
            flags |= PADDING;
        }
        flags |= (alignment_of(alignment) as i64 - 1) << ALIGNMENT;
        (emitter.number(32, flags), value.unwrap_or_else(|| emitter.number(64, 0)))
    }

    /// Redirects an access to the address that the check returned.
    fn redirect(&self, access: &MemoryAccess<'m>, allowed: Value<'m>) {
        // Instructions take a pointer of any space; intrinsics have the space in their type.
        let target = if access.instruction.is_call() { self.emitter.like(allowed, access.pointer()) } else { allowed };
        edit::set_operand(access.instruction, access.operand, target);
    }

    /// Adds the calls that track the order of the threads' accesses.
    fn synchronisation(&self, instruction: Value<'m>, order: ThreadOrder) {
        let emitter = &self.emitter;
        let hook = |name: &str| {
            emitter.call(name, emitter.void(), &[]);
        };
        match order {
            ThreadOrder::Block => {
                emitter.after(instruction);
                hook("__mneme_barrier");
            }
            ThreadOrder::Warp => {
                emitter.before(instruction);
                hook("__mneme_warp_arrive");
                emitter.after(instruction);
                target::meeting(self.vendor).into_iter().for_each(hook);
                hook("__mneme_warp_leave");
            }
            ThreadOrder::Unknown => {
                emitter.before(instruction);
                hook("__mneme_relax");
            }
        }
    }
}

/// The alignment to check, a power of two.
fn alignment_of(alignment: u64) -> u64 {
    if alignment.is_power_of_two() { alignment.min(MOST_ALIGNMENT) } else { 1 }
}

fn own_name(root: Value<'_>, size: u64) -> String {
    let name = readable(root.name().trim_end_matches(".addr"));
    let kind = if root.as_variable().is_some() { "variable" } else { "local variable" };
    format!("the {kind} {name} ({size} bytes)")
}

fn shared_name(name: &str, size: i64) -> String {
    if size < 0 {
        format!("the dynamic shared memory {name}")
    } else {
        format!("the shared variable {name} ({size} bytes)")
    }
}

/// Prevents LLVM's passes from adding speculative reads.
pub fn forbid_speculation(module: &Module<'_>, forbid: bool) {
    const ATTRIBUTE: &str = "sanitize_thread";
    for function in ir::functions(module).into_iter().filter(|function| !function.is_declaration()) {
        if forbid {
            edit::add_enum_attribute(module, function, ATTRIBUTE);
        } else {
            edit::remove_enum_attribute(function, ATTRIBUTE);
        }
    }
}

/// Marks functions that take pointers for inlining, so that their accesses to a caller's local variables are visible
/// there.
pub fn inline_pointers(module: &Module<'_>, kernel: Value<'_>) {
    let called: HashMap<Value<'_>, bool> =
        ir::functions(module).into_iter().map(|function| (function, takes_pointers(function))).collect();
    for (function, takes) in called {
        if function.is_declaration() || function == kernel {
            continue;
        }
        edit::remove_enum_attribute(function, "optnone");
        edit::remove_enum_attribute(function, "noinline");
        if takes {
            edit::add_enum_attribute(module, function, "alwaysinline");
        }
    }
    edit::remove_enum_attribute(kernel, "optnone");
}

fn takes_pointers(function: Value<'_>) -> bool {
    function.parameters().into_iter().any(|parameter| {
        // SAFETY: a live parameter has a type.
        unsafe { LLVMGetTypeKind(parameter.ty()) == llvm_sys::LLVMTypeKind::LLVMPointerTypeKind }
    })
}
