//! The command `mneme export`, which hands over to what is exported.

use std::path::PathBuf;

use clap::{ArgGroup, Args};

use crate::error::CommandError;
use crate::selection::Selection;
use crate::source::{self, SourceFiles};
use crate::standalone;

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).multiple(true).args(["standalone", "header", "cmake", "wisdom"])))]
pub struct ExportOptions {
    /// For --standalone a folder with recordings, or the STATIC-HASH.json of one kernel; for the others the results
    /// folders of mneme tune
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// For --standalone the same as PATH; else the folder of the recordings, where they are not where the results say
    /// (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "RECORDING")]
    record_database: Option<PathBuf>,
    /// One instance (dynamic hash) only (also -rid)
    #[arg(long, alias = "rid", value_name = "ID", requires = "standalone")]
    record_id: Option<String>,
    /// Write a C program that runs the launch, and all that it needs, to this folder
    #[arg(long, value_name = "DIR", conflicts_with_all = ["header", "cmake", "wisdom"])]
    standalone: Option<PathBuf>,
    /// Machine code (.cubin) or PTX (.ptx) to run, such as mneme-replay --output-dir writes [default: what the
    /// application ran]
    #[arg(long, value_name = "FILE", requires = "standalone")]
    code: Option<PathBuf>,
    #[command(flatten)]
    source: SourceFiles,
}

pub fn run(options: &ExportOptions) -> Result<(), CommandError> {
    let Some(folder) = &options.standalone else {
        if options.paths.is_empty() {
            return Err(CommandError::Usage("name the results folders that mneme tune has written".into()));
        }
        return source::run(&options.paths, options.record_database.as_deref(), &options.source);
    };
    let path = match (&options.paths[..], &options.record_database) {
        ([path], None) | ([], Some(path)) => path,
        _ => return Err(CommandError::Usage("name one recording, as PATH or with -rdb".into())),
    };
    standalone::run(&Selection::new(path.clone(), options.record_id.clone()), folder, options.code.as_deref())
}
