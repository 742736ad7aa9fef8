//! Conversions between numbers, and special registers.

use super::emitter::{Emitter, integer_text};
use super::registers::Ty;
use super::resolve::Op;
use super::syntax::Scalar;

impl<'a> Emitter<'a, '_> {
    pub fn convert(&mut self, op: &Op<'a>) -> Option<()> {
        let [to, from] = &op.operands[..] else { return None };
        let (wanted, own) = (op.first_scalar()?, op.scalar()?);
        let (ty, own_type) = (Ty::of(wanted), Ty::of(own));
        match (wanted.is_float(), own.is_float()) {
            (false, false) => {
                if !op.only(2, &["sat"]) {
                    return None;
                }
                let mut value = self.read(from, own_type)?;
                if op.has("sat") {
                    value = self.saturate(&value, own, wanted);
                }
                let value = if wanted.bits <= own.bits {
                    self.cast(&value, own_type, ty)
                } else {
                    self.extend(&value, own.bits, wanted.bits, own.is_signed())
                };
                self.write_to(to, ty, &value, wanted.is_signed())
            }
            (true, false) => {
                if !op.only(2, &["rn"]) || ty == Ty::Half || op.modifiers.len() != 3 {
                    return None;
                }
                let value = self.read(from, own_type)?;
                let opcode = if own.is_signed() { "sitofp" } else { "uitofp" };
                let value = self.value(format_args!("{opcode} {} {value} to {}", own_type.text(), ty.text()));
                self.write_to(to, ty, &value, false)
            }
            // Beyond an integer's range LLVM's conversions mean nothing, and PTX's do.
            (false, true) => None,
            (true, true) => {
                let value = self.read(from, own_type)?;
                let value = match wanted.bits.cmp(&own.bits) {
                    std::cmp::Ordering::Greater if op.only(2, &[]) => {
                        self.value(format_args!("fpext {} {value} to {}", own_type.text(), ty.text()))
                    }
                    std::cmp::Ordering::Less if op.only(2, &["rn"]) && op.has("rn") => {
                        self.value(format_args!("fptrunc {} {value} to {}", own_type.text(), ty.text()))
                    }
                    std::cmp::Ordering::Equal if ty != Ty::Half => {
                        let suffix = if ty == Ty::F32 { "f32" } else { "f64" };
                        let name = match op.modifiers.first().copied()? {
                            "rni" => "rint",
                            "rzi" => "trunc",
                            "rmi" => "floor",
                            "rpi" => "ceil",
                            "sat" if ty == Ty::F32 && op.only(2, &["sat"]) => {
                                let value = self.call(ty, "llvm.nvvm.saturate.f", &[(ty, value.as_str())]);
                                return self.write_to(to, ty, &value, false);
                            }
                            _ => return None,
                        };
                        if !op.only(2, &["rni", "rzi", "rmi", "rpi"]) {
                            return None;
                        }
                        self.call(ty, &format!("llvm.{name}.{suffix}"), &[(ty, value.as_str())])
                    }
                    _ => return None,
                };
                self.write_to(to, ty, &value, false)
            }
        }
    }

    /// The nearest number that the other type has, in the own type.
    fn saturate(&mut self, value: &str, own: Scalar, wanted: Scalar) -> String {
        let ty = Ty::of(own);
        let (low, high) = range(wanted);
        let (own_low, own_high) = range(own);
        let sign = if own.is_signed() { "s" } else { "u" };
        let mut value = value.to_owned();
        for (bound, name, needed) in [(low, "max", low > own_low), (high, "min", high < own_high)] {
            if needed {
                let bound = integer_text(bound, own.bits);
                let name = format!("llvm.{sign}{name}.{}", ty.text());
                value = self.call(ty, &name, &[(ty, value.as_str()), (ty, bound.as_str())]);
            }
        }
        value
    }

    /// The value of a special register.
    pub fn special(&mut self, name: &str) -> Option<(String, Ty)> {
        let register = name.strip_prefix('%')?;
        let (vector, axis) = register.split_once('.').unwrap_or((register, ""));
        let (intrinsic, ty) = match (vector, axis) {
            ("tid" | "ntid" | "ctaid" | "nctaid", "x" | "y" | "z") => (format!("{vector}.{axis}"), Ty::Int(32)),
            ("clusterid" | "nclusterid", "x" | "y" | "z") => (format!("{vector}.{axis}"), Ty::Int(32)),
            ("cluster_ctaid", "x" | "y" | "z") => (format!("cluster.ctaid.{axis}"), Ty::Int(32)),
            ("cluster_nctaid", "x" | "y" | "z") => (format!("cluster.nctaid.{axis}"), Ty::Int(32)),
            ("cluster_ctarank" | "cluster_nctarank", "") => (vector.replace('_', "."), Ty::Int(32)),
            ("laneid" | "nwarpid" | "nsmid", "") => (vector.to_owned(), Ty::Int(32)),
            ("lanemask_eq" | "lanemask_le" | "lanemask_lt" | "lanemask_ge" | "lanemask_gt", "") => {
                (vector.replace('_', "."), Ty::Int(32))
            }
            // Others may change while the thread looks: they are read where they stand.
            _ => return Some(self.special_in_place(name)),
        };
        let value = self.call(ty, &format!("llvm.nvvm.read.ptx.sreg.{intrinsic}"), &[]);
        Some((value, ty))
    }

    fn special_in_place(&mut self, name: &str) -> (String, Ty) {
        let wide =
            matches!(name, "%clock64" | "%globaltimer" | "%gridid" | "%current_graph_exec" | "%total_smem_size64")
                || name.starts_with("%reserved_smem_offset64")
                || (name.starts_with("%pm") && name.ends_with("_64"));
        let predicate = name == "%is_explicit_cluster";
        let (ty, class, suffix) = match (predicate, wide) {
            (true, _) => (Ty::Int(1), "b", "pred"),
            (_, true) => (Ty::Int(64), "l", "u64"),
            _ => (Ty::Int(32), "r", "u32"),
        };
        let suffix = if name.starts_with("%reserved_smem_offset") { suffix.replace('u', "b") } else { suffix.into() };
        let value = self
            .value(format_args!("call {} asm sideeffect \"mov.{suffix} $0, {name};\", \"={class}\"() #3", ty.text()));
        (value, ty)
    }
}

fn range(scalar: Scalar) -> (i128, i128) {
    if scalar.is_signed() {
        (-(1i128 << (scalar.bits - 1)), (1i128 << (scalar.bits - 1)) - 1)
    } else {
        (0, (1i128 << scalar.bits.min(100)) - 1)
    }
}
