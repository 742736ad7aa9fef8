//! Instructions that stay PTX, as inline assembly.

use std::fmt::Write as _;

use super::emitter::{Emitter, touches_memory};
use super::error::LiftError;
use super::registers::Ty;
use super::resolve::{AddressBase, Op, RegisterId, Resolved};
use super::syntax::Space;

struct Assembly<'a> {
    text: String,
    outputs: Vec<RegisterId>,
    inputs: Vec<(Ty, String)>,
    tied: Vec<String>,
    op: &'a str,
    line: u32,
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
        let mut assembly = Assembly {
            text: String::new(),
            outputs: Vec::new(),
            inputs: Vec::new(),
            tied: Vec::new(),
            op: op.text,
            line: op.line,
        };
        let written = op.writes_first();
        if written {
            let outputs = &mut assembly.outputs;
            op.operands[0].registers(&mut |register| outputs.push(register));
        }
        // A register that keeps its value if the guard is false, or that is also read, is both input and output.
        let keeps = written && (op.guard.is_some() || op.updates_first());
        if keeps {
            for (index, register) in assembly.outputs.clone().into_iter().enumerate() {
                let ty = passed(emitter.ty(register));
                let value = emitter.read_register(register, ty);
                assembly.inputs.push((ty, value));
                assembly.tied.push(index.to_string());
            }
        }
        if let Some((register, negated)) = op.guard {
            let predicate = assembly.input(emitter, Ty::Int(1), &Resolved::Register(register))?;
            let _ = write!(assembly.text, "@{}{predicate} ", if negated { "!" } else { "" });
        }
        assembly.text.push_str(op.text);
        let mut next_output = 0;
        for (index, operand) in op.operands.iter().enumerate() {
            assembly.text.push_str(if index == 0 { " " } else { ", " });
            let output = (written && index == 0).then_some(&mut next_output);
            assembly.operand(emitter, operand, output)?;
        }
        assembly.text.push(';');
        assembly.emit(emitter, op);
        Ok(())
    }
}

/// Frame addresses are generic here, which an unchanged instruction would misinterpret.
fn refuse_frames(op: &Op<'_>) -> Result<(), LiftError> {
    let space = op.modifiers.iter().find_map(|word| Space::of(word));
    let frame = matches!(space, Some(Space::Local | Space::Param)) && !matches!(op.name, "isspacep");
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

impl<'a> Assembly<'a> {
    fn refuse<T>(&self, what: &str) -> Result<T, LiftError> {
        Err(LiftError::at(self.line, format!("{what} of the instruction {}", self.op)))
    }

    /// Adds an input and returns its index.
    fn input<'m>(
        &mut self,
        emitter: &mut Emitter<'m, '_>,
        ty: Ty,
        operand: &Resolved<'m>,
    ) -> Result<String, LiftError> {
        let Some(value) = emitter.read(operand, ty) else { return self.refuse("an operand") };
        self.inputs.push((ty, value));
        self.tied.push(String::new());
        Ok(format!("${}", self.outputs.len() + self.inputs.len() - 1))
    }

    fn operand<'m>(
        &mut self,
        emitter: &mut Emitter<'m, '_>,
        operand: &Resolved<'m>,
        mut output: Option<&mut usize>,
    ) -> Result<(), LiftError> {
        match operand {
            Resolved::Register(register) => match output {
                Some(next) => {
                    let _ = write!(self.text, "${next}");
                    *next += 1;
                }
                None => {
                    let place = self.input(emitter, passed(emitter.ty(*register)), operand)?;
                    self.text.push_str(&place);
                }
            },
            Resolved::Not(register) => {
                let place = self.input(emitter, Ty::Int(1), &Resolved::Register(*register))?;
                let _ = write!(self.text, "!{place}");
            }
            Resolved::Sum(register, offset) => {
                let place = self.input(emitter, passed(emitter.ty(*register)), &Resolved::Register(*register))?;
                let _ = write!(self.text, "{place}+{offset}");
            }
            Resolved::Int(value) => {
                let _ = write!(self.text, "{value}");
            }
            Resolved::F32(bits) => {
                let _ = write!(self.text, "0f{bits:08X}");
            }
            Resolved::F64(bits) => {
                let _ = write!(self.text, "0d{bits:016X}");
            }
            Resolved::Special(name) => self.text.push_str(name),
            Resolved::Sink => self.text.push('_'),
            Resolved::Address(AddressBase::Global(_) | AddressBase::Function(_), _) => {
                let place = self.input(emitter, Ty::Int(64), operand)?;
                self.text.push_str(&place);
            }
            Resolved::Vector(items) => {
                self.text.push('{');
                for (index, item) in items.iter().enumerate() {
                    self.text.push_str(if index == 0 { "" } else { ", " });
                    self.operand(emitter, item, output.as_deref_mut())?;
                }
                self.text.push('}');
            }
            Resolved::Bracket(items) => {
                self.text.push('[');
                for (index, item) in items.iter().enumerate() {
                    self.text.push_str(if index == 0 { "" } else { ", " });
                    self.operand(emitter, item, None)?;
                }
                self.text.push(']');
            }
            Resolved::Pair(first, second) => {
                self.operand(emitter, first, output.as_deref_mut())?;
                self.text.push('|');
                self.operand(emitter, second, output)?;
            }
            _ => return self.refuse("an operand"),
        }
        Ok(())
    }

    fn emit(self, emitter: &mut Emitter<'_, '_>, op: &Op<'_>) {
        let types: Vec<Ty> = self.outputs.iter().map(|register| passed(emitter.ty(*register))).collect();
        // Bytes lack a register class.
        let wide = |ty: &Ty| if *ty == Ty::Int(8) { Ty::Int(16) } else { *ty };
        let mut constraints: Vec<String> = types.iter().map(|ty| format!("={}", class(*ty))).collect();
        let mut arguments = Vec::new();
        for ((ty, value), tied) in self.inputs.into_iter().zip(self.tied) {
            let value = emitter.cast(&value, ty, wide(&ty));
            constraints.push(if tied.is_empty() { class(ty).to_owned() } else { tied });
            arguments.push(format!("{} {value}", wide(&ty).text()));
        }
        let (memory, collective) = (touches_memory(op), op.row.collective);
        // Tensor cores on registers, votes and similar instructions do not access memory.
        let is_pure = !memory
            || (matches!(op.name, "mma" | "wmma" | "movmatrix") && !op.text.contains(['[']) && !has_address(op));
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
            many => format!("{{ {} }}", many.iter().map(|ty| wide(ty).text()).collect::<Vec<_>>().join(", ")),
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

fn has_address(op: &Op<'_>) -> bool {
    op.operands.iter().any(|operand| matches!(operand, Resolved::Bracket(_)))
}
