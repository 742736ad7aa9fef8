//! The choice of the device that a program is recorded on.

use std::path::Path;

use clap::ValueEnum;

use crate::error::CommandError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// Kernels run in software
    Cpu,
    /// An NVIDIA GPU
    Cuda,
}

impl DeviceChoice {
    /// As in `MNEME_DEVICE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// The device to use, and whether it is so for want of a GPU: what the user asked for, else `MNEME_DEVICE`, else a GPU
/// where there is one. A GPU that was asked for and cannot be there is an error: the application would only fail later.
pub fn choose(option: Option<DeviceChoice>) -> Result<(DeviceChoice, bool), CommandError> {
    let variable = std::env::var("MNEME_DEVICE").unwrap_or_default();
    let from_environment = match variable.as_str() {
        "" | "auto" => None,
        "cpu" => Some(DeviceChoice::Cpu),
        "cuda" => Some(DeviceChoice::Cuda),
        other => return Err(CommandError::Usage(format!("MNEME_DEVICE is '{other}'; it has to be cpu or cuda"))),
    };
    let device = option.or(from_environment);
    match device {
        Some(DeviceChoice::Cuda) => require_gpu(Path::new("/dev"), has_driver()).map(|()| (DeviceChoice::Cuda, false)),
        Some(DeviceChoice::Cpu) => Ok((DeviceChoice::Cpu, false)),
        None if has_gpu(Path::new("/dev")) && has_driver() => Ok((DeviceChoice::Cuda, false)),
        None => Ok((DeviceChoice::Cpu, true)),
    }
}

/// Refuses a machine without NVIDIA's kernel driver or its library. Asks less than [`has_gpu`]: to refuse wrongly what
/// the user asked for would be worse than the application's own error.
fn require_gpu(folder: &Path, has_driver: bool) -> Result<(), CommandError> {
    let missing = match ["nvidiactl", "dxg"].iter().any(|node| folder.join(node).exists()) {
        false => "/dev/nvidiactl is missing",
        true if !has_driver => "libcuda.so.1 cannot be loaded",
        true => return Ok(()),
    };
    Err(CommandError::NoDevice(format!(
        "no usable GPU on this machine ({missing}); install NVIDIA's driver, or record with --device cpu"
    )))
}

/// Whether NVIDIA's kernel driver offers a GPU: its control node and at least one device node, or WSL's.
fn has_gpu(folder: &Path) -> bool {
    let is_gpu = |name: &str| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut nodes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    folder.join("dxg").exists()
        || (folder.join("nvidiactl").exists() && nodes.any(|node| node.file_name().to_str().is_some_and(is_gpu)))
}

/// Whether the driver's library is here too: a container may see the devices and lack it.
fn has_driver() -> bool {
    // SAFETY: the name is NUL-terminated; the library's initialisers are NVIDIA's, made to run in any program.
    unsafe { !libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL).is_null() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_is_asked_for_needs_both_halves_of_the_driver() {
        let folder = tempfile::tempdir().unwrap();
        let sentence = |has_driver| {
            require_gpu(folder.path(), has_driver).map_err(|error| (error.exit_status(), error.to_string()))
        };
        let (status, text) = sentence(true).unwrap_err();
        assert!(status == mneme_core::exit::NO_DEVICE && text.contains("/dev/nvidiactl"), "{text}");
        std::fs::write(folder.path().join("nvidiactl"), "").unwrap();
        assert!(sentence(false).unwrap_err().1.contains("libcuda.so.1"));
        assert_eq!(sentence(true), Ok(()));
    }

    #[test]
    fn a_gpu_is_a_numbered_node_beside_the_control_node() {
        let folder = tempfile::tempdir().unwrap();
        let touch = |name: &str| std::fs::write(folder.path().join(name), "").unwrap();
        assert!(!has_gpu(folder.path()));
        touch("nvidiactl");
        touch("nvidia-uvm");
        assert!(!has_gpu(folder.path()));
        touch("nvidia0");
        assert!(has_gpu(folder.path()));
        std::fs::remove_file(folder.path().join("nvidiactl")).unwrap();
        assert!(!has_gpu(folder.path()), "the driver is not loaded");
    }
}
