//! The command `mneme export`, which hands over to what is exported.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use mneme_core::recording::database::kernels;

use crate::error::CommandError;
use crate::selection::Selection;
use crate::source::{self, SourceFiles};
use crate::standalone;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["standalone", "header", "cmake", "wisdom"])))]
pub struct ExportOptions {
    /// With --standalone: a recording folder or the STATIC-HASH.json of one kernel, then the folder to write. Otherwise:
    /// the results folders of mneme tune
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Where the recordings are, if not where the results say. With --standalone: the recording, and PATH is then the
    /// folder to write (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "RECORDING")]
    record_database: Option<PathBuf>,
    /// The kernel of a folder: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME", requires = "standalone")]
    kernel: Option<String>,
    /// One instance only: its dynamic hash, or how that begins (also -rid)
    #[arg(long, alias = "rid", value_name = "ID", requires = "standalone")]
    record_id: Option<String>,
    /// Write a C program that runs the launch, and all that it needs
    #[arg(long, conflicts_with_all = ["header", "cmake", "wisdom"])]
    standalone: bool,
    /// Machine code (.cubin) or PTX (.ptx) to run, such as mneme-replay --output-dir writes [default: what the
    /// application ran]
    #[arg(long, value_name = "FILE", requires = "standalone")]
    code: Option<PathBuf>,
    #[command(flatten)]
    source: SourceFiles,
}

pub fn run(options: &ExportOptions) -> Result<(), CommandError> {
    if !options.standalone {
        if options.paths.is_empty() {
            return Err(CommandError::Usage("name the results folders that mneme tune has written".into()));
        }
        return source::run(&options.paths, options.record_database.as_deref(), &options.source);
    }
    let (from, to) = match (&options.paths[..], &options.record_database) {
        // The order of earlier versions: the folder first.
        ([to, from], None) if is_recording(from) && !is_recording(to) => (from, to),
        ([from, to], None) | ([to], Some(from)) => (from, to),
        _ => {
            return Err(CommandError::Usage("name the recording and then the folder that the program goes to".into()));
        }
    };
    let selection = Selection::new(from.clone(), options.record_id.clone()).named(options.kernel.clone());
    standalone::run(&selection, to, options.code.as_deref())
}

fn is_recording(path: &Path) -> bool {
    path.is_file() || kernels(path).is_ok_and(|found| !found.is_empty())
}
