//! The programs `mneme-build-NN`, which compile recorded kernels with LLVM NN for `mneme-replay`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::exit;

use clap::{CommandFactory, Parser, ValueEnum};
use tracing::level_filters::LevelFilter;

use crate::server;

/// Compiles recorded kernels with LLVM, for mneme-replay, which starts it
///
/// Do not run it yourself: it talks to the program that started it, over the socket that is its standard input.
#[derive(Parser)]
#[command(name = NAME, version)]
struct BuilderOptions {
    /// How much to load before the first build
    #[arg(long, value_name = "HOW", default_value = "full")]
    prepare: Prepare,
    /// Show messages from this level up on standard error
    #[arg(long, value_name = "LEVEL", default_value = "warn")]
    log: LevelFilter,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Prepare {
    /// Load everything that builds share
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
        .with_writer(mneme_system::console::PlainStderr::default)
        .with_ansi(false)
        .without_time()
        .with_target(false)
        .init();
    let client = client().unwrap_or_else(|error| {
        mneme_system::remark!("{NAME}: {error}; mneme-replay starts this program");
        exit(mneme_system::exit::BAD_USAGE)
    });
    exit(match server::run(client, options.prepare == Prepare::Full) {
        Ok(()) => mneme_system::exit::VERIFIED,
        // The client sees that this program ends. If the stream was cut off, the client is gone.
        Err(error) => {
            tracing::debug!("the stream to the program that has started this one: {error}");
            mneme_system::exit::INTERNAL
        }
    })
}

/// The stream to the client. Standard input becomes empty, for other programs that work for a build.
fn client() -> io::Result<UnixStream> {
    let stream = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    stream.peer_addr().map_err(|_| io::Error::other("standard input is not a socket"))?;
    let empty = OwnedFd::from(File::open("/dev/null")?);
    // SAFETY: takes no pointers; both descriptors are this process's own, which has one thread.
    if unsafe { libc::dup2(empty.as_raw_fd(), libc::STDIN_FILENO) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(stream)
}
