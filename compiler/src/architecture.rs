//! GPU architectures, and LLVM's target machine for each.

use std::sync::Once;

use inkwell::OptimizationLevel;
use inkwell::attributes::AttributeLoc;
use inkwell::module::Module;
use inkwell::targets::{CodeModel, InitializationConfig, RelocMode, Target, TargetMachine, TargetTriple};
use mneme_model::architecture::{Processor, Vendor};

use crate::error::BuildError;
use crate::ir::contraction;
use crate::version::{NEWEST_NVIDIA, NEWEST_PTX, least_ptx};

/// The architecture for which the back end emits code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodegenArchitecture {
    pub vendor: Vendor,
    /// 90 for "sm_90"; 0 for GPUs of other vendors.
    pub number: u32,
    /// LLVM's name, e.g. "sm_90", "sm_90a" or "gfx90a".
    pub cpu: String,
    /// LLVM target features: for the PTX ISA version, or those that the IR was compiled with.
    pub features: String,
    /// The device's own architecture, for which the assembler assembles.
    pub device: String,
    /// Whether the back end may fuse any product into a sum.
    pub fuses: bool,
}

impl CodegenArchitecture {
    /// Chooses the architecture for the device's ("sm_90"), given the one that the IR was compiled for ("sm_90a",
    /// "+ptx83,+sm_90a").
    pub fn choose(device: &str, ir: Option<(&str, &str)>) -> Result<Self, BuildError> {
        if let Some(processor) = Processor::parse(device) {
            return Self::choose_amd(&processor, ir);
        }
        let number = number(device).ok_or_else(|| BuildError::Configuration {
            message: format!("'{device}' is not a GPU architecture; examples are sm_90 and gfx90a"),
        })?;
        let specific = ir.and_then(|(cpu, _)| cpu.strip_suffix('a')).is_some_and(|base| base == device);
        let emitted = number.min(NEWEST_NVIDIA);
        let suffix = if specific || (device.ends_with('a') && number <= NEWEST_NVIDIA) { "a" } else { "" };
        let wanted = ir.and_then(|(_, features)| isa(features)).unwrap_or(0);
        let least = least_ptx(emitted, !suffix.is_empty());
        Ok(Self {
            vendor: Vendor::Nvidia,
            number: emitted,
            cpu: format!("sm_{emitted}{suffix}"),
            features: format!("+ptx{}", wanted.clamp(least, NEWEST_PTX)),
            device: if specific { format!("{device}a") } else { device.to_owned() },
            fuses: true,
        })
    }

    /// Chooses the architecture for an AMD GPU. The IR depends on its processor (wave sizes, results of device library
    /// functions, instructions), so the back end has to use that one.
    fn choose_amd(device: &Processor, ir: Option<(&str, &str)>) -> Result<Self, BuildError> {
        let Some((cpu, features)) = ir else {
            return Ok(Self::amd(&device.name, &settings(device), device));
        };
        let compiled_for = Processor::parse(cpu).map(|name| Processor {
            xnack: setting(features, "xnack"),
            sramecc: setting(features, "sramecc"),
            ..name
        });
        // A feature that the device does not report cannot be compared.
        let fits = |code: Processor| {
            let known = |code: Option<bool>, device: Option<bool>| code.filter(|_| device.is_some());
            let (xnack, sramecc) = (known(code.xnack, device.xnack), known(code.sramecc, device.sramecc));
            Processor { xnack, sramecc, ..code }.machine_code_runs_on(device)
        };
        match compiled_for {
            Some(code) if fits(code.clone()) => Ok(Self::amd(cpu, features, device)),
            code => {
                let code = code.map_or_else(|| cpu.to_owned(), |code| code.to_string());
                Err(BuildError::Configuration {
                    message: format!(
                        "the IR is for {code} and the device is {device}, and IR for an AMD processor is for no other; \
                         record a program that was built with --offload-arch={device}"
                    ),
                })
            }
        }
    }

    fn amd(cpu: &str, features: &str, device: &Processor) -> Self {
        Self {
            vendor: Vendor::Amd,
            number: 0,
            cpu: cpu.to_owned(),
            features: features.to_owned(),
            device: device.to_string(),
            // HIP's default fuses only products that are marked.
            fuses: false,
        }
    }

    /// Chooses the architecture for the code of `module`.
    pub fn of(target: &mneme_builds::Target, module: &Module<'_>) -> Result<Self, BuildError> {
        match target {
            mneme_builds::Target::Nvptx { arch } | mneme_builds::Target::Amdgpu { arch } => {
                Self::for_module(arch, module)
            }
            mneme_builds::Target::Cpu { arch } => Self::for_cpu(arch, module),
        }
    }

    /// Chooses the architecture for the code of `module` on the GPU `device`.
    pub fn for_module(device: &str, module: &Module<'_>) -> Result<Self, BuildError> {
        let compiled_for = compiled_for(module);
        let ir = compiled_for.as_ref().map(|(cpu, features)| (cpu.as_str(), features.as_str()));
        let chosen = Self::choose(device, ir.filter(|_| agrees(device, module)))?;
        let triple = module.get_triple();
        let triple = triple.as_str().to_string_lossy();
        match Vendor::of_triple(&triple) {
            Some(vendor) if vendor != chosen.vendor => Err(BuildError::Configuration {
                message: format!(
                    "the IR is for {} GPUs ({triple}) and the device is {device}, one of {}'s; replay it on a GPU of \
                     {}'s or on the CPU device",
                    vendor.name(),
                    chosen.vendor.name(),
                    vendor.name(),
                ),
            }),
            _ if chosen.vendor == Vendor::Amd => Ok(chosen),
            _ => Ok(Self { fuses: contraction::is_fast(module), ..chosen }),
        }
    }

    /// Chooses the architecture for the code of `module` on the CPU device, where pipelines run as for the GPU `arch`.
    /// IR for an AMD processor names that itself.
    pub fn for_cpu(arch: &str, module: &Module<'_>) -> Result<Self, BuildError> {
        let triple = module.get_triple();
        if Vendor::of_triple(&triple.as_str().to_string_lossy()) != Some(Vendor::Amd) {
            return Self::for_module(arch, module);
        }
        let cpu = compiled_for(module).map_or_else(|| arch.to_owned(), |(cpu, _)| cpu);
        Self::for_module(&cpu, module)
    }

    /// Whether the IR was compiled with a feature.
    pub fn has_feature(&self, name: &str) -> bool {
        setting(&self.features, name) == Some(true)
    }

    /// Lanes of a wave or warp.
    pub fn wavefront_size(&self) -> u32 {
        match (self.vendor, Processor::parse(&self.cpu)) {
            (Vendor::Amd, Some(processor)) => wavefront_size(&self.features, &processor),
            _ => 32,
        }
    }

    /// LLVM's target machine at code generation level `level` (0 to 3).
    pub fn machine(&self, level: u8) -> Result<TargetMachine, BuildError> {
        initialise();
        let failed = |message: String| BuildError::Codegen { target: self.cpu.clone(), message };
        let triple = TargetTriple::create(match self.vendor {
            Vendor::Nvidia => "nvptx64-nvidia-cuda",
            Vendor::Amd => "amdgcn-amd-amdhsa",
        });
        let target = Target::from_triple(&triple).map_err(|error| failed(error.to_string()))?;
        let level = match level {
            0 => OptimizationLevel::None,
            1 => OptimizationLevel::Less,
            2 => OptimizationLevel::Default,
            _ => OptimizationLevel::Aggressive,
        };
        // For a processor that LLVM does not know, it would generate code for the least one.
        if self.vendor == Vendor::Amd && !crate::llvm::knows_processor(&triple, &self.cpu) {
            return Err(BuildError::Configuration {
                message: format!("LLVM {} does not know the processor {}", crate::version::llvm_version(), self.cpu),
            });
        }
        let machine = target
            .create_target_machine(&triple, &self.cpu, &self.features, level, RelocMode::Default, CodeModel::Default)
            .ok_or_else(|| failed("LLVM has no such target machine".into()))?;
        crate::llvm::fuse(&machine, self.fuses);
        Ok(machine)
    }
}

/// The processor and features that the module's functions were compiled for.
fn compiled_for(module: &Module<'_>) -> Option<(String, String)> {
    module.get_functions().find_map(|function| {
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
    })
}

/// Whether a module is for GPUs of the device's vendor, or does not name a vendor.
fn agrees(device: &str, module: &Module<'_>) -> bool {
    let triple = module.get_triple();
    let vendor = Vendor::of_triple(&triple.as_str().to_string_lossy());
    vendor.is_none() || vendor == Vendor::of_architecture(device)
}

/// The setting of one feature: true for "+xnack", false for "-xnack", `None` if it is not listed.
fn setting(features: &str, name: &str) -> Option<bool> {
    features.split(',').find_map(|feature| match feature.split_at_checked(1)? {
        ("+", found) if found == name => Some(true),
        ("-", found) if found == name => Some(false),
        _ => None,
    })
}

/// The processor's settings, as LLVM features.
fn settings(processor: &Processor) -> String {
    let settings = [("sramecc", processor.sramecc), ("xnack", processor.xnack)];
    let words = settings.into_iter().filter_map(|(name, on)| Some(format!("{}{name}", if on? { '+' } else { '-' })));
    words.collect::<Vec<_>>().join(",")
}

/// Lanes per wave of code with these features.
pub fn wavefront_size(features: &str, processor: &Processor) -> u32 {
    match (setting(features, "wavefrontsize64"), setting(features, "wavefrontsize32")) {
        (Some(true), _) => 64,
        (_, Some(true)) => 32,
        _ => processor.wavefront_size(),
    }
}

/// Registers LLVM's targets, once per process.
pub fn initialise() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let everything = InitializationConfig::default();
        Target::initialize_nvptx(&everything);
        Target::initialize_amd_gpu(&everything);
        crate::host::initialise();
        crate::llvm::end_without_memory();
        crate::llvm::as_for_devices();
    });
}

/// The number of an architecture: 90 for "sm_90", "sm_90a" and "compute_90".
fn number(architecture: &str) -> Option<u32> {
    let digits = architecture.strip_prefix("sm_").or_else(|| architecture.strip_prefix("compute_"))?;
    digits.trim_end_matches(['a', 'f']).parse().ok()
}

/// The PTX ISA version in features: 83 for "+ptx83,+sm_90".
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
        let (newest_isa, blackwell) = match crate::version::LLVM_MAJOR {
            19 => ("+ptx85", ("sm_90", "+ptx78")),
            20 => ("+ptx87", ("sm_100", "+ptx86")),
            _ => ("+ptx88", ("sm_100", "+ptx86")),
        };
        assert_eq!(choose("sm_90", Some(("sm_90a", "+ptx99,+sm_90a"))), expect("sm_90a", newest_isa, "sm_90a"));
        assert_eq!(choose("sm_100", Some(("sm_90", ""))), expect(blackwell.0, blackwell.1, "sm_100"));
        assert_eq!(choose("sm_80", Some(("sm_90a", ""))), expect("sm_80", "+ptx78", "sm_80"));
        assert!(CodegenArchitecture::choose("cpu", None).is_err());
    }

    #[test]
    fn code_for_an_amd_processor_is_for_it_alone() {
        let choose = |device, ir| CodegenArchitecture::choose(device, ir).map_err(|error| error.to_string());
        let chosen = choose("gfx90a:sramecc+:xnack-", Some(("gfx90a", "+dpp,+wavefrontsize64"))).unwrap();
        assert_eq!((chosen.vendor, &*chosen.cpu, &*chosen.features), (Vendor::Amd, "gfx90a", "+dpp,+wavefrontsize64"));
        assert_eq!((chosen.wavefront_size(), &*chosen.device), (64, "gfx90a:sramecc+:xnack-"));
        assert!(choose("gfx90a", Some(("gfx90a", "+xnack"))).is_ok(), "the device does not report xnack");
        assert!(choose("gfx906:sramecc+:xnack-", Some(("gfx9-generic", ""))).is_ok());
        for (device, ir, part) in [
            ("gfx90a:sramecc+:xnack-", ("gfx90a", "+xnack"), "gfx90a:xnack+"),
            ("gfx1100", ("gfx1030", ""), "gfx1030"),
            ("gfx90a", ("sm_90", "+ptx83"), "sm_90"),
        ] {
            let refused = choose(device, Some(ir)).unwrap_err();
            assert!(refused.contains(&format!("the IR is for {part} and the device is {device},")), "{refused}");
        }
        let wave = |device, features| choose(device, Some((device, features))).unwrap().wavefront_size();
        assert_eq!((wave("gfx1030", ""), wave("gfx1030", "+wavefrontsize64"), wave("gfx1100", "+dpp")), (32, 64, 32));
    }

    #[test]
    fn processors_that_llvm_does_not_know_are_refused() {
        let machine = |device| CodegenArchitecture::choose(device, None).unwrap().machine(3);
        for known in ["gfx906", "gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100", "gfx1201", "gfx11-generic"] {
            assert!(machine(known).is_ok(), "{known}");
        }
        // LLVM 20 added gfx950, and LLVM 21 dropped gfx940.
        assert_eq!(machine("gfx950").is_ok(), crate::version::LLVM_MAJOR >= 20);
        assert_eq!(machine("gfx940").is_ok(), crate::version::LLVM_MAJOR <= 20);
        let refused = machine("gfx999").unwrap_err().to_string();
        assert!(refused.contains("does not know the processor gfx999"), "{refused}");
    }

    #[test]
    fn a_vendors_ir_is_for_its_own_gpus() {
        let context = inkwell::context::Context::create();
        let module = |triple: &str| {
            let module = context.create_module("m");
            module.set_triple(&TargetTriple::create(triple));
            module
        };
        let refused =
            |device, triple| CodegenArchitecture::for_module(device, &module(triple)).unwrap_err().to_string();
        let nvidia = refused("gfx90a", "nvptx64-nvidia-cuda");
        assert!(
            nvidia.contains("the IR is for NVIDIA GPUs (nvptx64-nvidia-cuda) and the device is gfx90a"),
            "{nvidia}"
        );
        let amd = refused("sm_90", "amdgcn-amd-amdhsa");
        assert!(amd.contains("the IR is for AMD GPUs (amdgcn-amd-amdhsa) and the device is sm_90"), "{amd}");
        assert!(CodegenArchitecture::for_module("gfx90a", &module("amdgcn-amd-amdhsa")).is_ok());
    }
}
