//! Reasons why a winner is not applied.

use std::io;
use std::path::PathBuf;

use mneme_builds::builder::{AskError, ProgramError};
use mneme_model::result::ReplayStatus;
use mneme_recording::RecordingError;

use crate::error::CommandError;

/// Why results cannot be read, or a winner not be used. Its subject is the winner unless the message names another.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("{} cannot be read: {source}", path.display())]
    Unread { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{} has no best.json: it is not a results folder, or its session did not finish", .0.display())]
    NoResults(PathBuf),
    #[error("{} is not a file of mneme tune: {source}", path.display())]
    NoFileOfTuner { path: PathBuf, source: serde_json::Error },
    #[error("{}: {what}; was it edited?", path.display())]
    Edited { path: PathBuf, what: String },
    #[error("{} is neither a results folder nor a file of tuned kernels for Proteus: {source}", path.display())]
    NoTunedKernels { path: PathBuf, source: serde_json::Error },
    #[error("{} does not contain its kernels' code; name the folder of their recording with -rdb", .0.display())]
    NoCode(PathBuf),

    #[error(transparent)]
    Recording(#[from] RecordingError),
    #[error("{} names no recording", .0.display())]
    NoRecording(PathBuf),
    #[error("{} is missing; name the recording's folder with -rdb", .0.display())]
    MissingRecording(PathBuf),
    #[error(
        "{} was tuned with {}, which is missing; name the recording's folder with -rdb",
        results.display(),
        database.display()
    )]
    LostRecording { results: PathBuf, database: PathBuf },
    #[error(
        "its recording was made by the existing Mneme (the C++ and Python project), which hashes code differently; record the program again with mneme record"
    )]
    ExistingMneme,
    #[error("{} does not have the arguments of its launch; record it again", .0.display())]
    Arguments(PathBuf),

    #[error(
        "{kernel} uses variables of its module ({variables}), and compiled code would access them at their recorded addresses"
    )]
    Variables { kernel: String, variables: String },
    #[error("the code for {0} relies on facts that hold only for its recording; tune it without --facts")]
    Facts(String),
    #[error(
        "the code for {kernel} relies on {what}, which its recording does not prove for other launches; tune it without, or use --verify-first"
    )]
    Assumption { kernel: String, what: String },
    #[error("it was tuned for {tuned}, but the device here is {here}; tune it here")]
    OtherDevice { tuned: String, here: String },
    #[error("its configuration does not verify on this machine ({}: {why}); tune it here", status.name())]
    Unverified { status: ReplayStatus, why: String },

    #[error("its code cannot be compiled here: {0}")]
    NotCompiled(String),
    #[error("its code cannot be stored: {0}")]
    Unstored(io::Error),
    #[error("cannot make a temporary folder: {0}")]
    NoFolder(io::Error),
    #[error(transparent)]
    Installation(Box<CommandError>),
    #[error("{}: {source}", program.display())]
    Start { program: PathBuf, source: io::Error },
    /// The replayer's own message.
    #[error("{0}")]
    Replayer(String),
    #[error("mneme-replay is from another release ({0}); install all programs from one release")]
    OtherRelease(serde_json::Error),
    #[error("mneme-replay ended without an answer")]
    NoAnswer,

    #[error("its request names two different kernels")]
    TwoKernels,
    #[error("mneme apply does not know its winner")]
    UnknownWinner,
    #[error("{} is damaged", .0.display())]
    Damaged(PathBuf),
    #[error(transparent)]
    Builder(#[from] ProgramError),
    #[error(transparent)]
    Unanswered(#[from] AskError),
    /// The builder's message.
    #[error("{0}")]
    NotBuilt(String),
    #[error("no assembler for NVIDIA GPUs is installed; install ptxas or nvptxcompiler")]
    NoAssembler,
}

impl From<ApplyError> for CommandError {
    /// The command line names the results.
    fn from(error: ApplyError) -> Self {
        Self::Usage(error.to_string())
    }
}
