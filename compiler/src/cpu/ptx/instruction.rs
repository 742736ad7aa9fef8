//! The families of instructions, and the instructions that only move bits.

use crate::cpu::operations::sreg::{self, Word};

use super::Machine;
use super::parse::{InlineInstruction, InlineOperand};
use super::types::{Type, TypeKind};

impl Machine {
    /// Translates one instruction; `None` where it has no meaning here.
    pub(super) fn execute(&mut self, instruction: &InlineInstruction) -> Option<()> {
        let modifiers: Vec<&str> = instruction.modifiers.iter().map(String::as_str).collect();
        let operands = instruction.operands.as_slice();
        let types = instruction.types.as_slice();
        let name = instruction.name.as_str();
        let ty = types.first().copied();
        match name {
            "mov" => {
                let bits = ty?.whole();
                let [to, from] = operands else { return None };
                let value = self.read(from, bits)?;
                return self.write(to, bits, &value, false);
            }
            "selp" => {
                let bits = ty?.whole();
                let [to, a, b, predicate] = operands else { return None };
                let (a, b) = (self.read(a, bits)?, self.read(b, bits)?);
                let condition = self.read(predicate, 1)?;
                let value = self.body.value(format!("select i1 {condition}, i{bits} {a}, i{bits} {b}"));
                return self.write(to, bits, &value, false);
            }
            "slct" => {
                let [to, a, b, c] = operands else { return None };
                let [ty, by] = types else { return None };
                let bits = ty.whole();
                let (a, b) = (self.read(a, bits)?, self.read(b, bits)?);
                let mut c = self.read(c, by.bits)?;
                if modifiers.contains(&"ftz") && by.is_float() {
                    c = self.flush(&c, by.bits);
                }
                let condition = if by.is_float() {
                    let float = self.float_of(&c, *by)?;
                    self.body.value(format!("fcmp oge float {float}, 0.0"))
                } else {
                    self.body.value(format!("icmp sge i{} {c}, 0", by.bits))
                };
                let value = self.body.value(format!("select i1 {condition}, i{bits} {a}, i{bits} {b}"));
                return self.write(to, bits, &value, false);
            }
            "setp" | "set" => return self.compare(name, &modifiers, types, operands),
            "cvt" => return self.convert(&modifiers, types, operands),
            "cvta" => {
                let [to, from] = operands else { return None };
                // Addresses of every space are generic ones, but one of shared memory may have lost its upper half.
                let bits = ty?.bits;
                let mut value = self.read(from, bits)?;
                if bits == 64 && modifiers.first().is_some_and(|space| space.starts_with("shared")) {
                    value = self.body.value(format!("call i64 @__mneme_cpu.from_shared(i64 {value})"));
                }
                return self.write(to, bits, &value, false);
            }
            "wmma" => return self.fragment(instruction),
            "mma" | "ldmatrix" | "stmatrix" => return self.matrix(instruction),
            "tex" | "tld4" | "txq" | "suld" | "sust" | "suq" => return self.image(instruction),
            "vote" | "activemask" | "shfl" | "match" | "redux" | "bar" | "barrier" | "elect" => {
                return self.collective(name, &modifiers, types, operands);
            }
            _ => {}
        }
        if let Some(done) = self.memory(name, &modifiers, types, operands) {
            return done;
        }
        if let Some((operation, lanes)) = super::simd::family(name) {
            return self.simd(operation, lanes, &modifiers, types, operands);
        }
        let ty = ty?;
        if ty.is_float() {
            self.float(name, &modifiers, ty, operands)
        } else {
            self.integer(name, &modifiers, types, operands)
        }
    }

    /// `setp` and `set`.
    fn compare(&mut self, name: &str, modifiers: &[&str], types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        let (relation, rest) = modifiers.split_first()?;
        let combine = rest.iter().find(|part| ["and", "or", "xor"].contains(*part));
        let ty = *types.last()?;
        let [to, a, b, others @ ..] = operands else { return None };
        let (a, b) = (self.read(a, ty.whole())?, self.read(b, ty.whole())?);
        let flush = rest.contains(&"ftz") && matches!(ty.bits, 16 | 32);
        let combined = |this: &mut Self, condition: String| -> Option<String> {
            let Some(combine) = combine else { return Some(condition) };
            let other = this.read(others.first()?, 1)?;
            Some(this.body.value(format!("{combine} i1 {condition}, {other}")))
        };
        let (mut conditions, mut opposite) = (Vec::new(), None);
        for lane in 0..ty.lanes {
            let (mut a, mut b) = (self.lane(&a, ty, lane), self.lane(&b, ty, lane));
            if flush {
                (a, b) = (self.flush(&a, ty.bits), self.flush(&b, ty.bits));
            }
            let condition = self.relation(relation, ty.element(), &a, &b)?;
            if matches!(to, InlineOperand::Pair(..)) && ty.lanes == 1 {
                // The comparison is negated, and not what it is combined with.
                let not = self.body.value(format!("xor i1 {condition}, true"));
                opposite = Some(combined(self, not)?);
            }
            conditions.push(combined(self, condition)?);
        }
        if name == "setp" {
            return match (to, conditions.as_slice()) {
                (InlineOperand::Pair(p, q), [first, second]) => {
                    self.write(p, 1, first, false)?;
                    self.write(q, 1, second, false)
                }
                (InlineOperand::Pair(p, q), [only]) => {
                    self.write(p, 1, only, false)?;
                    self.write(q, 1, &opposite?, false)
                }
                (to, [only]) => self.write(to, 1, only, false),
                _ => None,
            };
        }
        let result = *types.first()?;
        let each = result.whole() / ty.lanes;
        // True is 1.0 for floats, all ones for integers.
        let one: u64 = match (result.kind, each) {
            (TypeKind::Float, 16) => 0x3c00,
            (TypeKind::Brain, 16) => 0x3f80,
            (TypeKind::Float, 32) => 0x3f80_0000,
            (_, each) => u64::MAX >> (64 - each),
        };
        let lanes: Vec<String> = conditions
            .iter()
            .map(|condition| self.body.value(format!("select i1 {condition}, i{each} {one}, i{each} 0")))
            .collect();
        let value = self.join(&lanes, each);
        self.write(to, result.whole(), &value, false)
    }

    fn relation(&mut self, relation: &str, ty: Type, a: &str, b: &str) -> Option<String> {
        if ty.is_float() {
            let code = mneme_ptx::comparisons::of_floats(relation)?;
            let (a, b) = (self.float_of(a, ty)?, self.float_of(b, ty)?);
            return Some(self.body.value(format!("fcmp {code} {} {a}, {b}", ty.computed())));
        }
        let code = mneme_ptx::comparisons::of_integers(relation, ty.is_signed())?;
        Some(self.body.value(format!("icmp {code} i{} {a}, {b}", ty.bits)))
    }

    /// One lane of a packed value.
    pub(super) fn lane(&mut self, value: &str, ty: Type, lane: u32) -> String {
        if ty.lanes == 1 {
            return value.to_owned();
        }
        let moved = self.body.value(format!("lshr i{} {value}, {}", ty.whole(), lane * ty.bits));
        self.body.value(format!("trunc i{} {moved} to i{}", ty.whole(), ty.bits))
    }

    /// Packs lanes of `bits` each.
    pub(super) fn join(&mut self, lanes: &[String], bits: u32) -> String {
        let [first, rest @ ..] = lanes else { return "0".into() };
        if rest.is_empty() {
            return first.clone();
        }
        let whole = bits * lanes.len() as u32;
        let mut value = "0".to_owned();
        for (i, lane) in lanes.iter().enumerate() {
            let wide = self.body.value(format!("zext i{bits} {lane} to i{whole}"));
            let placed = self.body.value(format!("shl i{whole} {wide}, {}", bits * i as u32));
            value = self.body.value(format!("or i{whole} {value}, {placed}"));
        }
        value
    }

    /// Operations in which threads wait for one another.
    fn collective(&mut self, name: &str, modifiers: &[&str], types: &[Type], operands: &[InlineOperand]) -> Option<()> {
        self.body.collective = true;
        match (name, modifiers, operands) {
            ("bar" | "barrier", ["warp", "sync"], [mask]) => {
                let mask = self.read(mask, 32)?;
                self.body.line(format_args!("call void @__mneme_cpu_warp_sync(i32 {mask})"));
                Some(())
            }
            (
                "bar" | "barrier",
                ["sync"] | ["cta", "sync"] | ["sync", "aligned"] | ["cta", "sync", "aligned"],
                [id, rest @ ..],
            ) => {
                let id = self.read(id, 32)?;
                let count = rest.first().map_or(Some("0".to_owned()), |count| self.read(count, 32))?;
                self.body.line(format_args!("call void @__mneme_cpu_barrier(i32 {id}, i32 {count})"));
                Some(())
            }
            ("bar" | "barrier", ["arrive"] | ["cta", "arrive"] | ["arrive" | "cta", .., "aligned"], [id, count])
                if modifiers.contains(&"arrive") =>
            {
                let (id, count) = (self.read(id, 32)?, self.read(count, 32)?);
                self.body.line(format_args!("call void @__mneme_cpu_barrier_arrive(i32 {id}, i32 {count})"));
                Some(())
            }
            (
                "bar" | "barrier",
                ["red", reduction] | ["cta", "red", reduction] | ["red" | "cta", .., reduction, "aligned"],
                [to, id, count @ .., predicate],
            ) => {
                let kind = ["popc", "and", "or"].iter().position(|name| name == reduction)?;
                let id = self.read(id, 32)?;
                let count = match count {
                    [] => "0".to_owned(),
                    [count] => self.read(count, 32)?,
                    _ => return None,
                };
                let vote = self.read(predicate, 1)?;
                let vote = self.resize(&vote, 1, 32, false);
                let value = self.body.value(format!(
                    "call i32 @__mneme_cpu_barrier_vote(i32 {id}, i32 {count}, i32 {kind}, i32 {vote})"
                ));
                if kind == 0 {
                    return self.write(to, 32, &value, false);
                }
                let flag = self.body.value(format!("icmp ne i32 {value}, 0"));
                self.write(to, 1, &flag, false)
            }
            // The lowest of the lanes is the one.
            ("elect", ["sync"], [to, mask]) => {
                let mask = self.read(mask, 32)?;
                self.body.line(format_args!("call void @__mneme_cpu_warp_sync(i32 {mask})"));
                let leader = self.body.value(format!("call i32 @llvm.cttz.i32(i32 {mask}, i1 false)"));
                let Word::Narrow(lane) = sreg::read(&["laneid"], &mut self.body)? else { return None };
                let elected = self.body.value(format!("icmp eq i32 {lane}, {leader}"));
                let InlineOperand::Pair(number, predicate) = to else { return None };
                self.write(number, 32, &leader, false)?;
                self.write(predicate, 1, &elected, false)
            }
            ("barrier", ["cluster", operation @ ("arrive" | "wait"), ..], []) => {
                self.body.line(format_args!("call void @__mneme_cpu_cluster_{operation}()"));
                Some(())
            }
            ("activemask", [], [to]) => {
                let value = self.body.value("call i32 @__mneme_cpu_activemask()");
                self.write(to, 32, &value, false)
            }
            ("vote", [mode, rest @ ..], [to, predicate, others @ ..]) => {
                let mode = if *mode == "sync" { rest.first()? } else { mode };
                let code = ["ballot", "any", "all", "uni"].iter().position(|name| name == mode)?;
                let predicate = self.read(predicate, 1)?;
                let predicate = self.resize(&predicate, 1, 32, false);
                let mask = others.first().map_or(Some("-1".to_owned()), |mask| self.read(mask, 32))?;
                let value =
                    self.body.value(format!("call i32 @__mneme_cpu_vote(i32 {code}, i32 {mask}, i32 {predicate})"));
                if code == 0 {
                    self.write(to, 32, &value, false)
                } else {
                    let flag = self.body.value(format!("icmp ne i32 {value}, 0"));
                    self.write(to, 1, &flag, false)
                }
            }
            ("shfl", [mode, rest @ ..], [to, value, lane, clamp, others @ ..]) => {
                let mode = if *mode == "sync" { rest.first()? } else { mode };
                let code = ["idx", "up", "down", "bfly"].iter().position(|name| name == mode)?;
                let (value, lane, clamp) = (self.read(value, 32)?, self.read(lane, 32)?, self.read(clamp, 32)?);
                let mask = others.first().map_or(Some("-1".to_owned()), |mask| self.read(mask, 32))?;
                let pair = self.body.value(format!(
                    "call i64 @__mneme_cpu_shuffle(i32 {code}, i32 {mask}, i32 {value}, i32 {lane}, i32 {clamp})"
                ));
                self.value_and_predicate(to, &pair)
            }
            ("match", [mode, "sync"], [to, value, mask]) => {
                let code = ["any", "all"].iter().position(|name| name == mode)?;
                let bits = types.first()?.bits;
                let value = self.read(value, bits)?;
                let value = self.resize(&value, bits, 64, false);
                let mask = self.read(mask, 32)?;
                let pair = self.body.value(format!("call i64 @__mneme_cpu_match(i32 {code}, i32 {mask}, i64 {value})"));
                self.value_and_predicate(to, &pair)
            }
            ("redux", ["sync", operation], [to, value, mask]) => {
                let signed = types.first()?.is_signed();
                let code = match (*operation, signed) {
                    ("add", _) => 0,
                    ("min", false) => 1,
                    ("max", false) => 2,
                    ("min", true) => 3,
                    ("max", true) => 4,
                    ("and", _) => 5,
                    ("or", _) => 6,
                    ("xor", _) => 7,
                    _ => return None,
                };
                let (value, mask) = (self.read(value, 32)?, self.read(mask, 32)?);
                let value =
                    self.body.value(format!("call i32 @__mneme_cpu_redux(i32 {code}, i32 {mask}, i32 {value})"));
                self.write(to, 32, &value, false)
            }
            _ => None,
        }
    }

    /// Writes `d` or `d|p` from a value with a predicate in bit 32.
    fn value_and_predicate(&mut self, to: &InlineOperand, pair: &str) -> Option<()> {
        let low = self.body.value(format!("trunc i64 {pair} to i32"));
        let InlineOperand::Pair(value, predicate) = to else { return self.write(to, 32, &low, false) };
        let shifted = self.body.value(format!("lshr i64 {pair}, 32"));
        let flag = self.body.value(format!("trunc i64 {shifted} to i1"));
        self.write(value, 32, &low, false)?;
        self.write(predicate, 1, &flag, false)
    }
}
