//! The reasons for refusing a winner.

use std::io;
use std::path::PathBuf;

/// Each message names the file, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum WinnerError {
    #[error("{} cannot be read: {source}", path.display())]
    Unread { path: PathBuf, source: io::Error },
    #[error("{} is no file of compiled winners ({source}); write it with mneme apply --manifest", path.display())]
    NoWinners { path: PathBuf, source: serde_json::Error },
    #[error(
        "{} is of format {found}, and this release reads {supported}; write it with mneme apply --manifest",
        path.display()
    )]
    Format { path: PathBuf, found: u32, supported: u32 },
    #[error("{} was changed since it was written: its checksum does not match; write it with mneme apply --manifest", .0.display())]
    Changed(PathBuf),
    #[error("its tuned code {} cannot be read: {source}", path.display())]
    UnreadCode { path: PathBuf, source: io::Error },
    #[error("its tuned code {} is damaged; remove the file, and mneme apply compiles it anew", .0.display())]
    DamagedCode(PathBuf),
    #[error("its tuned code {} is no machine code; remove the file, and mneme apply compiles it anew", .0.display())]
    NoMachineCode(PathBuf),
}
