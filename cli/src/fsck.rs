//! The command `mneme fsck`, which reads a whole recording and reports damage.

use std::path::PathBuf;

use clap::Args;
use mneme_model::units;
use mneme_recording::integrity::{CheckReport, check};
use mneme_recording::{RecordingError, USUAL};

use crate::error::CommandError;
use crate::output::print;
use crate::selection::Selection;

#[derive(Debug, Args)]
pub struct FsckOptions {
    /// Folders with recordings [default: recording]
    #[arg(value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// The same as FOLDER (also -rdb)
    #[arg(long = "record-database", aliases = ["record-db", "rdb"], value_name = "FOLDER", conflicts_with = "folders")]
    record_database: Option<PathBuf>,
}

pub fn run(options: &FsckOptions) -> Result<(), CommandError> {
    let mut last: Option<RecordingError> = None;
    let usual = PathBuf::from(USUAL);
    let mut folders: Vec<&PathBuf> = options.folders.iter().chain(&options.record_database).collect();
    if folders.is_empty() {
        folders.push(&usual);
    }
    for folder in folders {
        if folder.is_file() {
            return Err(CommandError::Usage(format!(
                "{} is a file; name the folder that contains it",
                folder.display()
            )));
        }
        let CheckReport { kernels, instances, bytes, problems } = check(folder)?;
        let outcome = match problems.len() {
            0 => "whole".to_owned(),
            1 => "1 problem".to_owned(),
            n => format!("{n} problems"),
        };
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        print(&format!(
            "{}: {}, {} that can be replayed, {} read: {outcome}\n",
            folder.display(),
            count(kernels, "kernel"),
            count(instances, "instance"),
            units::bytes(bytes)
        ))?;
        if problems.is_empty() {
            for kernel in &Selection::new(folder.clone(), None).kernels()?.kernels {
                kernel.warn_of_unchanged(None)?;
            }
        }
        for problem in problems {
            if let Some(earlier) = last.replace(problem) {
                mneme_system::remark!("mneme: {earlier}");
            }
        }
    }
    last.map_or(Ok(()), |error| Err(error.into()))
}
