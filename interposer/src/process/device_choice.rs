//! Restarts a program on the CPU device if there is no GPU.
//!
//! The CPU device must come before the vendor's libraries from the start, and only `LD_PRELOAD` puts it there. So a
//! CUDA or HIP program that starts without it on a machine without a GPU executes itself again, once, before its
//! `main`.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;

use mneme_device::hip;
use mneme_image::elf::{LoadedObject, MappedFile, loaded_objects, needs};
use mneme_system::install;

use crate::process::family::Family;
use crate::process::{linker, log};

/// Set in the new program to prevent a second restart.
const GUARD: &str = "MNEME_RESTARTED";

/// How a program uses CUDA or HIP.
#[derive(Debug, PartialEq, Eq)]
enum Program {
    /// Calls a shared CUDA runtime or driver, or HIP. The CPU device can replace these libraries.
    SharedRuntime,
    /// Has device code, and is linked with the static CUDA runtime.
    StaticRuntime,
    Other,
}

pub fn restart_on_the_cpu_device_if_needed() {
    let wanted = std::env::var("MNEME_DEVICE").unwrap_or_default();
    let choice = match wanted.as_str() {
        "cpu" => Some(true),
        "cuda" | "hip" => Some(false),
        "" | "auto" => None,
        other => {
            log::warning!("MNEME_DEVICE is '{other}', which is ignored; set it to cpu, cuda or hip");
            None
        }
    };
    if choice == Some(false) || std::env::var_os(GUARD).is_some() || linker::cpu_device().is_some() {
        return;
    }
    let objects = loaded_objects();
    // Every shell and helper that the program starts comes here. On a machine with a GPU, looking at the names of its
    // libraries must be enough to let it pass.
    let is_served = || match interface(&objects) {
        Some(Family::Hip) => hip::is_offered(Path::new("/dev")),
        Some(Family::Cuda) => has_gpu_device() && has_driver(),
        None => has_gpu_device(),
    };
    if choice.is_none() && is_served() {
        return;
    }
    match classify(&objects) {
        Program::Other => {}
        Program::StaticRuntime => log::warning!(
            "this program is linked with the static CUDA runtime and cannot run on the CPU device; link it with the shared runtime (clang: -lcudart, nvcc: --cudart shared) and make sure that it finds libcudart.so.12 when it runs (-rpath or LD_LIBRARY_PATH)"
        ),
        Program::SharedRuntime => match install::locate(install::CPU_DEVICE) {
            Some(library) => restart(&library),
            None => log::warning!(
                "this machine has no GPU, and {} is not installed beside the recorder; the program runs without a device",
                install::CPU_DEVICE
            ),
        },
    }
}

/// Whether the kernel driver's control device exists (in WSL, its name is /dev/dxg).
fn has_gpu_device() -> bool {
    ["/dev/nvidiactl", "/dev/dxg"].iter().any(|path| Path::new(path).exists())
}

/// Whether libcuda can be loaded, for a program that is about to load it anyway.
fn has_driver() -> bool {
    // SAFETY: runs NVIDIA's initialisers, which the program does too.
    unsafe { !libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY | libc::RTLD_LOCAL).is_null() }
}

/// The interface of the shared libraries that a program has loaded: CUDA if it has those of both.
fn interface(objects: &[LoadedObject]) -> Option<Family> {
    let has = |prefix: &str| {
        let named = |object: &LoadedObject| {
            object.path.file_name().is_some_and(|name| name.as_bytes().starts_with(prefix.as_bytes()))
        };
        objects.iter().any(named)
    };
    let is_cuda = has("libcudart.so") || has("libcuda.so");
    is_cuda.then_some(Family::Cuda).or_else(|| has(linker::HIP).then_some(Family::Hip))
}

fn classify(objects: &[LoadedObject]) -> Program {
    if interface(objects).is_some() {
        return Program::SharedRuntime;
    }
    let system =
        |path: &Path| ["/lib", "/usr/lib", "/lib64", "/usr/lib64"].iter().any(|folder| path.starts_with(folder));
    let files =
        objects.iter().filter(|object| !system(&object.path)).filter_map(|object| MappedFile::open(&object.path).ok());
    if files.into_iter().any(|file| needs(file.bytes()).device_code) { Program::StaticRuntime } else { Program::Other }
}

/// Executes this program again with a library added to `LD_PRELOAD`; returns only if that fails.
fn restart(library: &Path) {
    let Ok(program) = std::fs::read_link("/proc/self/exe") else { return };
    let Ok(command_line) = std::fs::read("/proc/self/cmdline") else { return };
    let arguments: Vec<CString> = command_line
        .split_inclusive(|byte| *byte == 0)
        .filter_map(|argument| CString::from_vec_with_nul(argument.to_vec()).ok())
        .collect();
    let environment = environment(std::env::vars_os(), library);
    let environment: Vec<CString> =
        environment.into_iter().filter_map(|entry| CString::new(entry.into_vec()).ok()).collect();
    let Ok(program) = CString::new(program.into_os_string().into_vec()) else { return };
    log::info!("this machine has no GPU; the program starts again on the CPU device");
    let pointers = |strings: &[CString]| {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>()
    };
    // SAFETY: all strings are alive and NUL-terminated, both arrays end with a null pointer.
    unsafe { libc::execve(program.as_ptr(), pointers(&arguments).as_ptr(), pointers(&environment).as_ptr()) };
    log::warning!("the program could not be started again on the CPU device: {}", std::io::Error::last_os_error());
}

/// The environment of the new program, as `NAME=value`.
fn environment(variables: impl Iterator<Item = (OsString, OsString)>, library: &Path) -> Vec<OsString> {
    let mut preload = OsString::new();
    let mut entries = Vec::new();
    for (name, value) in variables {
        match name.to_str() {
            Some("LD_PRELOAD") => preload = value,
            Some("MNEME_DEVICE" | GUARD) => {}
            _ => entries.push([name, value].join("=".as_ref())),
        }
    }
    if !preload.is_empty() {
        preload.push(":");
    }
    preload.push(library);
    entries.push(["LD_PRELOAD".into(), preload].join("=".as_ref()));
    entries.push("MNEME_DEVICE=cpu".into());
    entries.push(format!("{GUARD}=1").into());
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_device_is_added_behind_what_is_preloaded() {
        let variables = [("A", "1"), ("LD_PRELOAD", "/x/libmneme_rec.so"), ("MNEME_DEVICE", "")];
        let variables = variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value)));
        let entries = environment(variables, Path::new("/x/libmneme_cpu.so"));
        assert_eq!(
            entries,
            ["A=1", "LD_PRELOAD=/x/libmneme_rec.so:/x/libmneme_cpu.so", "MNEME_DEVICE=cpu", "MNEME_RESTARTED=1"]
        );
    }

    #[test]
    fn programs_are_told_apart() {
        let object = |path: &str| LoadedObject { path: path.into(), segments: vec![], constant: vec![] };
        let here = object("/proc/self/exe");
        assert_eq!(classify(&[here.clone(), object("/opt/cuda/lib/libcudart.so.12")]), Program::SharedRuntime);
        let hip = object("/opt/rocm/lib/libamdhip64.so.6");
        assert_eq!(interface(&[here.clone(), hip.clone()]), Some(Family::Hip));
        assert_eq!(classify(&[here.clone(), hip]), Program::SharedRuntime);
        assert_eq!(classify(&[here, object("/usr/lib/libc.so.6")]), Program::Other);
    }
}
