//! The writer of a function's code in LLVM's assembly.

use std::fmt::{Display, Write as _};

use super::context::{Context, Intrinsic, Target};
use super::debug::FunctionLines;
use super::error::LiftError;
use super::instructions::Family;
use super::lifted::FRAME;
use super::provenance::Provenance;
use super::registers::{Registers, Ty, joined};
use super::resolve::{AddressBase, Body, Item, Op, RegisterId, Resolved};
use super::syntax::{Function, Signature, Space, Type};

/// The writer of one function.
pub struct Emitter<'a, 'c> {
    pub context: &'c mut Context<'a>,
    pub function: &'c Function<'a>,
    pub body: &'c Body<'a>,
    pub text: String,
    /// Frame slots that instructions need; they go before the text.
    places: String,
    next: usize,
    blocks: usize,
    types: Vec<Ty>,
    provenance: Provenance,
    /// Registers that some block reads before it writes them: these have a slot in the frame.
    exposed: Vec<bool>,
    /// Values of registers in the block being written.
    values: Vec<Option<String>>,
    /// Registers with a value in this block, and whether this block wrote it.
    touched: Vec<(RegisterId, bool)>,
    /// An `i1`: if it is false, registers keep their old values.
    guard: Option<String>,
    /// The parameters that are passed directly, with their types.
    pub direct: Vec<Option<Ty>>,
    pub ended: bool,
    lines: Option<FunctionLines>,
    /// The suffix of the instructions being written: their source location.
    place: String,
}

impl<'a, 'c> Emitter<'a, 'c> {
    pub fn new(
        context: &'c mut Context<'a>,
        function: &'c Function<'a>,
        body: &'c Body<'a>,
        registers: Registers,
        direct: Vec<Option<Ty>>,
    ) -> Self {
        let Registers { types, provenance } = registers;
        let lines = context.debug.function(function.name, body.ops().filter_map(|op| op.location));
        Self {
            context,
            function,
            body,
            text: String::new(),
            places: String::new(),
            next: 0,
            blocks: 0,
            values: vec![None; types.len()],
            types,
            provenance,
            exposed: exposed(body),
            touched: Vec::new(),
            guard: None,
            direct,
            ended: false,
            lines,
            place: String::new(),
        }
    }

    /// Writes the function's body, and the text before the function.
    pub fn write(mut self) -> Result<(String, String), LiftError> {
        self.frame();
        self.locate(None);
        for item in &self.body.items {
            match item {
                Item::Label(label) => {
                    self.jump(&format!("L{label}"));
                    self.begin(&format!("L{label}"));
                }
                Item::Op(op) => {
                    if self.ended {
                        let block = self.block();
                        self.begin(&block);
                    }
                    self.context.statistics.instructions += 1;
                    self.locate(op.location);
                    self.op(op)?;
                }
            }
        }
        if !self.ended {
            self.leave();
        }
        let own = self.lines.map(|lines| format!(" !dbg !{}", lines.subprogram)).unwrap_or_default();
        Ok((self.places + &self.text, own))
    }

    /// Sets the source location of the following instructions.
    fn locate(&mut self, location: Option<usize>) {
        if let Some(lines) = &mut self.lines {
            let node = self.context.debug.location(lines, location);
            self.place = format!(", !dbg !{node}");
        }
    }

    /// Writes the slots of registers and local variables, with their initial values.
    fn frame(&mut self) {
        for (index, ty) in self.types.iter().enumerate().filter(|(index, _)| self.exposed[*index]) {
            // An unwritten register has an arbitrary value, but the same one at each read.
            let ty = ty.text();
            let _ = write!(self.text, "  %R{index} = alloca {ty}\n  store {ty} zeroinitializer, ptr %R{index}\n");
        }
        for (index, local) in self.body.locals.iter().enumerate() {
            self.frame_place(&format!("%V{index}"), local.bytes(), local.alignment());
        }
        let Signature { params, returns } = &self.function.signature;
        for (index, returned) in returns.iter().enumerate().filter(|(_, it)| !it.in_register) {
            self.frame_place(&format!("%Q{index}"), returned.size(), returned.alignment());
        }
        for (index, param) in params.iter().enumerate() {
            let ty = Ty::stored(param.scalar);
            if let Some(register) = self.body.param_registers[index] {
                let value = self.cast(&format!("%P{index}"), ty, self.ty(register));
                self.set(register, value);
            } else if self.direct[index].is_none() && param.bytes.is_none() {
                let (ty, align) = (ty.text(), param.alignment());
                let _ = writeln!(self.text, "  %S{index} = alloca {ty}, align {align}");
                let _ = writeln!(self.text, "  store {ty} %P{index}, ptr %S{index}");
            }
        }
    }

    /// Allocates memory in the frame. Like registers it starts as zeros: LLVM would otherwise assume a different
    /// convenient value at each read of unwritten memory. The mark tells that the zeros are not the program's own.
    fn frame_place(&mut self, name: &str, bytes: u64, align: u64) {
        let bytes = bytes.max(1);
        self.context.declare("!9000 = !{}".into());
        self.context.declare("declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)".into());
        let _ = write!(
            self.text,
            "  {name} = alloca [{bytes} x i8], align {align}\n  \
             call void @llvm.memset.p0.i64(ptr align {align} {name}, i8 0, i64 {bytes}, i1 false), !{FRAME} !9000\n"
        );
    }

    fn op(&mut self, op: &Op<'a>) -> Result<(), LiftError> {
        self.refuse_cut_addresses(op)?;
        if self.control(op)? {
            return Ok(());
        }
        let Some((register, negated)) = op.guard else { return self.lift(op) };
        if !is_branched(op) {
            let mut condition = self.read_register(register, Ty::Int(1));
            if negated {
                condition = self.value(format_args!("xor i1 {condition}, true"));
            }
            self.guard = Some(condition);
            return self.lift(op);
        }
        self.spill();
        let (text, next, blocks) = (self.text.len(), self.next, self.blocks);
        let mut done = false;
        self.guarded(op, |this| done = this.attempt(op));
        if !done {
            self.text.truncate(text);
            (self.next, self.blocks) = (next, blocks);
            return self.assembly(op);
        }
        Ok(())
    }

    /// Refuses 32-bit addresses of the frame: the frame's addresses are generic here, which need 64 bits.
    fn refuse_cut_addresses(&self, op: &Op<'a>) -> Result<(), LiftError> {
        let address = match (op.name, op.space()) {
            ("ld" | "st", Space::Local | Space::Param) => op.address(),
            ("cvta", Space::Local | Space::Param) => op.operands.get(1),
            _ => None,
        };
        let mut cut = false;
        if let Some(address) = address {
            address.registers(&mut |register| cut |= self.provenance.cut[register as usize]);
        }
        if cut {
            return Err(LiftError::at(op.line, format!("32 bits of a local address (instruction {})", op.text)));
        }
        Ok(())
    }

    /// Whether an instruction makes a 32-bit address of the frame, which is a 64-bit one here.
    fn makes_word(&self, op: &Op<'a>) -> bool {
        matches!(op.operands.first(), Some(Resolved::Register(to)) if self.provenance.words[*to as usize])
    }

    fn word(&mut self, op: &Op<'a>) -> Option<()> {
        let pointer = Ty::Ptr(0);
        let words = &self.provenance.words;
        let (to, base, offset) = match &op.operands[..] {
            [to, from] => (to, from, None),
            [to, first @ Resolved::Register(it), second] if words[*it as usize] => (to, first, Some(second)),
            [to, first, second] => (to, second, Some(first)),
            _ => return None,
        };
        let mut value = self.read(base, pointer)?;
        if let Some(offset) = offset {
            let offset = self.read(offset, Ty::Int(32))?;
            let wide = self.extend(&offset, 32, 64, true);
            value = self.displaced(&value, pointer, wide, op.name == "sub");
        }
        self.write_to(to, pointer, &value, false)
    }

    /// The address before or after a pointer at a distance.
    pub fn displaced(&mut self, base: &str, ty: Ty, mut distance: String, is_before: bool) -> String {
        if is_before {
            distance = self.value(format_args!("sub i64 0, {distance}"));
        }
        self.value(format_args!("getelementptr i8, {} {base}, i64 {distance}", ty.text()))
    }

    /// Whether an operand is an offset: a value computed without any address.
    pub fn is_offset(&self, operand: &Resolved<'a>) -> bool {
        match operand {
            Resolved::Register(register) => !self.provenance.derived[*register as usize],
            other => matches!(other, Resolved::Int(_) | Resolved::Special(_)),
        }
    }

    /// Lifts an instruction to LLVM's own operations, or keeps it.
    fn lift(&mut self, op: &Op<'a>) -> Result<(), LiftError> {
        let done = self.attempt(op);
        self.guard = None;
        if done { Ok(()) } else { self.assembly(op) }
    }

    /// Lifts an instruction to LLVM's own operations; leaves no text if there are none.
    fn attempt(&mut self, op: &Op<'a>) -> bool {
        let (text, next, touched) = (self.text.len(), self.next, self.touched.len());
        let done = self.native(op).is_some();
        if !done {
            self.text.truncate(text);
            self.next = next;
            // Discard the values read meanwhile.
            for (register, _) in self.touched.drain(touched..) {
                self.values[register as usize] = None;
            }
        }
        done
    }

    fn native(&mut self, op: &Op<'a>) -> Option<()> {
        let cpu = self.is_cpu();
        match op.row.family {
            _ if matches!(op.name, "cvt" | "mov" | "add" | "sub") && self.makes_word(op) => self.word(op),
            Family::Move => self.mov(op),
            Family::Convert => self.convert(op),
            Family::Compare => self.compare(op),
            Family::Select => self.select(op),
            Family::Arithmetic => match op.ty() {
                Some(Type { scalar, .. }) if !scalar.is_float() => self.integer(op),
                _ => self.float(op),
            },
            Family::Bits => self.bit_operation(op),
            Family::Memory => self.memory(op),
            Family::Warp => self.warp(op),
            _ if !cpu => None,
            Family::Property => self.test_property(op),
            Family::Video => self.video(op),
            Family::Matrix => self.matrix(op),
            Family::Fragment => self.fragment(op),
            Family::Image => self.image(op),
            Family::MemoryBarrier => self.memory_barrier(op),
            Family::Copy => self.copy(op),
            Family::Hint => Some(()),
            Family::Sleep => self.done("call void @__mneme_cpu_yield()"),
            Family::Trap => self.done("call void @__mneme_cpu_trap()"),
            Family::Control | Family::Other => None,
        }
    }

    // Text.

    pub fn line(&mut self, line: impl Display) {
        let _ = writeln!(self.text, "  {line}{}", self.place);
    }

    /// Writes the line that does all of an instruction.
    pub fn done(&mut self, line: impl Display) -> Option<()> {
        self.line(line);
        Some(())
    }

    /// Writes an instruction with a result, and returns the result's name.
    pub fn value(&mut self, instruction: impl Display) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        let _ = writeln!(self.text, "  {name} = {instruction}{}", self.place);
        name
    }

    /// Adds a slot of a type to the frame, and returns its address.
    pub fn place(&mut self, ty: impl Display) -> String {
        self.blocks += 1;
        let name = format!("%F{}", self.blocks);
        let _ = writeln!(self.places, "  {name} = alloca {ty}, align 16");
        name
    }

    pub fn is_cpu(&self) -> bool {
        matches!(self.context.target, Target::Cpu(_))
    }

    /// Writes the result of a function of operands to an operand.
    pub fn assign(&mut self, to: &Resolved<'a>, ty: Ty, name: &str, operands: &[(Ty, &Resolved<'a>)]) -> Option<()> {
        let call = self.applied(ty.text(), name, operands)?;
        let value = self.value(call);
        self.write_to(to, ty, &value, false)
    }

    fn applied(&mut self, result: &str, name: &str, operands: &[(Ty, &Resolved<'a>)]) -> Option<String> {
        let read = |(ty, operand): &(Ty, &Resolved<'a>)| Some((*ty, self.read(operand, *ty)?));
        let values = operands.iter().map(read).collect::<Option<Vec<_>>>()?;
        let arguments: Vec<(Ty, &str)> = values.iter().map(|(ty, value)| (*ty, value.as_str())).collect();
        Some(self.call_text(result, name, &arguments))
    }

    /// Writes the result of an intrinsic with a word and a predicate to `d|p`, or to `d` alone.
    pub fn assign_pair(&mut self, to: &Resolved<'a>, name: &str, operands: &[(Ty, &Resolved<'a>)]) -> Option<()> {
        let call = self.applied("{ i32, i1 }", name, operands)?;
        let pair = self.value(call);
        let (to, flag) = match to {
            Resolved::Pair(first, second) => (&**first, Some(second)),
            single => (single, None),
        };
        let value = self.value(format_args!("extractvalue {{ i32, i1 }} {pair}, 0"));
        self.write_to(to, Ty::Int(32), &value, false)?;
        let Some(flag) = flag else { return Some(()) };
        let value = self.value(format_args!("extractvalue {{ i32, i1 }} {pair}, 1"));
        self.write_to(flag, Ty::Int(1), &value, false)
    }

    /// Calls an intrinsic without a result.
    pub fn perform(&mut self, name: &str, operands: &[(Ty, &Resolved<'a>)], attributes: &str) -> Option<()> {
        let call = self.applied("void", name, operands)?;
        let attributes = if self.is_cpu() { "" } else { attributes };
        self.done(format_args!("{call}{attributes}"))
    }

    /// Declares and calls an intrinsic.
    pub fn call(&mut self, result: Ty, name: &str, arguments: &[(Ty, &str)]) -> String {
        let call = self.call_text(result.text(), name, arguments);
        self.value(call)
    }

    /// Calls an intrinsic for all types, with arguments of the result's type.
    pub fn intrinsic(&mut self, name: &str, ty: Ty, values: &[impl AsRef<str>]) -> String {
        let arguments: Vec<(Ty, &str)> = values.iter().map(|value| (ty, value.as_ref())).collect();
        self.call(ty, &format!("llvm.{name}.{}", ty.mangled()), &arguments)
    }

    fn call_text(&mut self, result: &str, name: &str, arguments: &[(Ty, &str)]) -> String {
        let types = joined(arguments, |(ty, _)| ty.text().to_owned());
        let values = joined(arguments, |(ty, value)| format!("{} {value}", ty.text()));
        if self.is_cpu() && name.starts_with("llvm.nvvm.") {
            let parameters = arguments.iter().map(|(ty, _)| ty.text().to_owned()).collect();
            let intrinsic = Intrinsic { name: name.to_owned(), result: result.to_owned(), parameters };
            let call = format!("call {result} @\"{}\"({values})", intrinsic.stand_in());
            self.context.intrinsics.insert(intrinsic);
            return call;
        }
        self.context.declare(format!("declare {result} @{name}({types})"));
        format!("call {result} @{name}({values})")
    }

    pub fn block(&mut self) -> String {
        self.blocks += 1;
        format!("B{}", self.blocks)
    }

    pub fn begin(&mut self, block: &str) {
        let _ = writeln!(self.text, "{block}:");
        self.forget();
        self.ended = false;
    }

    /// Ends a block with a branch.
    pub fn jump(&mut self, block: &str) {
        self.end_with(|this| this.line(format_args!("br label %{block}")));
    }

    /// Ends a block, after storing the registers that other blocks read.
    pub fn end_with(&mut self, terminator: impl FnOnce(&mut Self)) {
        if self.ended {
            return;
        }
        self.spill();
        terminator(self);
        self.ended = true;
    }

    fn spill(&mut self) {
        for (register, written) in &self.touched {
            let index = *register as usize;
            if *written
                && self.exposed[index]
                && let Some(value) = self.values[index].take()
            {
                let _ = writeln!(self.text, "  store {} {value}, ptr %R{index}", self.types[index].text());
            }
        }
        self.forget();
    }

    /// Discards the values of registers, which other blocks may change.
    fn forget(&mut self) {
        for (register, _) in self.touched.drain(..) {
            self.values[register as usize] = None;
        }
    }

    // Registers.

    pub fn ty(&self, register: RegisterId) -> Ty {
        self.types[register as usize]
    }

    pub fn read_register(&mut self, register: RegisterId, wanted: Ty) -> String {
        let index = register as usize;
        let value = match &self.values[index] {
            Some(value) => value.clone(),
            None => {
                let ty = self.types[index].text();
                let value = self.value(format_args!("load {ty}, ptr %R{index}"));
                self.values[index] = Some(value.clone());
                self.touched.push((register, false));
                value
            }
        };
        self.cast(&value, self.types[index], wanted)
    }

    fn set(&mut self, register: RegisterId, value: String) {
        self.values[register as usize] = Some(value);
        self.touched.push((register, true));
    }

    /// Writes a register, and converts the value to the register's type.
    pub fn write_register(&mut self, register: RegisterId, ty: Ty, value: &str, signed: bool) {
        let own = self.types[register as usize];
        let mut value = match (ty, own) {
            // The sign fills the register, whatever its other uses.
            (Ty::Int(from), _) if from < own.bits() => {
                let wide = self.extend(value, from, own.bits(), signed);
                self.cast(&wide, Ty::Int(own.bits()), own)
            }
            _ => self.cast(value, ty, own),
        };
        if let Some(condition) = self.guard.clone() {
            let old = self.read_register(register, own);
            value = self.value(format_args!("select i1 {condition}, {0} {value}, {0} {old}", own.text()));
        }
        self.set(register, value);
    }

    pub fn extend(&mut self, value: &str, from: u32, to: u32, signed: bool) -> String {
        if from == to {
            return value.to_owned();
        }
        let (from, to) = (Ty::Int(from).text(), Ty::Int(to).text());
        self.value(format_args!("{} {from} {value} to {to}", if signed { "sext" } else { "zext" }))
    }

    /// Resizes an integer.
    pub fn resize(&mut self, value: &str, from: u32, to: u32, signed: bool) -> String {
        if from < to { self.extend(value, from, to, signed) } else { self.cast(value, Ty::Int(from), Ty::Int(to)) }
    }

    /// Extracts `bits` bits of an integer, from bit `from`.
    pub fn part(&mut self, whole: &str, bits: u32, from: u32, width: u32) -> String {
        let moved = match from {
            0 => whole.to_owned(),
            from => self.value(format_args!("lshr {} {whole}, {from}", Ty::Int(bits).text())),
        };
        self.cast(&moved, Ty::Int(bits), Ty::Int(width))
    }

    /// Extracts one of several numbers packed in a value.
    pub fn lane(&mut self, value: &str, ty: Type, lane: u32) -> String {
        self.part(value, ty.bits(), lane * ty.scalar.bits, ty.scalar.bits)
    }

    /// Packs integers of `bits` bits into one, the first in the lowest bits.
    pub fn join(&mut self, parts: &[String], bits: u32) -> String {
        let whole = Ty::Int(bits * parts.len() as u32);
        let mut joined = "0".to_owned();
        for (index, part) in (0..).zip(parts) {
            let mut value = self.cast(part, Ty::Int(bits), whole);
            if index > 0 {
                value = self.value(format_args!("shl {} {value}, {}", whole.text(), index * bits));
                value = self.value(format_args!("or {} {joined}, {value}", whole.text()));
            }
            joined = value;
        }
        joined
    }

    /// Reinterprets the bits as another type; wider types are truncated, narrower ones zero-extended.
    pub fn cast(&mut self, value: &str, from: Ty, to: Ty) -> String {
        if from == to {
            return value.to_owned();
        }
        let opcode = match (from, to) {
            (Ty::Ptr(_), Ty::Int(bits)) if bits <= 64 => "ptrtoint",
            (Ty::Int(bits), Ty::Ptr(_)) if bits <= 64 => "inttoptr",
            (Ty::Int(a), Ty::Int(b)) if a > b => "trunc",
            (Ty::Int(_), Ty::Int(_)) => "zext",
            _ if from.bits() == to.bits() && !matches!((from, to), (Ty::Ptr(_), _) | (_, Ty::Ptr(_))) => "bitcast",
            _ => {
                let bits = Ty::Int(if matches!(from, Ty::Int(_)) { to.bits() } else { from.bits() });
                let value = self.cast(value, from, bits);
                return self.cast(&value, bits, to);
            }
        };
        self.value(format_args!("{opcode} {} {value} to {}", from.text(), to.text()))
    }

    // Operands.

    /// An operand as an integer.
    pub fn bits(&mut self, operand: &Resolved<'a>, bits: u32) -> Option<String> {
        self.read(operand, Ty::Int(bits))
    }

    /// Writes an integer to a destination; a wider register is filled by its sign or with zeros.
    pub fn write_bits(&mut self, to: &Resolved<'a>, bits: u32, value: &str, signed: bool) -> Option<()> {
        self.write_to(to, Ty::Int(bits), value, signed)
    }

    /// An operand as a value of a type.
    pub fn read(&mut self, operand: &Resolved<'a>, wanted: Ty) -> Option<String> {
        Some(match operand {
            Resolved::Register(register) => self.read_register(*register, wanted),
            Resolved::Not(register) => {
                let value = self.read_register(*register, Ty::Int(1));
                let value = self.value(format_args!("xor i1 {value}, true"));
                self.cast(&value, Ty::Int(1), wanted)
            }
            Resolved::Int(value) => match wanted {
                Ty::Int(1) => (if *value != 0 { "true" } else { "false" }).into(),
                Ty::Int(bits) => integer_text(*value, bits),
                Ty::Pair => format!("bitcast (i32 {} to {})", integer_text(*value, 32), wanted.text()),
                Ty::Ptr(_) => format!("inttoptr (i64 {} to {})", integer_text(*value, 64), wanted.text()),
                _ => return None,
            },
            Resolved::F32(bits) => single_in(*bits, wanted)?,
            Resolved::F64(bits) => match wanted {
                Ty::Int(32) if self.is_cpu() => (f64::from_bits(*bits) as f32).to_bits().to_string(),
                _ => double_in(*bits, wanted)?,
            },
            Resolved::Special(name) => {
                let (value, ty) = self.special(name)?;
                self.cast(&value, ty, wanted)
            }
            Resolved::Address(place, offset) => {
                let (value, ty) = self.address_of(*place, *offset)?;
                self.cast(&value, ty, wanted)
            }
            Resolved::Sum(register, offset) => {
                let bits = wanted.bits();
                let value = self.read_register(*register, Ty::Int(bits));
                let sum = self.value(format_args!("add i{bits} {value}, {offset}"));
                self.cast(&sum, Ty::Int(bits), wanted)
            }
            _ => return None,
        })
    }

    /// The address of a place, in its own space.
    pub fn address_of(&mut self, place: AddressBase, offset: i64) -> Option<(String, Ty)> {
        let (base, ty) = match place {
            AddressBase::Global(index) => {
                let space = self.context.variables[index].space;
                (self.context.variable_name(index), Ty::Ptr(space.number()))
            }
            AddressBase::Function(index) => (self.context.function_name(index), Ty::Ptr(0)),
            AddressBase::Local(index) => (format!("%V{index}"), Ty::Ptr(0)),
            AddressBase::Return(index) => (format!("%Q{index}"), Ty::Ptr(0)),
            AddressBase::Param(index) => match self.direct[index] {
                Some(_) => return None,
                None if self.function.signature.params[index].bytes.is_some() => (format!("%P{index}"), Ty::Ptr(0)),
                None => (format!("%S{index}"), Ty::Ptr(0)),
            },
        };
        Some((self.offset(&base, ty, offset), ty))
    }

    /// The value of a parameter that is passed directly.
    pub fn direct_value(&self, place: AddressBase) -> Option<(String, Ty)> {
        let AddressBase::Param(number) = place else { return None };
        Some((format!("%P{number}"), self.direct[number]?))
    }

    pub fn offset(&mut self, base: &str, ty: Ty, offset: i64) -> String {
        if offset == 0 {
            return base.to_owned();
        }
        self.value(format_args!("getelementptr i8, {} {base}, i64 {offset}", ty.text()))
    }

    /// The address in brackets as a pointer into a space.
    pub fn pointer(&mut self, operand: &Resolved<'a>, space: Space) -> Option<(String, Ty)> {
        let Resolved::Bracket(items) = operand else { return None };
        let [item] = &items[..] else { return None };
        if self.is_cpu() {
            return Some((self.generic_pointer(item, space)?, Ty::Ptr(0)));
        }
        let ty = Ty::Ptr(space.number());
        let Some((register, offset)) = item.based() else { return Some((self.read(item, ty)?, ty)) };
        match (self.ty(register).bits(), space) {
            (64, _) => {
                let base = self.read_register(register, ty);
                Some((self.offset(&base, ty, offset), ty))
            }
            // Narrow addresses belong to windows; frames do not use them.
            (32, Space::Shared) => {
                let mut value = self.read_register(register, Ty::Int(32));
                if offset != 0 {
                    value = self.value(format_args!("add i32 {value}, {offset}"));
                }
                Some((self.cast(&value, Ty::Int(32), ty), ty))
            }
            _ => None,
        }
    }

    /// An address as a pointer of the CPU device. A 32-bit address is the low half of an address in shared memory.
    pub fn generic_pointer(&mut self, item: &Resolved<'a>, space: Space) -> Option<String> {
        let Some((register, offset)) = item.based() else { return self.read(item, Ty::Ptr(0)) };
        let mut address = self.read_register(register, Ty::Int(64));
        if self.ty(register).bits() == 32 {
            if space != Space::Shared {
                return None;
            }
            address = self.value(format_args!("call i64 @__mneme_cpu.from_shared(i64 {address})"));
        }
        if offset != 0 {
            address = self.value(format_args!("add i64 {address}, {offset}"));
        }
        Some(self.cast(&address, Ty::Int(64), Ty::Ptr(0)))
    }

    /// Writes a destination.
    pub fn write_to(&mut self, operand: &Resolved<'a>, ty: Ty, value: &str, signed: bool) -> Option<()> {
        match operand {
            Resolved::Register(register) => self.write_register(*register, ty, value, signed),
            Resolved::Sink => {}
            _ => return None,
        }
        Some(())
    }
}

/// Whether an instruction reads or writes memory, or involves other threads.
pub fn touches_memory(op: &Op<'_>) -> bool {
    op.row.memory || op.address().is_some()
}

/// Whether an instruction needs a basic block of its own: threads whose guard is false skip the block.
fn is_branched(op: &Op<'_>) -> bool {
    op.guard.is_some() && touches_memory(op)
}

/// The registers that a block reads before it writes them.
fn exposed(body: &Body<'_>) -> Vec<bool> {
    let mut exposed = vec![false; body.registers.len()];
    // The number of the last block that has written a register.
    let mut written = vec![u32::MAX; exposed.len()];
    let mut block = 0u32;
    for register in body.param_registers.iter().flatten() {
        written[*register as usize] = 0;
    }
    for item in &body.items {
        let Item::Op(op) = item else {
            block += 1;
            continue;
        };
        block += u32::from(is_branched(op));
        let mut read = |register| exposed[register as usize] |= written[register as usize] != block;
        op.read(&mut read);
        if op.guard.is_some() || op.updates_first() {
            op.written(&mut read);
        }
        if op.name == "ret" {
            body.return_registers.iter().flatten().for_each(|register| read(*register));
        }
        op.written(&mut |register| written[register as usize] = block);
        block += u32::from(is_branched(op) || matches!(op.name, "bra" | "brx" | "ret" | "exit" | "trap"));
    }
    for register in body.return_registers.iter().flatten() {
        exposed[*register as usize] |= written[*register as usize] != block;
    }
    exposed
}

/// The low bits of a number.
pub fn integer_text(value: i128, bits: u32) -> String {
    let mask = if bits >= 128 { u128::MAX } else { (1u128 << bits) - 1 };
    (value as u128 & mask).to_string()
}

/// A constant of single precision, as a value of a type.
pub fn single_in(bits: u32, wanted: Ty) -> Option<String> {
    match wanted {
        Ty::F32 => Some(single_text(bits)),
        Ty::Int(32) => Some(bits.to_string()),
        _ => None,
    }
}

/// A constant of double precision, as a value of a type.
pub fn double_in(bits: u64, wanted: Ty) -> Option<String> {
    match wanted {
        Ty::F64 => Some(double_text(bits)),
        Ty::F32 => Some(single_text((f64::from_bits(bits) as f32).to_bits())),
        Ty::Int(64) => Some(bits.to_string()),
        _ => None,
    }
}

pub fn single_text(bits: u32) -> String {
    let value = f32::from_bits(bits);
    if value.is_nan() {
        return format!("bitcast (i32 {bits} to float)");
    }
    double_text(f64::from(value).to_bits())
}

pub fn double_text(bits: u64) -> String {
    format!("0x{bits:016X}")
}
