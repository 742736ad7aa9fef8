//! The command `mneme apply`, which runs an application with tuned kernels instead of its own.
//!
//! `mneme-replay` compiles winners before the application starts, and `mneme-build` compiles code for repeated launches
//! while it runs. A cache keeps both. The library in the application only loads machine code.

mod arguments;
mod cache;
mod compile;
mod error;
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
use mneme_image::symbol::readable;
use mneme_model::configuration::Configuration;
use mneme_model::summary::{RecorderMode, merged};
use mneme_system::console::check_place;
use mneme_winners::{
    DimensionRule, LaunchDimensions, SPECIALISATION_VARIABLE, TIMES_VARIABLE, TRIALS_VARIABLE, VARIABLE, Winner,
    Winners,
};

use self::cache::{CodeCache, CodeCounts};
pub use self::error::ApplyError;
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

/// The variable with the file that Proteus reads.
const PROTEUS: &str = "PROTEUS_TUNED_KERNELS";

/// The variable with the size limit of the cache, MiB.
const SIZE_VARIABLE: &str = "MNEME_CACHE_SIZE";
/// MiB. A winner takes 10 to 100 KiB.
const CACHE_SIZE: u64 = 1024;

#[derive(Debug, Args)]
pub struct ApplyOptions {
    /// Results of mneme tune: results folders, or files for Proteus (proteus_tuned_kernels.json), which need
    /// --record-database; put -- after the last one [default: the file in PROTEUS_TUNED_KERNELS]
    #[arg(long, value_name = "RESULTS", num_args = 1..)]
    tuned: Vec<PathBuf>,
    /// The recording's folder, if it is not where the results say (also -rdb)
    #[arg(long, aliases = ["record-db-dir", "record-db", "rdb"], value_name = "FOLDER")]
    record_database: Option<PathBuf>,
    /// Only use winners for kernels whose mangled or demangled name matches this regular expression
    #[arg(long, alias = "record-regex", value_parser = variables::regular_expression, value_name = "REGEX")]
    kernels: Option<String>,
    /// Folder for compiled winners [default: MNEME_CACHE_DIR, otherwise mneme in XDG_CACHE_HOME or ~/.cache]
    #[arg(long, value_name = "FOLDER")]
    cache_dir: Option<PathBuf>,
    /// Size limit of that folder in MiB; the least recently used entries are removed [default: MNEME_CACHE_SIZE,
    /// otherwise 1024]
    #[arg(long, value_name = "MIB")]
    cache_size: Option<u64>,
    /// Use a winner only after it has verified on N launches of this run. These launches keep the application's own
    /// code, are recorded, and are replayed with the tuned code beside the application
    #[arg(long, value_name = "N", default_value_t = 0)]
    verify_first: u32,
    /// Fold arguments and dimensions into the code of repeated launches while the application runs: integers, or all
    /// scalars, which may change results in their last bits. Without --tuned, for all kernels with IR
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "integers", value_parser = ["integers", "scalars"])]
    specialize: Option<String>,
    /// Learn the application in this folder, one step per start: time its kernels, record the important ones, and, once
    /// mneme learn FOLDER has tuned them, use confirmed winners
    #[arg(long, value_name = "FOLDER")]
    learn: Option<PathBuf>,
    /// Use only tuned code, with the application's dimensions
    #[arg(long)]
    keep_dimensions: bool,
    /// Use tuned dimensions for every launch that their rule covers [default: for launches with the dimensions and
    /// arguments of a verified recorded launch, and for all once three with different arguments have verified]
    #[arg(long, conflicts_with = "keep_dimensions")]
    any_launch: bool,
    /// Time replaced launches, like mneme profile, for the table's column GOT
    #[arg(long)]
    times: bool,
    /// Write the compiled winners to this file, for MNEME_MODE=apply MNEME_TUNED=FILE; you can leave out the
    /// application
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    /// Write the closing table as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    pub application: Application,
}

/// A configuration to apply to a kernel.
#[derive(Clone)]
pub struct AppliedWinner {
    pub recording: TunedRecording,
    /// Dynamic hash.
    pub id: String,
    pub configuration: Configuration,
    /// Architecture of the device that it was tuned on, in the words of recordings; `None` if unknown.
    pub architecture: Option<String>,
    rule: Option<DimensionRule>,
    /// ns.
    pub before: Option<f64>,
    pub after: Option<f64>,
    /// Options of `mneme-replay` for comparing memory, and for the code to start from.
    replay: Vec<String>,
    pub source: PathBuf,
}

/// The size limit of the cache, bytes.
fn cache_size(options: &ApplyOptions) -> Result<u64, CommandError> {
    let named = std::env::var(SIZE_VARIABLE).unwrap_or_default();
    let mebibytes = match (options.cache_size, named.trim()) {
        (Some(size), _) => size,
        (None, "") => CACHE_SIZE,
        (None, text) => text
            .parse()
            .map_err(|_| CommandError::Usage(format!("{SIZE_VARIABLE} is '{named}'; set it to a number of MiB")))?,
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
        return Err(CommandError::Usage("--verify-first needs an application to run".into()));
    } else if options.specialize.is_some() {
        return Err(CommandError::Usage("--specialize needs an application to run".into()));
    }
    let learnt = match &options.learn {
        Some(_) if !runs => return Err(CommandError::Usage("--learn needs an application to run".into())),
        Some(folder) => learn::begin(folder, &options.application, options.json.as_deref())?,
        None => Vec::new(),
    };
    if let Some(file) = &options.manifest {
        check_place(file).map_err(|source| CommandError::Io { path: file.clone(), source })?;
    }
    let counts = CodeCounts::default();
    // Kept until the run ends: if the cache folder cannot be used, the code is in a temporary folder.
    let cache = Arc::new(CodeCache::open(options.cache_dir.as_deref()));
    if !runs && cache.is_for_this_run() {
        let what = "--manifest refers to files of compiled code, so it needs a cache folder; name one with --cache-dir";
        cache.close();
        return Err(CommandError::Usage(what.into()));
    }
    let mut used = winners(options, learnt, &cache, &counts)?;
    let folder = match runs && (options.verify_first > 0 || options.specialize.is_some()) {
        true => RunFolder::create(&cache)
            .inspect_err(|error| {
                mneme_system::remark!("mneme: winners are neither compiled nor verified during this run: {error}")
            })
            .ok(),
        false => None,
    };
    if options.verify_first > 0 && folder.is_none() {
        used.clear();
    }
    let winners = Winners::new(used.iter().map(|(_, winner)| winner.clone()).collect());
    // Without a recorder, the application runs at full speed.
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
    // The threads are not joined: unfinished answers are of no use once the application has ended.
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
        mneme_system::remark!("mneme: {} is tuned, but was not launched", readable(kernel));
    }
    // Without winners, a message above says why.
    let has_table = !(winners.winners.is_empty() && options.specialize.is_none() && options.learn.is_none());
    report::publish(RecorderMode::Apply, &name, status, &summaries, options.json.as_deref(), has_table);
    let [found, compiled] = counts.get();
    if found + compiled > 0 {
        mneme_system::remark!("code: {found} from the cache, {compiled} compiled");
    }
    end_like(status)
}

/// Compiles all winners that can be used. Warns about the others, which keep their own code.
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
                let what = format!("name results of mneme tune with --tuned, or set {PROTEUS}");
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
        found.extend(these?);
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
            Err(reason) => {
                mneme_system::remark!("mneme: ignoring {name}, so its kernels keep their own code: {reason}")
            }
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
    // Only shrinks the cache after adding to it, or with an explicit limit.
    let is_said = options.cache_size.is_some() || std::env::var_os(SIZE_VARIABLE).is_some_and(|size| !size.is_empty());
    if counts.get()[1] > 0 || is_said {
        let used = winners.iter().map(|(_, winner)| winner.code.clone()).collect();
        cache.shrink(size, &used);
    }
    run_folder::remove_abandoned(cache.folder());
    Ok(winners)
}
