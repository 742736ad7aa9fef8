//! Instrumentation that counts the floating-point operations that a kernel performs.
//!
//! Each function adds up what its blocks perform in variables, which become registers. Before it returns or may end the
//! thread, a call adds them to the launch's counts. It works on the pipeline's output, because a front end leaves much
//! arithmetic that no compiled code performs.

use inkwell::module::Module;
use llvm_sys::LLVMOpcode::*;
use llvm_sys::LLVMTypeKind::*;
use llvm_sys::core::{LLVMGetElementType, LLVMGetVectorSize};
use llvm_sys::prelude::LLVMTypeRef;
use mneme_builds::instrument::layout::WIDTHS;

use super::emitter::{self, ModuleEmitter, PREFIX};
use crate::ir::{self, Value};

/// Counts by width: 16, 32 and 64 bits.
type Counts = [u64; WIDTHS];

/// Instruments all functions.
pub fn count(module: &Module<'_>) {
    let emitter = ModuleEmitter::new(module);
    let functions: Vec<Value<'_>> = ir::functions(module)
        .into_iter()
        .filter(|function| !function.is_declaration() && !function.name().starts_with(PREFIX))
        .collect();
    // A call does not return if the thread ends in it.
    let may_end = functions.iter().any(|function| function.instructions().into_iter().any(Value::ends_thread));
    for function in functions {
        let instructions = function.instructions();
        if instructions.iter().all(|instruction| of(*instruction) == [0; WIDTHS]) {
            continue;
        }
        let word = emitter.integer(64);
        emitter.before(instructions[0]);
        let sums = [(); WIDTHS].map(|()| emitter.slot(word, 8));
        sums.iter().for_each(|sum| emitter.store(emitter.number(64, 0), *sum));
        let mut block = [0; WIDTHS];
        for instruction in instructions {
            for (sum, own) in block.iter_mut().zip(of(instruction)) {
                *sum += own;
            }
            let ends =
                instruction.opcode() == LLVMRet || instruction.ends_thread() || may_end && calls_function(instruction);
            if !ends && !instruction.is_terminator() {
                continue;
            }
            emitter.before(instruction);
            for (sum, own) in sums.iter().zip(std::mem::take(&mut block)).filter(|(_, own)| *own > 0) {
                emitter.store(emitter.add(emitter.load(word, *sum), emitter.number(64, own as i64)), *sum);
            }
            if ends {
                let counts = sums.map(|sum| emitter.load(word, sum));
                emitter.call("__mneme_performed", emitter.void(), &counts);
                sums.iter().for_each(|sum| emitter.store(emitter.number(64, 0), *sum));
            }
        }
    }
}

/// Whether an instruction calls a function of the program.
fn calls_function(instruction: Value<'_>) -> bool {
    let is_own = |callee: Value<'_>| callee.name().starts_with(PREFIX);
    instruction.is_call()
        && instruction.inline_assembly().is_none()
        && instruction.callee().is_none_or(|callee| !callee.is_intrinsic() && !is_own(callee))
}

/// The operations of one instruction.
fn of(instruction: Value<'_>) -> Counts {
    match instruction.opcode() {
        LLVMFAdd | LLVMFSub | LLVMFMul | LLVMFDiv | LLVMFRem => of_type(instruction.ty(), 1),
        LLVMCall => {
            if let Some(text) = instruction.inline_assembly() {
                return of_assembly(&text);
            }
            let Some(name) = instruction.callee().map(Value::name) else { return [0; WIDTHS] };
            if name.starts_with("llvm.vector.reduce.f") {
                // The last argument is the vector, and a sum or product has a start.
                return instruction.call_arguments().last().map_or([0; WIDTHS], |all| of_type(all.ty(), 1));
            }
            of_type(instruction.ty(), of_intrinsic(&name))
        }
        _ => [0; WIDTHS],
    }
}

/// Operations of an intrinsic on each element.
fn of_intrinsic(name: &str) -> u64 {
    let Some(name) = name.strip_prefix("llvm.") else { return 0 };
    let families = ["experimental.constrained.", "nvvm.", "amdgcn."];
    let own = families.iter().find_map(|family| name.strip_prefix(family)).unwrap_or(name);
    of_name(own.split('.').next().unwrap_or_default())
}

/// Operations of what the vendors and LLVM call by this name.
fn of_name(name: &str) -> u64 {
    match name {
        "fma" | "fmuladd" | "fmad" | "mad" => 2,
        "add" | "sub" | "mul" | "div" | "fadd" | "fsub" | "fmul" | "fdiv" | "frem" => 1,
        "rcp" | "sqrt" | "rsqrt" | "rsq" | "min" | "max" | "fmin" | "fmax" => 1,
        "minnum" | "maxnum" | "minimum" | "maximum" | "minimumnum" | "maximumnum" => 1,
        _ => 0,
    }
}

/// Operations of inline PTX. A tensor core's instructions do not count: its rate is another.
fn of_assembly(text: &str) -> Counts {
    let mut counts = [0; WIDTHS];
    for statement in text.split([';', '\n', '{', '}']) {
        let mnemonic = statement.split_whitespace().find(|word| !word.starts_with('@') && !word.ends_with(':'));
        let Some((name, modifiers)) = mnemonic.and_then(|mnemonic| mnemonic.split_once('.')) else { continue };
        let (width, lanes) = match modifiers.rsplit('.').next() {
            Some("f16" | "bf16") => (0, 1),
            Some("f16x2" | "bf16x2") => (0, 2),
            Some("f32") => (1, 1),
            Some("f32x2") => (1, 2),
            Some("f64") => (2, 1),
            _ => continue,
        };
        counts[width] += of_name(name) * lanes;
    }
    counts
}

/// This many operations on each element of a type.
fn of_type(ty: LLVMTypeRef, each: u64) -> Counts {
    let mut counts = [0; WIDTHS];
    let (element, lanes) = match emitter::kind(ty) {
        // SAFETY: a live vector type.
        LLVMVectorTypeKind => unsafe { (LLVMGetElementType(ty), u64::from(LLVMGetVectorSize(ty))) },
        _ => (ty, 1),
    };
    let width = match emitter::kind(element) {
        LLVMHalfTypeKind | LLVMBFloatTypeKind => 0,
        LLVMFloatTypeKind => 1,
        LLVMDoubleTypeKind => 2,
        _ => return counts,
    };
    counts[width] = each * lanes;
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inline_assembly_counts_by_its_type() {
        for (text, expected) in [
            ("fma.rz.f32 $0, $1, $2, $3;", [0, 2, 0]),
            ("{ .reg .pred p; setp.ne.b32 p, $0, 0; @p add.rn.f64 $1, $2, $3; }", [0, 0, 1]),
            ("fma.rn.relu.bf16x2 $0, $1, $2, $3;\n\tmul.f16 $4, $4, $4;", [5, 0, 0]),
            ("LOOP: add.s32 $0, $0, 1; setp.lt.f32 p, $1, $2; cvt.rn.f16.f32 $3, $1;", [0; 3]),
            ("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {$0}, {$1}, {$2}, {$3};", [0; 3]),
            ("atom.global.add.f32 $0, [$1], $2; abs.f32 $0, $0;", [0; 3]),
        ] {
            assert_eq!(of_assembly(text), expected, "{text}");
        }
    }

    #[test]
    fn intrinsics_count_by_their_names() {
        for (name, expected) in [
            ("llvm.fma.f32", 2),
            ("llvm.nvvm.fma.rn.ftz.f", 2),
            ("llvm.nvvm.add.rn.d", 1),
            ("llvm.experimental.constrained.fadd.f32", 1),
            ("llvm.amdgcn.rcp.f32", 1),
            ("llvm.minimumnum.f64", 1),
            ("llvm.fabs.f32", 0),
            ("llvm.nvvm.ex2.approx.f", 0),
            ("fma", 0),
        ] {
            assert_eq!(of_intrinsic(name), expected, "{name}");
        }
    }
}
