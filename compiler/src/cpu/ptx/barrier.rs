//! Barriers in memory (`mbarrier`), and the copies that complete a phase of one.
//!
//! PTX leaves open what is in the 64 bits of one. Here: arrivals that the phase still needs (20 bits), arrivals of each
//! phase (20), bytes that are still to come (22, signed), and the phase's parity. A state is these bits as they were.

use super::Machine;
use super::memory::{SCOPES, is_shared};
use super::parse::InlineOperand;

/// What may stand in an instruction without being read here: accesses are in the order that the strongest asks for.
fn is_ignored(part: &str) -> bool {
    part.starts_with("shared") || SCOPES.contains(&part) || matches!(part, "relaxed" | "acquire" | "release")
}

impl Machine {
    /// `mbarrier`.
    pub(super) fn memory_barrier(&mut self, modifiers: &[&str], operands: &[InlineOperand]) -> Option<()> {
        let shared = is_shared(modifiers);
        let parts: Vec<&str> = modifiers.iter().copied().filter(|part| !is_ignored(part)).collect();
        match (&parts[..], operands) {
            (["init"], [at, count]) => {
                let (at, count) = (self.pointer(at, shared)?, self.read(count, 32)?);
                self.body.line(format_args!("call void @__mneme_cpu.mbarrier_init(ptr {at}, i32 {count})"));
                Some(())
            }
            (["inval"], [at]) => {
                let at = self.pointer(at, shared)?;
                self.body.line(format_args!("store atomic i64 0, ptr {at} release, align 8"));
                Some(())
            }
            (["expect_tx"], [at, bytes]) => {
                let (at, bytes) = (self.pointer(at, shared)?, self.read(bytes, 32)?);
                self.update(&at, ("0", "0", &bytes)).map(drop)
            }
            (["complete_tx"], [at, bytes]) => {
                let (at, bytes) = (self.pointer(at, shared)?, self.read(bytes, 32)?);
                self.complete(&at, &bytes)
            }
            ([operation @ ("arrive" | "arrive_drop"), kind @ ..], [state, at, number @ ..]) => {
                let at = self.pointer(at, shared)?;
                let number = match number {
                    [] => None,
                    [number] => Some(self.read(number, 32)?),
                    _ => return None,
                };
                let (arrived, bytes) = match (kind, number) {
                    ([] | ["noComplete"], Some(count)) => (count, "0".to_owned()),
                    ([], None) => ("1".to_owned(), "0".to_owned()),
                    (["expect_tx"], Some(bytes)) => ("1".to_owned(), bytes),
                    _ => return None,
                };
                let dropped = if *operation == "arrive_drop" { arrived.clone() } else { "0".to_owned() };
                let old = self.update(&at, (&arrived, &dropped, &bytes))?;
                self.write(state, 64, &old, false)
            }
            (["pending_count"], [to, state]) => {
                let state = self.read(state, 64)?;
                let count = self.body.value(format!("and i64 {state}, 1048575"));
                let count = self.resize(&count, 64, 32, false);
                self.write(to, 32, &count, false)
            }
            // How long a wait may take at most is left out: the loop around it gives its turn away.
            (["test_wait"], [done, at, state]) | (["try_wait"], [done, at, state] | [done, at, state, _]) => {
                let (at, state) = (self.pointer(at, shared)?, self.read(state, 64)?);
                let done_now = self.body.value(format!("call i1 @__mneme_cpu.mbarrier_left(ptr {at}, i64 {state})"));
                self.write(done, 1, &done_now, false)
            }
            (["test_wait", "parity"], [done, at, parity])
            | (["try_wait", "parity"], [done, at, parity] | [done, at, parity, _]) => {
                let (at, parity) = (self.pointer(at, shared)?, self.read(parity, 32)?);
                let wide = self.resize(&parity, 32, 64, false);
                let state = self.body.value(format!("shl i64 {wide}, 62"));
                let done_now = self.body.value(format!("call i1 @__mneme_cpu.mbarrier_left(ptr {at}, i64 {state})"));
                self.write(done, 1, &done_now, false)
            }
            _ => None,
        }
    }

    /// `cp.async` but for the copy of single elements: bulk copies are done at once, and then their bytes have come.
    pub(super) fn bulk_copy(&mut self, modifiers: &[&str], operands: &[InlineOperand]) -> Option<()> {
        // A hint, and the policy that comes with it.
        let hinted = modifiers.last() == Some(&"L2::cache_hint");
        let modifiers = if hinted { &modifiers[..modifiers.len() - 1] } else { modifiers };
        let operands = if hinted { operands.split_last()?.1 } else { operands };
        match (modifiers, operands) {
            (["async", "mbarrier", "arrive", "noinc", ..], [at]) => {
                let at = self.pointer(at, is_shared(modifiers))?;
                self.update(&at, ("1", "0", "0")).map(drop)
            }
            // One more is waited for, and arrives.
            (["async", "mbarrier", "arrive", ..], [at]) => self.pointer(at, is_shared(modifiers)).map(drop),
            (["async", "bulk", "commit_group" | "wait_group", ..], _) => Some(()),
            (
                ["async", "bulk", "shared::cluster" | "shared::cta", "global", "mbarrier::complete_tx::bytes"],
                [to, from, size, barrier],
            ) => {
                let (to, from, barrier) =
                    (self.pointer(to, true)?, self.pointer(from, false)?, self.pointer(barrier, true)?);
                let size = self.read(size, 32)?;
                self.copy_whole(&to, &from, &size);
                self.complete(&barrier, &size)
            }
            (["async", "bulk", "global", "shared::cta", "bulk_group"], [to, from, size]) => {
                let (to, from, size) = (self.pointer(to, false)?, self.pointer(from, true)?, self.read(size, 32)?);
                self.copy_whole(&to, &from, &size);
                Some(())
            }
            _ => None,
        }
    }

    fn copy_whole(&mut self, to: &str, from: &str, size: &str) {
        let wide = self.resize(size, 32, 64, false);
        self.body.line(format_args!("call void @llvm.memcpy.p0.p0.i64(ptr {to}, ptr {from}, i64 {wide}, i1 false)"));
    }

    /// Bytes have come.
    fn complete(&mut self, at: &str, bytes: &str) -> Option<()> {
        let fewer = self.body.value(format!("sub i32 0, {bytes}"));
        self.update(at, ("0", "0", &fewer)).map(drop)
    }

    /// Counts arrivals, those that later phases do not have, and bytes that are to come; gives the state before.
    fn update(&mut self, at: &str, (arrived, dropped, bytes): (&str, &str, &str)) -> Option<String> {
        Some(self.body.value(format!(
            "call i64 @__mneme_cpu.mbarrier_count(ptr {at}, i32 {arrived}, i32 {dropped}, i32 {bytes})"
        )))
    }
}
