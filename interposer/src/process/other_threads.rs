//! The signals that other threads of the process would take.

use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How long an answer is valid while the number of threads is unchanged. It expires because a thread may change its
/// mask.
const VALID: Duration = Duration::from_millis(100);

struct Answer {
    threads: u64,
    asked: Instant,
    signals: u64,
}

static LAST: Mutex<Option<Answer>> = Mutex::new(None);

/// The signals (bit N - 1 for signal N) that another thread would take if this one blocked them. 0 unless this is the
/// main thread, which takes signals first.
pub fn take_from_main_thread() -> u64 {
    // SAFETY: neither call has preconditions.
    if unsafe { libc::gettid() != libc::getpid() } {
        return 0;
    }
    // The folder has a link for each subfolder, which is a thread. Without /proc the answer is unknown.
    let Ok(threads) = std::fs::metadata("/proc/self/task").map(|folder| folder.nlink()) else { return 0 };
    // The lock is held by another thread that records a launch and asks now.
    let Ok(mut last) = LAST.try_lock() else { return taken_by_others() };
    match &*last {
        Some(answer) if answer.threads == threads && answer.asked.elapsed() < VALID => answer.signals,
        _ => {
            let signals = taken_by_others();
            *last = Some(Answer { threads, asked: Instant::now(), signals });
            signals
        }
    }
}

/// The signals that at least one thread besides the main one does not block.
fn taken_by_others() -> u64 {
    let main = std::process::id().to_string();
    let Ok(threads) = std::fs::read_dir("/proc/self/task") else { return 0 };
    let others = threads.flatten().filter(|thread| *thread.file_name() != *main);
    // A thread that has ended in the meantime takes no signal.
    let statuses = others.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    statuses.filter_map(|status| blocked(&status)).fold(0, |taken, blocked| taken | !blocked)
}

fn blocked(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::sync_channel;

    #[test]
    fn masks_are_read_as_the_system_writes_them() {
        assert_eq!(blocked("Name:\tx\nSigBlk:\t0000000000000200\nSigIgn:\t0"), Some(1 << (libc::SIGUSR1 - 1)));
        assert_eq!(blocked("Name:\tx\n"), None);
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(blocked(&status).is_some());
    }

    #[test]
    fn a_thread_takes_what_it_does_not_block_from_the_main_thread_alone() {
        let (end, ended) = sync_channel::<()>(0);
        let thread = std::thread::spawn(move || _ = ended.recv());
        assert_ne!(taken_by_others() & (1 << (libc::SIGUSR1 - 1)), 0);
        assert_eq!(take_from_main_thread(), 0, "tests are other threads");
        drop(end);
        thread.join().unwrap();
    }
}
