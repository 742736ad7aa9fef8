//! The processes of a job, which all end with it.
//!
//! A job's processes are in several groups: `mneme-replay` and the processes that run kernels lead their own. All
//! inherit a variable that names the job, so they are found wherever they are.

use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::{Pid, getpid};

/// The environment variable with the job's mark.
pub const MARK: &str = "MNEME_MCP_JOB";

/// How long processes may take to disappear after they were killed.
const PATIENCE: Duration = Duration::from_secs(2);

/// Kills the group of `leader`, which has not been waited for, and every other process with the mark.
pub fn end(leader: Pid, mark: &str) {
    let start = Instant::now();
    loop {
        // A process that starts another one between two looks is found by the next one.
        let _ = killpg(leader, Signal::SIGKILL);
        let left = marked(mark);
        if left.is_empty() || start.elapsed() > PATIENCE {
            return;
        }
        for process in left {
            let _ = kill(process, Signal::SIGKILL);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Running processes with the mark. Those that have ended but still have a number show no environment.
fn marked(mark: &str) -> Vec<Pid> {
    let wanted = format!("{MARK}={mark}");
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).map(Pid::from_raw);
    let is_marked = |process: &Pid| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        *process != getpid() && environment.split(|byte| *byte == 0).any(|setting| setting == wanted.as_bytes())
    };
    numbers.filter(is_marked).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::CommandExt;
    use std::process::Command;

    #[test]
    fn processes_in_other_groups_end_too() {
        let mark = format!("test-{}", std::process::id());
        let mut shell = Command::new("sh");
        shell.args(["-c", "setsid sleep 60 & sleep 60"]).env(MARK, &mark).process_group(0);
        let mut shell = shell.spawn().unwrap();
        let start = Instant::now();
        while marked(&mark).len() < 3 && start.elapsed() < Duration::from_secs(20) {
            std::thread::sleep(Duration::from_millis(5));
        }
        end(Pid::from_raw(shell.id().cast_signed()), &mark);
        assert!(marked(&mark).is_empty());
        assert!(!shell.wait().unwrap().success());
    }
}
