//! Loads, stores, atomics, fences, and the hints that do nothing here.

use crate::cpu::operations::spaces;

use super::Machine;
use super::parse::InlineOperand;
use super::types::{Type, TypeKind};

const HINTS: [&str; 7] = ["prefetch", "prefetchu", "applypriority", "pmevent", "griddepcontrol", "brkpt", "setmaxnreg"];
pub(super) const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];

/// Whether an access is to shared memory, of the block or of its cluster.
pub(super) fn is_shared(modifiers: &[&str]) -> bool {
    modifiers.iter().any(|part| matches!(*part, "shared" | "shared::cta" | "shared::cluster"))
}

impl Machine {
    /// A memory instruction; the outer `None` says that it is none.
    pub(super) fn memory(
        &mut self,
        name: &str,
        modifiers: &[&str],
        types: &[Type],
        operands: &[InlineOperand],
    ) -> Option<Option<()>> {
        Some(match name {
            "nanosleep" => {
                self.body.line("call void @__mneme_cpu_yield()");
                Some(())
            }
            _ if HINTS.contains(&name) => Some(()),
            "membar" | "fence" => {
                self.body.line("fence seq_cst");
                Some(())
            }
            "trap" => {
                self.body.line("call void @__mneme_cpu_trap()");
                Some(())
            }
            "ld" | "ldu" => self.load(modifiers, types, operands),
            "st" => self.store(modifiers, types, operands),
            "atom" | "red" => self.atomic(name == "atom", modifiers, types, operands),
            "isspacep" => self.is_space(modifiers, operands),
            "cp" => self.copy(modifiers, operands),
            "mbarrier" => self.memory_barrier(modifiers, operands),
            "mapa" | "getctarank" => self.map(name, types, operands),
            _ => return None,
        })
    }

    /// An address operand as a pointer. 32-bit addresses are the low halves of shared-memory addresses.
    pub(super) fn pointer(&mut self, operand: &InlineOperand, shared: bool) -> Option<String> {
        let InlineOperand::Address(base, offset) = operand else { return None };
        let narrow =
            matches!(&**base, InlineOperand::Name(name) if self.registers.get(name).is_some_and(|r| r.bits == 32));
        let address = if narrow {
            if !shared {
                return None;
            }
            let low = self.read(base, 64)?;
            self.body.value(format!("call i64 @__mneme_cpu.from_shared(i64 {low})"))
        } else {
            self.read(base, 64)?
        };
        let address = self.body.value(format!("add i64 {address}, {offset}"));
        Some(self.body.value(format!("inttoptr i64 {address} to ptr")))
    }

    /// Whether an access is atomic or volatile, and its ordering for LLVM.
    fn access(modifiers: &[&str], store: bool) -> (&'static str, &'static str) {
        // Past the caches: for what other threads write.
        let fresh = |part: &&str| ["volatile", "cg", "cv"].contains(part);
        if modifiers.iter().any(fresh) && !(store && modifiers.contains(&"cg")) {
            ("volatile ", "")
        } else if modifiers.contains(&"relaxed") {
            ("atomic ", " monotonic")
        } else if modifiers.contains(&"acquire") && !store {
            ("atomic ", " acquire")
        } else if modifiers.contains(&"release") && store {
            ("atomic ", " release")
        } else {
            ("", "")
        }
    }

    /// The elements of a (possibly vector) register operand.
    pub(super) fn elements(operand: &InlineOperand) -> Vec<InlineOperand> {
        match operand {
            InlineOperand::Vector(elements) => elements.clone(),
            single => vec![single.clone()],
        }
    }

    fn load(&mut self, modifiers: &[&str], types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        let ([to, from, ..], [ty, ..]) = (operands, types) else { return None };
        if modifiers.contains(&"param") {
            return None;
        }
        let pointer = self.pointer(from, is_shared(modifiers))?;
        let (kind, ordering) = Self::access(modifiers, false);
        let (bits, bytes) = (ty.whole(), ty.whole() / 8);
        for (i, element) in Self::elements(to).iter().enumerate() {
            let place = self.body.value(format!("getelementptr i8, ptr {pointer}, i64 {}", i as u32 * bytes));
            let value = self.body.value(format!("load {kind}i{bits}, ptr {place}{ordering}, align {bytes}"));
            self.write(element, bits, &value, ty.is_signed())?;
        }
        Some(())
    }

    fn store(&mut self, modifiers: &[&str], types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        let ([to, from, ..], [ty, ..]) = (operands, types) else { return None };
        let pointer = self.pointer(to, is_shared(modifiers))?;
        let (kind, ordering) = Self::access(modifiers, true);
        let (bits, bytes) = (ty.whole(), ty.whole() / 8);
        for (i, element) in Self::elements(from).iter().enumerate() {
            let value = self.read(element, bits)?;
            let place = self.body.value(format!("getelementptr i8, ptr {pointer}, i64 {}", i as u32 * bytes));
            self.body.line(format_args!("store {kind}i{bits} {value}, ptr {place}{ordering}, align {bytes}"));
        }
        Some(())
    }

    fn atomic(&mut self, returns: bool, modifiers: &[&str], types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        let ty = *types.last()?;
        let shared = is_shared(modifiers);
        let ordering = match modifiers.iter().find(|part| ["acq_rel", "acquire", "release"].contains(*part)) {
            Some(ordering) => ordering,
            None => "monotonic",
        };
        let ignored = |part: &&str| {
            SCOPES.contains(part)
                || ["relaxed", "acq_rel", "acquire", "release", "global", "shared", "noftz", "v2", "v4", "v8"]
                    .contains(part)
                || part.starts_with("shared::")
        };
        let operation = *modifiers.iter().find(|part| !ignored(part))?;
        let (to, rest) =
            if returns { operands.split_first().map(|(to, rest)| (Some(to), rest))? } else { (None, operands) };
        let (address, values) = rest.split_first()?;
        let pointer = self.pointer(address, shared)?;
        let bits = ty.bits;
        let bytes = bits / 8;
        if operation == "cas" {
            let [expected, new] = values else { return None };
            let (expected, new) = (self.read(expected, bits)?, self.read(new, bits)?);
            let failure = if ordering == "acq_rel" || ordering == "acquire" { "acquire" } else { "monotonic" };
            let pair = self.body.value(format!(
                "cmpxchg ptr {pointer}, i{bits} {expected}, i{bits} {new} {ordering} {failure}, align {bytes}"
            ));
            let old = self.body.value(format!("extractvalue {{ i{bits}, i1 }} {pair}, 0"));
            return to.map_or(Some(()), |to| self.write(to, bits, &old, ty.is_signed()));
        }
        let operation = match (operation, ty.kind) {
            ("add", TypeKind::Float | TypeKind::Brain) => "fadd",
            ("min" | "max", TypeKind::Float | TypeKind::Brain) => return None,
            ("min", TypeKind::Unsigned) => "umin",
            ("max", TypeKind::Unsigned) => "umax",
            ("exch", _) => "xchg",
            ("inc", _) => "uinc_wrap",
            ("dec", _) => "udec_wrap",
            ("add" | "min" | "max" | "and" | "or" | "xor", _) => operation,
            _ => return None,
        };
        let llvm = match (ty.kind, bits) {
            (TypeKind::Float, 16) => "half".to_owned(),
            (TypeKind::Float, 32) => "float".into(),
            (TypeKind::Float, 64) => "double".into(),
            (TypeKind::Brain, _) => "bfloat".into(),
            _ => format!("i{bits}"),
        };
        // Vectors and packed pairs are atomic element by element.
        let [value] = values else { return None };
        let mut sources = Vec::new();
        for element in Self::elements(value) {
            let whole = self.read(&element, ty.whole())?;
            for lane in 0..ty.lanes {
                sources.push(self.lane(&whole, ty, lane));
            }
        }
        let mut old = Vec::new();
        for (i, source) in sources.iter().enumerate() {
            let place = self.body.value(format!("getelementptr i8, ptr {pointer}, i64 {}", i as u32 * bytes));
            let value = if llvm.starts_with('i') {
                source.clone()
            } else {
                self.body.value(format!("bitcast i{bits} {source} to {llvm}"))
            };
            let result =
                self.body.value(format!("atomicrmw {operation} ptr {place}, {llvm} {value} {ordering}, align {bytes}"));
            old.push(if llvm.starts_with('i') {
                result
            } else {
                self.body.value(format!("bitcast {llvm} {result} to i{bits}"))
            });
        }
        let Some(to) = to else { return Some(()) };
        for (element, lanes) in Self::elements(to).iter().zip(old.chunks(ty.lanes as usize)) {
            let value = self.join(lanes, bits);
            self.write(element, ty.whole(), &value, ty.is_signed())?;
        }
        Some(())
    }

    fn is_space(&mut self, modifiers: &[&str], operands: &[InlineOperand]) -> Option<()> {
        let ([space], [to, address]) = (modifiers, operands) else { return None };
        let address = self.read(address, 64)?;
        let pointer = self.body.value(format!("inttoptr i64 {address} to ptr"));
        let mut shared = |window| self.body.value(format!("call i1 @__mneme_cpu.is_{window}(ptr {pointer})"));
        let inside = match *space {
            "shared" | "shared::cta" => shared("shared"),
            "shared::cluster" => shared("cluster_shared"),
            "local" => spaces::is_local(&mut self.body, &pointer),
            "global" => spaces::is_global(&mut self.body, &pointer),
            _ => return None,
        };
        self.write(to, 1, &inside, false)
    }

    /// `mapa` and `getctarank`: an address in another block of the cluster, and the block that an address is in.
    fn map(&mut self, name: &str, types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        self.body.collective = true;
        let bits = types.first()?.bits;
        match (name, operands) {
            ("mapa", [to, address, rank]) => {
                let (address, rank) = (self.read(address, bits)?, self.read(rank, 32)?);
                let address = self.resize(&address, bits, 64, false);
                let mapped = self.body.value(format!("call i64 @__mneme_cpu.in_block(i64 {address}, i32 {rank})"));
                let mapped = self.resize(&mapped, 64, bits, false);
                self.write(to, bits, &mapped, false)
            }
            ("getctarank", [to, address]) => {
                let address = self.read(address, bits)?;
                let mut address = self.resize(&address, bits, 64, false);
                if bits == 32 {
                    address = self.body.value(format!("call i64 @__mneme_cpu.from_shared(i64 {address})"));
                }
                let rank = self.body.value(format!("call i32 @__mneme_cpu.block_of(i64 {address})"));
                self.write(to, 32, &rank, false)
            }
            _ => None,
        }
    }

    /// `cp.async`: done at once, so that waiting for it has nothing to do.
    fn copy(&mut self, modifiers: &[&str], operands: &[InlineOperand]) -> Option<()> {
        match modifiers {
            ["async", "commit_group" | "wait_group" | "wait_all", ..] => Some(()),
            ["async", "ca" | "cg", "shared" | "shared::cta", "global", ..] => {
                let [to, from, size, rest @ ..] = operands else { return None };
                let (to, from) = (self.pointer(to, true)?, self.pointer(from, false)?);
                let size = self.read(size, 64)?;
                let copied = match rest.first() {
                    Some(count) => self.read(count, 64)?,
                    None => size.clone(),
                };
                self.body.line(format_args!("call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {size}, i1 false)"));
                self.body.line(format_args!(
                    "call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {from}, i64 {copied}, i1 false)"
                ));
                Some(())
            }
            _ => self.bulk_copy(modifiers, operands),
        }
    }
}
