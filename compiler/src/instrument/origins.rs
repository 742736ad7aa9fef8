//! The one variable that an address leads into, whichever way it was computed.
//!
//! Loops step through arrays by pointers that begin anew or go on (phi), and PTX adds to addresses in shared memory as
//! to numbers.

use std::collections::HashSet;

use llvm_sys::LLVMOpcode::*;
use llvm_sys::core::LLVMIsAAllocaInst;

use crate::ir::{Value, edit};

/// What a value is as far as addresses go.
#[derive(Clone, Copy, PartialEq)]
enum Origin<'m> {
    /// It is being looked at: it says nothing of its own.
    Open,
    /// No address, as far as can be seen.
    Number,
    /// An address in this variable.
    In(Value<'m>),
    /// One of several, or computed in a way that is not followed.
    Mixed,
}

/// Values that are looked at before the search gives up.
const MOST: usize = 256;

/// The variable of the module, or of the function, that `address` leads into, if it is one.
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
