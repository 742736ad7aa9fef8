//! Barriers, and exchange among the threads of a warp.

use super::emitter::Emitter;
use super::registers::Ty;
use super::resolve::{Op, Resolved};

const WORD: Ty = Ty::Int(32);

impl<'a> Emitter<'a, '_> {
    pub fn warp(&mut self, op: &Op<'a>) -> Option<()> {
        match (op.name, &op.modifiers[..], &op.operands[..]) {
            ("bar", ["sync"], [Resolved::Int(0)])
            | ("barrier", ["sync", "aligned"], [Resolved::Int(0)])
            | ("barrier", ["cta", "sync", "aligned"], [Resolved::Int(0)]) => {
                let call = self.call_text("void", "llvm.nvvm.barrier0", &[]);
                self.line(format_args!("{call} #3"));
                Some(())
            }
            ("bar", ["warp", "sync"], [mask]) => {
                let mask = self.read(mask, WORD)?;
                let call = self.call_text("void", "llvm.nvvm.bar.warp.sync", &[(WORD, mask.as_str())]);
                self.line(format_args!("{call} #3"));
                Some(())
            }
            ("membar", [level @ ("cta" | "gl" | "sys")], []) => {
                let call = self.call_text("void", &format!("llvm.nvvm.membar.{level}"), &[]);
                self.line(call);
                Some(())
            }
            ("shfl", ["sync", mode, "b32"], [to, value, lane, clamp, mask]) => {
                let (value, lane) = (self.read(value, WORD)?, self.read(lane, WORD)?);
                let (clamp, mask) = (self.read(clamp, WORD)?, self.read(mask, WORD)?);
                let arguments =
                    [(WORD, mask.as_str()), (WORD, value.as_str()), (WORD, lane.as_str()), (WORD, clamp.as_str())];
                if !matches!(*mode, "up" | "down" | "bfly" | "idx") {
                    return None;
                }
                match to {
                    Resolved::Pair(first, second) => {
                        let name = format!("llvm.nvvm.shfl.sync.{mode}.i32p");
                        let call = self.call_text("{ i32, i1 }", &name, &arguments);
                        let pair = self.value(call);
                        let value = self.value(format_args!("extractvalue {{ i32, i1 }} {pair}, 0"));
                        let inside = self.value(format_args!("extractvalue {{ i32, i1 }} {pair}, 1"));
                        self.write_to(first, WORD, &value, false)?;
                        self.write_to(second, Ty::Int(1), &inside, false)
                    }
                    to => {
                        let value = self.call(WORD, &format!("llvm.nvvm.shfl.sync.{mode}.i32"), &arguments);
                        self.write_to(to, WORD, &value, false)
                    }
                }
            }
            ("vote", ["sync", mode, kind] | [mode, "sync", kind], [to, predicate, mask]) => {
                let ty = match (*mode, *kind) {
                    ("all" | "any" | "uni", "pred") => Ty::Int(1),
                    ("ballot", "b32") => WORD,
                    _ => return None,
                };
                let name = if *mode == "uni" { "uni" } else { mode };
                let (predicate, mask) = (self.read(predicate, Ty::Int(1))?, self.read(mask, WORD)?);
                let name = format!("llvm.nvvm.vote.{name}.sync");
                let value = self.call(ty, &name, &[(WORD, mask.as_str()), (Ty::Int(1), predicate.as_str())]);
                self.write_to(to, ty, &value, false)
            }
            ("match", ["any", "sync", kind @ ("b32" | "b64")], [to, value, mask]) => {
                let ty = Ty::Int(if *kind == "b32" { 32 } else { 64 });
                let (value, mask) = (self.read(value, ty)?, self.read(mask, WORD)?);
                let name = format!("llvm.nvvm.match.any.sync.i{}", ty.bits());
                let value = self.call(WORD, &name, &[(WORD, mask.as_str()), (ty, value.as_str())]);
                self.write_to(to, WORD, &value, false)
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
                let (value, mask) = (self.read(value, WORD)?, self.read(mask, WORD)?);
                let name = format!("llvm.nvvm.redux.sync.{name}");
                let value = self.call(WORD, &name, &[(WORD, value.as_str()), (WORD, mask.as_str())]);
                self.write_to(to, WORD, &value, false)
            }
            _ => None,
        }
    }
}
