//! Loads, stores, atomic operations and conversions of addresses.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{AddressBase, Op, Resolved};
use super::syntax::{Kind, Scalar, Space};

/// What a plain access may say besides its space and type.
const PLAIN: &[&str] = &[
    "weak",
    "global",
    "shared",
    "shared::cta",
    "const",
    "local",
    "param",
    "param::entry",
    "param::func",
    "v2",
    "v4",
    "volatile",
    "nc",
    "ca",
    "wb",
];

impl<'a> Emitter<'a, '_> {
    pub fn memory(&mut self, op: &Op<'a>) -> Option<()> {
        match (op.name, &op.operands[..]) {
            ("ld" | "ldu", [to, address]) => self.load(op, to, address),
            ("st", [address, from]) => self.store(op, address, from),
            ("atom", [to, address, rest @ ..]) => self.atomic(op, to, address, rest),
            ("red", [address, rest @ ..]) => self.atomic(op, &Resolved::Sink, address, rest),
            ("cvta", [to, from]) => self.convert_address(op, to, from),
            ("isspacep", [to, from]) => {
                let space = op.modifiers.first()?;
                if !matches!(*space, "global" | "shared" | "local" | "const") || op.modifiers.len() != 1 {
                    return None;
                }
                let pointer = self.read(from, Ty::Ptr(0))?;
                let value =
                    self.call(Ty::Int(1), &format!("llvm.nvvm.isspacep.{space}"), &[(Ty::Ptr(0), pointer.as_str())]);
                self.write_to(to, Ty::Int(1), &value, false)
            }
            _ => None,
        }
    }

    /// The type in memory and how many of it; none for accesses that have no plain meaning.
    fn accessed(op: &Op<'a>, operand: &Resolved<'a>) -> Option<(Scalar, usize)> {
        let scalar = op.scalar()?;
        let count = match operand {
            Resolved::Vector(items) => items.len(),
            _ => 1,
        };
        let declared = if op.has("v2") {
            2
        } else if op.has("v4") {
            4
        } else {
            1
        };
        let fits = count == declared && scalar.bits != 1 && count as u64 * scalar.bytes() <= 16;
        (fits && op.only(1, PLAIN)).then_some((scalar, count))
    }

    fn load(&mut self, op: &Op<'a>, to: &Resolved<'a>, address: &Resolved<'a>) -> Option<()> {
        if op.name == "ldu" {
            return None;
        }
        let (scalar, count) = Self::accessed(op, to)?;
        let space = op.space();
        // A parameter that is passed as it is.
        if let (Space::Param, Resolved::Bracket(items)) = (space, address)
            && let [Resolved::Address(AddressBase::Param(number), 0)] = items[..]
            && let Some(ty) = self.direct[number]
        {
            let value = format!("%P{number}");
            return self.loaded(to, scalar, ty, &value);
        }
        let (pointer, ty) = self.pointer(address, space)?;
        let element = match to {
            Resolved::Register(register) if scalar.bits == 64 && count == 1 => match self.ty(*register) {
                ty @ Ty::Ptr(_) => ty,
                _ => Ty::stored(scalar),
            },
            _ => Ty::stored(scalar),
        };
        let bytes = scalar.bytes() * count as u64;
        let shape = if count > 1 { format!("<{count} x {}>", element.text()) } else { element.text().to_owned() };
        let volatile = if op.has("volatile") { "volatile " } else { "" };
        let invariant = match op.has("nc") || space == Space::Const {
            true if space != Space::Const => {
                self.context.declare("!9000 = !{}".into());
                ", !invariant.load !9000"
            }
            _ => "",
        };
        let value =
            self.value(format_args!("load {volatile}{shape}, {} {pointer}, align {bytes}{invariant}", ty.text()));
        match to {
            Resolved::Vector(items) => {
                for (index, item) in items.iter().enumerate() {
                    if *item == Resolved::Sink {
                        continue;
                    }
                    let part = self.value(format_args!("extractelement {shape} {value}, i32 {index}"));
                    self.loaded(item, scalar, element, &part)?;
                }
                Some(())
            }
            to => self.loaded(to, scalar, element, &value),
        }
    }

    /// Writes what was loaded; a wider register is filled.
    fn loaded(&mut self, to: &Resolved<'a>, scalar: Scalar, ty: Ty, value: &str) -> Option<()> {
        self.write_to(to, ty, value, scalar.is_signed())
    }

    fn store(&mut self, op: &Op<'a>, address: &Resolved<'a>, from: &Resolved<'a>) -> Option<()> {
        let (scalar, count) = Self::accessed(op, from)?;
        if op.has("nc") {
            return None;
        }
        let (pointer, ty) = self.pointer(address, op.space())?;
        let bytes = scalar.bytes() * count as u64;
        let volatile = if op.has("volatile") { "volatile " } else { "" };
        let element = Ty::stored(scalar);
        let (shape, value) = match from {
            Resolved::Vector(items) => {
                let shape = format!("<{count} x {}>", element.text());
                let mut whole = "poison".to_owned();
                for (index, item) in items.iter().enumerate() {
                    let part = self.read(item, element)?;
                    whole = self
                        .value(format_args!("insertelement {shape} {whole}, {} {part}, i32 {index}", element.text()));
                }
                (shape, whole)
            }
            Resolved::Register(register) if scalar.bits == 64 => {
                let element = match self.ty(*register) {
                    ty @ Ty::Ptr(_) => ty,
                    _ => element,
                };
                (element.text().to_owned(), self.read(from, element)?)
            }
            from => (element.text().to_owned(), self.read(from, element)?),
        };
        self.line(format_args!("store {volatile}{shape} {value}, {} {pointer}, align {bytes}", ty.text()));
        Some(())
    }

    fn atomic(&mut self, op: &Op<'a>, to: &Resolved<'a>, address: &Resolved<'a>, rest: &[Resolved<'a>]) -> Option<()> {
        let scalar = op.scalar()?;
        let operation = *op.modifiers.get(op.modifiers.len().checked_sub(2)?)?;
        // What says no scope is relaxed and of the device.
        if !op.only(2, &["global", "shared", "shared::cta", "relaxed", "gpu"]) || !matches!(scalar.bits, 32 | 64) {
            return None;
        }
        let space = op.space();
        // The order of a plain one on shared memory is of the device, too.
        let (pointer, place) = self.pointer(address, space)?;
        let (ty, place) = (Ty::of(scalar), place.text());
        let signed = scalar.is_signed();
        let atomicrmw = match (operation, scalar.kind) {
            ("add", Kind::Float) => "fadd",
            ("add", _) => "add",
            ("and", Kind::Bits) => "and",
            ("or", Kind::Bits) => "or",
            ("xor", Kind::Bits) => "xor",
            ("exch", Kind::Bits) => "xchg",
            ("min", Kind::Signed) => "min",
            ("max", Kind::Signed) => "max",
            ("min", Kind::Unsigned) => "umin",
            ("max", Kind::Unsigned) => "umax",
            ("inc" | "dec", Kind::Unsigned) if scalar.bits == 32 => "",
            ("cas", Kind::Bits) => {
                let [compared, new] = rest else { return None };
                let (compared, new) = (self.read(compared, ty)?, self.read(new, ty)?);
                let (ty_text, bytes) = (ty.text(), scalar.bytes());
                let pair = self.value(format_args!(
                    "cmpxchg {place} {pointer}, {ty_text} {compared}, {ty_text} {new} monotonic monotonic, \
                     align {bytes}"
                ));
                let old = self.value(format_args!("extractvalue {{ {ty_text}, i1 }} {pair}, 0"));
                return self.write_to(to, ty, &old, signed);
            }
            _ => return None,
        };
        let [operand] = rest else { return None };
        let operand = self.read(operand, ty)?;
        let old = if atomicrmw.is_empty() {
            let name = format!("llvm.nvvm.atomic.load.{operation}.32.p{}", space.number());
            let own = Ty::Ptr(space.number());
            self.call(Ty::Int(32), &name, &[(own, pointer.as_str()), (Ty::Int(32), operand.as_str())])
        } else {
            let bytes = scalar.bytes();
            self.value(format_args!(
                "atomicrmw {atomicrmw} {place} {pointer}, {} {operand} monotonic, align {bytes}",
                ty.text()
            ))
        };
        self.write_to(to, ty, &old, signed)
    }

    fn convert_address(&mut self, op: &Op<'a>, to: &Resolved<'a>, from: &Resolved<'a>) -> Option<()> {
        if op.scalar()?.bits != 64
            || !op.only(1, &["to", "global", "shared", "const", "local", "param", "shared::cta", "param::entry"])
        {
            return None;
        }
        let named = op.space().number();
        let (own, wanted) = if op.has("to") { (Ty::Ptr(0), Ty::Ptr(named)) } else { (Ty::Ptr(named), Ty::Ptr(0)) };
        let pointer = self.read(from, own)?;
        let pointer = if own == wanted {
            pointer
        } else {
            self.value(format_args!("addrspacecast {} {pointer} to {}", own.text(), wanted.text()))
        };
        self.write_to(to, wanted, &pointer, false)
    }
}
