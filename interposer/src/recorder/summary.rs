//! Prints the summary on standard error when the application has ended.

use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use mneme_model::summary::{KernelSummary, RecorderMode, RecorderSummary};
use mneme_model::units;
use mneme_system::files::{self, OwnedFile, private};
use mneme_system::run;

/// The settings that leave launches out.
const SELECTION: &str =
    "MNEME_RR_KERNELS, MNEME_RECORD_RANKS, MNEME_SKIP_RECORDINGS, MNEME_SAMPLE or MNEME_MAX_RECORDINGS";

/// Appends the summary to the file that the user named. The user sees it through `mneme`, if that has started the
/// application, otherwise on standard error.
pub fn deliver(summary: &RecorderSummary, file: Option<&Path>) {
    if let Some(file) = file {
        match append(summary, file) {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => {
                crate::process::log::warning!("cannot write the summary to {}: {error}", file.display())
            }
        }
    }
    let text = text(summary);
    if !text.is_empty() && crate::process::log::enabled(crate::process::log::LogLevel::Warning) {
        crate::process::log::raw(&text);
    }
}

/// The file that `mneme` has made for summaries, open from the start: at its end a program may be unable to open files,
/// because its rights or its root have changed.
static HELD: OnceLock<Option<OwnedFile>> = OnceLock::new();

/// Opens the file, if `mneme` has made it.
pub fn hold() {
    HELD.get_or_init(|| {
        let path = std::env::var_os(mneme_model::summary::VARIABLE).map(PathBuf::from)?;
        if !path.starts_with("/proc") || !run::has_memory(&path) {
            return None;
        }
        File::options().append(true).open(path).and_then(OwnedFile::new).ok()
    });
}

/// Writes a summary to memory of `mneme`, and only there.
pub fn announce(summary: &RecorderSummary) {
    if let Some(Ok(held)) = HELD.get().and_then(Option::as_ref).map(OwnedFile::get) {
        // Without it `mneme` would not learn of a process that is killed.
        let _ = line(summary).and_then(|line| { held }.write_all(&line));
    }
}

fn line(summary: &RecorderSummary) -> std::io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(summary)?;
    line.push(b'\n');
    Ok(line)
}

/// Whether `mneme` still runs and will show the contents of its memory, which it locks while it lives.
fn has_reader(memory: &File) -> bool {
    match memory.try_lock_shared() {
        Ok(()) => _ = memory.unlock(),
        Err(_) => return true,
    }
    false
}

/// Appends the summary. Returns whether it went to memory of `mneme`, which shows it.
fn append(summary: &RecorderSummary, file: &Path) -> std::io::Result<bool> {
    use std::os::unix::fs::OpenOptionsExt;
    let line = line(summary)?;
    let in_memory = file.starts_with("/proc");
    let held = HELD.get().and_then(Option::as_ref).and_then(|held| held.get().ok());
    if let Some(mut held) = held.filter(|_| in_memory) {
        return held.write_all(&line).map(|()| has_reader(held));
    }
    if in_memory && !run::has_memory(file) {
        return Ok(false);
    }
    // One write, so lines of processes that end at the same time stay apart. A pipe without a reader is an error.
    let write = || {
        let mut options = private::options();
        options.append(true).create(!in_memory).custom_flags(libc::O_NONBLOCK);
        options.open(file)?.write_all(&line)
    };
    files::size_limit::as_errors(write)?;
    Ok(in_memory)
}

/// The text for all kernels and graphs, or an empty one if none was launched.
fn text(summary: &RecorderSummary) -> String {
    let mut kernels: Vec<&KernelSummary> = summary.kernels.iter().filter(|kernel| kernel.launches > 0).collect();
    if summary.mode == RecorderMode::Apply {
        kernels.retain(|kernel| kernel.applied.is_some());
    }
    if summary.mode == RecorderMode::Profile {
        kernels.sort_by(|one, other| other.total_gpu_time().total_cmp(&one.total_gpu_time()));
    } else {
        kernels.sort_by(|one, other| one.kernel.cmp(&other.kernel));
    }
    let text = kernels.iter().fold(String::new(), |mut text, kernel| {
        let plural = if kernel.launches == 1 { "" } else { "es" };
        let _ = write!(text, "mneme: {}: {} launch{plural}", shorten(&kernel.kernel), kernel.launches);
        match summary.mode {
            RecorderMode::Profile => time(kernel, &mut text),
            RecorderMode::Record => outcome(kernel, "recorded", &mut text),
            RecorderMode::DryRun => outcome(kernel, "to be recorded", &mut text),
            RecorderMode::Apply => applied(kernel, &mut text),
        }
        text.push('\n');
        text
    });
    text + &summary.graphs.text(summary.mode)
}

fn time(kernel: &KernelSummary, text: &mut String) {
    let _ = match kernel.gpu_time {
        Some(times) => {
            write!(text, ", {:.3} ms of GPU time, {:.1} µs each", kernel.total_gpu_time() / 1e6, times.mean() / 1e3)
        }
        None => write!(text, ", not timed"),
    };
}

fn applied(kernel: &KernelSummary, text: &mut String) {
    let applied = kernel.applied.clone().unwrap_or_default();
    let _ = write!(text, ", {} replaced by tuned code", applied.replaced);
    if applied.reshaped > 0 {
        let _ = write!(text, " ({} with tuned dimensions)", applied.reshaped);
    }
    if applied.specialised > 0 {
        let _ = write!(text, " ({} specialised)", applied.specialised);
    }
    for failure in &kernel.failures {
        let _ = write!(text, "; {} not replaced: {}", failure.launches, failure.reason);
    }
    for kept in applied.kept_dimensions.iter().filter(|kept| kept.replaced > 0) {
        let _ = write!(text, "; {} replaced with the program's own dimensions: {}", kept.replaced, kept.reason);
    }
}

fn outcome(kernel: &KernelSummary, verb: &str, text: &mut String) {
    let _ = write!(text, ", {} {verb}", kernel.instances);
    if kernel.known > 0 {
        let _ = write!(text, " ({} recorded before)", kernel.known);
    }
    if let Some(file) = &kernel.file {
        let _ = write!(text, ", {}, {file}", units::bytes(kernel.disk_bytes));
    }
    if kernel.repeats > 0 {
        let _ = write!(text, "; {} alike in dimensions and scalar arguments", kernel.repeats);
    }
    if kernel.left_out > 0 {
        let _ = write!(text, "; {} left out by {SELECTION}", kernel.left_out);
    }
    if kernel.rejected > 0 {
        let _ = write!(text, "; {} refused by the driver", kernel.rejected);
    }
    for failure in &kernel.failures {
        let _ = write!(text, "; {} not recorded: {}", failure.launches, failure.reason);
    }
}

/// A demangled name without its parameters and return type, at most 60 characters.
fn shorten(name: &str) -> String {
    let mut depth = 0usize;
    let end = name
        .char_indices()
        .find(|(index, c)| {
            match c {
                '<' => depth += 1,
                '>' => depth = depth.saturating_sub(1),
                // A name in an anonymous namespace begins with a parenthesis.
                '(' if depth == 0 => return !name[*index..].starts_with("(anonymous namespace)"),
                _ => {}
            }
            false
        })
        .map_or(name.len(), |(index, _)| index);
    let name = name[..end].strip_prefix("void ").unwrap_or(&name[..end]);
    if name.chars().count() <= 60 { name.to_owned() } else { name.chars().take(59).chain(['…']).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::summary::{RecordingFailure, Times};

    #[test]
    fn names_lose_parameters_and_return_type() {
        assert_eq!(shorten("void vecAdd<int>(int*, int)"), "vecAdd<int>");
        assert_eq!(shorten("k<(E)1, void (*)(int)>(int)"), "k<(E)1, void (*)(int)>");
        assert_eq!(shorten("(anonymous namespace)::k(int)"), "(anonymous namespace)::k");
        assert_eq!(shorten("plain"), "plain");
        assert_eq!(shorten(&"x".repeat(100)).chars().count(), 60);
    }

    fn summary(mode: RecorderMode, kernel: KernelSummary) -> RecorderSummary {
        RecorderSummary { mode, kernels: vec![kernel], ..RecorderSummary::default() }
    }

    fn kernel(launches: u64) -> KernelSummary {
        KernelSummary {
            kernel: "k(int)".into(),
            launches,
            instances: 1,
            disk_bytes: 1_310_720,
            file: Some("d/42.json".into()),
            ..KernelSummary::default()
        }
    }

    #[test]
    fn a_line_says_what_happened() {
        assert_eq!(
            text(&summary(RecorderMode::Record, KernelSummary { repeats: 2, left_out: 1, ..kernel(4) })),
            format!(
                "mneme: k: 4 launches, 1 recorded, 1.25 MiB, d/42.json; 2 alike in dimensions and scalar arguments; 1 left out by {SELECTION}\n"
            )
        );
        let failures = vec![RecordingFailure { reason: "device not idle".into(), launches: 2, broken: true }];
        assert_eq!(
            text(&summary(RecorderMode::Record, KernelSummary { failures, ..kernel(3) })),
            "mneme: k: 3 launches, 1 recorded, 1.25 MiB, d/42.json; 2 not recorded: device not idle\n"
        );
        assert_eq!(text(&summary(RecorderMode::Record, kernel(0))), "");
        let gpu_time = Some(Times { count: 1, total: 2000, min: 2000, max: 2000 });
        assert_eq!(
            text(&summary(RecorderMode::Profile, KernelSummary { gpu_time, ..kernel(1000) })),
            "mneme: k: 1000 launches, 2.000 ms of GPU time, 2.0 µs each\n"
        );
    }

    #[test]
    fn what_was_replaced_is_said_of_kernels_that_are_tuned() {
        let failures = vec![RecordingFailure { reason: "inside a stream capture".into(), launches: 1, broken: false }];
        let applied = Some(mneme_model::summary::Applied { replaced: 3, reshaped: 2, ..Default::default() });
        let tuned = KernelSummary { applied, failures, ..kernel(4) };
        let mut summary = summary(RecorderMode::Apply, tuned);
        summary.kernels.push(KernelSummary { kernel: "other()".into(), ..kernel(9) });
        assert_eq!(
            text(&summary),
            "mneme: k: 4 launches, 3 replaced by tuned code (2 with tuned dimensions); 1 not replaced: inside a stream capture\n"
        );
    }

    #[test]
    fn summaries_are_lines_of_a_file_and_go_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("summary");
        for _ in 0..2 {
            assert!(!append(&summary(RecorderMode::Record, kernel(4)), &file).unwrap());
        }
        let read = mneme_model::summary::parse(&std::fs::read_to_string(&file).unwrap());
        assert_eq!(read, [summary(RecorderMode::Record, kernel(4)), summary(RecorderMode::Record, kernel(4))]);
        let pipe = folder.path().join("pipe");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert!(append(&summary(RecorderMode::Record, kernel(4)), &pipe).is_err(), "nobody reads it");
        // A descriptor that is not the memory of `mneme` is left alone.
        let open = File::options().write(true).open(&file).unwrap();
        let descriptor = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&open));
        assert!(!append(&summary(RecorderMode::Record, kernel(9)), Path::new(&descriptor)).unwrap());
        assert_eq!(std::fs::read_to_string(&file).unwrap().lines().count(), 2);
    }
}
