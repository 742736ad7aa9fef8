//! The command `mneme fsck`, which reads a whole recording and reports damage.

use std::path::PathBuf;

use clap::Args;
use mneme_model::units;
use mneme_recording::integrity::{CheckReport, check, check_kernels};
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
    /// Only kernels with this in their name, mangled or demangled
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
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
        let selection = Selection::new(folder.clone(), None).named(options.kernel.clone());
        let report = match options.kernel {
            Some(_) => {
                let kernels: Vec<PathBuf> =
                    selection.kernels()?.kernels.into_iter().map(|kernel| kernel.path).collect();
                check_kernels(folder, &kernels)
            }
            None => check(folder),
        };
        let CheckReport { kernels, instances, bytes, problems } = report?;
        if kernels == 0 && problems.is_empty() {
            print(&format!("{} holds no recorded kernel\n", folder.display()))?;
            continue;
        }
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
            for kernel in selection.kernels()?.kernels {
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
