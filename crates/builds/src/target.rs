//! The targets that code is generated for, and the forms of their code.

use mneme_model::architecture::Vendor;
use serde::{Deserialize, Serialize};

/// The target of a build.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// An NVIDIA GPU; `arch` is the *device's* architecture ("sm_90"), which may be newer than the IR's.
    Nvptx { arch: String },
    /// An AMD GPU; `arch` is the device's processor with its features ("gfx90a:sramecc+:xnack-").
    Amdgpu { arch: String },
    /// The CPU device; pipelines run as for the GPU `arch`.
    Cpu { arch: String },
}

/// The architecture for IR on the CPU device, if the recording does not name one.
const DEFAULT_ARCH: &str = "sm_90";

impl Target {
    /// The target for IR on a device, whose architecture is "cpu" or a GPU's. IR for architecture-specific features
    /// (`sm_90a`) keeps them if the device has them.
    pub fn of_device(device_arch: &str, ir_arch: &str) -> Self {
        if device_arch == "cpu" {
            let is_gpu = Vendor::of_architecture(ir_arch).is_some();
            return Self::Cpu { arch: if is_gpu { ir_arch } else { DEFAULT_ARCH }.to_owned() };
        }
        let special = ir_arch.strip_suffix('a') == Some(device_arch) && device_arch.starts_with("sm_");
        Self::gpu(if special { ir_arch } else { device_arch })
    }

    /// The architecture of the GPU that passes run for.
    pub fn arch(&self) -> &str {
        let (Self::Nvptx { arch } | Self::Amdgpu { arch } | Self::Cpu { arch }) = self;
        arch
    }

    /// The GPU target for an architecture reported by a device: "sm_90", "gfx90a:sramecc+:xnack-".
    pub fn gpu(arch: &str) -> Self {
        let arch = arch.to_owned();
        match Vendor::of_architecture(&arch) {
            Some(Vendor::Amd) => Self::Amdgpu { arch },
            _ => Self::Nvptx { arch },
        }
    }
}

/// The form of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Machine code of an NVIDIA GPU, an ELF object.
    Cubin,
    /// PTX text, NUL-terminated, for the driver to compile: no assembler was found on this machine.
    Ptx,
    /// Code object of an AMD GPU, an ELF shared object.
    CodeObject,
    /// An object for the CPU device, see docs/how-it-works/cpu-device.md.
    CpuObject,
}
