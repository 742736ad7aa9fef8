//! Tuning beside the application: `mneme apply --learn FOLDER --background`.
//!
//! `mneme learn` runs at the lowest priority and in a process group of its own, so that it neither takes the machine
//! from the application nor gets the terminal's signals. It ends with the application, in good order: results are files
//! that are there whole, and the next start goes on with the session. What is to be said of it is said at the end.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use mneme_core::files::private;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::idle::{IdleGpu, IdleGpus, TunedGpu};
use super::sessions::{LearntKernel, SessionState, learnt};
use super::tune;
use crate::child::end_with_this_thread;
use crate::error::CommandError;

/// What `mneme learn` says, in the folder.
pub const LOG: &str = "learn.log";
/// Bytes beyond which the log begins anew.
const LOG_LIMIT: u64 = 1 << 20;
/// How often the process and its GPU are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// What the application is given to take its own GPUs, before another is looked for.
const HEAD_START: Duration = Duration::from_secs(5);
/// How long the process may take to end in good order, and how often it is looked whether it has.
const PATIENCE: Duration = Duration::from_secs(2);
const SHORT_LOOK: Duration = Duration::from_millis(5);
/// The architecture of recordings of the CPU device.
const CPU: &str = "cpu";

/// Where to tune beside the application.
#[derive(Clone, Debug, PartialEq)]
pub enum BackgroundDevice {
    /// A GPU that nobody uses, like the one that was recorded on; the CPU device for what was recorded there.
    Idle,
    /// As `mneme-tune --device` has it.
    Named(String),
}

impl FromStr for BackgroundDevice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        match text {
            "idle" => Ok(Self::Idle),
            CPU => Ok(Self::Named(text.into())),
            _ if text.split(',').all(is_number) => Ok(Self::Named(text.into())),
            _ => Err("it has to be idle, cpu, or numbers of GPUs (1 or 1,2)".into()),
        }
    }
}

/// A folder that is being tuned while an application runs.
pub struct Background {
    is_over: Sender<()>,
    thread: JoinHandle<Option<String>>,
}

/// How one run of `mneme learn` ended.
enum Ended {
    Itself(ExitStatus),
    /// We ended it, because the application did.
    WithApplication,
    /// We ended it, because its GPU has another user.
    ForOthers,
}

impl Background {
    /// Begins. What cannot be begun is said at the end, like all else.
    pub fn start(folder: &Path, device: BackgroundDevice) -> Self {
        let (is_over, over) = channel();
        let folder = folder.to_path_buf();
        Self { is_over, thread: std::thread::spawn(move || work(&folder, &device, &over)) }
    }

    /// The application is over: ends what still runs, and gives what is to be said.
    pub fn end(self) -> Option<String> {
        drop(self.is_over);
        self.thread.join().unwrap_or_default()
    }
}

fn work(folder: &Path, device: &BackgroundDevice, over: &Receiver<()>) -> Option<String> {
    let name = folder.display();
    tune(folder, device, over).unwrap_or_else(|reason| {
        Some(format!("nothing is tuned in the background: {reason}; run mneme learn {name} between runs"))
    })
}

/// Tunes until all is done, or the application is over; a sentence about it.
fn tune(folder: &Path, device: &BackgroundDevice, over: &Receiver<()>) -> Result<Option<String>, String> {
    let kernels = learnt(folder).map_err(|error| error.to_string())?;
    let Some(first) = kernels.iter().find(|kernel| kernel.state() == SessionState::Open) else { return Ok(None) };
    let mut log = open_log(&folder.join(LOG)).map_err(|error| error.to_string())?;
    let wanted = match device {
        BackgroundDevice::Named(name) => return run_on_named(folder, name, &mut log, over),
        BackgroundDevice::Idle if first.record.ours.device_arch == CPU => {
            return run_on_named(folder, CPU, &mut log, over);
        }
        BackgroundDevice::Idle => recorded_gpu(first)?,
    };
    if is_over(over, HEAD_START) {
        return Ok(None);
    }
    // Its GPU is not idle either, and that is not what keeps this one from tuning.
    if tune::lock(folder).is_err_and(|error| matches!(error, CommandError::InUse(_))) {
        return Ok(Some(in_use(folder)));
    }
    let gpus = IdleGpus::open()?;
    loop {
        let Some(gpu) = wait_for_idle(&gpus, &wanted, over)? else { return Ok(None) };
        let mut child = start(folder, "0", Some(gpu.uuid()), &log)?;
        match watch(&mut child, Some(&gpu), over) {
            Ended::ForOthers => {}
            ended => return Ok(Some(sentence(folder, &ended, &mut log))),
        }
    }
}

fn run_on_named(folder: &Path, device: &str, log: &mut File, over: &Receiver<()>) -> Result<Option<String>, String> {
    let mut child = start(folder, device, None, log)?;
    let ended = watch(&mut child, None, over);
    Ok(Some(sentence(folder, &ended, log)))
}

/// What a GPU has to be like.
fn recorded_gpu(kernel: &LearntKernel) -> Result<TunedGpu, String> {
    let arch = &kernel.record.ours.device_arch;
    if !arch.starts_with("sm_") {
        return Err(format!("it is not known which GPUs of {arch} are idle; name one with --background=N"));
    }
    Ok(TunedGpu { arch: arch.clone(), name: kernel.record.ours.device.clone() })
}

/// A GPU that is idle; `None` where the application was over before. An error where there is none at first: a program
/// that uses them all does so to its end.
fn wait_for_idle<'a>(
    gpus: &'a IdleGpus,
    wanted: &TunedGpu,
    over: &Receiver<()>,
) -> Result<Option<IdleGpu<'a>>, String> {
    const SAMPLES: u32 = 3;
    let mut found = gpus.find(wanted)?;
    for _ in 1..SAMPLES {
        if is_over(over, Duration::from_secs(1)) {
            return Ok(None);
        }
        // One that works now and then is not idle.
        found.retain(|gpu| gpu.is_idle());
    }
    // The application takes the first ones first.
    found.pop().map(Some).ok_or_else(|| format!("no other {} is idle here", wanted.name))
}

/// Whether the application is over, now or within this time.
fn is_over(over: &Receiver<()>, time: Duration) -> bool {
    !matches!(over.recv_timeout(time), Err(RecvTimeoutError::Timeout))
}

fn open_log(path: &Path) -> std::io::Result<File> {
    let file = private::append(path)?;
    if file.metadata()?.len() > LOG_LIMIT {
        file.set_len(0)?;
    }
    Ok(file)
}

/// Starts `mneme learn` on a device, which is one of those that CUDA is to see where `visible` names them.
fn start(folder: &Path, device: &str, visible: Option<&str>, log: &File) -> Result<Child, String> {
    let program = std::env::current_exe().map_err(|error| format!("mneme is not found again: {error}"))?;
    let output = || log.try_clone().map(Stdio::from).map_err(|error| error.to_string());
    let mut command = Command::new(&program);
    command.arg("learn").arg(folder).args(["--", "--device", device]);
    command.envs(visible.map(|uuid| ("CUDA_VISIBLE_DEVICES", OsString::from(uuid))));
    command.stdin(Stdio::null()).stdout(output()?).stderr(output()?);
    make_humble(&mut command);
    end_with_this_thread(&mut command);
    command.spawn().map_err(|error| format!("{}: {error}", program.display()))
}

/// Gives everything else on the machine precedence over a program, and the terminal nothing to do with it.
fn make_humble(command: &mut Command) {
    command.process_group(0);
    // SAFETY: the calls are safe between fork and exec. What the system refuses is not needed.
    unsafe {
        command.pre_exec(|| {
            const IDLE_CLASS: libc::c_int = 3 << 13;
            const WHO_PROCESS: libc::c_int = 1;
            libc::setpriority(libc::PRIO_PROCESS, 0, 19);
            libc::syscall(libc::SYS_ioprio_set, WHO_PROCESS, 0, IDLE_CLASS);
            // Where memory runs out, the application is not the one to go.
            let file = libc::open(c"/proc/self/oom_score_adj".as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
            if file >= 0 {
                libc::write(file, b"1000".as_ptr().cast(), 4);
                libc::close(file);
            }
            Ok(())
        });
    }
}

/// Waits until the process has ended, and ends it where it is time.
fn watch(child: &mut Child, gpu: Option<&IdleGpu<'_>>, over: &Receiver<()>) -> Ended {
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Ended::Itself(status);
        }
        if is_over(over, LOOK) {
            // It may have ended while we slept.
            return match child.try_wait() {
                Ok(Some(status)) => Ended::Itself(status),
                _ => end(child, Ended::WithApplication),
            };
        }
        if gpu.is_some_and(|gpu| gpu.has_others_than(child.id())) {
            return end(child, Ended::ForOthers);
        }
    }
}

/// Ends the process: in good order, unless that takes too long. What it has started ends with it.
fn end(child: &mut Child, how: Ended) -> Ended {
    let pid = Pid::from_raw(child.id().cast_signed());
    let _ = kill(pid, Signal::SIGTERM);
    let start = Instant::now();
    while matches!(child.try_wait(), Ok(None)) {
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            break;
        }
        std::thread::sleep(SHORT_LOOK);
    }
    how
}

fn sentence(folder: &Path, ended: &Ended, log: &mut File) -> String {
    let name = folder.display();
    let log_path = folder.join(LOG);
    match ended {
        Ended::WithApplication | Ended::ForOthers => {
            format!(
                "tuning in the background has ended with the program; its next start goes on, or mneme learn {name}"
            )
        }
        Ended::Itself(status) if status.success() => {
            let last = last_line(log).unwrap_or_default();
            format!("in the background: {}", last.trim_start_matches("mneme: "))
        }
        Ended::Itself(status) if status.code() == Some(mneme_core::exit::IN_USE) => in_use(folder),
        Ended::Itself(status) => {
            let how = match status.signal() {
                Some(signal) => format!("was killed (signal {signal})"),
                None => format!("has failed (status {})", status.code().unwrap_or_default()),
            };
            let why = last_line(log).map_or(String::new(), |line| format!("; it said last: {line}"));
            format!("tuning in the background {how}, and the next start goes on{why} ({})", log_path.display())
        }
    }
}

fn in_use(folder: &Path) -> String {
    format!("nothing is tuned beside this run: another process is tuning {}", folder.display())
}

/// The last line that was written.
fn last_line(log: &mut File) -> Option<String> {
    const END: u64 = 4096;
    let length = log.metadata().ok()?.len();
    log.seek(SeekFrom::Start(length.saturating_sub(END))).ok()?;
    let mut bytes = Vec::new();
    log.read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    text.lines().rev().map(str::trim).find(|line| !line.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_idle_ones_or_named() {
        assert_eq!("idle".parse(), Ok(BackgroundDevice::Idle));
        for named in ["cpu", "0", "1,2"] {
            assert_eq!(named.parse(), Ok(BackgroundDevice::Named(named.into())));
        }
        for wrong in ["", "gpu", "1,", "-1", "cpu,1"] {
            assert!(wrong.parse::<BackgroundDevice>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_last_line_is_the_end_of_a_long_log() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(LOG);
        std::fs::write(&path, "first\n".repeat(10_000) + "mneme: the last\n\n").unwrap();
        assert_eq!(last_line(&mut open_log(&path).unwrap()).as_deref(), Some("mneme: the last"));
        std::fs::write(&path, "x".repeat(LOG_LIMIT as usize + 1)).unwrap();
        assert_eq!(last_line(&mut open_log(&path).unwrap()), None, "it begins anew");
    }

    #[test]
    fn a_process_that_does_not_listen_is_killed_and_one_that_does_is_not() {
        // It has set its trap when it writes a line.
        let run = |script: &str| {
            let mut child = Command::new("sh").args(["-c", script]).stdout(Stdio::piped()).spawn().unwrap();
            child.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            child
        };
        let mut deaf = run("trap '' TERM; echo; while :; do sleep 0.1; done");
        let start = Instant::now();
        end(&mut deaf, Ended::WithApplication);
        assert!(start.elapsed() >= PATIENCE && matches!(deaf.try_wait(), Ok(Some(_))));
        let mut listens = run("trap 'exit 7' TERM; echo; while :; do sleep 0.05; done");
        let start = Instant::now();
        end(&mut listens, Ended::WithApplication);
        assert!(start.elapsed() < PATIENCE);
        assert_eq!(listens.try_wait().unwrap().and_then(|status| status.code()), Some(7));
    }
}
