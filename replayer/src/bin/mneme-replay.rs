//! mneme-replay: re-executes one recorded kernel under any configuration and verifies it.

use std::io::IsTerminal;
use std::os::unix::process::CommandExt;
use std::process::{Command, exit};

use mneme_replayer::arguments::Arguments;
use mneme_replayer::supervisor::Fatal;
use mneme_replayer::{scene, serve};

/// Counts the processes in which the recorded addresses were tried.
const ATTEMPT: &str = "MNEME_REPLAY_ATTEMPT";
const ATTEMPTS: u32 = 6;

fn main() {
    let arguments = Arguments::read(std::env::args_os()).unwrap_or_else(|error| usage(&error));
    log(&arguments);
    match scene::run(&arguments) {
        Ok(status) => exit(status),
        Err(fatal) => give_up(&arguments, fatal),
    }
}

fn usage(error: &clap::Error) -> ! {
    // A broken pipe is all that can happen here, and changes nothing.
    let _ = error.print();
    exit(if error.use_stderr() { mneme_core::exit::BAD_USAGE } else { mneme_core::exit::VERIFIED })
}

fn log(arguments: &Arguments) {
    tracing_subscriber::fmt()
        .with_max_level(arguments.common().level)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .without_time()
        .with_target(false)
        .init();
}

/// Addresses that are taken in this process may be free in the next one, where the system lays out memory differently.
fn give_up(arguments: &Arguments, fatal: Fatal) -> ! {
    let attempt: u32 = std::env::var(ATTEMPT).ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    if fatal.clash && attempt < ATTEMPTS {
        tracing::info!("{fatal}; trying another process");
        let error = Command::new("/proc/self/exe").args(std::env::args_os().skip(1)).env(ATTEMPT, (attempt + 1).to_string()).exec();
        tracing::warn!("no other process can be started: {error}");
    }
    if let Arguments::Serve(_) = arguments {
        serve::report(&fatal);
    }
    eprintln!("mneme-replay: {fatal}");
    exit(fatal.status)
}
