//! Starts an application under the recorder, and ends like it.

use std::ffi::{OsStr, OsString};
use std::io::ErrorKind;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicI32, Ordering};

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use mneme_image::elf::{MappedFile, Needs, needs};
use mneme_model::summary::RecorderMode;
use mneme_system::install;
use nix::errno::Errno;
use nix::sys::signal::{SigSet, SigmaskHow};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use crate::device::{self, DeviceChoice, choose};
use crate::error::CommandError;
use crate::hip_library::HipLibrary;
use crate::program::resolve;
use crate::report::SummaryFile;
use crate::{memory_file, siblings, variables};
use mneme_sandbox::program::survive_broken_pipes;

/// The application to run, and how: options of `mneme record`, `mneme profile` and `mneme apply`.
#[derive(Debug, Args)]
pub struct Application {
    /// Device to run on: cpu, cuda (an NVIDIA GPU) or hip (an AMD GPU) [default: a GPU if there is one, otherwise the
    /// CPU device]
    #[arg(long, value_name = "DEVICE", value_parser = device::chosen)]
    device: Option<DeviceChoice>,
    /// Detail of the recorder's messages
    #[arg(short = 'v', long = "verbosity", alias = "log-level", value_name = "LEVEL", value_parser = levels())]
    verbosity: Option<String>,
    /// The application and its arguments, with or without -- in front; everything after its name belongs to it
    #[arg(trailing_var_arg = true, required = true, value_name = "APPLICATION")]
    command: Vec<OsString>,
}

/// The levels of `--verbosity`, also by the existing Mneme's names.
pub fn levels() -> PossibleValuesParser {
    let [error, warning] =
        [("error", "critical"), ("warning", "warn")].map(|(name, alias)| PossibleValue::new(name).alias(alias));
    [error, warning, "info".into(), "debug".into()].into()
}

impl Application {
    /// Restores the application's arguments as typed, because those that look like our options were normalised. They
    /// are the end of the command line. `verbosity` is the one before the command.
    pub fn restore(&mut self, typed: &[OsString], verbosity: Option<String>) {
        self.verbosity = self.verbosity.take().or(verbosity);
        let start = typed.len().saturating_sub(self.command.len());
        self.command = typed[start..].to_vec();
    }

    /// Whether no application is named.
    pub fn is_empty(&self) -> bool {
        self.command.is_empty()
    }

    pub fn name(&self) -> String {
        self.command[0].to_string_lossy().into_owned()
    }

    /// Fails if the program cannot be started.
    pub fn check(&self) -> Result<(), CommandError> {
        let path = resolve(&self.command[0]);
        if !path.as_os_str().as_bytes().contains(&b'/') {
            let meant = match path.is_file() {
                true => format!("; did you mean ./{}?", path.display()),
                false => String::new(),
            };
            let source = std::io::Error::new(ErrorKind::NotFound, format!("no such program on PATH{meant}"));
            return Err(CommandError::Start { path, source });
        }
        nix::unistd::access(&path, nix::unistd::AccessFlags::X_OK)
            .map_err(|error| CommandError::Start { path, source: error.into() })
    }

    /// Runs the application under the recorder to its end. `settings` are the recorder's environment variables.
    pub fn run(
        &self,
        mode: RecorderMode,
        settings: &[(&str, OsString)],
        summaries: &SummaryFile,
    ) -> Result<ExitStatus, CommandError> {
        let PreparedRun { mut command, device, hip: _hip } = self.prepare(Some(mode))?;
        command
            .env("MNEME_DEVICE", device.name())
            .env("MNEME_MODE", mode.name())
            .env(mneme_model::summary::VARIABLE, summaries.path())
            .envs(memory_file::run().map(|run| (mneme_system::run::VARIABLE, run)))
            .envs(self.verbosity.iter().map(|level| ("MNEME_LOG_LEVEL", level)))
            .envs(settings.iter().map(|(name, value)| (name, value)));
        self.wait_for(command)
    }

    /// Runs the application to its end without a recorder.
    pub fn run_alone(&self) -> Result<ExitStatus, CommandError> {
        let PreparedRun { command, hip: _hip, .. } = self.prepare(None)?;
        self.wait_for(command)
    }

    fn wait_for(&self, command: Command) -> Result<ExitStatus, CommandError> {
        wait_for(command).map_err(|source| CommandError::Start { path: resolve(&self.command[0]), source })
    }

    /// Prepares the command for the application's device, with the recorder preloaded if there is a mode.
    fn prepare(&self, mode: Option<RecorderMode>) -> Result<PreparedRun, CommandError> {
        // A closed output must not end this process, because that would end the application.
        survive_broken_pipes();
        variables::check()?;
        let program = resolve(&self.command[0]);
        let needs = MappedFile::open(&program).map(|file| needs(file.bytes())).unwrap_or_default();
        let (device, for_want_of_a_gpu) = choose(self.device, &needs)?;
        let mut libraries = Vec::new();
        if mode.is_some() {
            libraries.push(siblings::find(install::RECORDER)?);
        }
        let mut hip = None;
        if device == DeviceChoice::Cpu {
            refuse_static_runtime(&program, &needs)?;
            let library = siblings::find(install::CPU_DEVICE)?;
            let folder = HipLibrary::of_cpu_device(&program, &needs, &library);
            let is_hip = needs.libraries.iter().any(|library| library.starts_with("libamdhip64."));
            hip = match folder {
                Ok(folder) => Some(folder),
                // Most programs do not use HIP's libraries.
                Err(_) if !is_hip => None,
                Err(source) => return Err(CommandError::Io { path: std::env::temp_dir(), source }),
            };
            libraries.push(library);
            let doing = match mode {
                None => "running",
                Some(RecorderMode::Profile) => "profiling",
                Some(RecorderMode::Apply) => "applying",
                Some(RecorderMode::Record | RecorderMode::DryRun) => "recording",
            };
            mneme_system::remark!(
                "mneme: {}{doing} on the CPU device",
                if for_want_of_a_gpu { "no GPU here; " } else { "" }
            );
        }
        let mut command = Command::new(&program);
        // Programs may behave by the name they are started with.
        command.arg0(&self.command[0]).args(&self.command[1..]);
        command.envs(hip.iter().map(|hip| ("LD_LIBRARY_PATH", hip.path(std::env::var_os("LD_LIBRARY_PATH")))));
        if !libraries.is_empty() {
            let existing = std::env::var_os("LD_PRELOAD").unwrap_or_default();
            command.env("LD_PRELOAD", preload(&needs, &libraries, &existing)?);
        }
        Ok(PreparedRun { command, device, hip })
    }
}

/// An application that is ready to run.
struct PreparedRun {
    command: Command,
    device: DeviceChoice,
    /// Must live as long as the application runs.
    hip: Option<HipLibrary>,
}

/// The child that gets our signals; 0 before it exists.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// The last signal that asked for an end, or 0.
static INTERRUPTION: AtomicI32 = AtomicI32::new(0);
/// Signals that are not passed on: those that stop and continue, which the terminal also sends to the application;
/// those about our own faults, children and readers; those that cannot be caught.
const KEPT: [libc::c_int; 16] = [
    libc::SIGCHLD,
    libc::SIGPIPE,
    libc::SIGSTOP,
    libc::SIGTSTP,
    libc::SIGTTIN,
    libc::SIGTTOU,
    libc::SIGCONT,
    libc::SIGKILL,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGABRT,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGSEGV,
    libc::SIGSYS,
    libc::SIGWINCH,
];

/// Signals that are passed on. People and job schedulers send them to the process they have started, which is this one;
/// the application may use any of them.
fn passed_on() -> impl Iterator<Item = libc::c_int> {
    // The C library uses the signals between these two itself.
    let standard = 1..32;
    standard.chain(libc::SIGRTMIN()..=libc::SIGRTMAX()).filter(|signal| !KEPT.contains(signal))
}

extern "C" fn pass_on(signal: libc::c_int, information: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    let child = CHILD.load(Ordering::Relaxed);
    if [libc::SIGHUP, libc::SIGINT, libc::SIGTERM].contains(&signal) {
        INTERRUPTION.store(signal, Ordering::Relaxed);
    }
    // SAFETY: the kernel gives a valid structure; kill is safe in signal handlers. The child gets signals of the
    // terminal directly.
    unsafe {
        if child > 0 && (*information).si_code != libc::SI_KERNEL {
            libc::kill(child, signal);
        }
    }
}

/// The signal that asked for an end since the first program started, if any. It was passed on to the program that ran
/// then.
pub fn interruption() -> Option<i32> {
    Some(INTERRUPTION.load(Ordering::Relaxed)).filter(|signal| *signal != 0)
}

/// Starts a program and waits for its end, despite all signals that can be caught. If one that cannot be caught ends
/// this process, the program continues.
///
/// # Errors The program cannot be started.
pub fn wait_for(mut command: Command) -> std::io::Result<ExitStatus> {
    let mut own: Vec<libc::c_int> = Vec::new();
    // SAFETY: the handler is safe in signal context. Ignored signals stay ignored, for the child too.
    unsafe {
        for signal in passed_on() {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            if before.sa_sigaction != libc::SIG_IGN {
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = pass_on as *const () as usize;
                action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
                libc::sigaction(signal, &action, std::ptr::null_mut());
                own.push(signal);
            }
        }
    }
    // Signals that arrive before the child's number is stored are delayed.
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    // SAFETY: the calls are safe between fork and exec. They reset SIGPIPE, which `main` changed, and our handlers,
    // which would otherwise catch a signal to the child before it is the program.
    unsafe {
        command.pre_exec(move || {
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            for signal in &own {
                libc::signal(*signal, libc::SIG_DFL);
            }
            Ok(before.thread_set_mask()?)
        });
    }
    let started = command.spawn();
    if let Ok(child) = &started {
        CHILD.store(child.id() as i32, Ordering::Relaxed);
    }
    before.thread_set_mask()?;
    let mut child = started?;
    // Its number cannot be reused until it is reaped.
    let ended =
        || waitid(Id::Pid(Pid::from_raw(child.id().cast_signed())), WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT);
    while ended() == Err(Errno::EINTR) {}
    CHILD.store(0, Ordering::Relaxed);
    child.wait()
}

/// Ends like the application: with its status, or by its signal.
pub fn end_like(status: ExitStatus) -> ! {
    if let Some(signal) = status.signal() {
        // SAFETY: no memory is involved. A second core file would only hide the application's.
        unsafe {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_CORE, &none);
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        std::process::exit(128 + signal);
    }
    std::process::exit(status.code().unwrap_or(mneme_system::exit::INTERNAL))
}

/// Prefixes of libraries that must be loaded first.
const SANITIZERS: [&str; 6] =
    ["libasan.so", "liblsan.so", "libtsan.so", "libclang_rt.asan", "libclang_rt.lsan", "libclang_rt.tsan"];

fn is_sanitizer(library: &[u8]) -> bool {
    let name = library.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    SANITIZERS.iter().any(|sanitizer| name.starts_with(sanitizer.as_bytes()))
}

/// `LD_PRELOAD` with our libraries before the existing ones, but after sanitizers from there and from the program.
fn preload(needs: &Needs, libraries: &[PathBuf], existing: &OsStr) -> Result<OsString, CommandError> {
    // The dynamic loader has no quoting for its separators.
    let is_separator = |byte: &u8| b" :".contains(byte);
    if let Some(library) = libraries.iter().find(|library| library.as_os_str().as_bytes().iter().any(is_separator)) {
        return Err(CommandError::Usage(format!(
            "{} cannot be preloaded because of the space or colon in its path; install Mneme somewhere else",
            library.display()
        )));
    }
    let existing: Vec<&[u8]> = existing.as_bytes().split(is_separator).filter(|library| !library.is_empty()).collect();
    let needed = needs.libraries.iter().map(String::as_bytes);
    let mut list: Vec<&[u8]> = existing.iter().copied().chain(needed).filter(|library| is_sanitizer(library)).collect();
    list.extend(libraries.iter().map(|library| library.as_os_str().as_bytes()));
    for library in existing {
        if !list.contains(&library) {
            list.push(library);
        }
    }
    Ok(OsString::from_vec(list.join(&b':')))
}

/// The CPU device replaces the shared CUDA runtime. A runtime that is linked into the program would look for a GPU.
fn refuse_static_runtime(application: &Path, needs: &Needs) -> Result<(), CommandError> {
    let has_shared_runtime = needs
        .libraries
        .iter()
        .any(|library| ["libcudart.", "libamdhip64."].iter().any(|name| library.starts_with(name)));
    if needs.device_code && !has_shared_runtime {
        return Err(CommandError::NoDevice(format!(
            "{} is linked with the static CUDA runtime, which the CPU device cannot replace; link the shared one so the loader finds it (clang: -lcudart; nvcc: -cudart shared; CMake: CMAKE_CUDA_RUNTIME_LIBRARY=Shared), or record on a GPU",
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
        let list = |libraries, existing: &str| preload(&Needs::default(), libraries, existing.as_ref()).unwrap();
        assert_eq!(list(&ours, ""), "/a/libmneme_rec.so:/a/libmneme_cpu.so");
        assert_eq!(list(&ours[..1], "x.so y.so"), "/a/libmneme_rec.so:x.so:y.so");
        assert!(preload(&Needs::default(), &["/a b/x.so".into()], "".as_ref()).is_err());
    }

    #[test]
    fn sanitizers_come_before_ours() {
        let ours = [PathBuf::from("/a/libmneme_rec.so")];
        let needs = Needs { libraries: vec!["libasan.so.8".into(), "libc.so.6".into()], ..Needs::default() };
        assert_eq!(preload(&needs, &ours, "x.so".as_ref()).unwrap(), "libasan.so.8:/a/libmneme_rec.so:x.so");
        let named = preload(&Needs::default(), &ours, "x.so /b/libclang_rt.asan-x86_64.so".as_ref()).unwrap();
        assert_eq!(named, "/b/libclang_rt.asan-x86_64.so:/a/libmneme_rec.so:x.so");
    }

    #[test]
    fn programs_with_device_code_have_to_load_their_runtime() {
        let refuses = |device_code, libraries: &[&str]| {
            let libraries = libraries.iter().map(ToString::to_string).collect();
            refuse_static_runtime(Path::new("app"), &Needs { libraries, device_code }).is_err()
        };
        assert!(refuses(true, &["libc.so.6"]) && !refuses(false, &["libc.so.6"]));
        assert!(!refuses(true, &["libcudart.so.12"]) && !refuses(true, &["libamdhip64.so.6"]));
    }
}
