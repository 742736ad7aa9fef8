//! Errors of tools, which tell a model what happened and what to do.

use std::io;
use std::path::PathBuf;

use mneme_system::exit;

#[derive(Debug, thiserror::Error)]
pub enum ToolError {
    #[error("the arguments make no sense: {0}; tools/list has their schema")]
    Arguments(String),
    #[error(
        "'{0}' is outside the allowed folders; name a path in them without '..', or have the user pass --allow FOLDER to mneme-mcp"
    )]
    Outside(String),
    #[error(
        "'{path}' contains the link {link}, which leads outside the allowed folders; remove the link, or have the user allow the folder that it leads to",
        link = link.display()
    )]
    Link { path: String, link: PathBuf },
    #[error(
        "'{path}' cannot be read: {source}; check the path, which starts in the first allowed folder if it is relative"
    )]
    Unread { path: String, source: io::Error },
    #[error("{path} cannot be written: {source}; free space, or correct the permissions", path = path.display())]
    Unwritten { path: PathBuf, source: io::Error },
    #[error(
        "'{0}' may not be run; name an executable file in the allowed folders, or have the user pass --program PATH to mneme-mcp"
    )]
    NoProgram(String),
    #[error("{what} exceeds {limit}; {remedy}")]
    TooLarge { what: &'static str, limit: &'static str, remedy: &'static str },
    #[error("{0} jobs are running; wait for one or cancel one with the tool 'job'")]
    Busy(usize),
    #[error("there is no job '{0}'; call the tool 'job' with the action 'list'")]
    NoJob(String),
    #[error("mneme is not installed beside mneme-mcp; install all of Mneme, or set MNEME_HOME")]
    Incomplete,
    #[error("{path} cannot be started: {source}; run mneme doctor", path = path.display())]
    Start { path: PathBuf, source: io::Error },
    #[error("mneme {command} ended with status {status}: {said}; {remedy}", remedy = remedy(*status))]
    Failed { command: &'static str, status: i32, said: String },
    #[error("mneme {0} printed something other than JSON; run mneme doctor")]
    Garbled(&'static str),
    #[error("the job was cancelled; call the tool again to start another")]
    Cancelled,
    #[error("the job took longer than {0} s and was ended; ask for less, or have the user raise --time-limit")]
    TooLong(u64),
}

/// The remedy for a status of docs/reference/exit-status.md.
fn remedy(status: i32) -> &'static str {
    match status {
        exit::BAD_USAGE => "correct the arguments; list_kernels shows the kernels and instances of a recording",
        exit::BAD_RECORDING => "record the kernel again",
        exit::NO_INPUT => "name a recording or results that exist",
        exit::NO_DEVICE => "pass another device, such as cpu",
        exit::NOT_RECORDED => "read the failures, or record fewer kernels",
        exit::IN_USE => "wait for the other session",
        _ => "read the output, and run mneme doctor if it does not explain the failure",
    }
}
