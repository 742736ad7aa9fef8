//! Translation of inline PTX to LLVM assembly.
//!
//! It is straight-line code over registers, as CUDA's headers and hand-tuned kernels write it.
//!
//! A register holds an integer of its width (PTX registers are untyped bits); an instruction says how it reads them.
//! Assembly that branches, or has an instruction without a meaning here, makes its kernel refused under the
//! instruction's text.

mod barrier;
mod float;
mod fragment;
mod image;
mod instruction;
mod integer;
mod matrix;
mod memory;
mod parse;
mod quarter;
mod simd;
mod types;

use std::collections::HashMap;

use super::operations::sreg::{self, Word};
use super::operations::text::{FunctionBody, FunctionSignature};
use parse::{InlineOperand, InlineStatement};

/// Names of the functions that replace inline PTX begin with this.
pub const PREFIX: &str = "__mneme_cpu.ptx.";

/// The body that does what the assembly does, or the construct's name for the user.
pub fn translate(text: &str, constraints: &str, signature: &FunctionSignature) -> Result<FunctionBody, String> {
    let mut machine = Machine::new();
    let outputs = machine.bind(constraints, signature).ok_or_else(|| refuse(text))?;
    for statement in parse::statements(text) {
        match statement {
            InlineStatement::Open => machine.scopes.push(Vec::new()),
            InlineStatement::Close => machine.close_scope(),
            InlineStatement::Declare { bits, names } => names.into_iter().for_each(|name| machine.declare(name, bits)),
            InlineStatement::Instruction(instruction) => {
                machine.guarded(&instruction).ok_or_else(|| refuse(&instruction.text))?;
            }
            InlineStatement::Unknown(text) => return Err(refuse(&text)),
        }
    }
    machine.finish(&outputs, signature).ok_or_else(|| refuse(text))
}

/// The construct's name for the user.
fn refuse(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let kind = match text.split('.').next().unwrap_or_default() {
        "tex" | "tld4" | "txq" => "texture",
        "suld" | "sust" | "sured" | "suq" => "surface",
        "wmma" | "mma" | "wgmma" | "ldmatrix" | "stmatrix" | "tcgen05" => "tensor cores:",
        _ => "inline PTX",
    };
    format!("{kind} `{text}`")
}

#[derive(Clone)]
struct Register {
    bits: u32,
    value: String,
}

/// An output of the assembly: its register and the type LLVM gave it.
struct Output {
    register: String,
    ty: String,
}

/// The state of the translation: registers as SSA values of the body.
struct Machine {
    body: FunctionBody,
    registers: HashMap<String, Register>,
    /// Registers that each open scope hides.
    scopes: Vec<Vec<(String, Option<Register>)>>,
    /// CC.CF, an `i1`.
    carry: String,
    /// The basic block being written.
    block: String,
    blocks: usize,
}

impl Machine {
    fn new() -> Machine {
        let mut body = FunctionBody::default();
        body.line("br label %b0");
        body.line("b0:");
        Machine {
            body,
            registers: HashMap::new(),
            scopes: Vec::new(),
            carry: "false".into(),
            block: "b0".into(),
            blocks: 1,
        }
    }

    /// Makes the operands of the assembly registers `$0`, `$1`, …: outputs first, then inputs.
    fn bind(&mut self, constraints: &str, signature: &FunctionSignature) -> Option<Vec<Output>> {
        let constraints: Vec<&str> =
            constraints.split(',').filter(|part| !part.is_empty() && !part.starts_with('~')).collect();
        let results = result_types(&signature.result);
        let mut outputs = Vec::new();
        for (i, constraint) in constraints.iter().enumerate().filter(|(_, constraint)| constraint.starts_with('=')) {
            let ty = results.get(outputs.len())?.clone();
            let bits = width(constraint.trim_start_matches(['=', '&']))?;
            self.registers.insert(format!("${i}"), Register { bits, value: "poison".into() });
            outputs.push(Output { register: format!("${i}"), ty });
        }
        let inputs = constraints.iter().enumerate().filter(|(_, constraint)| !constraint.starts_with('='));
        for ((i, constraint), (argument, ty)) in inputs.zip(signature.parameters.iter().enumerate()) {
            let (bits, value) = self.as_bits(ty, &format!("%a{argument}"))?;
            if let Ok(tied) = constraint.parse::<usize>() {
                let name = format!("${tied}");
                let wanted = self.registers.get(&name)?.bits;
                let value = self.resize(&value, bits, wanted, false);
                self.registers.insert(name, Register { bits: wanted, value: value.clone() });
                self.registers.insert(format!("${i}"), Register { bits: wanted, value });
            } else {
                let wanted = width(constraint).unwrap_or(bits);
                let value = self.resize(&value, bits, wanted, false);
                self.registers.insert(format!("${i}"), Register { bits: wanted, value });
            }
        }
        Some(outputs)
    }

    /// A value of an LLVM type as an integer of the same width.
    fn as_bits(&mut self, ty: &str, value: &str) -> Option<(u32, String)> {
        let bits = match ty {
            "half" | "bfloat" => 16,
            "float" | "<2 x half>" | "<2 x bfloat>" => 32,
            "double" => 64,
            _ if ty.starts_with("ptr") => return Some((64, self.body.value(format!("ptrtoint {ty} {value} to i64")))),
            _ => return Some((ty.strip_prefix('i')?.parse().ok()?, value.to_owned())),
        };
        Some((bits, self.body.value(format!("bitcast {ty} {value} to i{bits}"))))
    }

    fn finish(mut self, outputs: &[Output], signature: &FunctionSignature) -> Option<FunctionBody> {
        let mut results = Vec::new();
        for output in outputs {
            let register = self.registers.get(&output.register)?.clone();
            let value = match output.ty.as_str() {
                "half" | "bfloat" | "float" | "double" | "<2 x half>" | "<2 x bfloat>" => {
                    self.body.value(format!("bitcast i{} {} to {}", register.bits, register.value, output.ty))
                }
                ty if ty.starts_with("ptr") => {
                    let value = self.resize(&register.value, register.bits, 64, false);
                    self.body.value(format!("inttoptr i64 {value} to {ty}"))
                }
                ty => self.resize(&register.value, register.bits, ty.strip_prefix('i')?.parse().ok()?, false),
            };
            results.push(value);
        }
        match results.as_slice() {
            [] => self.body.ret("void", ""),
            [value] if !signature.result.starts_with('{') => self.body.ret(&signature.result, value),
            values => {
                let mut whole = "poison".to_owned();
                for (i, (value, output)) in values.iter().zip(outputs).enumerate() {
                    whole = self
                        .body
                        .value(format!("insertvalue {} {whole}, {} {value}, {i}", signature.result, output.ty));
                }
                self.body.ret(&signature.result, whole);
            }
        }
        Some(self.body)
    }

    fn declare(&mut self, name: String, bits: u32) {
        let old = self.registers.insert(name.clone(), Register { bits, value: "poison".into() });
        if let Some(scope) = self.scopes.last_mut() {
            scope.push((name, old));
        }
    }

    fn close_scope(&mut self) {
        for (name, old) in self.scopes.pop().unwrap_or_default().into_iter().rev() {
            match old {
                Some(register) => self.registers.insert(name, register),
                None => self.registers.remove(&name),
            };
        }
    }

    /// An instruction behind its guard predicate, if it has one.
    fn guarded(&mut self, instruction: &parse::InlineInstruction) -> Option<()> {
        let Some((negated, predicate)) = &instruction.guard else { return self.execute(instruction) };
        let mut condition = self.read(&InlineOperand::Name(predicate.clone()), 1)?;
        if *negated {
            condition = self.body.value(format!("xor i1 {condition}, true"));
        }
        let before = (self.registers.clone(), self.carry.clone());
        let skipped_from = self.block.clone();
        let (inside, after) = (self.new_block(), self.new_block());
        self.body.line(format_args!("br i1 {condition}, label %{inside}, label %{after}"));
        self.enter(&inside);
        self.execute(instruction)?;
        let came_from = self.block.clone();
        self.body.line(format_args!("br label %{after}"));
        self.enter(&after);
        let mut names: Vec<String> = before.0.keys().cloned().collect();
        names.sort();
        for name in names {
            let (old, new) = (before.0[&name].clone(), self.registers[&name].clone());
            if old.value != new.value {
                let value = self.body.value(format!(
                    "phi i{} [ {}, %{came_from} ], [ {}, %{skipped_from} ]",
                    new.bits, new.value, old.value
                ));
                self.registers.insert(name, Register { bits: new.bits, value });
            }
        }
        if before.1 != self.carry {
            self.carry =
                self.body.value(format!("phi i1 [ {}, %{came_from} ], [ {}, %{skipped_from} ]", self.carry, before.1));
        }
        Some(())
    }

    fn new_block(&mut self) -> String {
        self.blocks += 1;
        format!("b{}", self.blocks - 1)
    }

    fn enter(&mut self, block: &str) {
        self.body.line(format_args!("{block}:"));
        self.block = block.to_owned();
    }

    /// An operand as an integer of `bits`.
    fn read(&mut self, operand: &InlineOperand, bits: u32) -> Option<String> {
        match operand {
            InlineOperand::Immediate(value) => Some(literal(*value, bits)),
            InlineOperand::Decimal(value) => match bits {
                32 => Some((*value as f32).to_bits().to_string()),
                64 => Some(value.to_bits().to_string()),
                _ => None,
            },
            InlineOperand::Negated(name) => {
                let value = self.read(&InlineOperand::Name(name.clone()), 1)?;
                (bits == 1).then(|| self.body.value(format!("xor i1 {value}, true")))
            }
            InlineOperand::Name(name) => {
                if let Some(register) = self.registers.get(name).cloned() {
                    return Some(self.resize(&register.value, register.bits, bits, false));
                }
                if name == "WARP_SZ" {
                    return Some("32".into());
                }
                if name.starts_with("%reserved_smem_offset_") {
                    self.body.reserved = true;
                    let address = self.body.value("call ptr addrspace(3) @__mneme_cpu.reserved()");
                    let value = self.body.value(format!("ptrtoint ptr addrspace(3) {address} to i64"));
                    return Some(self.resize(&value, 64, bits, false));
                }
                let special = special_register(name.strip_prefix('%')?);
                let parts: Vec<&str> = special.iter().map(String::as_str).collect();
                let (value, width) = match sreg::read(&parts, &mut self.body)? {
                    Word::Narrow(value) => (value, 32),
                    Word::Wide(value) => (value, 64),
                };
                Some(self.resize(&value, width, bits, false))
            }
            InlineOperand::Vector(elements) => {
                let each = part_of(bits, elements)?;
                let mut whole = "0".to_owned();
                for (i, element) in elements.iter().enumerate() {
                    let part = self.read(element, each)?;
                    let part = self.resize(&part, each, bits, false);
                    let placed = self.body.value(format!("shl i{bits} {part}, {}", each * i as u32));
                    whole = self.body.value(format!("or i{bits} {whole}, {placed}"));
                }
                Some(whole)
            }
            InlineOperand::Address(..) | InlineOperand::Texel(..) | InlineOperand::Pair(..) | InlineOperand::Sink => {
                None
            }
        }
    }

    /// Sets a destination to an integer of `bits`; a wider register is filled by sign or zero extension.
    fn write(&mut self, operand: &InlineOperand, bits: u32, value: &str, signed: bool) -> Option<()> {
        match operand {
            InlineOperand::Sink => Some(()),
            InlineOperand::Name(name) => {
                let wanted = self.registers.get(name)?.bits;
                let value = self.resize(value, bits, wanted, signed);
                self.registers.insert(name.clone(), Register { bits: wanted, value });
                Some(())
            }
            InlineOperand::Vector(elements) => {
                let each = part_of(bits, elements)?;
                for (i, element) in elements.iter().enumerate() {
                    let moved = self.body.value(format!("lshr i{bits} {value}, {}", each * i as u32));
                    let part = self.resize(&moved, bits, each, false);
                    self.write(element, each, &part, false)?;
                }
                Some(())
            }
            _ => None,
        }
    }

    fn resize(&mut self, value: &str, from: u32, to: u32, signed: bool) -> String {
        match from.cmp(&to) {
            std::cmp::Ordering::Equal => value.to_owned(),
            std::cmp::Ordering::Greater => self.body.value(format!("trunc i{from} {value} to i{to}")),
            std::cmp::Ordering::Less => {
                let extend = if signed { "sext" } else { "zext" };
                self.body.value(format!("{extend} i{from} {value} to i{to}"))
            }
        }
    }
}

/// Bits of each element of a vector of `bits`.
fn part_of(bits: u32, elements: &[InlineOperand]) -> Option<u32> {
    let count = u32::try_from(elements.len()).ok().filter(|count| *count != 0 && bits.is_multiple_of(*count))?;
    Some(bits / count)
}

/// The low `bits` of a number, as LLVM reads it.
fn literal(value: i128, bits: u32) -> String {
    let mask = if bits >= 128 { u128::MAX } else { (1u128 << bits) - 1 };
    match (bits, value as u128 & mask) {
        (1, 0) => "false".into(),
        (1, _) => "true".into(),
        (_, value) => value.to_string(),
    }
}

/// A special register's name in the parts that the intrinsics use.
fn special_register(name: &str) -> Vec<String> {
    if let Some(relation) = name.strip_prefix("lanemask_") {
        return vec!["lanemask".into(), relation.into()];
    }
    if let Some(rest) = name.strip_prefix("cluster_") {
        return std::iter::once("cluster").chain(rest.split('.')).map(str::to_owned).collect();
    }
    name.split('.').map(str::to_owned).collect()
}

/// Width in bits of a register constraint.
fn width(constraint: &str) -> Option<u32> {
    match constraint {
        "b" => Some(1),
        "c" | "h" => Some(16),
        "r" | "f" => Some(32),
        "l" | "d" => Some(64),
        "q" => Some(128),
        _ => None,
    }
}

/// The types of `{ a, b }`, or the one type.
fn result_types(result: &str) -> Vec<String> {
    match result.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(|ty| ty.trim().to_owned()).collect(),
        None if result == "void" => Vec::new(),
        None => vec![result.to_owned()],
    }
}

#[cfg(test)]
mod tests;
