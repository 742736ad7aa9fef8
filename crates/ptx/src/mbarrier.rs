//! Barriers in memory (`mbarrier`), and copies that complete their phases.
//!
//! PTX does not define the layout of a barrier's 64 bits. Here they are: arrivals that the phase still needs (20 bits),
//! arrivals of each phase (20), outstanding bytes (22, signed), and the phase's parity. A state is a copy of these
//! bits.

use super::emitter::Emitter;
use super::resolve::{Op, Resolved};
use super::syntax::Space;

/// Modifiers that are ignored: all accesses have the strongest possible order.
fn is_ignored(part: &str) -> bool {
    part.starts_with("shared")
        || matches!(part, "cta" | "cluster" | "gpu" | "sys" | "relaxed" | "acquire" | "release" | "b64")
}

impl<'a> Emitter<'a, '_> {
    /// `mbarrier`.
    pub fn memory_barrier(&mut self, op: &Op<'a>) -> Option<()> {
        let parts: Vec<&str> = op.modifiers.iter().copied().filter(|part| !is_ignored(part)).collect();
        let at = match op.address() {
            Some(at) => self.shared_or_generic(op, at)?,
            // A state, instead of a barrier.
            None => String::new(),
        };
        match (&parts[..], &op.operands[..]) {
            (["init"], [_, count]) => {
                let count = self.bits(count, 32)?;
                self.done(format_args!("call void @__mneme_cpu.mbarrier_init(ptr {at}, i32 {count})"))
            }
            (["inval"], [_]) => self.done(format_args!("store atomic i64 0, ptr {at} release, align 8")),
            (["expect_tx"], [_, bytes]) => {
                let bytes = self.bits(bytes, 32)?;
                self.update(&at, "0", "0", &bytes);
                Some(())
            }
            (["complete_tx"], [_, bytes]) => {
                let bytes = self.bits(bytes, 32)?;
                self.complete(&at, &bytes)
            }
            ([operation @ ("arrive" | "arrive_drop"), kind @ ..], [state, _, number @ ..]) => {
                let (arrived, bytes) = match (kind, number) {
                    ([] | ["noComplete"], [count]) => (self.bits(count, 32)?, "0".to_owned()),
                    ([], []) => ("1".to_owned(), "0".to_owned()),
                    (["expect_tx"], [bytes]) => ("1".to_owned(), self.bits(bytes, 32)?),
                    _ => return None,
                };
                let dropped = if *operation == "arrive_drop" { &arrived } else { "0" };
                let old = self.update(&at, &arrived, dropped, &bytes);
                self.write_bits(state, 64, &old, false)
            }
            (["pending_count"], [to, state]) => {
                let state = self.bits(state, 64)?;
                let count = self.value(format!("and i64 {state}, 1048575"));
                self.write_bits(to, 64, &count, false)
            }
            // The time limit of a wait is ignored: the loop around it yields.
            (["test_wait" | "try_wait", kind @ ..], [done, _, phase] | [done, _, phase, _]) => {
                let state = match kind {
                    [] => self.bits(phase, 64)?,
                    ["parity"] => {
                        let parity = self.bits(phase, 32)?;
                        let wide = self.resize(&parity, 32, 64, false);
                        self.value(format!("shl i64 {wide}, 62"))
                    }
                    _ => return None,
                };
                let done_now = self.value(format!("call i1 @__mneme_cpu.mbarrier_left(ptr {at}, i64 {state})"));
                self.write_bits(done, 1, &done_now, false)
            }
            _ => None,
        }
    }

    /// `cp.async`: copies complete at once, so waiting for one does nothing.
    pub fn copy(&mut self, op: &Op<'a>) -> Option<()> {
        // A hint, and its policy.
        let (modifiers, operands) = match (&op.modifiers[..], &op.operands[..]) {
            ([modifiers @ .., "L2::cache_hint"], [operands @ .., _]) => (modifiers, operands),
            all => all,
        };
        let mut pointer = |operand: &Resolved<'a>, space| Some(self.pointer(operand, space)?.0);
        let (shared, global) = (Space::Shared, Space::Generic);
        match (modifiers, operands) {
            (["async", "commit_group" | "wait_group" | "wait_all", ..], _)
            | (["async", "bulk", "commit_group" | "wait_group", ..], _) => Some(()),
            (["async", "ca" | "cg", "shared" | "shared::cta", "global", ..], [to, from, size, rest @ ..]) => {
                let (to, from) = (pointer(to, shared)?, pointer(from, global)?);
                let size = self.bits(size, 64)?;
                let copied = match rest.first() {
                    Some(count) => self.bits(count, 64)?,
                    None => size.clone(),
                };
                self.line(format_args!("call void @llvm.memset.p0.i64(ptr {to}, i8 0, i64 {size}, i1 false)"));
                self.copy_whole(&to, &from, &copied)
            }
            (["async", "mbarrier", "arrive", "noinc", ..], [at]) => {
                let at = self.shared_or_generic(op, at)?;
                self.update(&at, "1", "0", "0");
                Some(())
            }
            // One more arrival is expected, and happens.
            (["async", "mbarrier", "arrive", ..], [at]) => self.shared_or_generic(op, at).map(drop),
            (
                ["async", "bulk", "shared::cluster" | "shared::cta", "global", "mbarrier::complete_tx::bytes"],
                [to, from, size, barrier],
            ) => {
                let (to, from, barrier) = (pointer(to, shared)?, pointer(from, global)?, pointer(barrier, shared)?);
                let wide = self.bits(size, 64)?;
                self.copy_whole(&to, &from, &wide)?;
                let size = self.bits(size, 32)?;
                self.complete(&barrier, &size)
            }
            (["async", "bulk", "global", "shared::cta", "bulk_group"], [to, from, size]) => {
                let (to, from) = (pointer(to, global)?, pointer(from, shared)?);
                let wide = self.bits(size, 64)?;
                self.copy_whole(&to, &from, &wide)
            }
            _ => None,
        }
    }

    fn copy_whole(&mut self, to: &str, from: &str, size: &str) -> Option<()> {
        self.done(format_args!("call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {from}, i64 {size}, i1 false)"))
    }

    /// Counts arrived bytes.
    fn complete(&mut self, at: &str, bytes: &str) -> Option<()> {
        let fewer = self.value(format!("sub i32 0, {bytes}"));
        self.update(at, "0", "0", &fewer);
        Some(())
    }

    /// Updates the counts of arrivals, of arrivals dropped from later phases, and of outstanding bytes; returns the
    /// previous state.
    fn update(&mut self, at: &str, arrived: &str, dropped: &str, bytes: &str) -> String {
        self.value(format_args!(
            "call i64 @__mneme_cpu.mbarrier_count(ptr {at}, i32 {arrived}, i32 {dropped}, i32 {bytes})"
        ))
    }
}
