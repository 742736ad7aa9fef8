//! Reasons why a kernel keeps its own code.

use std::path::PathBuf;
use std::sync::Arc;

use mneme_recording::RecordingError;
use mneme_winners::{SpecialisationError, WinnerError};

use crate::driver::Status;
use crate::kernels::function_settings::Setting;
use crate::kernels::refusal::CodeRefusal;
use crate::process::recorded_family;

/// Why a winner, or code that was made in this run, is not used. The subject of a message is the kernel.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("nothing is tuned for it")]
    Untuned,
    #[error("cannot recognise its code: {0}")]
    Unrecognised(CodeRefusal),
    #[error("its code has changed since it was tuned (static hash {now} now, {then} then); record and tune it again")]
    Changed { now: u64, then: u64 },
    #[error("its parameters are not those of the recording; record and tune it again")]
    Parameters,
    #[error("the file of tuned kernels lacks its arguments; write it again with mneme apply")]
    NoArguments,
    #[error("it was tuned for {tuned}, and this device is {here}; tune it here")]
    OtherDevice { tuned: String, here: String },

    #[error("the current context has no device")]
    NoDevice,
    #[error(transparent)]
    Image(#[from] Arc<WinnerError>),
    #[error("its name has a NUL")]
    Name,
    #[error("the driver does not load its tuned code ({})", recorded_family::error(*.0))]
    NotLoaded(Status),
    #[error("the driver does not find it in its tuned code ({})", recorded_family::error(*.0))]
    NotFound(Status),
    #[error(
        "the driver refuses a setting of the application's function for it ({setting:?}: {})",
        recorded_family::error(*status)
    )]
    Setting { setting: Setting, status: Status },
    #[error("the program has more than {0} contexts")]
    Contexts(usize),

    #[error("cannot request its code: {0}")]
    Modules(Arc<RecordingError>),
    #[error("cannot request its code: {}: {source}", folder.display())]
    Request { folder: PathBuf, source: Arc<std::io::Error> },
    #[error(transparent)]
    Answer(#[from] SpecialisationError),
    #[error("the recorder keeps no specialised code for it (a defect of Mneme)")]
    NoPlace,
    #[error("its code is not known")]
    UnknownCode,
}
