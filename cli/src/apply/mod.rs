//! The command `mneme apply`, which runs an application with tuned kernels in the place of its own.
//!
//! Winners are compiled before the application starts, by `mneme-replay`, and code for launches that repeat while it
//! runs, by `mneme-build`; both are kept in a cache. The library in the application only loads machine code.

mod arguments;
mod cache;
mod compile;
mod proteus;
mod recording;
pub mod results;
mod run_folder;
mod specialise;
mod trials;
mod verdict;
mod verified;
mod winner;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mneme_core::configuration::Configuration;
use mneme_core::console::check_place;
use mneme_core::summary::{RecorderMode, merged};
use mneme_core::tuned::{
    DimensionRule, LaunchDimensions, SPECIALISATION_VARIABLE, TIMES_VARIABLE, TRIALS_VARIABLE, VARIABLE, Winner,
    Winners,
};

use self::cache::{CodeCache, CodeCounts};
use self::recording::TunedRecording;
use self::run_folder::RunFolder;
use self::specialise::{Specialiser, UsedWinners};
use self::winner::{Allowed, CompiledWinner, PreparedWinner};
use crate::application::{Application, end_like};
use crate::error::CommandError;
use crate::learn;
use crate::memory_file::MemoryFile;
use crate::parallel::in_parallel;
use crate::report::{self, SummaryFile};
use crate::variables;

/// The variable that names the file which Proteus reads.
const PROTEUS: &str = "PROTEUS_TUNED_KERNELS";

/// The variable that says what size the cache is kept below, MiB.
const SIZE_VARIABLE: &str = "MNEME_CACHE_SIZE";
/// MiB. Winners have some 10 to 100 KiB.
const CACHE_SIZE: u64 = 1024;

#[derive(Debug, Args)]
pub struct ApplyOptions {
    /// What mneme tune has left: results folders, or files for Proteus (proteus_tuned_kernels.json), which need
    /// --record-database; put -- after the last one [default: the file that PROTEUS_TUNED_KERNELS names]
    #[arg(long, value_name = "RESULTS", num_args = 1..)]
    tuned: Vec<PathBuf>,
    /// The folder of the recording, if it is not where the results say (also -rdb)
    #[arg(long, aliases = ["record-db-dir", "record-db", "rdb"], value_name = "FOLDER")]
    record_database: Option<PathBuf>,
    /// Only kernels whose mangled or demangled name this regular expression is found in (also -rr)
    #[arg(long, aliases = ["record-regex", "rr"], value_parser = variables::regular_expression, value_name = "REGEX")]
    kernels: Option<String>,
    /// Where compiled winners are kept [default: MNEME_CACHE_DIR, else mneme in XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FOLDER")]
    cache_dir: Option<PathBuf>,
    /// Size that the folder is kept below, MiB: what was not used for longest goes [default: MNEME_CACHE_SIZE, else
    /// 1024]
    #[arg(long, value_name = "MIB")]
    cache_size: Option<u64>,
    /// Use a winner after it has verified on so many launches of this run: they keep the application's own code, are
    /// recorded, and replayed beside the application with the tuned code
    #[arg(long, value_name = "N", default_value_t = 0)]
    verify_first: u32,
    /// Fold arguments and dimensions into the code of launches that repeat, while the application runs: integers, or
    /// all scalars, with which results may differ in their last bits. Without --tuned, in all kernels with IR
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "integers", value_parser = ["integers", "scalars"])]
    specialize: Option<String>,
    /// Learn the application in this folder, a step each start: time its kernels, record those that matter, and, once
    /// mneme learn FOLDER has tuned them, use what was confirmed
    #[arg(long, value_name = "FOLDER")]
    learn: Option<PathBuf>,
    /// Use tuned code alone, with the dimensions that the application asks for
    #[arg(long)]
    keep_dimensions: bool,
    /// Use tuned dimensions for every launch that their rule is for [default: for launches with the dimensions and
    /// arguments of a recorded one that verified, and for all if three with different arguments did]
    #[arg(long, conflicts_with = "keep_dimensions")]
    any_launch: bool,
    /// Time replaced launches, as mneme profile times launches, for the table's column GOT
    #[arg(long)]
    times: bool,
    /// Write the compiled winners to this file, for MNEME_MODE=apply MNEME_TUNED=FILE; the application may be left out
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Write the closing table as JSON to this file, - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    pub application: Application,
}

/// A configuration that is to be used for a kernel.
#[derive(Clone)]
pub struct AppliedWinner {
    pub recording: TunedRecording,
    /// Dynamic hash.
    pub id: String,
    pub configuration: Configuration,
    /// Of the device that it was found on, as recordings name it; `None` where that is not known.
    pub architecture: Option<String>,
    rule: Option<DimensionRule>,
    /// ns.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// How memory was compared, and which code it began with: options of `mneme-replay`.
    replay: Vec<String>,
    pub source: PathBuf,
}

/// The size that the cache is kept below, bytes.
fn cache_size(options: &ApplyOptions) -> Result<u64, CommandError> {
    let named = std::env::var(SIZE_VARIABLE).unwrap_or_default();
    let mebibytes = match (options.cache_size, named.trim()) {
        (Some(size), _) => size,
        (None, "") => CACHE_SIZE,
        (None, text) => text
            .parse()
            .map_err(|_| CommandError::Usage(format!("{SIZE_VARIABLE} is '{named}', which is no number of MiB")))?,
    };
    Ok(mebibytes.saturating_mul(1 << 20))
}

/// Runs the application.
pub fn run(options: &ApplyOptions) -> Result<(), CommandError> {
    report::check_places(options.json.as_deref())?;
    variables::check()?;
    let runs = !options.application.is_empty();
    if runs {
        options.application.check()?;
    } else if options.manifest.is_none() {
        let what = "name an application to run (mneme apply --tuned RESULTS -- ./app), or a file with --manifest";
        return Err(CommandError::Usage(what.into()));
    } else if options.verify_first > 0 {
        return Err(CommandError::Usage("--verify-first needs an application, whose launches are verified".into()));
    } else if options.specialize.is_some() {
        return Err(CommandError::Usage("--specialize needs an application, whose launches are specialised".into()));
    }
    let learnt = match &options.learn {
        Some(_) if !runs => return Err(CommandError::Usage("--learn needs an application, which it learns".into())),
        Some(folder) => learn::begin(folder, &options.application, options.json.as_deref())?,
        None => Vec::new(),
    };
    if let Some(file) = &options.manifest {
        check_place(file).map_err(|source| CommandError::Io { path: file.clone(), source })?;
    }
    let counts = CodeCounts::default();
    // As long as the run: where its folder cannot be used, the code is in one that goes with it.
    let cache = Arc::new(CodeCache::open(options.cache_dir.as_deref()));
    if !runs && cache.is_for_this_run() {
        let what = "--manifest names files of compiled code, which a folder has to keep; name one with --cache-dir";
        cache.close();
        return Err(CommandError::Usage(what.into()));
    }
    let mut used = winners(options, learnt, &cache, &counts)?;
    let folder = match runs && (options.verify_first > 0 || options.specialize.is_some()) {
        true => RunFolder::create(&cache)
            .inspect_err(|error| mneme_core::remark!("mneme: nothing is made or verified beside the program: {error}"))
            .ok(),
        false => None,
    };
    if options.verify_first > 0 && folder.is_none() {
        used.clear();
    }
    let winners = Winners::new(used.iter().map(|(_, winner)| winner.clone()).collect());
    if winners.winners.is_empty() && options.specialize.is_none() && options.learn.is_none() {
        mneme_core::remark!("mneme: nothing is tuned for this application; it runs with its own kernels");
    }
    // Without a recorder in it nothing is slower than by itself.
    let is_alone =
        winners.winners.is_empty() && options.specialize.is_none() && !options.times && options.json.is_none();
    if runs && is_alone && options.manifest.is_none() {
        let status = options.application.run_alone();
        drop(folder);
        cache.close();
        end_like(status?);
    }
    let mut memory = None;
    let manifest = match &options.manifest {
        Some(file) => {
            winners.save(file).map_err(|source| CommandError::Io { path: file.clone(), source })?;
            std::path::absolute(file).map_err(|source| CommandError::Io { path: file.clone(), source })?
        }
        None => {
            let failed = |source| CommandError::Io { path: "memory for the winners".into(), source };
            let file = memory.insert(MemoryFile::create("mneme-tuned").map_err(failed)?);
            file.file().write_all(&winners.text()).map_err(failed)?;
            file.path()
        }
    };
    if !runs {
        return Ok(());
    }
    let summaries_file = SummaryFile::open()?;
    let mut settings: Vec<(&str, OsString)> = vec![(VARIABLE, manifest.into())];
    settings.extend(options.times.then(|| (TIMES_VARIABLE, "1".into())));
    settings.extend(options.kernels.iter().map(|kernels| ("MNEME_RR_KERNELS", kernels.into())));
    let used = UsedWinners::new(used);
    // The threads are not waited for: what is not done when the application ends is of no use to it.
    if let Some(answers) = folder.as_ref().map(RunFolder::answers) {
        settings.push(("MNEME_DATA_DIR", answers.folder().into()));
        if options.verify_first > 0 {
            settings.push((TRIALS_VARIABLE, options.verify_first.to_string().into()));
            let (answers, used) = (answers.clone(), used.clone());
            std::thread::spawn(move || trials::judge(&answers, &used));
        }
        if let Some(kinds) = &options.specialize {
            settings.push((SPECIALISATION_VARIABLE, kinds.into()));
            let (cache, cache_size) = (Arc::clone(&cache), cache_size(options)?);
            let specialiser = Specialiser { cache, cache_size, used, counts: counts.clone() };
            std::thread::spawn(move || specialiser.serve(&answers));
        }
    }
    let status = options.application.run(RecorderMode::Apply, &settings, &summaries_file);
    drop((memory, folder));
    cache.close();
    let status = status?;
    let summaries = summaries_file.read();
    let name = options.application.name();
    let launched: BTreeSet<String> = merged(&summaries).into_iter().map(|kernel| kernel.mangled).collect();
    let tuned: BTreeSet<&String> = winners.winners.iter().map(|winner| &winner.kernel).collect();
    for kernel in tuned.into_iter().filter(|kernel| !launched.contains(*kernel) && !summaries.is_empty()) {
        mneme_core::remark!("mneme: {kernel} is tuned, and was not launched");
    }
    report::publish(RecorderMode::Apply, &name, status, &summaries, options.json.as_deref());
    let [found, compiled] = counts.get();
    if found + compiled > 0 {
        mneme_core::remark!("code: {found} from the cache, {compiled} compiled");
    }
    end_like(status)
}

/// Everything that can be used, compiled. What cannot is said, and keeps no application from running.
fn winners(
    options: &ApplyOptions,
    learnt: Vec<PathBuf>,
    cache: &CodeCache,
    counts: &CodeCounts,
) -> Result<Vec<(AppliedWinner, Winner)>, CommandError> {
    let mut sources = options.tuned.clone();
    sources.extend(learnt);
    if sources.is_empty() {
        match std::env::var_os(PROTEUS).filter(|file| !file.is_empty()) {
            Some(file) => sources.push(file.into()),
            None if options.specialize.is_some() || options.learn.is_some() => return Ok(Vec::new()),
            None => {
                let what = format!("name what mneme tune has left with --tuned, or set {PROTEUS}");
                return Err(CommandError::Usage(what));
            }
        }
    }
    let recordings = options.record_database.as_deref();
    for named in sources.iter().map(PathBuf::as_path).chain(recordings) {
        CommandError::unless_there(named)?;
    }
    let mut found = Vec::new();
    let read = |source: &PathBuf| {
        if source.is_dir() { results::read(source, recordings) } else { proteus::read(source, recordings) }
    };
    for these in in_parallel(&sources, read) {
        found.extend(these.map_err(CommandError::Usage)?);
    }
    let size = cache_size(options)?;
    let &ApplyOptions { verify_first, keep_dimensions: keeps_dimensions, any_launch, .. } = options;
    let allowed = Allowed { is_verified: verify_first > 0, keeps_dimensions, any_launch };
    let prepared = in_parallel(&found, |one| PreparedWinner::of(one, cache, allowed));
    let mut compiled = Vec::new();
    for (one, prepared) in found.into_iter().zip(prepared) {
        let name = one.source.display().to_string();
        match prepared.and_then(|prepared| prepared.compiled(&one, cache, counts)) {
            Ok(winner) => compiled.push((one, winner)),
            Err(reason) => mneme_core::remark!("mneme: {name} is not used: {reason}"),
        }
    }
    let mut sessions: BTreeMap<(PathBuf, PathBuf), Vec<(String, LaunchDimensions)>> = BTreeMap::new();
    let session = |one: &AppliedWinner| (one.source.clone(), one.recording.database.clone());
    for (one, compiled) in &compiled {
        sessions.entry(session(one)).or_default().push((compiled.id.clone(), compiled.winner.tuned));
    }
    let verified = |(one, compiled): (AppliedWinner, CompiledWinner)| {
        let winner = compiled.verified(&one, &sessions[&session(&one)], cache);
        (one, winner)
    };
    let winners: Vec<(AppliedWinner, Winner)> = compiled.into_iter().map(verified).collect();
    // What others have added, they have made room for.
    let is_said = options.cache_size.is_some() || std::env::var_os(SIZE_VARIABLE).is_some_and(|size| !size.is_empty());
    if counts.get()[1] > 0 || is_said {
        let used = winners.iter().map(|(_, winner)| winner.code.clone()).collect();
        cache.shrink(size, &used);
    }
    run_folder::remove_abandoned(cache.folder());
    Ok(winners)
}
