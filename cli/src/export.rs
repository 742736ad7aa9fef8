//! The command `mneme export`.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use mneme_recording::database::kernels;

use crate::error::CommandError;
use crate::selection::Selection;
use crate::source::{self, SourceFiles};
use crate::standalone;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["standalone", "header", "cmake", "wisdom"])))]
pub struct ExportOptions {
    /// With --standalone: a recording folder or the STATIC-HASH.json of one kernel, followed by the folder to write.
    /// Otherwise: results folders of mneme tune
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// The recordings' folder, if it is not where the results say. With --standalone: the recording; PATH is then the
    /// folder to write (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "RECORDING")]
    record_database: Option<PathBuf>,
    /// The kernel to export from a folder: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME", requires = "standalone")]
    kernel: Option<String>,
    /// Only this instance: its dynamic hash, or the beginning of it (also -rid)
    #[arg(long, alias = "rid", value_name = "ID", requires = "standalone")]
    record_id: Option<String>,
    /// Write a C program that runs the launch, with everything it needs
    #[arg(long, conflicts_with_all = ["header", "cmake", "wisdom"])]
    standalone: bool,
    /// Machine code (.cubin) or PTX (.ptx) to run, for example from mneme-replay --output-dir [default: the
    /// application's own code]
    #[arg(long, value_name = "FILE", requires = "standalone")]
    code: Option<PathBuf>,
    #[command(flatten)]
    source: SourceFiles,
}

pub fn run(options: &ExportOptions) -> Result<(), CommandError> {
    if !options.standalone {
        if options.paths.is_empty() {
            return Err(CommandError::Usage("name the results folders of mneme tune".into()));
        }
        return source::run(&options.paths, options.record_database.as_deref(), &options.source);
    }
    let (from, to) = match (&options.paths[..], &options.record_database) {
        // Earlier versions had the folder first.
        ([to, from], None) if is_recording(from) && !is_recording(to) => (from, to),
        ([from, to], None) | ([to], Some(from)) => (from, to),
        _ => {
            return Err(CommandError::Usage("name the recording, then the folder for the program".into()));
        }
    };
    let selection = Selection::new(from.clone(), options.record_id.clone()).named(options.kernel.clone());
    standalone::run(&selection, to, options.code.as_deref())
}

fn is_recording(path: &Path) -> bool {
    path.is_file() || kernels(path).is_ok_and(|found| !found.is_empty())
}
