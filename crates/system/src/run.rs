//! The run of `mneme` that has started a process.
//!
//! `mneme` has memory for its processes, where they write their summaries and read their winners. They find it by a
//! path below `/proc`, whose numbers may mean another process in another PID namespace or on another machine of a
//! distributed run. The memory therefore has the random name of its run, which is also in their environment.

use std::path::Path;

use crate::environment;

/// The environment variable with the name of the run; `mneme` sets it.
pub const VARIABLE: &str = "MNEME_RUN";

/// Whether a path leads to memory created by this process's run.
pub fn has_memory(path: &Path) -> bool {
    environment::variable(VARIABLE).is_some_and(|run| leads_to(path, &run))
}

fn leads_to(path: &Path, run: &str) -> bool {
    !run.is_empty() && std::fs::read_link(path).is_ok_and(|target| target.to_string_lossy().contains(run))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::memfd::{MFdFlags, memfd_create};
    use std::os::fd::AsRawFd;

    #[test]
    fn memory_of_another_run_is_not_this_ones() {
        let memory = memfd_create(c"mneme-tuned-0123", MFdFlags::MFD_CLOEXEC).unwrap();
        let path = format!("/proc/self/fd/{}", memory.as_raw_fd());
        let is_of = |run: &str| leads_to(Path::new(&path), run);
        assert!(is_of("0123") && !is_of("4567") && !is_of(""));
        assert!(!leads_to(Path::new("/proc/self/fd/99999"), "0123"));
    }
}
