//! The programs `mneme-build-NN`, which compile recorded kernels for `mneme-replay`.
//!
//! NN is the version of LLVM.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::exit;

use crate::server;
use clap::{CommandFactory, Parser, ValueEnum};
use tracing::level_filters::LevelFilter;

/// Compiles recorded kernels with LLVM, for mneme-replay, which starts it
///
/// It is not for the command line: it speaks with the program that has started it, over the socket that is its standard
/// input.
#[derive(Parser)]
#[command(name = NAME, version)]
struct BuilderOptions {
    /// What to do before the first build is asked for
    #[arg(long, value_name = "HOW", default_value = "full")]
    prepare: Prepare,
    /// Show messages from this level up on standard error
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prepare {
    /// Load all that builds have in common
    Full,
    /// Nothing: each build loads what it needs
    None,
}

/// This program's name.
const NAME: &str = concat!("mneme-build-", env!("MNEME_LLVM_MAJOR"));

/// The whole program.
pub fn main() {
    mneme_manual::write_if_requested(BuilderOptions::command);
    let options = BuilderOptions::parse();
    tracing_subscriber::fmt()
        .with_max_level(options.log)
        .with_writer(mneme_core::console::PlainStderr::default)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
    let client = client().unwrap_or_else(|error| {
        mneme_core::remark!("{NAME}: {error}; it is mneme-replay that starts this program");
        exit(mneme_core::exit::BAD_USAGE)
    });
    exit(match server::run(client, options.prepare == Prepare::Full) {
        Ok(()) => mneme_core::exit::VERIFIED,
        // Whoever has started this program sees that it ends, and is gone itself where the stream was cut off.
        Err(error) => {
            tracing::debug!("the stream to the program that has started this one: {error}");
            mneme_core::exit::INTERNAL
        }
    })
}

/// The stream to whoever has started this program. Other programs that work for a build get an empty standard input.
fn client() -> io::Result<UnixStream> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.peer_addr().map_err(|_| io::Error::other("standard input is no socket"))?;
    let empty = OwnedFd::from(File::open("/dev/null")?);
    // SAFETY: takes no pointers; both descriptors are this process's own, which has one thread.
    if unsafe { libc::dup2(empty.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stream)
}
