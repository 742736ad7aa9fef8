//! `mneme record`: sets the recorder's environment and becomes the application, whose exit status is then the status.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use mneme_core::image::elf::{MappedFile, needs};
use mneme_core::install;
use mneme_core::recording::store::create_private_folder;

use super::device::{Device, choose};
use super::{Error, siblings};

#[derive(Debug, Args)]
pub struct Options {
    /// Folder for the recording; created where missing, added to where it holds one (also -rdb)
    #[arg(long = "record-database", aliases = ["record-db-dir", "record-db", "rdb"], value_name = "FOLDER")]
    record_database: PathBuf,
    /// Address space reserved for device memory, GiB (also -vass)
    #[arg(long = "virtual-address-space", alias = "vass", value_name = "GIB")]
    virtual_address_space: Option<u64>,
    /// Instances that a process records of each kernel (also -mr) [default: 4]
    #[arg(long, alias = "mr", value_name = "COUNT")]
    max_recordings: Option<u64>,
    /// Record kernels whose mangled or demangled name this regular expression is found in (also -rr)
    #[arg(long, value_parser = regular_expression, alias = "rr", value_name = "REGEX")]
    record_regex: Option<String>,
    /// Launches of each kernel to let pass first
    #[arg(long, value_name = "COUNT")]
    skip: Option<u64>,
    /// Device to run on [default: a GPU where there is one, else the CPU device]
    #[arg(long, value_enum)]
    device: Option<Device>,
    /// What the recorder reports
    #[arg(short = 'v', long = "verbosity", value_name = "LEVEL", value_parser = ["error", "warning", "info", "debug"])]
    verbosity: Option<String>,
    /// The application and its arguments; everything after its name is the application's, with -- in front or without
    #[arg(trailing_var_arg = true, required = true, value_name = "APPLICATION")]
    application: Vec<OsString>,
}

impl Options {
    /// Gives the application its arguments as they were typed: without `--` in front, those that look like ours have been
    /// normalised. They are the end of the command line.
    pub fn restore_application(&mut self, typed: &[OsString]) {
        let start = typed.len().saturating_sub(self.application.len());
        self.application = typed[start..].to_vec();
    }
}

/// The recorder, which runs inside the application, could only warn of a wrong one.
fn regular_expression(text: &str) -> Result<String, String> {
    regex::Regex::new(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Becomes the application; returns only if that fails.
pub fn run(options: &Options) -> Result<std::convert::Infallible, Error> {
    let (device, for_want_of_a_gpu) = choose(options.device)?;
    let application = resolve(&options.application[0]);
    let mut libraries = vec![siblings::find(install::RECORDER)?];
    if device == Device::Cpu {
        refuse_static_runtime(&application)?;
        libraries.push(siblings::find(install::CPU_DEVICE)?);
        eprintln!("mneme: {}recording on the CPU device", if for_want_of_a_gpu { "no GPU here; " } else { "" });
    }
    create_private_folder(&options.record_database)?;
    let folder =
        std::path::absolute(&options.record_database).map_err(|source| Error::Io { path: options.record_database.clone(), source })?;
    let mut command = Command::new(&application);
    command
        .args(&options.application[1..])
        .env("LD_PRELOAD", preload(&libraries, std::env::var_os("LD_PRELOAD").as_deref())?)
        .env("MNEME_DATA_DIR", folder)
        .env("MNEME_DEVICE", device.name());
    let numbers = [
        ("MNEME_PAGE_SIZE", options.virtual_address_space),
        ("MNEME_MAX_RECORDINGS", options.max_recordings),
        ("MNEME_SKIP_RECORDINGS", options.skip),
    ];
    command.envs(numbers.into_iter().filter_map(|(name, value)| Some((name, value?.to_string()))));
    let texts = [("MNEME_RR_KERNELS", &options.record_regex), ("MNEME_LOG_LEVEL", &options.verbosity)];
    command.envs(texts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))));
    let source = command.exec();
    Err(Error::Start { path: application, source })
}

/// `LD_PRELOAD` with our libraries in front of what is there already.
fn preload(libraries: &[PathBuf], existing: Option<&OsStr>) -> Result<OsString, Error> {
    let mut list = OsString::new();
    for library in libraries {
        // The dynamic loader knows no way to quote its separators.
        if library.as_os_str().as_bytes().iter().any(|byte| b" :".contains(byte)) {
            return Err(Error::Usage(format!(
                "{} cannot be preloaded because of the space or colon in its path; install Mneme somewhere else",
                library.display()
            )));
        }
        if !list.is_empty() {
            list.push(":");
        }
        list.push(library);
    }
    if let Some(existing) = existing.filter(|existing| !existing.is_empty()) {
        list.push(":");
        list.push(existing);
    }
    Ok(list)
}

/// The file that a program's name stands for, as `execvp` finds it; the name itself where nothing is found.
fn resolve(name: &OsStr) -> PathBuf {
    let path = Path::new(name);
    if path.components().count() > 1 || path.is_absolute() || name.as_bytes().contains(&b'/') {
        return path.into();
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|candidate| candidate.is_file()).unwrap_or_else(|| path.into())
}

/// The CPU device stands in for the shared CUDA runtime; one that is linked into the program would look for a GPU.
fn refuse_static_runtime(application: &Path) -> Result<(), Error> {
    let Ok(file) = MappedFile::open(application) else { return Ok(()) };
    let needs = needs(file.bytes());
    let has_shared_runtime =
        needs.libraries.iter().any(|library| ["libcudart.", "libamdhip64."].iter().any(|name| library.starts_with(name)));
    if needs.device_code && !has_shared_runtime {
        return Err(Error::NoDevice(format!(
            "{} has the static CUDA runtime linked in, which the CPU device cannot stand in for; link with -lcudart (CMake: CMAKE_CUDA_RUNTIME_LIBRARY=Shared) where the loader finds it, or record on a GPU",
            application.display()
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_come_first_and_what_was_there_stays() {
        let ours = [PathBuf::from("/a/libmneme_rec.so"), PathBuf::from("/a/libmneme_cpu.so")];
        assert_eq!(preload(&ours, None).unwrap(), "/a/libmneme_rec.so:/a/libmneme_cpu.so");
        assert_eq!(preload(&ours[..1], Some("x.so y.so".as_ref())).unwrap(), "/a/libmneme_rec.so:x.so y.so");
        assert!(preload(&["/a b/x.so".into()], None).is_err());
    }

    #[test]
    fn programs_are_found_on_the_path_and_paths_are_kept() {
        assert!(resolve("sh".as_ref()).is_absolute());
        assert_eq!(resolve("./sh".as_ref()), Path::new("./sh"));
        assert_eq!(resolve("no-such-program-at-all".as_ref()), Path::new("no-such-program-at-all"));
    }

    #[test]
    fn programs_without_device_code_are_not_refused() {
        assert!(refuse_static_runtime(&std::env::current_exe().unwrap()).is_ok());
        assert!(refuse_static_runtime(Path::new("/nonexistent")).is_ok());
    }
}
