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
    /// Folders with recordings, or STATIC-HASH.json files of kernels
    #[arg(value_name = "RECORDING", required_unless_present = "record_database")]
    paths: Vec<PathBuf>,
    /// The same as RECORDING (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "RECORDING", conflicts_with = "paths")]
    record_database: Option<PathBuf>,
    #[command(flatten)]
    part: Part,
}

#[derive(Debug, Args)]
pub struct TransferOptions {
    /// FROM: folders with recordings, or STATIC-HASH.json files of kernels. TO: the folder to write to; the only path if
    /// you pass -rdb
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// The same as FROM (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "FROM")]
    record_database: Option<PathBuf>,
    #[command(flatten)]
    pub part: Part,
}

/// The kernels and instances to which the command is limited.
#[derive(Debug, Args)]
pub struct Part {
    /// Only kernels with this in their name, mangled or demangled
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Only this instance: its dynamic hash, or the beginning of it (also -rid)
    #[arg(long, alias = "rid", value_name = "ID")]
    pub record_id: Option<String>,
}

impl Part {
    fn of(&self, recording: PathBuf) -> Selection {
        Selection::new(recording, self.record_id.clone()).named(self.kernel.clone())
    }
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
    let mut selections = Vec::new();
    for path in options.paths.iter().chain(&options.record_database) {
        let selection = options.part.of(path.clone());
        if !selection.is_whole() || !discard_if_unreadable(path)? {
            selections.push(selection);
        }
    }
    if selections.is_empty() {
        return Ok(());
    }
    let selected = all(&selections, Selection::kernels)?;
    let total = each(&selected, &options.part, |kernel, id| {
        housekeeping::remove(kernel.folder(), kernel.record.static_hash, id)
    })?;
    // Chunks of an interrupted recording belong to no kernel.
    let mut left_over = 0;
    for selection in selections.iter().filter(|selection| selection.is_whole() && selection.path().is_dir()) {
        left_over += housekeeping::collect_garbage(selection.path())?;
    }
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
pub fn copy(options: &CopyOptions) -> Result<(), CommandError> {
    match options.epilogue_format.as_deref().and_then(Format::parse) {
        None => transfer(&options.transfer, "copied", housekeeping::copy),
        Some(format) => {
            transfer(&options.transfer, "copied", |from, to, hash, id| export::export(from, to, hash, id, format))
        }
    }
}

/// Moves instances with exactly what they refer to.
pub fn move_to(options: &TransferOptions) -> Result<(), CommandError> {
    transfer(options, "moved", housekeeping::move_to)
}

impl TransferOptions {
    /// The selected kernels, and the target folder, which must be another one.
    pub fn endpoints(&self) -> Result<(Selected, PathBuf), CommandError> {
        let (from, to) = endpoints(&self.paths, self.record_database.as_ref())?;
        let selections: Vec<Selection> = from.into_iter().map(|path| self.part.of(path)).collect();
        let is_there = |selection: &Selection| {
            selection.folder().canonicalize().is_ok_and(|folder| to.canonicalize().is_ok_and(|to| to == folder))
        };
        if selections.iter().any(is_there) {
            let to = to.display();
            return Err(CommandError::Usage(format!("the recording is already in {to}; name another folder")));
        }
        Ok((all(&selections, Selection::some_kernels)?, to))
    }
}

fn transfer(
    options: &TransferOptions,
    verb: &str,
    operation: impl Fn(&Path, &Path, u64, Option<&str>) -> Result<HousekeepingOutcome, RecordingError>,
) -> Result<(), CommandError> {
    let (selected, to) = options.endpoints()?;
    let total =
        each(&selected, &options.part, |kernel, id| operation(kernel.folder(), &to, kernel.record.static_hash, id))?;
    print(&format!(
        "{verb} {} to {}, {} written\n",
        instances(total.instances),
        to.display(),
        units::bytes(total.bytes)
    ))?;
    selected.complete()
}

/// The recordings, and the folder TO.
fn endpoints(paths: &[PathBuf], named: Option<&PathBuf>) -> Result<(Vec<PathBuf>, PathBuf), CommandError> {
    match (paths.split_last(), named) {
        (Some((to, [])), Some(from)) => Ok((vec![from.clone()], to.clone())),
        (Some((to, from @ [_, ..])), None) => Ok((from.to_vec(), to.clone())),
        (_, Some(_)) => Err(CommandError::Usage("name the recording once: as FROM or with -rdb".into())),
        (_, None) => Err(CommandError::Usage("name the recording FROM, then the folder TO".into())),
    }
}

/// The kernels of all selections. Fails before a command changes anything if a recording is missing.
fn all(
    selections: &[Selection],
    kernels: fn(&Selection) -> Result<Selected, CommandError>,
) -> Result<Selected, CommandError> {
    let mut selected = Selected::default();
    for selection in selections {
        selected.append(kernels(selection)?);
    }
    Ok(selected)
}

fn each(
    selected: &Selected,
    part: &Part,
    mut operation: impl FnMut(&KernelFile, Option<&str>) -> Result<HousekeepingOutcome, RecordingError>,
) -> Result<HousekeepingOutcome, CommandError> {
    let mut total = HousekeepingOutcome::default();
    for kernel in &selected.kernels {
        let id = part.record_id.as_deref();
        let whole = id.map(|id| kernel.record.instance(&kernel.path, Some(id))).transpose()?.map(|(id, _)| id);
        let outcome = operation(kernel, whole)?;
        total.instances += outcome.instances;
        total.bytes += outcome.bytes;
    }
    Ok(total)
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
        let of = |paths: &[&str], named: Option<&str>| {
            let paths: Vec<PathBuf> = paths.iter().map(|name| path(name)).collect();
            endpoints(&paths, named.map(path).as_ref()).ok()
        };
        assert_eq!(of(&["a", "b"], None), Some((vec![path("a")], path("b"))));
        assert_eq!(of(&["a", "b", "c"], None), Some((vec![path("a"), path("b")], path("c"))));
        assert_eq!(of(&["b"], Some("a")), Some((vec![path("a")], path("b"))));
        assert_eq!(of(&["b"], None), None);
        assert_eq!(of(&["a", "b"], Some("c")), None);
    }
}
