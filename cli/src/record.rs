//! The command `mneme record`, which runs an application under the recorder.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use mneme_model::summary::{KernelSummary, RecorderMode, merged};
use mneme_model::text::closest;
use mneme_recording::database::KernelRecord;
use mneme_recording::export::Format;
use mneme_recording::store::check_writable;
use mneme_recording::{RecordingError, USUAL};
use mneme_system::exit;
use mneme_system::files::private;
use regex_lite::Regex;

use crate::application::{Application, end_like};
use crate::error::CommandError;
use crate::report::{self, SummaryFile};
use crate::selection::KernelFile;
use crate::staging::Staging;
use crate::variables;

#[derive(Debug, Args)]
pub struct RecordOptions {
    /// Folder for the recording, created if needed; adds to an existing recording (also -rdb) [default: the folder in MNEME_DATA_DIR, otherwise recording]
    #[arg(long, aliases = ["record-db-dir", "record-db", "rdb"], value_name = "FOLDER")]
    record_database: Option<PathBuf>,
    /// Address space to reserve for device memory, GiB (also -vass)
    #[arg(long, aliases = ["virtual-address-space-size", "vass"], value_name = "GIB", value_parser = clap::value_parser!(u64).range(1..=variables::LARGEST_ARENA))]
    virtual_address_space: Option<u64>,
    /// Record only kernels whose mangled or demangled name matches this regular expression
    #[arg(long, alias = "record-regex", value_parser = variables::regular_expression, value_name = "REGEX")]
    kernels: Option<String>,
    /// Launches of each kernel to skip first (also -sr)
    #[arg(long, aliases = ["skip-recordings", "per-kernel-skip-recordings", "sr"], value_name = "COUNT")]
    skip: Option<u64>,
    /// Consider only every Nth launch of each kernel after those
    #[arg(long, value_name = "EVERY", value_parser = clap::value_parser!(u64).range(1..))]
    sample: Option<u64>,
    /// Instances of each kernel that a process records (also -mr) [default: 4]
    #[arg(long, aliases = ["max-recordings", "per-kernel-max-recordings", "mr"], value_name = "COUNT")]
    max: Option<u64>,
    /// Seconds that the application is held at most while a kernel, or work before it, runs [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=variables::LONGEST_LIMIT))]
    kernel_limit: Option<u64>,
    /// Processes of a distributed run that record: all, or a list of ranks (also -rr) [default: the ranks in MNEME_RECORD_RANKS, otherwise 0]
    #[arg(long, alias = "rr", value_name = "RANKS", value_parser = variables::listed_ranks)]
    record_ranks: Option<String>,
    /// Level of zstd compression for recorded memory
    #[arg(long, value_name = "LEVEL", value_parser = clap::value_parser!(u64).range(1..=22))]
    compression_level: Option<u64>,
    /// Write files for the existing Mneme, with this kind of epilogues [default: chunks, Mneme's own files]
    #[arg(long, value_name = "FORMAT", value_parser = variables::EPILOGUE_FORMATS)]
    epilogue_format: Option<String>,
    /// List what would be recorded, without recording it
    #[arg(long)]
    dry_run: bool,
    /// End with status 73 if any selected launch was not recorded, even if it is of a kind that cannot be
    #[arg(long)]
    strict: bool,
    /// Write the closing table as JSON to this file; - for standard output
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    pub application: Application,
}

/// Runs the application. Returns only if that fails.
pub fn run(options: &RecordOptions) -> Result<std::convert::Infallible, CommandError> {
    report::check_places(options.json.as_deref())?;
    // Checked before the recording's folder is created.
    options.application.check()?;
    let summaries_file = SummaryFile::open()?;
    let format = epilogue_format(options)?;
    let (mut staging, mut created) = (None, None);
    let mut settings: Vec<(&str, OsString)> = Vec::new();
    let usual =
        || std::env::var_os("MNEME_DATA_DIR").filter(|folder| !folder.is_empty()).unwrap_or_else(|| USUAL.into());
    let usual = (!options.dry_run).then(|| PathBuf::from(usual()));
    if let Some(folder) = options.record_database.as_deref().or(usual.as_deref()) {
        let mut folder =
            std::path::absolute(folder).map_err(|source| CommandError::Io { path: folder.into(), source })?;
        if !options.dry_run {
            created = (!folder.exists()).then(|| folder.clone());
            private::create_folder(&folder).map_err(RecordingError::io(&folder))?;
            check_writable(&folder)?;
            if let Some(format) = format {
                let staged = Staging::create(&folder, format)?;
                folder = staged.path().to_path_buf();
                settings.push(("MNEME_EPILOGUE_TYPE", format.name().into()));
                staging = Some(staged);
            }
        }
        settings.push(("MNEME_DATA_DIR", folder.into()));
    }
    let numbers = [
        ("MNEME_PAGE_SIZE", options.virtual_address_space),
        ("MNEME_MAX_RECORDINGS", options.max),
        ("MNEME_SKIP_RECORDINGS", options.skip),
        ("MNEME_SAMPLE", options.sample),
        ("MNEME_KERNEL_LIMIT", options.kernel_limit),
        ("MNEME_COMPRESSION_LEVEL", options.compression_level),
    ];
    settings.extend(numbers.into_iter().filter_map(|(name, value)| Some((name, value?.to_string().into()))));
    let texts = [("MNEME_RR_KERNELS", &options.kernels), ("MNEME_RECORD_RANKS", &options.record_ranks)];
    settings.extend(texts.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?.into()))));
    let mode = if options.dry_run { RecorderMode::DryRun } else { RecorderMode::Record };
    let status = options.application.run(mode, &settings, &summaries_file).inspect_err(|_| {
        // Only an empty folder is removed.
        created.iter().for_each(|folder| drop(std::fs::remove_dir(folder)));
    })?;

    let mut summaries = summaries_file.read();
    if let Some(staging) = staging {
        staging.export(&mut summaries);
    }
    let name = options.application.name();
    report::publish(mode, &name, status, &summaries, options.json.as_deref(), true);
    if let Some(wanted) = &options.kernels {
        say_closest(wanted, &merged(&summaries));
    }
    warn_of_unchanged(&merged(&summaries));
    let is_unknown = options.strict && summaries.iter().any(|summary| summary.unfinished && summary.selected);
    let is_failure = is_unknown || report::is_failure(&summaries, options.strict);
    if status.success() && mode == RecorderMode::Record && is_failure {
        std::process::exit(exit::NOT_RECORDED);
    }
    end_like(status)
}

/// If no kernel's name matches `--kernels`, names the most similar ones.
fn say_closest(wanted: &str, kernels: &[KernelSummary]) {
    let Ok(pattern) = Regex::new(wanted) else { return };
    let is_found = |kernel: &KernelSummary| pattern.is_match(&kernel.mangled) || pattern.is_match(&kernel.kernel);
    if !kernels.is_empty() && !kernels.iter().any(is_found) {
        let closest = closest(wanted, kernels.iter().map(|kernel| &kernel.kernel));
        mneme_system::remark!("mneme: no kernel's name matches '{wanted}'; the most similar are {closest}");
    }
}

/// Warns of new instances that change no memory. Unreadable recordings are skipped here; using them reports the error.
fn warn_of_unchanged(kernels: &[KernelSummary]) {
    for kernel in kernels.iter().filter(|kernel| kernel.instances > 0) {
        let Some(path) = kernel.file.as_ref().map(PathBuf::from) else { continue };
        if let Ok(record) = KernelRecord::load(&path) {
            let _ = KernelFile { path, record }.warn_of_unchanged(None);
        }
    }
}

/// The format from the option, otherwise from the variable; `None` for Mneme's own format.
fn epilogue_format(options: &RecordOptions) -> Result<Option<Format>, CommandError> {
    variables::check()?;
    let variable = std::env::var("MNEME_EPILOGUE_TYPE").ok();
    let text = options.epilogue_format.clone().or(variable).unwrap_or_default();
    Ok(Format::parse(text.trim().to_ascii_lowercase().as_str()))
}
