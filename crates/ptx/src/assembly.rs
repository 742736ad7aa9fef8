//! Instructions that stay PTX, as inline assembly.

use std::fmt::Write as _;

use super::emitter::{Emitter, touches_memory};
use super::error::LiftError;
use super::registers::{Ty, joined};
use super::resolve::{AddressBase, Op, RegisterId, Resolved};
use super::syntax::Space;

struct Assembly {
    text: String,
    outputs: Vec<RegisterId>,
    /// Values, and the output in whose register a value comes.
    inputs: Vec<(Ty, String, Option<usize>)>,
}

impl<'a> Emitter<'a, '_> {
    /// Writes an instruction as inline assembly, including its guard.
    ///
    /// # Errors
    /// Inline assembly does not support one of the operands.
    pub fn assembly(&mut self, op: &Op<'a>) -> Result<(), LiftError> {
        let emitter = self;
        if emitter.is_cpu() {
            emitter.context.refused = Some(op.text);
            return Err(LiftError::at(op.line, op.text));
        }
        *emitter.context.statistics.assembly.entry(op.text.to_owned()).or_default() += 1;
        refuse_frames(op)?;
        let mut assembly = Assembly { text: String::new(), outputs: Vec::new(), inputs: Vec::new() };
        let written = op.writes_first();
        if written {
            op.operands[0].registers(&mut |register| assembly.outputs.push(register));
        }
        // A register that keeps its value if the guard is false, or that is also read, is both input and output.
        if written && (op.guard.is_some() || op.updates_first()) {
            for (index, register) in assembly.outputs.iter().enumerate() {
                let ty = passed(emitter.ty(*register));
                assembly.inputs.push((ty, emitter.read_register(*register, ty), Some(index)));
            }
        }
        if let Some((register, negated)) = op.guard {
            assembly.text.push_str(if negated { "@!" } else { "@" });
            assembly.register(emitter, register);
            assembly.text.push(' ');
        }
        assembly.text.push_str(op.text);
        let mut next_output = 0;
        for (index, operand) in op.operands.iter().enumerate() {
            assembly.text.push_str(if index == 0 { " " } else { ", " });
            let output = (written && index == 0).then_some(&mut next_output);
            let known = assembly.operand(emitter, operand, output);
            known.ok_or_else(|| LiftError::at(op.line, format!("an operand of the instruction {}", op.text)))?;
        }
        assembly.text.push(';');
        assembly.emit(emitter, op);
        Ok(())
    }
}

/// Frame addresses are generic here, which an unchanged instruction would misinterpret.
fn refuse_frames(op: &Op<'_>) -> Result<(), LiftError> {
    let frame = matches!(op.space(), Space::Local | Space::Param) && op.name != "isspacep";
    if frame || matches!(op.name, "alloca" | "stacksave" | "stackrestore") {
        return Err(LiftError::at(op.line, format!("the instruction {}", op.text)));
    }
    Ok(())
}

/// The type in which a register is passed: bits, which every instruction accepts.
fn passed(ty: Ty) -> Ty {
    Ty::Int(ty.bits().max(1))
}

fn class(ty: Ty) -> &'static str {
    match ty.bits() {
        1 => "b",
        8 | 16 => "h",
        32 => "r",
        64 => "l",
        _ => "q",
    }
}

impl Assembly {
    /// Adds an input, and names it.
    fn input(&mut self, ty: Ty, value: String) {
        let _ = write!(self.text, "${}", self.outputs.len() + self.inputs.len());
        self.inputs.push((ty, value, None));
    }

    fn register(&mut self, emitter: &mut Emitter<'_, '_>, register: RegisterId) {
        let ty = passed(emitter.ty(register));
        self.input(ty, emitter.read_register(register, ty));
    }

    fn operand<'m>(
        &mut self,
        emitter: &mut Emitter<'m, '_>,
        operand: &Resolved<'m>,
        mut output: Option<&mut usize>,
    ) -> Option<()> {
        let (open, items, close) = match operand {
            Resolved::Vector(items) => ("{", &items[..], "}"),
            Resolved::Bracket(items) => ("[", &items[..], "]"),
            Resolved::Pair(first, second) => {
                self.operand(emitter, first, output.as_deref_mut())?;
                self.text.push('|');
                return self.operand(emitter, second, output);
            }
            leaf => return self.leaf(emitter, leaf, output),
        };
        self.text.push_str(open);
        for (index, item) in items.iter().enumerate() {
            self.text.push_str(if index == 0 { "" } else { ", " });
            self.operand(emitter, item, output.as_deref_mut().filter(|_| open == "{"))?;
        }
        self.text.push_str(close);
        Some(())
    }

    fn leaf<'m>(
        &mut self,
        emitter: &mut Emitter<'m, '_>,
        operand: &Resolved<'m>,
        output: Option<&mut usize>,
    ) -> Option<()> {
        match (operand, output) {
            (Resolved::Register(_), Some(next)) => {
                let _ = write!(self.text, "${next}");
                *next += 1;
            }
            (Resolved::Register(register), None) => self.register(emitter, *register),
            (Resolved::Not(register), _) => {
                self.text.push('!');
                self.register(emitter, *register);
            }
            (Resolved::Sum(register, offset), _) => {
                self.register(emitter, *register);
                let _ = write!(self.text, "+{offset}");
            }
            (Resolved::Int(value), _) => self.text.push_str(&value.to_string()),
            (Resolved::F32(bits), _) => self.text.push_str(&format!("0f{bits:08X}")),
            (Resolved::F64(bits), _) => self.text.push_str(&format!("0d{bits:016X}")),
            (Resolved::Special(name), _) => self.text.push_str(name),
            (Resolved::Sink, _) => self.text.push('_'),
            (Resolved::Address(AddressBase::Global(_) | AddressBase::Function(_), _), _) => {
                let value = emitter.read(operand, Ty::Int(64))?;
                self.input(Ty::Int(64), value);
            }
            _ => return None,
        }
        Some(())
    }

    fn emit(self, emitter: &mut Emitter<'_, '_>, op: &Op<'_>) {
        let types: Vec<Ty> = self.outputs.iter().map(|register| passed(emitter.ty(*register))).collect();
        // Bytes lack a register class.
        let wide = |ty: &Ty| if *ty == Ty::Int(8) { Ty::Int(16) } else { *ty };
        let mut constraints: Vec<String> = types.iter().map(|ty| format!("={}", class(*ty))).collect();
        let mut arguments = Vec::new();
        for (ty, value, tied) in self.inputs {
            let value = emitter.cast(&value, ty, wide(&ty));
            constraints.push(tied.map_or_else(|| class(ty).to_owned(), |output| output.to_string()));
            arguments.push(format!("{} {value}", wide(&ty).text()));
        }
        let (memory, collective) = (touches_memory(op), op.row.collective);
        // Tensor cores on registers, votes and similar instructions do not access memory.
        let is_pure = !memory || (matches!(op.name, "mma" | "wmma" | "movmatrix") && op.address().is_none());
        let (effect, attributes) = match (is_pure, collective) {
            (true, false) => ("", "#1"),
            (true, true) => ("", "#2"),
            (false, _) => ("sideeffect ", "#3"),
        };
        if !is_pure {
            constraints.push("~{memory}".into());
        }
        let result = match &types[..] {
            [] => "void".to_owned(),
            [one] => wide(one).text().to_owned(),
            many => format!("{{ {} }}", joined(many, |ty| wide(ty).text().to_owned())),
        };
        let effect = if types.is_empty() && is_pure { "sideeffect " } else { effect };
        let text = format!(
            "call {result} asm {effect}\"{}\", \"{}\"({}) {attributes}",
            self.text,
            constraints.join(","),
            arguments.join(", ")
        );
        if types.is_empty() {
            return emitter.line(text);
        }
        let value = emitter.value(text);
        for (index, (register, ty)) in self.outputs.iter().zip(&types).enumerate() {
            let part = match types.len() {
                1 => value.clone(),
                _ => emitter.value(format_args!("extractvalue {result} {value}, {index}")),
            };
            let part = emitter.cast(&part, wide(ty), *ty);
            emitter.write_register(*register, *ty, &part, false);
        }
    }
}
