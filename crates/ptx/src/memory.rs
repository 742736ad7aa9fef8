//! Loads, stores, atomic operations and conversions of addresses.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{Op, Resolved};
use super::syntax::{Kind, Space};

/// Modifiers of a plain access besides its space and type.
const PLAIN: [&str; 7] = ["weak", "v2", "v4", "volatile", "nc", "ca", "wb"];

/// The operations of `atom` and `red`.
const OPERATIONS: [&str; 10] = ["add", "and", "or", "xor", "exch", "min", "max", "inc", "dec", "cas"];

impl<'a> Emitter<'a, '_> {
    pub fn memory(&mut self, op: &Op<'a>) -> Option<()> {
        let (cpu, pointer, word) = (self.is_cpu(), Ty::Ptr(0), Ty::Int(32));
        match (op.name, &op.operands[..]) {
            ("ldu", _) if !cpu => None,
            ("ld" | "ldu", [to, address, ..]) => self.access(op, to, address),
            ("st", [address, from, ..]) => self.access(op, from, address),
            ("atom", [to, address, rest @ ..]) => self.atomic(op, to, address, rest),
            ("red", [address, rest @ ..]) => self.atomic(op, &Resolved::Sink, address, rest),
            ("cvta", [to, from]) => self.convert_address(op, to, from),
            ("isspacep", [to, from]) => {
                let space = match op.modifiers[..] {
                    [space @ ("global" | "shared" | "local" | "const")] => space,
                    ["shared::cta"] if cpu => "shared",
                    ["shared::cluster"] if cpu => "shared.cluster",
                    _ => return None,
                };
                self.assign(to, Ty::Int(1), &format!("llvm.nvvm.isspacep.{space}"), &[(pointer, from)])
            }
            ("mapa", [to, address, rank]) if cpu => {
                self.assign(to, pointer, "llvm.nvvm.mapa", &[(pointer, address), (word, rank)])
            }
            ("getctarank", [to, address]) if cpu => {
                let address = self.generic_pointer(address, Space::Shared)?;
                let rank = self.call(word, "llvm.nvvm.getctarank", &[(pointer, &address)]);
                self.write_bits(to, 32, &rank, false)
            }
            _ => None,
        }
    }

    /// The space that an instruction names. For the CPU device, a cluster's shared memory is plain shared memory.
    pub fn space(&self, op: &Op<'a>) -> Space {
        match op.space() {
            Space::Generic if self.is_cpu() && op.has("shared::cluster") => Space::Shared,
            space => space,
        }
    }

    /// Whether an access is atomic or volatile, and its ordering, for the CPU device.
    fn ordering(op: &Op<'a>) -> (&'static str, &'static str) {
        let is_store = op.name == "st";
        // These bypass the caches, to see other threads' writes.
        if op.has("volatile") || op.has("cv") || (op.has("cg") && !is_store) {
            ("volatile ", "")
        } else if op.has("relaxed") {
            ("atomic ", " monotonic")
        } else if op.has("acquire") && !is_store {
            ("atomic ", " acquire")
        } else if op.has("release") && is_store {
            ("atomic ", " release")
        } else {
            ("", "")
        }
    }

    /// The elements of a vector, or the single value.
    pub fn elements<'r>(operand: &'r Resolved<'a>) -> &'r [Resolved<'a>] {
        match operand {
            Resolved::Vector(items) => items,
            single => std::slice::from_ref(single),
        }
    }

    /// A load or store of registers.
    fn access(&mut self, op: &Op<'a>, registers: &Resolved<'a>, address: &Resolved<'a>) -> Option<()> {
        let elements = Self::elements(registers);
        if self.is_cpu() {
            return self.access_each(op, elements, address);
        }
        let (scalar, count, space) = (op.scalar()?, elements.len(), op.space());
        let declared = op.modifiers.iter().find_map(|word| word.strip_prefix('v')?.parse().ok()).unwrap_or(1);
        let is_plain = |word: &&str| PLAIN.contains(word) || Space::of(word).is_some();
        let is_known =
            op.modifiers[..op.modifiers.len() - 1].iter().all(is_plain) && (op.name == "ld" || !op.has("nc"));
        if !is_known || count != declared || scalar.bits == 1 || count as u64 * scalar.bytes() > 16 {
            return None;
        }
        // A parameter that is passed directly.
        if let ("ld", Space::Param, Resolved::Bracket(items)) = (op.name, space, address)
            && let [Resolved::Address(place, 0)] = items[..]
            && let Some((value, ty)) = self.direct_value(place)
        {
            return self.write_to(registers, ty, &value, scalar.is_signed());
        }
        let (pointer, ty) = self.pointer(address, space)?;
        let element = match registers {
            Resolved::Register(register) if scalar.bits == 64 && matches!(self.ty(*register), Ty::Ptr(_)) => {
                self.ty(*register)
            }
            _ => Ty::stored(scalar),
        };
        let shape = if count > 1 { format!("<{count} x {}>", element.text()) } else { element.text().to_owned() };
        let volatile = if op.has("volatile") { "volatile " } else { "" };
        let place = format!("{} {pointer}, align {}", ty.text(), scalar.bytes() * count as u64);
        if op.name == "st" {
            let whole = match elements {
                [single] => self.read(single, element)?,
                several => self.vector(&shape, element, several)?,
            };
            return self.done(format_args!("store {volatile}{shape} {whole}, {place}"));
        }
        let mut invariant = "";
        if op.has("nc") && space != Space::Const {
            self.context.declare("!9000 = !{}".into());
            invariant = ", !invariant.load !9000";
        }
        let value = self.value(format_args!("load {volatile}{shape}, {place}{invariant}"));
        for (index, item) in elements.iter().enumerate().filter(|(_, item)| **item != Resolved::Sink) {
            let part = match count {
                1 => value.clone(),
                _ => self.value(format_args!("extractelement {shape} {value}, i32 {index}")),
            };
            self.write_to(item, element, &part, scalar.is_signed())?;
        }
        Some(())
    }

    fn vector(&mut self, shape: &str, element: Ty, items: &[Resolved<'a>]) -> Option<String> {
        let (mut whole, ty) = ("poison".to_owned(), element.text());
        for (index, item) in items.iter().enumerate() {
            let part = self.read(item, element)?;
            whole = self.value(format_args!("insertelement {shape} {whole}, {ty} {part}, i32 {index}"));
        }
        Some(whole)
    }

    /// Moves elements one by one between registers and memory of the CPU device.
    fn access_each(&mut self, op: &Op<'a>, registers: &[Resolved<'a>], address: &Resolved<'a>) -> Option<()> {
        let scalar = op.scalar().filter(|_| !op.has("param"))?;
        let (pointer, ty) = self.pointer(address, self.space(op))?;
        let ((kind, order), element, bytes) = (Self::ordering(op), Ty::Int(scalar.bits), scalar.bytes());
        for (index, register) in (0..).zip(registers) {
            let place = self.offset(&pointer, ty, index * bytes as i64);
            if op.name == "st" {
                let value = self.read(register, element)?;
                self.line(format_args!("store {kind}{} {value}, ptr {place}{order}, align {bytes}", element.text()));
            } else {
                let load = format!("load {kind}{}, ptr {place}{order}, align {bytes}", element.text());
                let value = self.value(load);
                self.write_to(register, element, &value, scalar.is_signed())?;
            }
        }
        Some(())
    }

    fn atomic(&mut self, op: &Op<'a>, to: &Resolved<'a>, address: &Resolved<'a>, rest: &[Resolved<'a>]) -> Option<()> {
        let ty = op.ty()?;
        let (scalar, bytes, signed) = (ty.scalar, ty.scalar.bytes(), ty.scalar.is_signed());
        let operation = *OPERATIONS.iter().find(|word| op.has(word))?;
        // Without a scope the access is relaxed with the device's scope, also in shared memory.
        let plain = op.only(2, &["global", "shared", "shared::cta", "relaxed", "gpu"])
            && matches!(scalar.bits, 32 | 64)
            && (op.scalar().is_some() && op.modifiers[op.modifiers.len() - 2] == operation);
        if !plain && !self.is_cpu() {
            return None;
        }
        let order = op.modifiers.iter().find(|word| matches!(**word, "acq_rel" | "acquire" | "release"));
        let order = order.copied().unwrap_or("monotonic");
        let (pointer, own) = self.pointer(address, self.space(op))?;
        let (element, place) = (Ty::of(scalar), own.text());
        if operation == "cas" {
            let [compared, new] = rest else { return None };
            let (compared, new, text) = (self.read(compared, element)?, self.read(new, element)?, element.text());
            let failure = if matches!(order, "acq_rel" | "acquire") { "acquire" } else { "monotonic" };
            let pair = self.value(format_args!(
                "cmpxchg {place} {pointer}, {text} {compared}, {text} {new} {order} {failure}, align {bytes}"
            ));
            let old = self.value(format_args!("extractvalue {{ {text}, i1 }} {pair}, 0"));
            return self.write_to(to, element, &old, signed);
        }
        let name = match (operation, scalar.kind) {
            ("add", Kind::Float | Kind::Brain) => "fadd",
            ("min" | "max", Kind::Float | Kind::Brain) => return None,
            ("min", Kind::Unsigned) => "umin",
            ("max", Kind::Unsigned) => "umax",
            ("exch", _) => "xchg",
            ("inc", _) => "uinc_wrap",
            ("dec", _) => "udec_wrap",
            (same, _) => same,
        };
        let [operand, ..] = rest else { return None };
        if matches!(operation, "inc" | "dec") && !self.is_cpu() {
            let name = format!("llvm.nvvm.atomic.load.{operation}.32.p{}", self.space(op).number());
            let operand = self.read(operand, element).filter(|_| scalar.bits == 32)?;
            let old = self.call(element, &name, &[(own, pointer.as_str()), (element, operand.as_str())]);
            return self.write_to(to, element, &old, signed);
        }
        // Vectors and pairs are atomic element by element.
        let (mut old, text) = (Vec::new(), element.text());
        for item in Self::elements(operand) {
            for lane in 0..ty.lanes {
                let value = match ty.lanes {
                    1 => self.read(item, element)?,
                    _ => {
                        let whole = self.bits(item, ty.bits())?;
                        let bits = self.lane(&whole, ty, lane);
                        self.cast(&bits, Ty::Int(scalar.bits), element)
                    }
                };
                let at = self.offset(&pointer, own, old.len() as i64 * bytes as i64);
                let update = format!("atomicrmw {name} {place} {at}, {text} {value} {order}, align {bytes}");
                old.push(match (scalar.bits, name) {
                    (16, "fadd") => self.add_half(scalar.kind, &at, element, &value),
                    _ => self.value(update),
                });
            }
        }
        for (item, lanes) in Self::elements(to).iter().zip(old.chunks(ty.lanes as usize)) {
            if let [value] = lanes {
                self.write_to(item, element, value, signed)?;
                continue;
            }
            let cast = |value: &String| self.cast(value, element, Ty::Int(scalar.bits));
            let lanes: Vec<String> = lanes.iter().map(cast).collect();
            let value = self.join(&lanes, scalar.bits);
            self.write_bits(item, ty.bits(), &value, false)?;
        }
        Some(())
    }

    /// Adds to a 16-bit float on the CPU device. LLVM's own loop compares converted values. Some NaNs change in the
    /// conversion, so that loop would never end.
    fn add_half(&mut self, kind: Kind, place: &str, ty: Ty, value: &str) -> String {
        let (mantissa, bias) = if kind == Kind::Brain { (7, 127) } else { (10, 15) };
        let bits = self.cast(value, ty, Ty::Int(16));
        let arguments = format!("ptr {place}, i16 {bits}, i64 {mantissa}, i64 {bias}");
        let old = self.value(format_args!("call i16 @__mneme_cpu.add16({arguments})"));
        self.cast(&old, Ty::Int(16), ty)
    }

    fn convert_address(&mut self, op: &Op<'a>, to: &Resolved<'a>, from: &Resolved<'a>) -> Option<()> {
        if self.is_cpu() {
            // Addresses of every space are generic here, but an address of shared memory may have lost its upper half.
            let bits = op.scalar()?.bits;
            let mut value = self.bits(from, bits)?;
            if bits == 64 && op.modifiers[0].starts_with("shared") {
                value = self.value(format_args!("call i64 @__mneme_cpu.from_shared(i64 {value})"));
            }
            return self.write_bits(to, bits, &value, false);
        }
        let known = ["to", "global", "shared", "const", "local", "param", "shared::cta", "param::entry"];
        if op.scalar()?.bits != 64 || !op.only(1, &known) {
            return None;
        }
        let named = op.space().number();
        let (own, wanted) = if op.has("to") { (Ty::Ptr(0), Ty::Ptr(named)) } else { (Ty::Ptr(named), Ty::Ptr(0)) };
        let pointer = self.read(from, own)?;
        let pointer = match own == wanted {
            true => pointer,
            false => self.value(format_args!("addrspacecast {} {pointer} to {}", own.text(), wanted.text())),
        };
        self.write_to(to, wanted, &pointer, false)
    }
}
