//! The program `mneme-mcp`, through which assistants record, judge and tune kernels.
//!
//! It speaks the Model Context Protocol on standard input and output ([`server`]). Each tool ([`tools`]) starts `mneme`
//! as a job ([`jobs`]), and hands back what that prints or writes. Tools use files in the allowed folders only
//! ([`folders`]); clients read files of results as resources ([`resources`]).

// Standard output carries the protocol.
#![warn(clippy::print_stderr, clippy::print_stdout)]

mod answers;
mod error;
mod folders;
mod jobs;
mod processes;
mod resources;
mod server;
mod tools;

use std::path::PathBuf;
use std::process::exit;
use std::time::Duration;

use clap::{CommandFactory, Parser};
use mneme_system::arguments::non_negative;
use mneme_system::install;

use self::folders::Folders;
use self::server::Server;

const EXAMPLES: &str = "Example:
  mneme-mcp --allow ~/matmul --allow ~/recordings

Clients start it themselves. A client's configuration, such as .mcp.json:
  {
    \"mcpServers\": {
      \"mneme\": {
        \"command\": \"mneme-mcp\",
        \"args\": [\"--allow\", \"/home/me/matmul\", \"--program\", \"/usr/bin/python3\"],
        \"env\": {\"MNEME_DEVICE\": \"cpu\"}
      }
    }
  }

Tools: record, profile, list_kernels, show_kernel, evaluate, check, bisect, tune, compare, report, job. Results are \
written to mneme-mcp/ in the first allowed folder, and read as resources.

An application that is recorded or profiled runs as you, without confinement. mneme-mcp opens no connection; its \
client sends results to a model.

Exit status: 0 the client closed standard input, 64 bad usage, 66 a named folder or program is missing, 70 internal \
error.";

/// Let assistants record, judge and tune GPU kernels, over the Model Context Protocol on standard input and output
#[derive(Debug, Parser)]
#[command(name = "mneme-mcp", version, after_help = EXAMPLES)]
struct CommandLine {
    /// Folder with recordings, sources and results that tools may use; may be repeated. Relative paths start in the
    /// first one
    #[arg(long, value_name = "FOLDER", required = true)]
    allow: Vec<PathBuf>,
    /// Program outside these folders that tools may run as an application, such as /usr/bin/python3; may be repeated
    #[arg(long, value_name = "PROGRAM")]
    program: Vec<PathBuf>,
    /// Time limit for a job, in seconds
    #[arg(long, value_name = "SECONDS", default_value = "3600", value_parser = non_negative)]
    time_limit: f64,
}

fn main() {
    mneme_sandbox::program::survive_broken_pipes();
    let words: Vec<_> = std::env::args_os().collect();
    if words.get(1).is_some_and(|word| word == processes::COMMAND) {
        exit(processes::supervise(&words[2..]));
    }
    mneme_manual::write_if_requested(CommandLine::command);
    let options = CommandLine::try_parse().unwrap_or_else(|error| {
        let _ = error.print();
        exit(if error.use_stderr() { mneme_system::exit::BAD_USAGE } else { 0 })
    });
    if let Err(wrong) = install::check_home() {
        mneme_system::remark!("mneme-mcp: {wrong}");
        exit(mneme_system::exit::BAD_USAGE);
    }
    let folders = Folders::new(&options.allow, &options.program).unwrap_or_else(|error| {
        mneme_system::remark!("mneme-mcp: {error}");
        exit(mneme_system::exit::NO_INPUT)
    });
    let limit = Duration::try_from_secs_f64(options.time_limit).unwrap_or(Duration::MAX);
    if let Err(error) = server::run(Server::new(folders, limit)) {
        mneme_system::remark!("mneme-mcp: {error}");
        exit(mneme_system::exit::INTERNAL);
    }
}
