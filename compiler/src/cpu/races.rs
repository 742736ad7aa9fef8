//! Finds stores to shared memory that only lockstep orders with loads of other lanes.
//!
//! Between such a store and such a load, the lanes do not converge. A lane that runs ahead would store over a value
//! that another has yet to read, or load what another has yet to store. The lanes of an AMD wave cannot run apart.

use std::collections::{HashMap, HashSet};

use llvm_sys::LLVMOpcode::{LLVMCall, LLVMLoad, LLVMStore};

use crate::ir::{Value, edit};

use super::graph::ControlFlowGraph;
use super::pointers::{LOADS, Memory, Step as Origin, memory, step, unwatched};
use super::replace::Replaced;

/// A load or store of shared memory.
struct Access<'m> {
    instruction: Value<'m>,
    pointer: Value<'m>,
    /// The variable that contains the address, if there is one.
    variable: Option<Value<'m>>,
    is_store: bool,
}

impl Access<'_> {
    /// Whether another lane's access of this kind may use the same address. An access through the same pointer is
    /// assumed to use the lane's own address.
    fn may_meet(&self, other: &Self) -> bool {
        self.is_store != other.is_store
            && self.pointer != other.pointer
            && (self.variable.is_none() || other.variable.is_none() || self.variable == other.variable)
    }
}

/// A step of a block, in order.
enum Step {
    Access(usize),
    /// All lanes arrive before any continues.
    Meet,
}

/// A set of accesses, as a bit set.
type Set = Vec<u64>;

/// The stores of a function that race with a load if lanes run apart. Lanes converge in the functions of `meeting`.
pub fn racing_stores<'m>(
    function: Value<'m>,
    kernels: &HashSet<Value<'m>>,
    meeting: &HashSet<Value<'m>>,
) -> HashSet<Value<'m>> {
    let graph = ControlFlowGraph::of(function);
    let (accesses, steps) = steps(function, &graph, kernels, meeting);
    let mut racing = HashSet::new();
    if accesses.iter().all(|access| !access.is_store) || accesses.iter().all(|access| access.is_store) {
        return racing;
    }
    // The accesses since the lanes last converged, on any path to the start of a block.
    let empty: Set = vec![0; accesses.len().div_ceil(64)];
    let mut before = vec![empty.clone(); graph.blocks.len()];
    let mut visited = vec![false; graph.blocks.len()];
    let mut pending = vec![0];
    while let Some(block) = pending.pop() {
        visited[block] = true;
        let mut since = before[block].clone();
        for step in &steps[block] {
            match *step {
                Step::Meet => since.fill(0),
                Step::Access(number) => {
                    let access = &accesses[number];
                    for earlier in members(&since).map(|earlier| &accesses[earlier]) {
                        if access.may_meet(earlier) {
                            let store = if access.is_store { access } else { earlier };
                            racing.insert(store.instruction);
                        }
                    }
                    since[number / 64] |= 1 << (number % 64);
                }
            }
        }
        for next in &graph.successors[block] {
            let known = &mut before[*next];
            let grows = known.iter().zip(&since).any(|(known, since)| since & !known != 0);
            known.iter_mut().zip(&since).for_each(|(known, since)| *known |= since);
            if (grows || !visited[*next]) && !pending.contains(next) {
                pending.push(*next);
            }
        }
    }
    racing
}

/// The functions in which lanes converge, and their callers.
pub fn meeting<'m>(functions: &[Value<'m>], replaced: &Replaced<'m>) -> HashSet<Value<'m>> {
    let mut callers: HashMap<Value<'m>, Vec<Value<'m>>> = HashMap::new();
    for function in functions.iter().filter(|function| !function.is_declaration()) {
        for call in function.instructions().into_iter().filter(|instruction| edit::opcode(*instruction) == LLVMCall) {
            callers.entry(edit::called_value(call).unwrap_or(call)).or_default().push(*function);
        }
    }
    let mut meeting = replaced.collective.clone();
    let mut pending: Vec<Value<'m>> = meeting.iter().copied().collect();
    while let Some(function) = pending.pop() {
        for caller in callers.get(&function).into_iter().flatten() {
            if meeting.insert(*caller) {
                pending.push(*caller);
            }
        }
    }
    meeting
}

fn steps<'m>(
    function: Value<'m>,
    graph: &ControlFlowGraph,
    kernels: &HashSet<Value<'m>>,
    meeting: &HashSet<Value<'m>>,
) -> (Vec<Access<'m>>, Vec<Vec<Step>>) {
    let mut accesses = Vec::new();
    let mut steps: Vec<Vec<Step>> = graph.blocks.iter().map(|_| Vec::new()).collect();
    for instruction in function.instructions() {
        let operand = match edit::opcode(instruction) {
            LLVMLoad => 0,
            LLVMStore => 1,
            LLVMCall => {
                if edit::called_value(instruction).is_some_and(|called| meeting.contains(&called)) {
                    steps[graph.block_of(instruction)].push(Step::Meet);
                }
                continue;
            }
            _ => continue,
        };
        let Some(pointer) = instruction.operands().get(operand).copied().map(unwatched) else { continue };
        if memory(pointer, kernels, LOADS) == Memory::Shared {
            steps[graph.block_of(instruction)].push(Step::Access(accesses.len()));
            accesses.push(Access { instruction, pointer, variable: variable(pointer), is_store: operand == 1 });
        }
    }
    (accesses, steps)
}

/// The variable into which a pointer leads, if it is the only one.
fn variable(pointer: Value<'_>) -> Option<Value<'_>> {
    let (mut seen, mut pending) = (HashSet::new(), vec![pointer]);
    let mut variables = HashSet::new();
    while let Some(value) = pending.pop() {
        if !seen.insert(value) {
            continue;
        }
        if value.as_variable().is_some() {
            variables.insert(value);
            continue;
        }
        let has_origin = value.as_instruction().is_some() || edit::is_constant_expression(value);
        if !has_origin || !matches!(step(value, &mut pending), Origin::Followed) {
            return None;
        }
    }
    let mut variables = variables.into_iter();
    variables.next().filter(|_| variables.next().is_none())
}

fn members(set: &Set) -> impl Iterator<Item = usize> + '_ {
    set.iter()
        .enumerate()
        .flat_map(|(word, bits)| (0..64).filter(move |bit| bits >> bit & 1 != 0).map(move |bit| 64 * word + bit))
}
