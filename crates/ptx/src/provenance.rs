//! The origin of values in registers: addresses, and other numbers.
//!
//! A sum is treated as an address plus an offset only if the analysis proves which operand is the address. A wrong base
//! would name another object, or another state space, to the optimiser than the code accesses.

use super::resolve::{AddressBase, Body, Op, RegisterId, Resolved};
use super::syntax::{Space, Variable};

/// How often the search for addresses starts again from the addresses found.
const ROUNDS: usize = 8;

/// Known facts about each register.
pub struct Provenance {
    /// For registers that hold addresses, LLVM's address space.
    pub spaces: Vec<Option<u32>>,
    /// Whether an address contributed to the value, including differences of addresses.
    pub derived: Vec<bool>,
    /// Whether an address of the frame contributed to the value after it was cut to fewer than 64 bits.
    pub cut: Vec<bool>,
    /// 32-bit registers that hold only addresses of the frame, and only address the frame. They hold full addresses
    /// here, in space 0.
    pub words: Vec<bool>,
}

/// An instruction that computes registers from others.
struct Step<'b, 'a> {
    op: &'b Op<'a>,
    written: Vec<RegisterId>,
}

/// The data flow: the instructions that read each register.
struct Flow<'b, 'a> {
    steps: Vec<Step<'b, 'a>>,
    /// By register, the steps that read it.
    readers: Vec<Vec<u32>>,
    bits: Vec<u32>,
    /// For each register, whether its type (an integer of 64 bits) can hold an address.
    holds_addresses: Vec<bool>,
}

impl<'b, 'a> Flow<'b, 'a> {
    fn of(body: &'b Body<'a>) -> Self {
        let bits: Vec<u32> = body.registers.iter().map(|scalar| scalar.bits).collect();
        let holds_addresses = body.registers.iter().map(|scalar| scalar.bits == 64 && !scalar.is_float()).collect();
        let (mut steps, mut readers) = (Vec::new(), vec![Vec::new(); bits.len()]);
        for op in body.ops() {
            let mut written = Vec::new();
            op.written(&mut |register| written.push(register));
            // Predicates are not addresses.
            written.retain(|register| bits[*register as usize] > 1);
            if written.is_empty() {
                continue;
            }
            let number = steps.len() as u32;
            // The contents of memory do not derive from its address.
            if !reads_memory(op) {
                let mut read = |register: RegisterId| readers[register as usize].push(number);
                op.operands.iter().skip(1).for_each(|operand| operand.registers(&mut read));
            }
            steps.push(Step { op, written });
        }
        Self { steps, readers, bits, holds_addresses }
    }

    /// The registers that `seeds` contribute to, through registers of at least `least` bits.
    fn reached(&self, seeds: impl Iterator<Item = RegisterId>, least: u32) -> Vec<bool> {
        let mut reached = vec![false; self.bits.len()];
        let mut pending: Vec<RegisterId> = seeds.collect();
        while let Some(register) = pending.pop() {
            let index = register as usize;
            if self.bits[index] < least || std::mem::replace(&mut reached[index], true) {
                continue;
            }
            let written = self.readers[index].iter().flat_map(|step| &self.steps[*step as usize].written);
            pending.extend(written.filter(|register| !reached[**register as usize]));
        }
        reached
    }
}

fn reads_memory(op: &Op<'_>) -> bool {
    matches!(op.name, "ld" | "ldu" | "atom" | "tex" | "tld4" | "suld" | "ldmatrix" | "multimem")
}

/// Whether an operand is an address with a base that satisfies `of`.
fn takes_address(op: &Op<'_>, of: fn(AddressBase) -> bool) -> bool {
    op.operands.iter().skip(1).any(|operand| matches!(operand, Resolved::Address(place, _) if of(*place)))
}

/// Whether an operand is a register for which `held` holds, or a number.
fn is_number(operand: &Resolved<'_>, held: impl Fn(usize) -> bool) -> bool {
    match operand {
        Resolved::Register(register) => held(*register as usize),
        other => matches!(other, Resolved::Int(_) | Resolved::Special(_)),
    }
}

/// Whether an operand is a register for which `held` holds.
fn is_register(operand: &Resolved<'_>, held: impl Fn(usize) -> bool) -> bool {
    matches!(operand, Resolved::Register(register) if held(*register as usize))
}

fn registers_where(held: &[bool]) -> impl Iterator<Item = RegisterId> {
    held.iter().enumerate().filter(|(_, held)| **held).map(|(index, _)| index as RegisterId)
}

impl Provenance {
    pub fn of(body: &Body<'_>, variables: &[Variable<'_>]) -> Self {
        let flow = Flow::of(body);
        let frame = flow.steps.iter().filter(|step| takes_address(step.op, AddressBase::is_in_frame));
        let of_frame = flow.reached(frame.flat_map(|step| step.written.iter().copied()), 0);

        let direct = direct(body, variables, &flow);
        let sources = sources(body);
        let unknown = unknown(body, &flow);
        let made = |op: &Op<'_>| matches!(op.name, "cvta" | "mapa") || takes_address(op, |_| true);
        let made: Vec<RegisterId> =
            flow.steps.iter().filter(|step| made(step.op)).flat_map(|step| step.written.iter().copied()).collect();
        let derived_from = |spaces: &[Option<u32>]| {
            let addresses = (0..).zip(spaces).filter(|(_, space)| space.is_some()).map(|(register, _)| register);
            flow.reached(addresses.chain(made.iter().copied()), 0)
        };
        let mut derived = derived_from(&direct.spaces);
        let mut spaces = None;
        for _ in 0..ROUNDS {
            let number = derived.iter().zip(&unknown).map(|(derived, unknown)| !derived && !unknown).collect();
            let mut search = Search { found: direct.clone(), sources: &sources, derived: &derived, number };
            search.spread(&flow);
            let found = search.found.spaces;
            let (before, more) = (derived.clone(), derived_from(&found));
            derived.iter_mut().zip(more).for_each(|(derived, more)| *derived |= more);
            if derived == before {
                spaces = Some(found);
                break;
            }
        }
        let (mut spaces, derived) = match spaces {
            Some(spaces) => (spaces, derived),
            None => (direct.spaces.clone(), derived_from(&direct.spaces)),
        };
        unmix(body, &flow, variables, &mut spaces, &derived);
        let words = words(body, &flow, &of_frame, &spaces, &derived);
        let is_cut = |index: usize| of_frame[index] && flow.bits[index] < 64 && !words[index];
        let cut: Vec<bool> = (0..words.len()).map(is_cut).collect();
        let cut = flow.reached(registers_where(&cut), 0);
        registers_where(&words).for_each(|register| spaces[register as usize] = Some(0));
        Self { spaces, derived, cut, words }
    }
}

/// Treats registers with addresses of shared memory as numbers if they may hold another kind of value at another time.
/// A number does not survive conversion to a pointer to shared memory and back: the window's base may be added to it.
fn unmix(
    body: &Body<'_>,
    flow: &Flow<'_, '_>,
    variables: &[Variable<'_>],
    spaces: &mut [Option<u32>],
    derived: &[bool],
) {
    let shared = Some(Space::Shared.number());
    body.param_registers.iter().flatten().for_each(|register| {
        spaces[*register as usize].take_if(|space| Some(*space) == shared);
    });
    loop {
        let is_address = |operand: &Resolved<'_>| match operand {
            Resolved::Address(place, _) => space_of(*place, variables) == shared,
            operand => is_register(operand, |register| spaces[register] == shared),
        };
        let is_offset = |operand: &Resolved<'_>| is_number(operand, |register| !derived[register]);
        let makes_address = |op: &Op<'_>| match (op.name, &op.operands[..]) {
            ("mov", [_, from]) => is_address(from),
            ("cvta", _) => op.has("to") && op.space() == Space::Shared,
            ("mapa", _) => true,
            ("selp", [_, first, second, _]) => is_address(first) && is_address(second),
            ("add", [_, first, second]) => {
                (is_address(first) && is_offset(second)) || (is_address(second) && is_offset(first))
            }
            ("sub", [_, base, offset]) => is_address(base) && is_offset(offset),
            ("mad", [_, first, second, base]) => is_address(base) && is_offset(first) && is_offset(second),
            _ => false,
        };
        let others = flow.steps.iter().filter(|step| !makes_address(step.op)).flat_map(|step| &step.written);
        let mixed: Vec<RegisterId> = others.copied().filter(|register| spaces[*register as usize] == shared).collect();
        if mixed.is_empty() {
            return;
        }
        mixed.into_iter().for_each(|register| spaces[register as usize] = None);
    }
}

/// 32-bit registers that only ever hold addresses of the frame (truncated from full ones, copied, and moved by
/// numbers), and that are only used to address the frame or to make such registers. Code uses 32-bit
/// addresses only for local memory.
fn words(
    body: &Body<'_>,
    flow: &Flow<'_, '_>,
    of_frame: &[bool],
    spaces: &[Option<u32>],
    derived: &[bool],
) -> Vec<bool> {
    let is_candidate = |index: usize| of_frame[index] && flow.bits[index] == 32 && !body.registers[index].is_float();
    let mut words: Vec<bool> = (0..of_frame.len()).map(is_candidate).collect();
    loop {
        let mut others: Vec<RegisterId> = Vec::new();
        for op in body.ops() {
            let is_word = |register: &RegisterId| words[*register as usize];
            let mut named = op.named();
            named.retain(is_word);
            if named.is_empty() {
                continue;
            }
            let is = |operand: &Resolved<'_>| is_register(operand, |register| words[register]);
            let is_whole = |operand| is_register(operand, |register| of_frame[register] && spaces[register] == Some(0));
            let is_word_offset = |operand: &Resolved<'_>| {
                let is_free = |register: usize| !derived[register] && !of_frame[register] && flow.bits[register] == 32;
                is_number(operand, is_free) && !matches!(operand, Resolved::Special(_))
            };
            let in_frame = |operand: &Resolved<'_>| {
                matches!(operand, Resolved::Address(AddressBase::Local(_) | AddressBase::Param(_), _))
            };
            let is_allowed = match (op.name, &op.operands[..]) {
                ("cvt", [to, from]) => is(to) && is_whole(from) && op.modifiers == ["u32", "u64"],
                ("mov", [to, from]) => is(to) && (is(from) || in_frame(from)),
                ("add", [to, first, second]) => {
                    let is_sum = is(first) && is_word_offset(second) || is(second) && is_word_offset(first);
                    is(to) && is_sum && op.modifiers.len() == 1
                }
                ("sub", [to, base, offset]) => is(to) && is(base) && is_word_offset(offset) && op.modifiers.len() == 1,
                ("ld" | "st", operands) if op.space() == Space::Local => operands.iter().all(|operand| {
                    let mut has_word = false;
                    operand.registers(&mut |register| has_word |= is_word(&register));
                    !has_word || matches!(operand, Resolved::Bracket(_))
                }),
                _ => false,
            };
            if !is_allowed {
                others.extend(named);
            }
        }
        if others.is_empty() {
            return words;
        }
        others.into_iter().for_each(|register| words[register as usize] = false);
    }
}

/// Registers that are only set by loads, copies, sums and bitwise operations (which align pointers): the sources of
/// addresses.
fn sources(body: &Body<'_>) -> Vec<bool> {
    let mut sources = vec![true; body.registers.len()];
    for op in body.ops() {
        let is_source = matches!(
            op.name,
            "ld" | "ldu" | "mov" | "cvta" | "add" | "sub" | "selp" | "mad" | "and" | "or" | "xor" | "min" | "max"
        );
        if op.writes_first() && !is_source {
            op.operands[0].registers(&mut |register| sources[register as usize] = false);
        }
    }
    sources
}

/// 64-bit registers that are not just arithmetic on narrower ones: memory may hold addresses.
fn unknown(body: &Body<'_>, flow: &Flow<'_, '_>) -> Vec<bool> {
    let mut known = vec![false; body.registers.len()];
    let mut seeds: Vec<RegisterId> = body.param_registers.iter().flatten().copied().collect();
    for step in &flow.steps {
        let small = |operand: &Resolved<'_>, most: i128| !matches!(operand, Resolved::Int(value) if value.abs() > most);
        let arithmetic = match step.op.name {
            "mov" => !step.op.operands.iter().any(|operand| matches!(operand, Resolved::Vector(_))),
            "cvt" | "and" | "or" | "xor" | "not" | "neg" | "abs" | "add" | "sub" | "min" | "max" | "selp" | "shr"
            | "div" | "rem" => true,
            "mul" | "mad" => step.op.operands.iter().all(|operand| small(operand, 1 << 31)),
            "shl" => matches!(step.op.operands.last(), Some(Resolved::Int(distance)) if (0..=16).contains(distance)),
            _ => false,
        };
        step.written.iter().for_each(|register| known[*register as usize] = true);
        if !arithmetic {
            seeds.extend(&step.written);
        }
    }
    seeds.extend(registers_where(&known.iter().map(|known| !known).collect::<Vec<_>>()));
    flow.reached(seeds.into_iter(), 64)
}

/// Registers that hold addresses, and their spaces.
#[derive(Clone)]
struct Found {
    spaces: Vec<Option<u32>>,
    /// Generic addresses of global memory, as shown by `cvta.to.global`.
    to_global: Vec<bool>,
}

impl Found {
    fn mark(&mut self, flow: &Flow<'_, '_>, register: RegisterId, space: u32) -> bool {
        let place = &mut self.spaces[register as usize];
        let new = place.is_none() && flow.holds_addresses[register as usize];
        if new {
            *place = Some(space);
        }
        new
    }
}

/// The addresses that an instruction makes or takes.
fn direct(body: &Body<'_>, variables: &[Variable<'_>], flow: &Flow<'_, '_>) -> Found {
    let count = body.registers.len();
    let mut found = Found { spaces: vec![None; count], to_global: vec![false; count] };
    for op in body.ops() {
        match (op.name, &op.operands[..]) {
            ("ld" | "ldu" | "st" | "atom" | "red" | "prefetch", _) => {
                if let Some(Resolved::Bracket(items)) = op.address()
                    && let Some((register, _)) = items.first().and_then(Resolved::based)
                {
                    found.mark(flow, register, op.space().number());
                }
            }
            ("cvta", [to, from]) => {
                let space = op.space().number();
                let spaces = if op.has("to") { [space, 0] } else { [0, space] };
                for (operand, space) in [to, from].into_iter().zip(spaces) {
                    if let Resolved::Register(register) = operand {
                        found.mark(flow, *register, space);
                    }
                }
                if let (Resolved::Register(register), [1, 0]) = (from, spaces) {
                    found.to_global[*register as usize] = true;
                }
            }
            ("mov", [Resolved::Register(register), Resolved::Address(place, _)]) => {
                if let Some(space) = space_of(*place, variables) {
                    found.mark(flow, *register, space);
                }
            }
            _ => {}
        }
    }
    found
}

/// LLVM's address space of data; `None` for code.
fn space_of(place: AddressBase, variables: &[Variable<'_>]) -> Option<u32> {
    match place {
        AddressBase::Global(index) => Some(variables.get(index).map_or(0, |variable| variable.space.number())),
        AddressBase::Function(_) => None,
        _ => Some(0),
    }
}

/// The search for addresses among copies and sums of addresses.
struct Search<'s> {
    found: Found,
    sources: &'s [bool],
    derived: &'s [bool],
    /// Registers that are not addresses.
    number: Vec<bool>,
}

impl Search<'_> {
    /// Propagates spaces over copies and sums until nothing changes.
    fn spread(&mut self, flow: &Flow<'_, '_>) {
        let is_copy = |op: &Op<'_>| {
            matches!(op.name, "mov" | "add" | "sub" | "selp" | "mad") && op.scalar().is_some_and(|it| it.bits == 64)
                || op.name == "mad" && op.has("wide")
        };
        let mut ops: Vec<&Op<'_>> = flow.steps.iter().map(|step| step.op).filter(|op| is_copy(op)).collect();
        for _ in 0..16 {
            ops.reverse();
            if !ops.iter().fold(false, |changed, op| changed | self.step(flow, op)) {
                break;
            }
        }
    }

    fn step(&mut self, flow: &Flow<'_, '_>, op: &Op<'_>) -> bool {
        match (op.name, &op.operands[..]) {
            ("mov", [to, from @ Resolved::Register(_)]) => self.same(flow, to, from),
            ("selp", [to, first, second, _]) => self.same(flow, to, first) | self.same(flow, to, second),
            ("sub", [to, base, offset]) => self.sum(flow, to, base, &[offset]),
            ("mad", [to, first, second, base]) => self.sum(flow, to, base, &[first, second]),
            ("add", [to, first, second]) => {
                // A sum of two (possible) addresses is not an address.
                self.sum(flow, to, first, &[second]) || self.sum(flow, to, second, &[first])
            }
            _ => false,
        }
    }

    /// If one of them is an address, so is the other.
    fn same(&mut self, flow: &Flow<'_, '_>, first: &Resolved<'_>, second: &Resolved<'_>) -> bool {
        let (Resolved::Register(first), Resolved::Register(second)) = (first, second) else { return false };
        let mut changed = false;
        for (from, to) in [(*first, *second), (*second, *first)] {
            if let Some(space) = self.found.spaces[from as usize] {
                changed |= self.found.mark(flow, to, space);
            }
        }
        changed
    }

    /// A sum of a possible address and offsets.
    fn sum(&mut self, flow: &Flow<'_, '_>, to: &Resolved<'_>, base: &Resolved<'_>, offsets: &[&Resolved<'_>]) -> bool {
        let (Resolved::Register(result), Resolved::Register(register)) = (to, base) else { return false };
        let (result, index) = (*result as usize, *register as usize);
        let all = |held: &dyn Fn(usize) -> bool| offsets.iter().all(|offset| is_number(offset, held));
        if !all(&|offset| !self.derived[offset]) {
            return false;
        }
        let is_base = match (self.found.spaces[index], self.found.spaces[result]) {
            (Some(_), _) => true,
            (None, None) => false,
            (None, Some(_)) if !self.sources[index] => false,
            (None, Some(_)) if offsets.iter().all(|offset| matches!(offset, Resolved::Int(_))) => true,
            // The space is known, and only a source can be the address in it.
            (None, Some(space)) if space == 1 || self.found.to_global[result] => {
                all(&|offset| self.number[offset] || !self.sources[offset])
            }
            (None, Some(0)) => all(&|offset| self.number[offset]),
            _ => false,
        };
        is_base && self.same(flow, to, base)
    }
}
