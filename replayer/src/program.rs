//! What the programs of this crate have in common from their first line to their last.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

use crate::supervisor::Fatal;

/// Counts the processes in which the recorded addresses were tried.
const ATTEMPT: &str = "MNEME_REPLAY_ATTEMPT";
const ATTEMPTS: u32 = 6;

/// Prints help or what is wrong with the command line, and ends.
pub fn usage(error: &clap::Error) -> ! {
    // A broken pipe is all that can happen here, and changes nothing.
    let _ = error.print();
    exit(if error.use_stderr() { mneme_core::exit::BAD_USAGE } else { mneme_core::exit::VERIFIED })
}

/// Shows messages from `level` up on standard error.
pub fn log(level: tracing::Level) {
    tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
}

/// Becomes another process where that may help: addresses that are taken in this one may be free there, where the system lays
/// out memory differently.
pub fn try_again(fatal: &Fatal) {
    let attempt: u32 = std::env::var(ATTEMPT).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    if fatal.clash && attempt < ATTEMPTS {
        tracing::info!("{fatal}; trying another process");
        let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).env(ATTEMPT, (attempt + 1).to_string()).exec();
        tracing::warn!("no other process can be started: {error}");
    }
}
