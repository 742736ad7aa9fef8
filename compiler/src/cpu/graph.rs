//! The control flow of a function: its blocks, their order, and its loops.

use std::collections::{BTreeMap, HashMap, HashSet};

use llvm_sys::core::*;
use llvm_sys::prelude::*;

use crate::ir::Value;

/// The blocks of a function by number, beginning with the entry.
pub struct ControlFlowGraph {
    pub blocks: Vec<LLVMBasicBlockRef>,
    pub numbers: HashMap<LLVMBasicBlockRef, usize>,
    pub successors: Vec<Vec<usize>>,
    pub predecessors: Vec<Vec<usize>>,
}

/// A natural loop.
pub struct Loop {
    pub header: usize,
    /// The blocks that branch back to the header.
    pub latches: Vec<usize>,
    /// All blocks, including the header.
    pub body: HashSet<usize>,
}

impl ControlFlowGraph {
    pub fn of(function: Value<'_>) -> Self {
        // SAFETY: a live defined function. LLVM fills exactly as many blocks as it counted. Successors of a terminator
        // are blocks of the function.
        unsafe {
            let mut blocks = vec![std::ptr::null_mut(); LLVMCountBasicBlocks(function.raw()) as usize];
            LLVMGetBasicBlocks(function.raw(), blocks.as_mut_ptr());
            let numbers: HashMap<_, _> = blocks.iter().enumerate().map(|(number, block)| (*block, number)).collect();
            let mut predecessors = vec![Vec::new(); blocks.len()];
            let mut successors = vec![Vec::new(); blocks.len()];
            for (number, block) in blocks.iter().enumerate() {
                let terminator = LLVMGetBasicBlockTerminator(*block);
                for index in 0..LLVMGetNumSuccessors(terminator) {
                    let to = numbers[&LLVMGetSuccessor(terminator, index)];
                    if !successors[number].contains(&to) {
                        successors[number].push(to);
                        predecessors[to].push(number);
                    }
                }
            }
            Self { blocks, numbers, successors, predecessors }
        }
    }

    /// The number of an instruction's block.
    pub fn block_of(&self, instruction: Value<'_>) -> usize {
        // SAFETY: a live instruction in a block of the function.
        self.numbers[&unsafe { LLVMGetInstructionParent(instruction.raw()) }]
    }

    /// The back edges of a walk from the entry: sources by target.
    fn back_edges(&self) -> BTreeMap<usize, Vec<usize>> {
        let mut edges: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let (mut seen, mut open) = (vec![false; self.blocks.len()], vec![false; self.blocks.len()]);
        let mut path = vec![(0, 0)];
        (seen[0], open[0]) = (true, true);
        while let Some((block, next)) = path.last_mut() {
            let from = *block;
            let Some(to) = self.successors[from].get(*next).copied() else {
                open[from] = false;
                path.pop();
                continue;
            };
            *next += 1;
            if open[to] {
                edges.entry(to).or_default().push(from);
            } else if !seen[to] {
                (seen[to], open[to]) = (true, true);
                path.push((to, 0));
            }
        }
        edges
    }

    /// The blocks from which the loop reaches its latches without passing the header.
    fn body(&self, header: usize, latches: &[usize]) -> HashSet<usize> {
        let mut body = HashSet::from([header]);
        let mut pending: Vec<usize> = latches.to_vec();
        while let Some(block) = pending.pop() {
            if body.insert(block) {
                pending.extend(&self.predecessors[block]);
            }
        }
        body
    }

    /// The loops, in no particular order.
    pub fn loops(&self) -> Vec<Loop> {
        let edges = self.back_edges().into_iter();
        edges.map(|(header, latches)| Loop { header, body: self.body(header, &latches), latches }).collect()
    }

    /// The loops that contain each block, outermost first.
    pub fn nesting(&self, loops: &[Loop]) -> Vec<Vec<usize>> {
        let mut nesting = vec![Vec::new(); self.blocks.len()];
        let mut largest_first: Vec<usize> = (0..loops.len()).collect();
        largest_first.sort_by_key(|index| std::cmp::Reverse(loops[*index].body.len()));
        for index in largest_first {
            loops[index].body.iter().for_each(|block| nesting[*block].push(index));
        }
        nesting
    }

    /// The reachable blocks in an order in which each comes before its successors, except along back edges, and all of
    /// a loop before the code after it. The control flow must be reducible.
    pub fn in_order(&self, loops: &[Loop], nesting: &[Vec<usize>]) -> Vec<usize> {
        let postorder = self.postorder();
        let mut rank = vec![usize::MAX; self.blocks.len()];
        postorder.iter().rev().enumerate().for_each(|(position, block)| rank[*block] = position);
        let path = |block: &usize| -> Vec<usize> {
            let headers = nesting[*block].iter().map(|index| rank[loops[*index].header]);
            headers.chain([rank[*block]]).collect()
        };
        let mut order = postorder;
        order.sort_by_cached_key(path);
        order
    }

    fn postorder(&self) -> Vec<usize> {
        let (mut seen, mut order) = (vec![false; self.blocks.len()], Vec::new());
        let mut path = vec![(0, 0)];
        seen[0] = true;
        while let Some((block, next)) = path.last_mut() {
            let Some(to) = self.successors[*block].get(*next).copied() else {
                order.push(*block);
                path.pop();
                continue;
            };
            *next += 1;
            if !std::mem::replace(&mut seen[to], true) {
                path.push((to, 0));
            }
        }
        order
    }

    /// Whether each iteration of a loop executes a block of it.
    pub fn is_in_each_round(&self, block: usize, of: &Loop) -> bool {
        if block == of.header {
            return true;
        }
        let mut seen = HashSet::from([of.header]);
        let mut pending = vec![of.header];
        while let Some(from) = pending.pop() {
            if from != block && of.latches.contains(&from) {
                return false;
            }
            let onward = self.successors[from].iter().filter(|to| from != block && of.body.contains(to));
            pending.extend(onward.filter(|to| seen.insert(**to)));
        }
        true
    }
}
