//! Chooses the device on which a program is recorded.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use mneme_device::hip;
use mneme_image::elf::Needs;
use mneme_model::device::kind_hint;
use mneme_system::arguments::ValueError;

use crate::error::CommandError;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DeviceChoice {
    /// Kernels run in software
    Cpu,
    /// An NVIDIA GPU
    Cuda,
    /// An AMD GPU
    Hip,
}

impl DeviceChoice {
    /// The name in `MNEME_DEVICE`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
            Self::Hip => "hip",
        }
    }
}

/// Parses the kind of device on which a program runs.
///
/// # Errors A sentence if the text is not a kind of device.
pub fn chosen(text: &str) -> Result<DeviceChoice, ValueError> {
    DeviceChoice::from_str(text, false).map_err(|_| format!("use cpu, cuda or hip{}", kind_hint(text)).into())
}

/// Checks the name of a single device, as in `mneme-replay --device`, before anything is replayed.
///
/// # Errors A sentence if the text is not a device.
pub fn of_replays(text: &str) -> Result<String, ValueError> {
    let (kind, number) = text.split_once(':').map_or((text, None), |(kind, number)| (kind, Some(number)));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_kind = DeviceChoice::from_str(kind, false).is_ok() && number.is_none_or(is_number);
    if is_kind || (number.is_none() && is_number(text)) {
        Ok(text.into())
    } else {
        Err(format!("use cpu, cuda, hip or the number of a GPU{}", kind_hint(text)).into())
    }
}

/// The device for a program, and whether it was chosen for lack of a GPU: the user's choice, otherwise `MNEME_DEVICE`,
/// otherwise a GPU that the program is linked for. If the user asks for a GPU that is missing, this is an error,
/// because the application would only fail later.
pub fn choose(option: Option<DeviceChoice>, program: &Needs) -> Result<(DeviceChoice, bool), CommandError> {
    let variable = std::env::var("MNEME_DEVICE").unwrap_or_default();
    let from_environment = match variable.as_str() {
        "" | "auto" => None,
        text => Some(
            DeviceChoice::from_str(text, false)
                .map_err(|_| CommandError::Usage(format!("MNEME_DEVICE is '{text}'; it must be cpu, cuda or hip")))?,
        ),
    };
    let folder = Path::new("/dev");
    match option.or(from_environment) {
        Some(DeviceChoice::Cuda) => require_gpu(folder, has_driver()).map(|()| (DeviceChoice::Cuda, false)),
        Some(DeviceChoice::Hip) => require_amd_gpu(folder).map(|()| (DeviceChoice::Hip, false)),
        Some(DeviceChoice::Cpu) => Ok((DeviceChoice::Cpu, false)),
        None => {
            let found = by_program(program, || has_gpu(folder) && has_driver(), || hip::is_offered(folder));
            Ok((found.unwrap_or(DeviceChoice::Cpu), found.is_none()))
        }
    }
}

/// The GPU for a program. A program that links neither vendor's library may still load one, such as a script.
fn by_program(program: &Needs, has_nvidia: impl Fn() -> bool, has_amd: impl Fn() -> bool) -> Option<DeviceChoice> {
    let is_hip = program.libraries.iter().any(|library| library.starts_with("libamdhip64."));
    if is_hip {
        return has_amd().then_some(DeviceChoice::Hip);
    }
    if has_nvidia() { Some(DeviceChoice::Cuda) } else { has_amd().then_some(DeviceChoice::Hip) }
}

fn require_amd_gpu(folder: &Path) -> Result<(), CommandError> {
    if hip::is_offered(folder) {
        return Ok(());
    }
    Err(CommandError::NoDevice(
        "no AMD GPU on this machine (/dev/kfd is missing); install AMD's driver, or record with --device cpu".into(),
    ))
}

/// Refuses a machine without NVIDIA's kernel driver or its library. Checks less than [`has_gpu`]: wrongly refusing the
/// user's choice would be worse than the application's own error.
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

/// Whether NVIDIA's kernel driver offers a GPU: a control node with at least one device node, or WSL's node.
fn has_gpu(folder: &Path) -> bool {
    let is_gpu = |name: &str| {
        name.strip_prefix("nvidia")
            .is_some_and(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut nodes = std::fs::read_dir(folder).into_iter().flatten().flatten();
    folder.join("dxg").exists()
        || (folder.join("nvidiactl").exists() && nodes.any(|node| node.file_name().to_str().is_some_and(is_gpu)))
}

/// Whether the driver's library is here too: a container may have the devices without it. Loading it takes longer than
/// everything else before the program starts, so this first searches where the dynamic linker would.
fn has_driver() -> bool {
    const LIBRARY: &str = "libcuda.so.1";
    let cache = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
    let folders = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let mut named = std::env::split_paths(&folders).map(|folder| folder.join(LIBRARY));
    if named.any(|path| is_object(&path)) || cached(&cache, LIBRARY).iter().any(|path| is_object(path)) {
        return true;
    }
    // SAFETY: the name is NUL-terminated; the library's initialisers are NVIDIA's, made to run in any program.
    unsafe { !libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL).is_null() }
}

/// The files of a name in the dynamic linker's cache, in which each path ends with a NUL.
fn cached(cache: &[u8], name: &str) -> Vec<PathBuf> {
    let is_of = |text: &&[u8]| text.starts_with(b"/") && text.ends_with(format!("/{name}").as_bytes());
    cache.split(|byte| *byte == 0).filter(is_of).map(|path| PathBuf::from(OsStr::from_bytes(path))).collect()
}

/// Whether the dynamic linker could load a file here.
fn is_object(path: &Path) -> bool {
    // 64 bits, little-endian.
    let mut header = [0; 6];
    File::open(path).is_ok_and(|mut file| file.read_exact(&mut header).is_ok() && header == *b"\x7fELF\x02\x01")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_for_a_gpu_is_answered_with_the_name_of_its_kind() {
        for right in ["cpu", "cuda", "hip", "0", "cuda:1", "cpu:2"] {
            assert_eq!(of_replays(right).as_deref(), Ok(right));
        }
        for wrong in ["gpu", "", "-1", "cpu:", "gpu:1", "cuda,hip"] {
            assert!(of_replays(wrong).is_err() && chosen(wrong).is_err(), "{wrong}");
        }
        assert_ne!(chosen("rocm"), chosen("something"), "it is answered with a hint");
    }

    #[test]
    fn libraries_are_found_in_the_dynamic_linkers_cache() {
        let cache = b"glibc-ld.so.cache1.1\0\x03\x01libcuda.so.1\0/usr/lib/libcuda.so.1\0libcuda.so\0/lib/libcuda.so\0/x/notlibcuda.so.1";
        assert_eq!(cached(cache, "libcuda.so.1"), [Path::new("/usr/lib/libcuda.so.1")]);
        let own = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
        assert!(own.is_empty() || cached(&own, "libc.so.6").iter().any(|path| is_object(path)));
        assert!(!is_object(Path::new("/etc/passwd")) && !is_object(Path::new("/nowhere")));
    }

    #[test]
    fn a_gpu_that_is_asked_for_needs_both_halves_of_the_driver() {
        let folder = tempfile::tempdir().unwrap();
        let sentence = |has_driver| {
            require_gpu(folder.path(), has_driver).map_err(|error| (error.exit_status(), error.to_string()))
        };
        let (status, text) = sentence(true).unwrap_err();
        assert!(status == mneme_system::exit::NO_DEVICE && text.contains("/dev/nvidiactl"), "{text}");
        std::fs::write(folder.path().join("nvidiactl"), "").unwrap();
        assert!(sentence(false).unwrap_err().1.contains("libcuda.so.1"));
        assert_eq!(sentence(true), Ok(()));
    }

    #[test]
    fn a_program_gets_the_gpu_that_it_is_linked_for() {
        let program = |library: &str| Needs { libraries: vec![library.into()], ..Needs::default() };
        let choice = |library, nvidia: bool, amd: bool| by_program(&program(library), || nvidia, || amd);
        assert_eq!(choice("libamdhip64.so.6", true, true), Some(DeviceChoice::Hip));
        assert_eq!(choice("libamdhip64.so.6", true, false), None, "NVIDIA's GPU is of no use to it");
        assert_eq!(choice("libcudart.so.12", true, true), Some(DeviceChoice::Cuda));
        assert_eq!(choice("libc.so.6", false, true), Some(DeviceChoice::Hip));
        assert_eq!(choice("libc.so.6", false, false), None);
    }

    #[test]
    fn an_amd_gpu_that_is_asked_for_has_to_be_there() {
        let folder = tempfile::tempdir().unwrap();
        let error = require_amd_gpu(folder.path()).unwrap_err();
        assert!(error.exit_status() == mneme_system::exit::NO_DEVICE && error.to_string().contains("/dev/kfd"));
        std::fs::write(folder.path().join("kfd"), "").unwrap();
        assert!(require_amd_gpu(folder.path()).is_ok());
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
