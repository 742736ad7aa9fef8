//! The supervisor of a job's program, which ends with all processes that the program has started.
//!
//! `mneme-mcp supervise PROGRAM ARGUMENT…` is the parent of the program and, as a "subreaper", of every descendant whose
//! own parent ends. So it finds all of them, even if they leave their group, their session and their environment. A byte
//! on its standard input has it ask the program to end. The end of the input, which comes with the end of the server,
//! has it kill everything.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use mneme_sandbox::program::end_with_this_thread;
use mneme_system::exit;
use nix::poll::{PollFd, PollFlags, poll};
use nix::sys::prctl::set_child_subreaper;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, read};

/// The first argument of a supervisor.
pub const COMMAND: &str = "supervise";

/// How long processes may take to disappear after they were killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Runs a program to its end, or to the end of standard input. Returns its exit status.
pub fn supervise(words: &[OsString]) -> i32 {
    let [program, arguments @ ..] = words else { return exit::BAD_USAGE };
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::null()).process_group(0);
    end_with_this_thread(&mut command);
    let started = set_child_subreaper(true).map_err(std::io::Error::from).and_then(|()| command.spawn());
    let status = match started {
        Ok(child) => watch(Pid::from_raw(child.id().cast_signed())),
        Err(error) => {
            mneme_system::remark!("mneme-mcp: {} cannot be started: {error}", program.display());
            exit::INTERNAL
        }
    };
    end_descendants();
    status
}

fn watch(child: Pid) -> i32 {
    let input = std::io::stdin();
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == child => return status,
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == child => return 128 + signal as i32,
            Ok(WaitStatus::StillAlive) | Err(_) => {}
            Ok(_) => continue,
        }
        let mut waiting = [PollFd::new(input.as_fd(), PollFlags::POLLIN)];
        if poll(&mut waiting, 10_u8).is_ok_and(|count| count > 0) {
            match read(&input, &mut [0]) {
                Ok(1) => {
                    let _ = kill(child, Signal::SIGTERM);
                }
                _ => return 128 + Signal::SIGKILL as i32,
            }
        }
    }
}

/// Kills all descendants, and waits until they are gone.
fn end_descendants() {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        // A process that starts another one between two looks is found by the next one.
        for process in descendants(getpid()) {
            let _ = kill(process, Signal::SIGKILL);
        }
        while let Ok(ended) = waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            if ended == WaitStatus::StillAlive {
                break;
            }
        }
        if descendants(getpid()).is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn descendants(of: Pid) -> Vec<Pid> {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut children = HashMap::<i32, Vec<i32>>::new();
    for number in numbers {
        // Its second field, the name in parentheses, may contain anything.
        let about = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        let parent = about.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok());
        children.entry(parent.unwrap_or(0)).or_default().push(number);
    }
    let mut found = vec![of.as_raw()];
    let mut looked = 0;
    while let Some(process) = found.get(looked) {
        found.extend(children.remove(process).unwrap_or_default());
        looked += 1;
    }
    found.into_iter().skip(1).map(Pid::from_raw).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descendants_are_found_below_those_that_have_others() {
        let mut shell = Command::new("sh").args(["-c", "sleep 60 & sleep 60; true"]).process_group(0).spawn().unwrap();
        let start = Instant::now();
        while descendants(Pid::from_raw(shell.id().cast_signed())).len() < 2 {
            assert!(start.elapsed() < Duration::from_secs(20));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(descendants(getpid()).len() >= 3);
        nix::sys::signal::killpg(Pid::from_raw(shell.id().cast_signed()), Signal::SIGKILL).unwrap();
        shell.wait().unwrap();
    }
}
