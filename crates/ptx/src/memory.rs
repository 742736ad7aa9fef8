//! Loads, stores, atomic operations and conversions of addresses.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{AddressBase, Op, Resolved};
use super::syntax::{Kind, Scalar, Space};

/// Modifiers of a plain access besides its space and type.
const PLAIN: [&str; 7] = ["weak", "v2", "v4", "volatile", "nc", "ca", "wb"];

/// LLVM's names for the operations of `atom` and `red`.
const OPERATIONS: [(&str, &str); 10] = [
    ("add", "add"),
    ("and", "and"),
    ("or", "or"),
    ("xor", "xor"),
    ("exch", "xchg"),
    ("min", "min"),
    ("max", "max"),
    ("inc", "uinc_wrap"),
    ("dec", "udec_wrap"),
    ("cas", ""),
];

impl<'a> Emitter<'a, '_> {
    pub fn memory(&mut self, op: &Op<'a>) -> Option<()> {
        match (op.name, &op.operands[..]) {
            ("ld", [to, address]) | ("ld" | "ldu", [to, address, ..]) if op.name == "ld" || self.is_cpu() => {
                self.load(op, to, address)
            }
            ("st", [address, from, ..]) => self.store(op, address, from),
            ("atom", [to, address, rest @ ..]) => self.atomic(op, to, address, rest),
            ("red", [address, rest @ ..]) => self.atomic(op, &Resolved::Sink, address, rest),
            ("cvta", [to, from]) => self.convert_address(op, to, from),
            ("isspacep", [to, from]) => {
                let space = match op.modifiers[..] {
                    [space @ ("global" | "shared" | "local" | "const")] => space,
                    ["shared::cta"] if self.is_cpu() => "shared",
                    ["shared::cluster"] if self.is_cpu() => "shared.cluster",
                    _ => return None,
                };
                let value = self.apply(Ty::Int(1), &format!("llvm.nvvm.isspacep.{space}"), &[(Ty::Ptr(0), from)])?;
                self.write_to(to, Ty::Int(1), &value, false)
            }
            ("mapa", [to, address, rank]) if self.is_cpu() => {
                let (pointer, word) = (Ty::Ptr(0), Ty::Int(32));
                let mapped = self.apply(pointer, "llvm.nvvm.mapa", &[(pointer, address), (word, rank)])?;
                self.write_to(to, pointer, &mapped, false)
            }
            ("getctarank", [to, address]) if self.is_cpu() => {
                let pointer = self.generic_pointer(address, Space::Shared)?;
                let rank = self.call(Ty::Int(32), "llvm.nvvm.getctarank", &[(Ty::Ptr(0), &pointer)]);
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
    fn access(op: &Op<'a>) -> (&'static str, &'static str) {
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

    /// Moves elements one by one between registers and memory of the CPU device.
    fn access_each(&mut self, op: &Op<'a>, registers: &Resolved<'a>, address: &Resolved<'a>) -> Option<()> {
        let scalar = op.scalar().filter(|_| !op.has("param"))?;
        let (pointer, ty) = self.pointer(address, self.space(op))?;
        let ((kind, order), element, bytes) = (Self::access(op), Ty::Int(scalar.bits), scalar.bytes());
        for (index, register) in (0..).zip(Self::elements(registers)) {
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

    /// The type in memory and the number of elements; `None` for accesses without a plain equivalent.
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
        let is_plain = |word: &&str| PLAIN.contains(word) || Space::of(word).is_some();
        let words = &op.modifiers[..op.modifiers.len() - 1];
        (fits && words.iter().all(is_plain)).then_some((scalar, count))
    }

    fn load(&mut self, op: &Op<'a>, to: &Resolved<'a>, address: &Resolved<'a>) -> Option<()> {
        if self.is_cpu() {
            return self.access_each(op, to, address);
        }
        let (scalar, count) = Self::accessed(op, to)?;
        let space = op.space();
        // A parameter that is passed directly.
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

    /// Writes a loaded value; a wider register is extended.
    fn loaded(&mut self, to: &Resolved<'a>, scalar: Scalar, ty: Ty, value: &str) -> Option<()> {
        self.write_to(to, ty, value, scalar.is_signed())
    }

    fn store(&mut self, op: &Op<'a>, address: &Resolved<'a>, from: &Resolved<'a>) -> Option<()> {
        if self.is_cpu() {
            return self.access_each(op, from, address);
        }
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
        let ty = op.ty()?;
        let (scalar, bytes, signed) = (ty.scalar, ty.scalar.bytes(), ty.scalar.is_signed());
        let (operation, name) = *OPERATIONS.iter().find(|(word, _)| op.has(word))?;
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
        let name = match (name, scalar.kind) {
            ("add", Kind::Float | Kind::Brain) => "fadd",
            ("min" | "max", Kind::Float | Kind::Brain) => return None,
            ("min", Kind::Unsigned) => "umin",
            ("max", Kind::Unsigned) => "umax",
            (name, _) => name,
        };
        let [operand, ..] = rest else { return None };
        if matches!(operation, "inc" | "dec") && !self.is_cpu() {
            let name = format!("llvm.nvvm.atomic.load.{operation}.32.p{}", self.space(op).number());
            let operand = self.read(operand, element).filter(|_| scalar.bits == 32)?;
            let old = self.call(element, &name, &[(own, pointer.as_str()), (element, operand.as_str())]);
            return self.write_to(to, element, &old, signed);
        }
        // Vectors and pairs are atomic element by element.
        let mut old = Vec::new();
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
                let text = element.text();
                if scalar.bits == 16 && name == "fadd" {
                    old.push(self.add_half(scalar.kind, &at, element, &value));
                    continue;
                }
                old.push(
                    self.value(format_args!("atomicrmw {name} {place} {at}, {text} {value} {order}, align {bytes}")),
                );
            }
        }
        if *to == Resolved::Sink {
            return Some(());
        }
        for (item, lanes) in Self::elements(to).iter().zip(old.chunks(ty.lanes as usize)) {
            if let [value] = lanes {
                self.write_to(item, element, value, signed)?;
                continue;
            }
            let lanes: Vec<String> =
                lanes.iter().map(|value| self.cast(value, element, Ty::Int(scalar.bits))).collect();
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
        let old = self
            .value(format_args!("call i16 @__mneme_cpu.add16(ptr {place}, i16 {bits}, i64 {mantissa}, i64 {bias})"));
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
