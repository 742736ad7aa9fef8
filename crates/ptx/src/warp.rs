//! Barriers, and exchange among the threads of a warp.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{Op, Resolved};

const WORD: Ty = Ty::Int(32);
const FLAG: Ty = Ty::Int(1);
const CONVERGENT: &str = " #3";

impl<'a> Emitter<'a, '_> {
    pub fn warp(&mut self, op: &Op<'a>) -> Option<()> {
        let cpu = self.is_cpu();
        match (op.name, &op.modifiers[..], &op.operands[..]) {
            ("bar" | "barrier", ..) => self.barrier(op),
            ("membar" | "fence", ..) if cpu => {
                self.line("fence seq_cst");
                Some(())
            }
            ("membar", [level @ ("cta" | "gl" | "sys")], []) => {
                self.perform(&format!("llvm.nvvm.membar.{level}"), &[], "")
            }
            ("shfl", ["sync", mode, "b32"], [to, value, lane, clamp, mask]) => {
                self.shuffle(&format!("sync.{mode}"), to, &[mask, value, lane, clamp])
            }
            ("shfl", [mode, "b32"], [to, value, lane, clamp]) if cpu => self.shuffle(mode, to, &[value, lane, clamp]),
            ("vote", ["sync", mode, kind] | [mode, "sync", kind], [to, predicate, mask]) => {
                let ty = vote_type(mode, kind)?;
                let name = format!("llvm.nvvm.vote.{mode}.sync");
                let value = self.apply(ty, &name, &[(WORD, mask), (FLAG, predicate)])?;
                self.write_to(to, ty, &value, false)
            }
            ("vote", [mode, kind], [to, predicate]) if cpu => {
                let ty = vote_type(mode, kind)?;
                let value = self.apply(ty, &format!("llvm.nvvm.vote.{mode}"), &[(FLAG, predicate)])?;
                self.write_to(to, ty, &value, false)
            }
            ("match", ["any", "sync", kind @ ("b32" | "b64")], [to, value, mask]) => {
                let ty = Ty::Int(if *kind == "b32" { 32 } else { 64 });
                let name = format!("llvm.nvvm.match.any.sync.i{}", ty.bits());
                let value = self.apply(WORD, &name, &[(WORD, mask), (ty, value)])?;
                self.write_to(to, WORD, &value, false)
            }
            ("match", ["all", "sync", kind @ ("b32" | "b64")], [to, value, mask]) if cpu => {
                let ty = Ty::Int(if *kind == "b32" { 32 } else { 64 });
                let name = format!("llvm.nvvm.match.all.sync.i{}p", ty.bits());
                let call = self.applied("{ i32, i1 }", &name, &[(WORD, mask), (ty, value)])?;
                self.value_and_flag(to, call)
            }
            ("redux", ["sync", operation, kind], [to, value, mask]) => {
                let name = match (*operation, *kind) {
                    ("add", "u32" | "s32") => "add",
                    ("and", "b32") => "and",
                    ("or", "b32") => "or",
                    ("xor", "b32") => "xor",
                    ("min", "s32") => "min",
                    ("max", "s32") => "max",
                    ("min", "u32") => "umin",
                    ("max", "u32") => "umax",
                    _ => return None,
                };
                let value =
                    self.apply(WORD, &format!("llvm.nvvm.redux.sync.{name}"), &[(WORD, value), (WORD, mask)])?;
                self.write_to(to, WORD, &value, false)
            }
            ("activemask", ["b32"], [to]) if cpu => {
                let value = self.call(WORD, "llvm.nvvm.activemask", &[]);
                self.write_to(to, WORD, &value, false)
            }
            // The lowest of the lanes is the one.
            ("elect", ["sync"], [Resolved::Pair(number, predicate), mask]) if cpu => {
                self.perform("llvm.nvvm.bar.warp.sync", &[(WORD, mask)], "")?;
                let mask = self.read(mask, WORD)?;
                let leader = self.call(WORD, "llvm.cttz.i32", &[(WORD, &mask), (FLAG, "false")]);
                let (lane, _) = self.special("%laneid")?;
                let elected = self.value(format_args!("icmp eq i32 {lane}, {leader}"));
                self.write_to(number, WORD, &leader, false)?;
                self.write_to(predicate, FLAG, &elected, false)
            }
            _ => None,
        }
    }

    fn barrier(&mut self, op: &Op<'a>) -> Option<()> {
        let (cpu, is_aligned) = (self.is_cpu(), op.name == "bar" || op.has("aligned"));
        let words: Vec<&str> = op.words().into_iter().filter(|word| !matches!(*word, "cta" | "aligned")).collect();
        // The names of LLVM 21 and later.
        let (all, count) = (".aligned.all", ".aligned.count");
        match (&words[..], &op.operands[..]) {
            (["warp", "sync"], [mask]) => self.perform("llvm.nvvm.bar.warp.sync", &[(WORD, mask)], CONVERGENT),
            (["sync"], [Resolved::Int(0)]) if is_aligned => self.perform("llvm.nvvm.barrier0", &[], CONVERGENT),
            (["sync"], [id]) if cpu => self.perform(&format!("llvm.nvvm.barrier.cta.sync{all}"), &[(WORD, id)], ""),
            (["sync" | "arrive"], [id, threads]) if cpu => {
                let name = format!("llvm.nvvm.barrier.cta.{}{count}", words[0]);
                self.perform(&name, &[(WORD, id), (WORD, threads)], "")
            }
            (["red", reduction @ ("popc" | "and" | "or")], [to, id, threads @ .., vote]) if cpu => {
                let ty = if *reduction == "popc" { WORD } else { FLAG };
                let end = if threads.is_empty() { all } else { count };
                let mut arguments = vec![(WORD, id)];
                arguments.extend(threads.iter().map(|threads| (WORD, threads)));
                arguments.push((FLAG, vote));
                let value = self.apply(ty, &format!("llvm.nvvm.barrier.cta.red.{reduction}{end}"), &arguments)?;
                self.write_to(to, ty, &value, false)
            }
            (["cluster", operation @ ("arrive" | "wait"), ..], []) if cpu => {
                self.perform(&format!("llvm.nvvm.barrier.cluster.{operation}"), &[], "")
            }
            _ => None,
        }
    }

    fn shuffle(&mut self, mode: &str, to: &Resolved<'a>, operands: &[&Resolved<'a>]) -> Option<()> {
        if !matches!(mode.rsplit('.').next()?, "up" | "down" | "bfly" | "idx") {
            return None;
        }
        let arguments: Vec<(Ty, &Resolved<'a>)> = operands.iter().map(|operand| (WORD, *operand)).collect();
        if matches!(to, Resolved::Pair(..)) {
            let call = self.applied("{ i32, i1 }", &format!("llvm.nvvm.shfl.{mode}.i32p"), &arguments)?;
            return self.value_and_flag(to, call);
        }
        let value = self.apply(WORD, &format!("llvm.nvvm.shfl.{mode}.i32"), &arguments)?;
        self.write_to(to, WORD, &value, false)
    }

    /// Writes `d|p`, or `d` alone.
    fn value_and_flag(&mut self, to: &Resolved<'a>, call: String) -> Option<()> {
        let pair = self.value(call);
        let value = self.value(format_args!("extractvalue {{ i32, i1 }} {pair}, 0"));
        let Resolved::Pair(first, second) = to else { return self.write_to(to, WORD, &value, false) };
        let flag = self.value(format_args!("extractvalue {{ i32, i1 }} {pair}, 1"));
        self.write_to(first, WORD, &value, false)?;
        self.write_to(second, FLAG, &flag, false)
    }
}

fn vote_type(mode: &str, kind: &str) -> Option<Ty> {
    match (mode, kind) {
        ("all" | "any" | "uni", "pred") => Some(FLAG),
        ("ballot", "b32") => Some(WORD),
        _ => None,
    }
}
