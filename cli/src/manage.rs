//! The commands `mneme clean`, `mneme copy` and `mneme move`.

use std::path::{Path, PathBuf};

use clap::Args;
use mneme_model::units;
use mneme_recording::RecordingError;
use mneme_recording::database::KernelRecord;
use mneme_recording::export::{self, Format};
use mneme_recording::housekeeping::{self, HousekeepingOutcome};

use crate::error::CommandError;
use crate::output::print;
use crate::selection::{KernelFile, Selected, Selection};

#[derive(Debug, Args)]
pub struct CleanOptions {
    #[command(flatten)]
    selection: Selection,
}

#[derive(Debug, Args)]
pub struct TransferOptions {
    /// A folder with recordings, or the STATIC-HASH.json of one kernel
    #[arg(value_name = "FROM")]
    first: PathBuf,
    /// The folder to write to; the only path if you pass -rdb
    #[arg(value_name = "TO", required_unless_present = "record_database")]
    second: Option<PathBuf>,
    /// The same as FROM (also -rdb)
    #[arg(long = "record-database", aliases = ["record-db", "rdb"], value_name = "FROM")]
    record_database: Option<PathBuf>,
    /// Only kernels with this in their name, mangled or demangled
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Only this instance: its dynamic hash, or the beginning of it (also -rid)
    #[arg(long = "record-id", alias = "rid", value_name = "ID")]
    record_id: Option<String>,
}

#[derive(Debug, Args)]
pub struct CopyOptions {
    #[command(flatten)]
    transfer: TransferOptions,
    /// Write files for the existing Mneme, with this kind of epilogues [default: keep the files' format]
    #[arg(long, value_name = "FORMAT", value_parser = ["bytes", "diff", "best"])]
    epilogue_format: Option<String>,
}

/// Removes instances, and the chunks that nothing else in their folder uses.
pub fn clean(options: &CleanOptions) -> Result<(), CommandError> {
    options.selection.refuse_unnamed()?;
    if options.selection.is_whole() && discard_if_unreadable(options.selection.path())? {
        return Ok(());
    }
    let (total, selected) =
        each(&options.selection, |kernel, id| housekeeping::remove(kernel.folder(), kernel.record.static_hash, id))?;
    // Chunks of an interrupted recording belong to no kernel.
    let left_over = if options.selection.path().is_dir() && options.selection.is_whole() {
        housekeeping::collect_garbage(options.selection.path())?
    } else {
        0
    };
    print(&format!("removed {}, {} freed\n", instances(total.instances), units::bytes(total.bytes + left_over)))?;
    selected.complete()
}

/// Removes a damaged kernel file that the user named, because nothing else could. Only invalid files count as damaged,
/// not those of a newer format. The files to which it referred are unknown, so they stay.
fn discard_if_unreadable(path: &Path) -> Result<bool, CommandError> {
    let is_kernels = path.extension().is_some_and(|extension| extension == "json")
        && path.file_stem().and_then(|stem| stem.to_str()).is_some_and(|stem| stem.parse::<u64>().is_ok());
    if !is_kernels || !path.is_file() || !matches!(KernelRecord::load(path), Err(RecordingError::Damaged { .. })) {
        return Ok(false);
    }
    std::fs::remove_file(path).map_err(|source| CommandError::Io { path: path.into(), source })?;
    print(&format!("removed {}, which was damaged; its memory and code are still in the folder\n", path.display()))?;
    Ok(true)
}

/// Copies instances with exactly what they refer to.
pub fn copy(options: CopyOptions) -> Result<(), CommandError> {
    match options.epilogue_format.as_deref().and_then(Format::parse) {
        None => transfer(options.transfer, "copied", housekeeping::copy),
        Some(format) => {
            transfer(options.transfer, "copied", |from, to, hash, id| export::export(from, to, hash, id, format))
        }
    }
}

/// Moves instances with exactly what they refer to.
pub fn move_to(options: TransferOptions) -> Result<(), CommandError> {
    transfer(options, "moved", housekeeping::move_to)
}

impl TransferOptions {
    /// The selection, and the target folder, which must be another one.
    pub fn endpoints(self) -> Result<(Selection, PathBuf), CommandError> {
        let (from, to) = endpoints([Some(self.first), self.second], self.record_database)?;
        let selection = Selection::new(from, self.record_id).named(self.kernel);
        if selection.folder().canonicalize().is_ok_and(|folder| to.canonicalize().is_ok_and(|to| to == folder)) {
            let to = to.display();
            return Err(CommandError::Usage(format!("the recording is already in {to}; name another folder")));
        }
        Ok((selection, to))
    }
}

fn transfer(
    options: TransferOptions,
    verb: &str,
    operation: impl Fn(&Path, &Path, u64, Option<&str>) -> Result<HousekeepingOutcome, RecordingError>,
) -> Result<(), CommandError> {
    let (selection, to) = options.endpoints()?;
    let (total, selected) =
        each(&selection, |kernel, id| operation(kernel.folder(), &to, kernel.record.static_hash, id))?;
    print(&format!(
        "{verb} {} to {}, {} written\n",
        instances(total.instances),
        to.display(),
        units::bytes(total.bytes)
    ))?;
    selected.complete()
}

fn endpoints(paths: [Option<PathBuf>; 2], named: Option<PathBuf>) -> Result<(PathBuf, PathBuf), CommandError> {
    match (paths, named) {
        ([Some(from), Some(to)], None) | ([Some(to), None], Some(from)) => Ok((from, to)),
        ([_, Some(_)], Some(_)) => {
            Err(CommandError::Usage("name the recording once: as the first path or with -rdb".into()))
        }
        _ => Err(CommandError::Usage("name the recording, then the folder to write to".into())),
    }
}

fn each(
    selection: &Selection,
    mut operation: impl FnMut(&KernelFile, Option<&str>) -> Result<HousekeepingOutcome, RecordingError>,
) -> Result<(HousekeepingOutcome, Selected), CommandError> {
    let mut total = HousekeepingOutcome::default();
    let selected = selection.kernels()?;
    for kernel in &selected.kernels {
        let id = selection.record_id.as_deref();
        let whole = id.map(|id| kernel.record.instance(&kernel.path, Some(id))).transpose()?.map(|(id, _)| id);
        let outcome = operation(kernel, whole)?;
        total.instances += outcome.instances;
        total.bytes += outcome.bytes;
    }
    Ok((total, selected))
}

fn instances(count: usize) -> String {
    format!("{count} instance{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recording_is_named_once() {
        let path = |name: &str| PathBuf::from(name);
        let some = |name: &str| Some(path(name));
        assert_eq!(endpoints([some("a"), some("b")], None).unwrap(), (path("a"), path("b")));
        assert_eq!(endpoints([some("b"), None], Some(path("a"))).unwrap(), (path("a"), path("b")));
        assert!(endpoints([some("b"), None], None).is_err());
        assert!(endpoints([some("a"), some("b")], Some(path("c"))).is_err());
    }
}
