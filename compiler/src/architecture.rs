//! GPU architectures, and LLVM's target machine for each.

use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use std::sync::Once;

use crate::error::BuildError;
use crate::ir::contraction;

/// The newest architecture that LLVM 19's NVPTX back end knows; for later ones the assembler retargets its PTX.
const NEWEST: u32 = 90;
/// PTX ISA versions that LLVM 19 can emit, times ten; the lower one knows sm_90.
const PTX_ISA: std::ops::RangeInclusive<u32> = 78..=85;

/// What the back end is told to emit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenArchitecture {
    /// 90 of "sm_90".
    pub number: u32,
    /// PTX target, e.g. "sm_90" or "sm_90a".
    pub cpu: String,
    /// LLVM target feature for the PTX ISA version.
    pub features: String,
    /// What the assembler is told to assemble for: the device's own architecture.
    pub device: String,
    /// Products may be fused into sums wherever they meet.
    pub fuses: bool,
}

impl CodegenArchitecture {
    /// `device` is the device's architecture ("sm_90"), `ir` what the IR was compiled for ("sm_90a", "+ptx83,+sm_90a").
    pub fn choose(device: &str, ir: Option<(&str, &str)>) -> Result<Self, BuildError> {
        let number = number(device).ok_or_else(|| BuildError::Configuration {
            message: format!("'{device}' is no NVIDIA architecture; sm_90 is one"),
        })?;
        let specific = ir.and_then(|(cpu, _)| cpu.strip_suffix('a')).is_some_and(|base| base == device);
        let emitted = number.min(NEWEST);
        let suffix = if specific || (device.ends_with('a') && number <= NEWEST) { "a" } else { "" };
        let wanted = ir.and_then(|(_, features)| isa(features)).unwrap_or(0);
        let least = if suffix.is_empty() { *PTX_ISA.start() } else { 80 };
        Ok(Self {
            number: emitted,
            cpu: format!("sm_{emitted}{suffix}"),
            features: format!("+ptx{}", wanted.clamp(least, *PTX_ISA.end())),
            device: if specific { format!("{device}a") } else { device.to_owned() },
            fuses: true,
        })
    }

    /// For the code of `module`.
    pub fn for_module(device: &str, module: &Module<'_>) -> Result<Self, BuildError> {
        let compiled_for = module.get_functions().find_map(|function| {
            let attribute = |name| {
                Some(
                    function
                        .get_string_attribute(AttributeLoc::Function, name)?
                        .get_string_value()
                        .to_string_lossy()
                        .into_owned(),
                )
            };
            Some((attribute("target-cpu")?, attribute("target-features").unwrap_or_default()))
        });
        let chosen =
            Self::choose(device, compiled_for.as_ref().map(|(cpu, features)| (cpu.as_str(), features.as_str())))?;
        Ok(Self { fuses: contraction::is_fast(module), ..chosen })
    }

    /// LLVM's NVPTX target machine at code generation level `level` (0 to 3).
    pub fn machine(&self, level: u8) -> Result<TargetMachine, BuildError> {
        initialise();
        let failed = |message: String| BuildError::Codegen { target: self.cpu.clone(), message };
        let triple = TargetTriple::create("nvptx64-nvidia-cuda");
        let target = Target::from_triple(&triple).map_err(|error| failed(error.to_string()))?;
        let level = match level {
            0 => OptimizationLevel::None,
            1 => OptimizationLevel::Less,
            2 => OptimizationLevel::Default,
            _ => OptimizationLevel::Aggressive,
        };
        let machine = target
            .create_target_machine(&triple, &self.cpu, &self.features, level, RelocMode::Default, CodeModel::Default)
            .ok_or_else(|| failed("LLVM has no such target machine".into()))?;
        crate::llvm::fuse(&machine, self.fuses);
        Ok(machine)
    }
}

/// Registers LLVM's targets; the first call does it.
pub fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let everything = InitializationConfig::default();
        Target::initialize_nvptx(&everything);
        Target::initialize_x86(&everything);
        crate::llvm::end_without_memory();
        crate::llvm::as_for_devices();
    });
}

/// 90 of "sm_90", "sm_90a" and "compute_90".
fn number(architecture: &str) -> Option<u32> {
    let digits = architecture.strip_prefix("sm_").or_else(|| architecture.strip_prefix("compute_"))?;
    digits.trim_end_matches(['a', 'f']).parse().ok()
}

/// 83 of "+ptx83,+sm_90".
fn isa(features: &str) -> Option<u32> {
    features.split(',').find_map(|feature| feature.strip_prefix("+ptx")?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_decides_and_the_ir_refines() {
        let choose = |device, ir| {
            let chosen = CodegenArchitecture::choose(device, ir).unwrap();
            (chosen.cpu, chosen.features, chosen.device)
        };
        let expect = |cpu: &str, features: &str, device: &str| (cpu.to_owned(), features.to_owned(), device.to_owned());
        assert_eq!(choose("sm_90", None), expect("sm_90", "+ptx78", "sm_90"));
        assert_eq!(choose("sm_90", Some(("sm_70", "+ptx83,+sm_70"))), expect("sm_90", "+ptx83", "sm_90"));
        assert_eq!(choose("sm_90", Some(("sm_90a", "+ptx99,+sm_90a"))), expect("sm_90a", "+ptx85", "sm_90a"));
        assert_eq!(choose("sm_100", Some(("sm_90", ""))), expect("sm_90", "+ptx78", "sm_100"));
        assert_eq!(choose("sm_80", Some(("sm_90a", ""))), expect("sm_80", "+ptx78", "sm_80"));
        assert!(CodegenArchitecture::choose("gfx90a", None).is_err());
    }
}
