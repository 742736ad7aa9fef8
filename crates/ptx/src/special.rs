//! Special registers.

use super::emitter::Emitter;
use super::instructions::special_register;
use super::registers::Ty;

impl Emitter<'_, '_> {
    /// The value of a special register.
    pub fn special(&mut self, name: &str) -> Option<(String, Ty)> {
        let (bits, is_fixed) = special_register(name)?;
        let (ty, own) = (Ty::Int(bits), &name[1..]);
        let is_reserved = own.starts_with("reserved_smem_offset_");
        if is_reserved && self.is_cpu() {
            self.context.reserved = true;
            let address = self.value("call ptr addrspace(3) @__mneme_cpu.reserved()");
            let value = self.value(format_args!("ptrtoint ptr addrspace(3) {address} to i64"));
            return Some((value, Ty::Int(64)));
        }
        if is_fixed || self.is_cpu() {
            let intrinsic = own.replace("cluster_", "cluster.").replace("lanemask_", "lanemask.");
            return Some((self.call(ty, &format!("llvm.nvvm.read.ptx.sreg.{intrinsic}"), &[]), ty));
        }
        // It may change while the thread looks: it is read where it stands.
        let (class, suffix) = match bits {
            1 => ("b", "pred"),
            64 => ("l", "u64"),
            _ if is_reserved => ("r", "b32"),
            _ => ("r", "u32"),
        };
        let call = format!("call {} asm sideeffect \"mov.{suffix} $0, {name};\", \"={class}\"() #3", ty.text());
        Some((self.value(call), ty))
    }
}
