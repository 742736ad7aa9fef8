//! Finds registers that need no slot in the frame.
//!
//! Their only value is available wherever they are read.

use super::resolve::{Body, Item, Op, Resolved};

/// For an item outside blocks, and for a block without a dominator.
const NONE: u32 = u32::MAX;

/// Limit on steps along chains of dominators, over a whole function.
const MOST_STEPS: usize = 1 << 22;

/// Whether a block ends after an instruction.
pub fn ends_block(op: &Op<'_>) -> bool {
    matches!(op.name, "bra" | "brx" | "ret" | "exit" | "trap") || (op.name == "call" && op.guard.is_some())
}

/// The blocks of a body.
struct Blocks {
    /// The block of each item.
    of: Vec<u32>,
    successors: Vec<Vec<u32>>,
}

impl Blocks {
    fn of(body: &Body<'_>) -> Self {
        let mut of = Vec::with_capacity(body.items.len());
        let mut labels = vec![NONE; body.labels as usize];
        let mut block = 0;
        for item in &body.items {
            if let Item::Label(label) = item {
                block += 1;
                labels[*label as usize] = block;
            }
            of.push(block);
            if let Item::Op(op) = item
                && ends_block(op)
            {
                block += 1;
            }
        }
        let count = block as usize + 1;
        let mut successors = vec![Vec::new(); count];
        let mut falls_through = vec![true; count];
        for (item, block) in body.items.iter().zip(&of) {
            let Item::Op(op) = item else { continue };
            let own = &mut successors[*block as usize];
            match (op.name, &op.operands[..]) {
                ("bra", [Resolved::Label(label)]) => own.push(labels[*label as usize]),
                ("brx", [_, Resolved::Targets(targets)]) => {
                    own.extend(body.targets[*targets].iter().map(|label| labels[*label as usize]));
                }
                ("ret" | "exit", _) => {}
                _ => continue,
            }
            falls_through[*block as usize] = op.guard.is_some();
        }
        for block in 0..count.saturating_sub(1) {
            if falls_through[block] {
                successors[block].push(block as u32 + 1);
            }
        }
        successors.iter_mut().for_each(|own| own.retain(|block| *block != NONE));
        Self { of, successors }
    }

    /// The immediate dominator of each block; none for unreachable blocks. If the search takes too long, no block has
    /// one: the registers then get slots in the frame, which LLVM turns into values anyway.
    fn dominators(&self) -> Vec<u32> {
        let count = self.successors.len();
        let (mut order, mut number) = (Vec::with_capacity(count), vec![NONE; count]);
        let (mut seen, mut stack) = (vec![false; count], vec![(0u32, 0usize)]);
        seen[0] = true;
        while let Some((block, next)) = stack.last_mut() {
            match self.successors[*block as usize].get(*next) {
                Some(successor) => {
                    *next += 1;
                    if !std::mem::replace(&mut seen[*successor as usize], true) {
                        stack.push((*successor, 0));
                    }
                }
                None => {
                    number[*block as usize] = order.len() as u32;
                    order.push(*block);
                    stack.pop();
                }
            }
        }
        let mut predecessors = vec![Vec::new(); count];
        for block in &order {
            for successor in &self.successors[*block as usize] {
                predecessors[*successor as usize].push(*block);
            }
        }
        let mut dominator = vec![NONE; count];
        dominator[0] = 0;
        let (mut changed, mut steps) = (true, 0usize);
        while changed {
            changed = false;
            for block in order.iter().rev().filter(|block| **block != 0) {
                if steps > MOST_STEPS {
                    return vec![NONE; count];
                }
                let mut found = NONE;
                for predecessor in &predecessors[*block as usize] {
                    if dominator[*predecessor as usize] == NONE {
                        continue;
                    }
                    let (mut a, mut b) = (*predecessor, found);
                    if b == NONE {
                        found = a;
                        continue;
                    }
                    while a != b {
                        steps += 1;
                        while number[a as usize] < number[b as usize] {
                            a = dominator[a as usize];
                        }
                        while number[b as usize] < number[a as usize] {
                            b = dominator[b as usize];
                        }
                    }
                    found = a;
                }
                if dominator[*block as usize] != found {
                    dominator[*block as usize] = found;
                    changed = true;
                }
            }
        }
        dominator
    }
}

/// The range of each block in a walk of the dominator tree: its own index, and the last one below it.
fn spans(dominator: &[u32]) -> Vec<Option<(u32, u32)>> {
    let mut children = vec![Vec::new(); dominator.len()];
    for (block, above) in dominator.iter().enumerate().skip(1).filter(|(_, above)| **above != NONE) {
        children[*above as usize].push(block as u32);
    }
    let mut spans = vec![None; dominator.len()];
    let (mut next, mut stack) = (0, vec![(0u32, false)]);
    while let Some((block, is_left)) = stack.pop() {
        let span = &mut spans[block as usize];
        if let (true, Some((_, last))) = (is_left, span.as_mut()) {
            *last = next - 1;
            continue;
        }
        *span = Some((next, next));
        next += 1;
        stack.push((block, true));
        stack.extend(children[block as usize].iter().map(|child| (*child, false)));
    }
    spans
}

/// For each register, whether a single unguarded instruction writes it before all reads, on all paths and in the text.
pub fn single_values(body: &Body<'_>) -> Vec<bool> {
    let blocks = Blocks::of(body);
    let dominator = blocks.dominators();
    let mut single = vec![true; body.registers.len()];
    // The item that writes a register.
    let mut written: Vec<usize> = vec![usize::MAX; single.len()];
    for register in body.param_registers.iter().chain(&body.return_registers).flatten() {
        single[*register as usize] = false;
    }
    for (index, item) in body.items.iter().enumerate() {
        let Item::Op(op) = item else { continue };
        op.written(&mut |register| {
            let place = &mut written[register as usize];
            single[register as usize] &= *place == usize::MAX && op.guard.is_none() && !op.updates_first();
            *place = index;
        });
    }
    // A block dominates all blocks whose ranges are within its own.
    let spans = spans(&dominator);
    let dominates = |above: u32, below: u32| match (spans[above as usize], spans[below as usize]) {
        (Some((first, last)), Some((place, _))) => first <= place && place <= last,
        _ => false,
    };
    for (index, item) in body.items.iter().enumerate() {
        let Item::Op(op) = item else { continue };
        let block = blocks.of[index];
        op.read(&mut |register| {
            let from = written[register as usize];
            let is_before = |own| own == block || dominates(own, block);
            single[register as usize] &= from < index && is_before(blocks.of[from]);
        });
    }
    single
}
