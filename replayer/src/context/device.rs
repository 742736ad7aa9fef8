//! The choice of a device, and the target of code generation.

use std::path::PathBuf;

use mneme_builds::Target;
use mneme_device::{Interface, cuda, hip};
use mneme_model::architecture::Vendor;
use mneme_model::device::Description;
use mneme_recording::database::KernelDetails;
use mneme_system::arguments::ValueError;
use mneme_system::install;

use crate::recording::instance::RecordedInstance;

/// The CPU device's architecture in recordings.
const CPU: &str = "cpu";

/// The value of `--device`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    /// A CPU device by its number.
    Cpu(i32),
    /// An NVIDIA GPU by its number.
    Cuda(i32),
    /// An AMD GPU by its number.
    Hip(i32),
    /// A GPU of the recorded code's vendor, by its number.
    Gpu(i32),
}

#[derive(Debug, thiserror::Error)]
#[error("the CPU device ({}) is not installed beside this program; set MNEME_HOME", install::CPU_DEVICE)]
pub struct NoCpuDevice;

impl Choice {
    /// Parses `cpu`, `cuda` or `hip`, each with or without `:N`, or `N`.
    pub fn parse(text: &str) -> Result<Self, ValueError> {
        let ordinal = |text: &str| text.parse().ok().filter(|ordinal| *ordinal >= 0);
        let (kind, number): (fn(i32) -> Self, _) = match text.split_once(':').unwrap_or((text, "0")) {
            ("cpu", number) => (Self::Cpu, number),
            ("cuda", number) => (Self::Cuda, number),
            ("hip", number) => (Self::Hip, number),
            _ => (Self::Gpu, text),
        };
        let hint = mneme_model::device::kind_hint(text);
        let unknown = || format!("'{text}' is not a device; use cpu, cuda, hip or the number of a GPU{hint}").into();
        ordinal(number).map(kind).ok_or_else(unknown)
    }

    /// The kind of device that the recording was made on.
    pub fn recorded(recorded: &RecordedInstance) -> Self {
        if recorded.recorded_on_cpu() { Self::Cpu(0) } else { Self::Gpu(0).of(&recorded.kernel.ours) }
    }

    /// Adds the vendor to a GPU that was given only by its number.
    pub fn of(self, recorded: &KernelDetails) -> Self {
        match self {
            Self::Gpu(ordinal) if recorded.processor().is_some() => Self::Hip(ordinal),
            Self::Gpu(ordinal) => Self::Cuda(ordinal),
            named => named,
        }
    }

    /// Why the recorded code cannot run there, in one sentence with the remedy.
    pub fn misfit(self, recorded: &KernelDetails) -> Option<String> {
        let (asked, own, vendor) = match (self, recorded.processor().is_some()) {
            (Self::Cuda(_), true) => ("cuda", "hip", "AMD's"),
            (Self::Hip(_), false) => ("hip", "cuda", "NVIDIA's"),
            _ => return None,
        };
        Some(format!(
            "--device {asked} cannot run the recorded code, which is for {vendor} GPUs; use --device {own} or cpu"
        ))
    }

    pub fn interface(self) -> Interface {
        match self {
            Self::Hip(_) => Interface::Hip,
            Self::Cpu(_) | Self::Cuda(_) | Self::Gpu(_) => Interface::Cuda,
        }
    }

    pub fn is_cpu(self) -> bool {
        matches!(self, Self::Cpu(_))
    }

    pub fn ordinal(self) -> i32 {
        let (Self::Cpu(ordinal) | Self::Cuda(ordinal) | Self::Hip(ordinal) | Self::Gpu(ordinal)) = self;
        ordinal
    }

    /// The library with the driver's functions.
    pub fn library(self) -> Result<PathBuf, NoCpuDevice> {
        match self {
            Self::Cuda(_) | Self::Gpu(_) => Ok(cuda::LIBRARY.into()),
            // If none is installed, the error names the newest.
            Self::Hip(_) => Ok(hip::library().unwrap_or_else(|| hip::LIBRARIES[0].into())),
            Self::Cpu(_) => install::locate(install::CPU_DEVICE).ok_or(NoCpuDevice),
        }
    }

    /// The target of code generation, as far as it is known before the device is open.
    pub fn expected_target(self, recorded: &KernelDetails) -> Option<Target> {
        match self {
            Self::Cpu(_) => Some(Target::of_device(CPU, &recorded.ir_arch)),
            Self::Cuda(_) | Self::Gpu(_) | Self::Hip(_) => {
                let is_gpu = Vendor::of_architecture(&recorded.device_arch).is_some();
                is_gpu.then(|| Target::of_device(&recorded.device_arch, &recorded.ir_arch))
            }
        }
    }

    /// The target of code generation on this device.
    pub fn target(self, device: &Description, recorded: &KernelDetails) -> Target {
        match self {
            Self::Cpu(_) => Target::of_device(CPU, &recorded.ir_arch),
            Self::Cuda(_) | Self::Gpu(_) | Self::Hip(_) => Target::of_device(&device.arch, &recorded.ir_arch),
        }
    }

    /// The driver's error, and what the user can do about it.
    pub fn explain(self, error: &str, recorded: &RecordedInstance) -> String {
        match self {
            Self::Cpu(_) => error.to_owned(),
            Self::Cuda(_) | Self::Gpu(_) | Self::Hip(_) => {
                let recorded = &recorded.kernel.ours.device;
                let recorded = if recorded.is_empty() { "a GPU" } else { recorded };
                format!("cannot replay what was recorded on {recorded}: {error}; --device cpu replays it without a GPU")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_in_seven_ways() {
        assert_eq!(Choice::parse("cpu"), Ok(Choice::Cpu(0)));
        assert_eq!(Choice::parse("cpu:1"), Ok(Choice::Cpu(1)));
        assert_eq!(Choice::parse("cuda"), Ok(Choice::Cuda(0)));
        assert_eq!(Choice::parse("cuda:2"), Ok(Choice::Cuda(2)));
        assert_eq!(Choice::parse("hip"), Ok(Choice::Hip(0)));
        assert_eq!(Choice::parse("hip:1"), Ok(Choice::Hip(1)));
        assert_eq!(Choice::parse("3"), Ok(Choice::Gpu(3)));
        for wrong in ["", "gpu", "-1", "cuda:", "cuda:x", "cpu:", "cpu:-1", "gpu:1", "hip:"] {
            assert!(Choice::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_number_is_a_gpu_of_the_recorded_code_s_vendor_and_another_vendor_s_is_refused() {
        let of = |device: &str, ir: &str| KernelDetails {
            device_arch: device.into(),
            ir_arch: ir.into(),
            ..KernelDetails::default()
        };
        let (amd, nvidia) = (of("cpu", "gfx90a"), of("sm_90", "sm_80"));
        assert_eq!(Choice::Gpu(2).of(&amd), Choice::Hip(2));
        assert_eq!(Choice::Gpu(2).of(&nvidia), Choice::Cuda(2));
        assert_eq!(Choice::Gpu(0).of(&of("gfx90a:sramecc+:xnack-", "")), Choice::Hip(0));
        let refused =
            |choice: Choice, recorded| choice.misfit(recorded).is_some_and(|text| text.contains("use --device"));
        assert!(refused(Choice::Cuda(0), &amd) && refused(Choice::Hip(0), &nvidia));
        for (choice, recorded) in [(Choice::Cpu(0), &amd), (Choice::Hip(0), &amd), (Choice::Cuda(0), &nvidia)] {
            assert_eq!(choice.misfit(recorded), None);
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
