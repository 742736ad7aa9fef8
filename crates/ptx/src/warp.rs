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
            ("membar" | "fence", ..) if cpu => self.done("fence seq_cst"),
            ("membar", [level @ ("cta" | "gl" | "sys")], []) => {
                self.perform(&format!("llvm.nvvm.membar.{level}"), &[], "")
            }
            ("shfl", ["sync", mode, "b32"], [to, value, lane, clamp, mask]) => {
                self.shuffle(&format!("sync.{mode}"), to, &[mask, value, lane, clamp])
            }
            ("shfl", [mode, "b32"], [to, value, lane, clamp]) if cpu => self.shuffle(mode, to, &[value, lane, clamp]),
            ("vote", ["sync", mode, kind] | [mode, "sync", kind], [to, predicate, mask]) => {
                let name = format!("llvm.nvvm.vote.{mode}.sync");
                self.assign(to, vote_type(mode, kind)?, &name, &[(WORD, mask), (FLAG, predicate)])
            }
            ("vote", [mode, kind], [to, predicate]) if cpu => {
                self.assign(to, vote_type(mode, kind)?, &format!("llvm.nvvm.vote.{mode}"), &[(FLAG, predicate)])
            }
            ("match", [mode @ ("any" | "all"), "sync", "b32" | "b64"], [to, value, mask]) => {
                let name = format!("llvm.nvvm.match.{mode}.sync.i{}", op.scalar()?.bits);
                let operands = [(WORD, mask), (Ty::of(op.scalar()?), value)];
                match *mode {
                    "any" => self.assign(to, WORD, &name, &operands),
                    _ => cpu.then(|| self.assign_pair(to, &format!("{name}p"), &operands))?,
                }
            }
            ("redux", ["sync", operation, kind], [to, value, mask]) => {
                let name = match (*operation, *kind) {
                    (name @ ("and" | "or" | "xor"), "b32") | (name @ ("add" | "min" | "max"), "s32") => name,
                    ("add", "u32") => "add",
                    ("min", "u32") => "umin",
                    ("max", "u32") => "umax",
                    _ => return None,
                };
                self.assign(to, WORD, &format!("llvm.nvvm.redux.sync.{name}"), &[(WORD, value), (WORD, mask)])
            }
            ("activemask", ["b32"], [to]) if cpu => self.assign(to, WORD, "llvm.nvvm.activemask", &[]),
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
        let words: Vec<&str> = op.words.iter().copied().filter(|word| !matches!(*word, "cta" | "aligned")).collect();
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
                self.assign(to, ty, &format!("llvm.nvvm.barrier.cta.red.{reduction}{end}"), &arguments)
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
        match to {
            Resolved::Pair(..) => self.assign_pair(to, &format!("llvm.nvvm.shfl.{mode}.i32p"), &arguments),
            to => self.assign(to, WORD, &format!("llvm.nvvm.shfl.{mode}.i32"), &arguments),
        }
    }
}

fn vote_type(mode: &str, kind: &str) -> Option<Ty> {
    match (mode, kind) {
        ("all" | "any" | "uni", "pred") => Some(FLAG),
        ("ballot", "b32") => Some(WORD),
        _ => None,
    }
}
