//! The choice of a device, and the code that is generated for it.

use std::path::PathBuf;

use mneme_compiler::Target;
use mneme_core::device::{Description, cuda};
use mneme_core::image::architecture::Vendor;
use mneme_core::install;
use mneme_core::recording::database::KernelDetails;

use crate::recording::instance::RecordedInstance;

/// Architecture that IR for the CPU device is compiled as where the recording does not say.
const DEFAULT_ARCH: &str = "sm_90";

/// What `--device` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A CPU device by its number.
    Cpu(i32),
    /// An NVIDIA GPU by its number.
    Cuda(i32),
}

impl Choice {
    /// Reads `cpu`, `cpu:N`, `cuda`, `cuda:N` or `N`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let ordinal = |text: &str| text.parse().ok().filter(|ordinal| *ordinal >= 0);
        let (kind, number): (fn(i32) -> Self, _) = match text.split_once(':').unwrap_or((text, "0")) {
            ("cpu", number) => (Self::Cpu, number),
            ("cuda", number) => (Self::Cuda, number),
            _ => (Self::Cuda, text),
        };
        ordinal(number).map(kind).ok_or_else(|| format!("'{text}' is no device; use cpu, cuda or the number of a GPU"))
    }

    /// The kind of device that the recording was made on.
    pub fn recorded(recorded: &RecordedInstance) -> Self {
        if recorded.recorded_on_cpu() { Self::Cpu(0) } else { Self::Cuda(0) }
    }

    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    pub fn ordinal(self) -> i32 {
        let (Self::Cpu(ordinal) | Self::Cuda(ordinal)) = self;
        ordinal
    }

    /// The library that has the driver's functions; a sentence where it is missing.
    pub fn library(self) -> Result<PathBuf, String> {
        match self {
            Self::Cuda(_) => Ok(cuda::LIBRARY.into()),
            Self::Cpu(_) => install::locate(install::CPU_DEVICE).ok_or_else(|| {
                format!("the CPU device ({}) is not installed beside this program; set MNEME_HOME", install::CPU_DEVICE)
            }),
        }
    }

    /// What code will be generated for, as far as it is known before the device is open.
    pub fn expected_target(self, recorded: &KernelDetails) -> Option<Target> {
        match self {
            Self::Cpu(_) => Some(Target::Cpu { arch: ir_arch(recorded) }),
            Self::Cuda(_) => {
                let is_gpu = Vendor::of_architecture(&recorded.device_arch).is_some();
                is_gpu.then(|| gpu(&recorded.device_arch, recorded))
            }
        }
    }

    /// What code is generated for on this device.
    pub fn target(self, device: &Description, recorded: &KernelDetails) -> Target {
        match self {
            Self::Cpu(_) => Target::Cpu { arch: ir_arch(recorded) },
            Self::Cuda(_) => gpu(&device.arch, recorded),
        }
    }

    /// The driver's sentence, and what the user can do about it.
    pub fn explain(self, error: &str, recorded: &RecordedInstance) -> String {
        match self {
            Self::Cpu(_) => error.to_owned(),
            Self::Cuda(_) => {
                let recorded = &recorded.kernel.ours.device;
                let recorded = if recorded.is_empty() { "a GPU" } else { recorded };
                format!("cannot replay what was recorded on {recorded}: {error}; --device cpu replays it without a GPU")
            }
        }
    }
}

fn ir_arch(recorded: &KernelDetails) -> String {
    let is_gpu = Vendor::of_architecture(&recorded.ir_arch).is_some();
    if is_gpu { recorded.ir_arch.clone() } else { DEFAULT_ARCH.into() }
}

/// IR for an architecture's own features (`sm_90a`) is compiled for these where the device has them.
fn gpu(device_arch: &str, recorded: &KernelDetails) -> Target {
    let special = recorded.ir_arch.strip_suffix('a') == Some(device_arch) && device_arch.starts_with("sm_");
    Target::gpu(if special { &recorded.ir_arch } else { device_arch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_in_five_ways() {
        assert_eq!(Choice::parse("cpu"), Ok(Choice::Cpu(0)));
        assert_eq!(Choice::parse("cpu:1"), Ok(Choice::Cpu(1)));
        assert_eq!(Choice::parse("cuda"), Ok(Choice::Cuda(0)));
        assert_eq!(Choice::parse("cuda:2"), Ok(Choice::Cuda(2)));
        assert_eq!(Choice::parse("3"), Ok(Choice::Cuda(3)));
        for wrong in ["", "gpu", "-1", "cuda:", "cuda:x", "cpu:", "cpu:-1", "gpu:1"] {
            assert!(Choice::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn code_is_for_the_device_at_hand() {
        let recorded = |device: &str, ir: &str| KernelDetails {
            device_arch: device.into(),
            ir_arch: ir.into(),
            ..KernelDetails::default()
        };
        let device = |arch: &str| Description { arch: arch.into(), ..Description::default() };
        let nvptx = |arch: &str| Target::Nvptx { arch: arch.into() };
        let gpu = Choice::Cuda(0);
        assert_eq!(gpu.target(&device("sm_90"), &recorded("sm_80", "sm_80")), nvptx("sm_90"));
        assert_eq!(gpu.target(&device("sm_90"), &recorded("sm_90", "sm_90a")), nvptx("sm_90a"));
        assert_eq!(gpu.expected_target(&recorded("cpu", "sm_90")), None);
        let amd = |arch: &str| Target::Amdgpu { arch: arch.into() };
        let full = "gfx90a:sramecc+:xnack-";
        assert_eq!(gpu.target(&device(full), &recorded(full, "gfx90a")), amd(full));
        assert_eq!(gpu.expected_target(&recorded(full, "gfx90a")), Some(amd(full)));
        let on_cpu = Choice::Cpu(0).target(&device("cpu"), &recorded("cpu", "gfx90a"));
        assert_eq!(on_cpu, Target::Cpu { arch: "gfx90a".into() });
        assert_eq!(
            Choice::Cpu(0).expected_target(&recorded("sm_80", "sm_80")),
            Some(Target::Cpu { arch: "sm_80".into() })
        );
        assert_eq!(Choice::Cpu(0).expected_target(&recorded("cpu", "")), Some(Target::Cpu { arch: "sm_90".into() }));
    }
}
