//! Finds the one variable that an address points into, however it was computed.
//!
//! Loops step through arrays by pointers that start anew or advance (phi), and PTX does integer arithmetic on addresses
//! of shared memory.

use std::collections::HashSet;

use llvm_sys::LLVMOpcode::*;
use llvm_sys::core::LLVMIsAAllocaInst;

use crate::ir::{Value, edit};

/// The role of a value in the computation of an address.
#[derive(Clone, Copy, PartialEq)]
enum Origin<'m> {
    /// The search is in progress, so the value does not contribute yet.
    Open,
    /// Not an address, as far as is known.
    Number,
    /// An address in this variable.
    In(Value<'m>),
    /// An address in one of several variables, or computed in an unsupported way.
    Mixed,
}

/// The number of values to visit before the search gives up.
const MOST: usize = 256;

/// The variable of the module or of the function that `address` points into, if there is exactly one.
pub fn of(address: Value<'_>) -> Option<Value<'_>> {
    match find(address, &mut HashSet::new()) {
        Origin::In(variable) => Some(variable),
        Origin::Open | Origin::Number | Origin::Mixed => None,
    }
}

fn find<'m>(value: Value<'m>, open: &mut HashSet<Value<'m>>) -> Origin<'m> {
    // SAFETY: a checked cast of a live value.
    if value.as_variable().is_some() || unsafe { !LLVMIsAAllocaInst(value.raw()).is_null() } {
        return Origin::In(value);
    }
    if value.as_instruction().is_none() && !edit::is_constant_expression(value) {
        return Origin::Number;
    }
    if open.len() == MOST {
        return Origin::Mixed;
    }
    if !open.insert(value) {
        return Origin::Open;
    }
    let operands = value.operands();
    match edit::opcode(value) {
        LLVMBitCast | LLVMAddrSpaceCast | LLVMGetElementPtr | LLVMIntToPtr | LLVMPtrToInt | LLVMZExt | LLVMTrunc => {
            find(operands[0], open)
        }
        LLVMPHI => operands.into_iter().map(|operand| find(operand, open)).fold(Origin::Open, merged),
        LLVMSelect => merged(find(operands[1], open), find(operands[2], open)),
        LLVMAdd | LLVMSub => {
            let (left, right) = (find(operands[0], open), find(operands[1], open));
            match (left, right, edit::opcode(value)) {
                (one, Origin::Number, _) | (Origin::Number, one, LLVMAdd) => one,
                _ => Origin::Mixed,
            }
        }
        _ => Origin::Number,
    }
}

fn merged<'m>(one: Origin<'m>, other: Origin<'m>) -> Origin<'m> {
    match (one, other) {
        (Origin::Open, known) | (known, Origin::Open) => known,
        _ if one == other => one,
        _ => Origin::Mixed,
    }
}
