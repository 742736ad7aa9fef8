//! Shows the summaries that recorders write about their processes.

use std::collections::BTreeSet;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use mneme_image::elf::{MappedFile, needs};
use mneme_model::summary::{
    GraphLaunches, KernelSummary, MEMORY_NAME, RecorderMode, RecorderSummary, UnwatchedLibrary, merged, merged_graphs,
    parse,
};
use mneme_model::text::shorten;
use mneme_model::units::{self, counted};
use mneme_recording::database::{KernelRecord, kernels as kernels_in};
use mneme_system::console::check_place;
use mneme_system::files::private;
use serde::Serialize;

use crate::error::CommandError;
use crate::memory_file::MemoryFile;
use crate::program::resolve;
use crate::table::{Align, render};

/// Number of kernels that are listed if none of them is recorded.
const FEW: usize = 5;
/// Beginnings of the names of libraries that programs for GPUs use.
const GPU_LIBRARIES: [&str; 5] = ["libcuda.", "libcudart.", "libamdhip64.", "libnvrtc.", "libtorch"];
/// Width of a kernel's name, characters.
const NAME_WIDTH: usize = 44;

/// Memory to which recorders append, by its path.
pub struct SummaryFile(MemoryFile);

impl SummaryFile {
    pub fn open() -> Result<Self, CommandError> {
        // Locked while this process lives, so recorders see that their summaries will be shown.
        let memory = MemoryFile::create(MEMORY_NAME).and_then(|memory| {
            memory.file().lock()?;
            Ok(memory)
        });
        memory.map(Self).map_err(|source| CommandError::Io { path: MEMORY_NAME.into(), source })
    }

    /// The path for other processes of this machine.
    pub fn path(&self) -> PathBuf {
        self.0.path()
    }

    /// The summaries so far.
    pub fn read(&self) -> Vec<RecorderSummary> {
        let length = self.0.file().metadata().map_or(0, |metadata| metadata.len());
        let mut text = vec![0; length as usize];
        match self.0.file().read_exact_at(&mut text, 0) {
            Ok(()) => parse(&String::from_utf8_lossy(&text)),
            Err(_) => Vec::new(),
        }
    }
}

/// The report as JSON.
#[derive(Serialize)]
struct Report<'a> {
    application: &'a str,
    /// The shell's status: 128 + signal if a signal ended the application.
    exit_status: i32,
    processes: &'a [RecorderSummary],
    /// All processes together.
    kernels: Vec<KernelSummary>,
    /// All processes together.
    graphs: GraphLaunches,
}

/// Fails if [`publish`] could not write its files, before the application runs.
pub fn check_places(file: Option<&Path>) -> Result<(), CommandError> {
    let lines = std::env::var_os(mneme_model::summary::VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    for path in file.filter(|file| *file != Path::new("-")).into_iter().chain(lines.as_deref()) {
        check_place(path).map_err(|source| CommandError::Io { path: path.into(), source })?;
    }
    Ok(())
}

/// Reports on a run: text for people, if it `has_table`, and, if `json` is a file or "-", JSON. Write errors are
/// reported but do not change the status, which is the application's.
pub fn publish(
    mode: RecorderMode,
    application: &str,
    status: ExitStatus,
    summaries: &[RecorderSummary],
    json: Option<&Path>,
    has_table: bool,
) {
    let text = text(mode, application, status, summaries);
    if has_table && !text.is_empty() {
        mneme_system::remark!("{}", text.trim_end_matches('\n'));
    }
    if let Err(error) = write_json(json, application, status, summaries) {
        mneme_system::remark!("mneme: {error}");
    }
}

/// Writes the report to a file, or to standard output for "-". Appends the processes' lines to the file in
/// `MNEME_SUMMARY`, if set.
fn write_json(
    file: Option<&Path>,
    application: &str,
    status: ExitStatus,
    summaries: &[RecorderSummary],
) -> Result<(), CommandError> {
    if let Some(lines) = std::env::var_os(mneme_model::summary::VARIABLE).filter(|path| !path.is_empty()) {
        let path = PathBuf::from(lines);
        let append = || -> std::io::Result<()> {
            let mut file = private::append(&path)?;
            summaries.iter().try_for_each(|summary| writeln!(file, "{}", serde_json::to_string(summary)?))
        };
        append().map_err(|source| CommandError::Io { path: path.clone(), source })?;
    }
    let Some(file) = file else { return Ok(()) };
    let exit_status = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    let report = Report {
        application,
        exit_status,
        processes: summaries,
        kernels: merged(summaries),
        graphs: merged_graphs(summaries),
    };
    let text = format!("{:#}\n", serde_json::to_value(&report).expect("plain data serialises"));
    if file == Path::new("-") {
        return crate::output::print(&text);
    }
    private::write(file, text).map_err(|source| CommandError::Io { path: file.into(), source })
}

/// Whether a selected launch was not recorded because something broke or, if `strict`, because its kind cannot be
/// recorded.
pub fn is_failure(summaries: &[RecorderSummary], strict: bool) -> bool {
    let kernels = merged(summaries);
    strict && !merged_graphs(summaries).whole.is_empty()
        || kernels.iter().flat_map(|kernel| &kernel.failures).any(|failure| failure.broken || strict)
}

/// The closing text of a run; may be empty.
fn text(mode: RecorderMode, application: &str, status: ExitStatus, summaries: &[RecorderSummary]) -> String {
    let kernels = merged(summaries);
    let graphs = merged_graphs(summaries).text(mode) + &without_end(mode, application, status, summaries);
    if kernels.is_empty() && !graphs.is_empty() {
        return graphs;
    }
    if kernels.is_empty() {
        let doing = match mode {
            RecorderMode::Profile => "timed",
            RecorderMode::Apply => "replaced",
            RecorderMode::Record | RecorderMode::DryRun => "recorded",
        };
        if let Some(signal) = status.signal() {
            return format!(
                "mneme: {application} was killed by signal {signal} before the recorder saw a launch, so no kernel is {doing}\n"
            );
        }
        let unwatched = unwatched(summaries);
        if !unwatched.is_empty() {
            return format!(
                "mneme: the recorder saw no launch of a GPU kernel in {application}, so none is listed as {doing}. It cannot see calls of these libraries: {unwatched}. To have their kernels {doing}, load them by dlopen without RTLD_DEEPBIND\n"
            );
        }
        return match status.code() {
            // From a shell, or from a script that starts the application.
            Some(code @ (126 | 127)) => format!(
                "mneme: {application} ended with status {code}, which a shell gives if it cannot start a program. No kernel is {doing}; check the name and path of the program\n"
            ),
            code => unlaunched(application, code.unwrap_or_default(), doing),
        };
    }
    if !summaries.iter().any(|summary| summary.selected) {
        return String::new();
    }
    let text = match mode {
        RecorderMode::Profile => profile(kernels, summaries),
        RecorderMode::Record | RecorderMode::DryRun => recording(mode, kernels),
        RecorderMode::Apply => applied(kernels),
    };
    text + &graphs
}

/// The report on an application that ran and launched no kernel: whether it started, and whether it uses CUDA at all.
fn unlaunched(application: &str, code: i32, doing: &str) -> String {
    let program = resolve(application.as_ref());
    let needs = |path: &Path| MappedFile::open(path).map(|file| needs(file.bytes())).unwrap_or_default();
    let found = needs(&program);
    let ran = format!("{application} started and ended with status {code}");
    if found.device_code {
        return format!(
            "mneme: {ran}. It has GPU code, but no kernel ran, so none is {doing}. If it tried to launch one, look for an error of CUDA or a message of Mneme above\n"
        );
    }
    let is_of_gpu = |library: &&String| GPU_LIBRARIES.iter().any(|name| library.starts_with(name));
    let uses = match found.libraries.iter().find(is_of_gpu) {
        Some(library) => format!("It uses {library}; did it reach a launch?"),
        None => format!(
            "{} has no GPU code and is not linked with CUDA or HIP; did it load or start a program that is, and did that one reach a launch?",
            program.display()
        ),
    };
    let here = Path::new(".").join(application);
    let is_meant = !application.contains('/') && here != program && needs(&here).device_code;
    let meant = if is_meant { format!(" Did you mean ./{application}, which has GPU code?") } else { String::new() };
    format!(
        "mneme: {ran}, and launched no GPU kernel, so none is {doing}. {uses}{meant} Mneme can only watch programs that are linked dynamically and run as you (not set-user-ID)\n"
    )
}

/// A report on processes that launched kernels but wrote no summary; empty if all wrote one.
fn without_end(mode: RecorderMode, application: &str, status: ExitStatus, summaries: &[RecorderSummary]) -> String {
    let missing = || summaries.iter().filter(|summary| summary.unfinished && summary.selected);
    let Some(first) = missing().next() else { return String::new() };
    let (running, ended): (Vec<&RecorderSummary>, Vec<_>) = missing().partition(|summary| is_running(summary.process));
    let end = match status.signal() {
        Some(signal) => format!("was killed by signal {signal}"),
        None => format!("ended with status {}", status.code().unwrap_or_default()),
    };
    let mut text = String::new();
    for (processes, fate) in [(ended, "ended before writing a summary"), (running, "still running")] {
        if !processes.is_empty() {
            let shown: Vec<String> = processes.iter().take(FEW).map(|summary| summary.process.to_string()).collect();
            let more = if processes.len() > shown.len() { ", …" } else { "" };
            text += &format!(
                "mneme: some launches are not listed: {} {fate} (id {}{more}); {application} {end}\n",
                counted(processes.len(), "process"),
                shown.join(", ")
            );
        }
    }
    if mode == RecorderMode::Record {
        text += &contents(Path::new(&first.folder));
    }
    text
}

/// Whether a process exists and has not ended.
fn is_running(process: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    // The state follows the name, which may contain parentheses. `Z` and `X` are processes that have ended.
    state.is_ok_and(|state| state.rsplit(") ").next().is_some_and(|rest| !rest.starts_with(['Z', 'X'])))
}

/// The number of kernels and instances in a recording.
fn contents(folder: &Path) -> String {
    let files = kernels_in(folder).unwrap_or_default();
    let records: Vec<_> = files.iter().filter_map(|file| KernelRecord::load(file).ok()).collect();
    let instances = records.iter().map(|record| record.instances.len()).sum();
    format!(
        "mneme: the recording in '{}' contains {} with {}\n",
        folder.display(),
        counted(records.len(), "kernel"),
        counted(instances, "instance")
    )
}

/// The libraries whose calls the recorder cannot see, and how each was loaded.
fn unwatched(summaries: &[RecorderSummary]) -> String {
    let all: BTreeSet<&UnwatchedLibrary> = summaries.iter().flat_map(|summary| &summary.unwatched).collect();
    let named: Vec<String> = all.into_iter().map(|one| format!("{} ({})", one.library, one.by)).collect();
    named.join(", ")
}

fn applied(mut kernels: Vec<KernelSummary>) -> String {
    use Align::{Left, Right};
    kernels.retain(|kernel| kernel.applied.is_some());
    if kernels.is_empty() {
        return "mneme: no launch was replaced, because no tuned kernel was launched\n".into();
    }
    kernels.sort_by(|one, other| one.kernel.cmp(&other.kernel));
    // GPU times of replaced launches, if they are timed.
    let is_timed = kernels.iter().any(|kernel| kernel.gpu_time.is_some());
    let is_special =
        kernels.iter().any(|kernel| kernel.applied.as_ref().is_some_and(|applied| applied.specialised > 0));
    let mut heading = vec!["KERNEL", "LAUNCHES", "REPLACED", "RESHAPED", "BEFORE", "TUNED"];
    let mut align = vec![Left, Right, Right, Right, Right, Right];
    if is_special {
        heading.insert(4, "SPECIALISED");
        align.insert(4, Right);
    }
    if is_timed {
        heading.push("GOT");
        align.push(Right);
    }
    let mut rows = vec![heading.into_iter().map(String::from).collect::<Vec<_>>()];
    for kernel in &kernels {
        let applied = kernel.applied.clone().unwrap_or_default();
        let time = |ns: Option<f64>| ns.map_or_else(|| "-".to_owned(), units::time);
        let mut row = vec![
            name(kernel),
            kernel.launches.to_string(),
            applied.replaced.to_string(),
            applied.reshaped.to_string(),
            time(applied.before),
            time(applied.after),
        ];
        if is_special {
            row.insert(4, applied.specialised.to_string());
        }
        if is_timed {
            row.push(time(kernel.gpu_time.map(|times| times.mean())));
        }
        rows.push(row);
    }
    let mut text = render(&align, &rows);
    if kernels.iter().any(|kernel| kernel.applied.as_ref().is_some_and(|applied| applied.before.is_some())) {
        text += "BEFORE and TUNED are mneme tune's times of the recorded launch: geometric means of rounds in turns, if the winner was confirmed";
        text += if is_timed { "; GOT is the mean of this run's replaced launches\n" } else { "\n" };
    }
    for kernel in &kernels {
        for failure in &kernel.failures {
            text += &format!("{}: {} not replaced: {}\n", name(kernel), launches(failure.launches), failure.reason);
        }
        for kept in kernel.applied.iter().flat_map(|applied| &applied.kept_dimensions).filter(|kept| kept.replaced > 0)
        {
            let count = launches(kept.replaced);
            text += &format!("{}: {count} replaced with the program's own dimensions: {}\n", name(kernel), kept.reason);
        }
    }
    text
}

fn recording(mode: RecorderMode, mut kernels: Vec<KernelSummary>) -> String {
    use Align::{Left, Right};
    kernels.sort_by(|one, other| one.kernel.cmp(&other.kernel));
    let dry = mode == RecorderMode::DryRun;
    let mut heading = vec!["KERNEL", "LAUNCHES", "GPU TIME", "INSTANCES", "MEMORY", "DISK", "CODE"];
    let mut align = vec![Left, Right, Right, Right, Right, Right, Left];
    let unknown = [2, 5];
    let columns = |cells: Vec<String>| -> Vec<String> {
        cells
            .into_iter()
            .enumerate()
            .filter(|(column, _)| !dry || !unknown.contains(column))
            .map(|(_, cell)| cell)
            .collect()
    };
    let mut rows = vec![columns(heading.drain(..).map(String::from).collect())];
    if dry {
        align.remove(unknown[1]);
        align.remove(unknown[0]);
    }
    let none = || "-".to_owned();
    let or_none = |bytes: u64| if bytes == 0 { none() } else { units::bytes(bytes) };
    // If no kernel is recorded, a few are enough to see the reason.
    let is_none = kernels.iter().all(|kernel| kernel.left_out == kernel.launches);
    let shown = if is_none { FEW } else { kernels.len() };
    for kernel in kernels.iter().take(shown) {
        let instances = match kernel.known {
            0 => kernel.instances.to_string(),
            known => format!("{} + {known}", kernel.instances),
        };
        rows.push(columns(vec![
            name(kernel),
            kernel.launches.to_string(),
            kernel.gpu_time.map_or_else(none, |times| units::time(times.mean())),
            instances,
            or_none(kernel.memory_bytes),
            or_none(kernel.disk_bytes),
            if kernel.code.is_empty() { none() } else { kernel.code.clone() },
        ]));
    }
    let mut text = render(&align, &rows);
    if kernels.len() > shown {
        text += &format!("… and {} more kernels\n", kernels.len() - shown);
    }
    for kernel in &kernels {
        if kernel.rejected > 0 {
            text += &format!("{}: {} refused by the driver\n", name(kernel), launches(kernel.rejected));
        }
        for failure in &kernel.failures {
            text += &format!("{}: {} not recorded: {}\n", name(kernel), launches(failure.launches), failure.reason);
        }
    }
    if dry {
        text += "dry run: no memory was recorded; INSTANCES is how many would be\n";
    }
    if kernels.iter().any(|kernel| kernel.known > 0) {
        text += "INSTANCES: new ones + those already in the folder\n";
    }
    if is_none {
        text += "mneme: no launch was recorded: --kernels, --skip, --sample, --max and --record-ranks select none\n";
    }
    text
}

fn profile(mut kernels: Vec<KernelSummary>, summaries: &[RecorderSummary]) -> String {
    use Align::{Left, Right};
    kernels.retain(|kernel| kernel.gpu_time.is_some() || !kernel.shapes.is_empty());
    if kernels.is_empty() {
        return "mneme: no launch was timed: --kernels and MNEME_RECORD_RANKS select none\n".into();
    }
    kernels.sort_by(|one, other| other.total_gpu_time().total_cmp(&one.total_gpu_time()));
    let total: f64 = kernels.iter().map(KernelSummary::total_gpu_time).sum();
    let heading = ["KERNEL", "SHARE", "GPU TIME", "LAUNCHES", "MEAN", "MIN", "MAX", "GRID", "BLOCK"];
    let mut rows = vec![heading.map(String::from).to_vec()];
    for kernel in &kernels {
        let times = kernel.gpu_time.unwrap_or_default();
        let time = |ns: f64| if times.count == 0 { "-".to_owned() } else { units::time(ns) };
        let shape = kernel.shapes.first().copied().unwrap_or_default();
        let more = if kernel.shapes.len() > 1 { format!(" (+{})", kernel.shapes.len() - 1) } else { String::new() };
        rows.push(vec![
            name(kernel),
            if total > 0.0 { format!("{:.1} %", 100.0 * kernel.total_gpu_time() / total) } else { "-".into() },
            time(kernel.total_gpu_time()),
            kernel.launches.to_string(),
            time(times.mean()),
            time(times.min as f64),
            time(times.max as f64),
            shape.grid.to_string(),
            format!("{}{more}", shape.block),
        ]);
    }
    let mut text = render(&[Left, Right, Right, Right, Right, Right, Right, Right, Left], &rows);
    let seconds: f64 = summaries.iter().map(|summary| summary.seconds).sum();
    if seconds > 0.0 {
        text += &format!(
            "kernels {} of {} ({:.0} %) from the first launch to the end",
            units::time(total),
            units::time(seconds * 1e9),
            (total / (seconds * 1e9) * 100.0)
        );
        let timed: u64 = kernels.iter().filter_map(|kernel| kernel.gpu_time).map(|times| times.count).sum();
        let launched: u64 = kernels.iter().map(|kernel| kernel.launches).sum();
        text += &format!("; {timed} of {} timed\n", launches(launched));
    }
    text
}

fn launches(count: u64) -> String {
    format!("{count} launch{}", if count == 1 { "" } else { "es" })
}

fn name(kernel: &KernelSummary) -> String {
    shorten(kernel.kernel.trim_start_matches("void "), NAME_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;
    use mneme_model::summary::{RecordingFailure, ShapeSummary, Times};

    fn kernel(name: &str) -> KernelSummary {
        KernelSummary {
            kernel: name.into(),
            mangled: name.into(),
            launches: 4,
            instances: 1,
            code: "IR".into(),
            ..KernelSummary::default()
        }
    }

    fn summary(mode: RecorderMode, kernels: Vec<KernelSummary>) -> RecorderSummary {
        RecorderSummary { mode, kernels, selected: true, seconds: 0.001, ..RecorderSummary::default() }
    }

    #[test]
    fn the_table_of_tuned_kernels_has_those_alone() {
        use mneme_model::summary::Applied;
        let applied = Some(Applied { replaced: 3, reshaped: 1, before: Some(2000.0), ..Applied::default() });
        let failures = vec![RecordingFailure { reason: "inside a stream capture".into(), launches: 1, broken: false }];
        let tuned = KernelSummary { applied, failures, ..kernel("a(int)") };
        let text =
            |kernels| text(RecorderMode::Apply, "app", ExitStatus::default(), &[summary(RecorderMode::Apply, kernels)]);
        assert_eq!(
            text(vec![kernel("b(int)"), tuned.clone()]),
            "KERNEL  LAUNCHES  REPLACED  RESHAPED  BEFORE  TUNED\na(int)         4         3         1  2.0 µs      -\n\
             BEFORE and TUNED are mneme tune's times of the recorded launch: geometric means of rounds in turns, if the winner was confirmed\n\
             a(int): 1 launch not replaced: inside a stream capture\n"
        );
        assert!(text(vec![kernel("b(int)")]).contains("no launch was replaced"));
        let times = Times { count: 2, total: 5000, min: 2000, max: 3000 };
        let timed = KernelSummary { failures: vec![], gpu_time: Some(times), ..tuned.clone() };
        let table = "KERNEL  LAUNCHES  REPLACED  RESHAPED  BEFORE  TUNED     GOT\na(int)         4         3         1  2.0 µs      -  2.5 µs\n";
        assert!(text(vec![timed]).starts_with(table));
    }

    #[test]
    fn summaries_arrive_by_path() {
        let summaries_file = SummaryFile::open().unwrap();
        assert!(summaries_file.read().is_empty());
        for process in 0..2 {
            let line = serde_json::to_string(&RecorderSummary { process, ..RecorderSummary::default() }).unwrap();
            writeln!(std::fs::File::options().append(true).open(summaries_file.path()).unwrap(), "{line}").unwrap();
        }
        assert_eq!(summaries_file.read().iter().map(|summary| summary.process).collect::<Vec<_>>(), [0, 1]);
        assert!(std::fs::read_link(summaries_file.path()).unwrap().to_string_lossy().contains(MEMORY_NAME));
    }

    #[test]
    fn the_table_says_why_something_is_not_recorded() {
        let failure = RecordingFailure { reason: "device not idle".into(), launches: 2, broken: true };
        let broken = KernelSummary { failures: vec![failure], instances: 0, code: String::new(), ..kernel("b(int)") };
        let text = text(
            RecorderMode::Record,
            "app",
            ExitStatus::default(),
            &[summary(RecorderMode::Record, vec![broken.clone(), kernel("a(int)")])],
        );
        assert!(text.starts_with("KERNEL  LAUNCHES  GPU TIME"), "{text}");
        assert!(text.contains("b(int): 2 launches not recorded: device not idle\n"), "{text}");
        let of = |kernel| [summary(RecorderMode::Record, vec![kernel])];
        assert!(is_failure(&of(broken), false) && !is_failure(&of(kernel("a")), true));
    }

    #[test]
    fn what_cannot_be_recorded_is_told_and_a_failure_if_strict() {
        let refused = KernelSummary {
            failures: vec![RecordingFailure { reason: "no LLVM IR".into(), launches: 4, broken: false }],
            instances: 0,
            ..kernel("b")
        };
        let summaries = [summary(RecorderMode::Record, vec![refused, kernel("a")])];
        assert!(!is_failure(&summaries, false) && is_failure(&summaries, true));
        let text = text(RecorderMode::Record, "app", ExitStatus::default(), &summaries);
        assert!(text.contains("b: 4 launches not recorded: no LLVM IR\n"), "{text}");
    }

    #[test]
    fn what_the_driver_refused_is_told_and_no_failure() {
        let summaries = [summary(RecorderMode::Record, vec![KernelSummary { rejected: 1, ..kernel("a") }])];
        assert!(!is_failure(&summaries, true));
        let text = text(RecorderMode::Record, "app", ExitStatus::default(), &summaries);
        assert!(text.contains("a: 1 launch refused by the driver\n"), "{text}");
    }

    #[test]
    fn processes_that_fail_for_one_reason_are_a_failure_if_one_of_them_broke() {
        let failed = |broken| KernelSummary {
            failures: vec![RecordingFailure { reason: "r".into(), launches: 1, broken }],
            ..kernel("a")
        };
        let summaries = [false, true].map(|broken| summary(RecorderMode::Record, vec![failed(broken)]));
        assert!(is_failure(&summaries, false));
    }

    #[test]
    fn nothing_launched_and_nothing_selected_are_said() {
        assert!(text(RecorderMode::Record, "app", ExitStatus::default(), &[]).contains("and launched no GPU kernel"));
        let crashed = text(RecorderMode::Record, "app", ExitStatus::from_raw(libc::SIGSEGV), &[]);
        assert!(crashed.contains("app was killed by signal 11") && !crashed.contains("statically linked"), "{crashed}");
        let unfinished =
            RecorderSummary { unfinished: true, process: u32::MAX, ..summary(RecorderMode::Record, vec![]) };
        let told = |unfinished: RecorderSummary, kernels: Vec<KernelSummary>| {
            let summaries = [unfinished, summary(RecorderMode::Record, kernels)];
            text(RecorderMode::Record, "app", ExitStatus::from_raw(137 << 8), &summaries)
        };
        let lost = told(unfinished.clone(), vec![]);
        assert!(lost.contains("1 process ended before") && lost.contains("app ended with status 137"), "{lost}");
        assert!(lost.contains("0 kernels with 0 instances") && !lost.contains("launched no"), "{lost}");
        let running = told(RecorderSummary { process: std::process::id(), ..unfinished }, vec![kernel("a")]);
        assert!(running.starts_with("KERNEL") && running.contains("1 process still running"), "{running}");
        let left_out = KernelSummary { left_out: 4, instances: 0, ..kernel("a") };
        assert!(
            text(
                RecorderMode::Record,
                "app",
                ExitStatus::default(),
                &[summary(RecorderMode::Record, vec![left_out.clone()])]
            )
            .contains("select none")
        );
        let other_rank = RecorderSummary { selected: false, ..summary(RecorderMode::Record, vec![left_out]) };
        assert_eq!(text(RecorderMode::Record, "app", ExitStatus::default(), &[other_rank]), "");
    }

    #[test]
    fn graphs_and_libraries_that_are_not_watched_are_named() {
        let text = |summary| text(RecorderMode::Record, "app", ExitStatus::default(), &[summary]);
        let graphs = GraphLaunches { expanded: 0, complete: 0, whole: [("a reason".to_owned(), 2)].into() };
        let with_graphs = RecorderSummary { graphs, ..summary(RecorderMode::Record, vec![]) };
        let summaries = [with_graphs.clone()];
        assert!(!is_failure(&summaries, false) && is_failure(&summaries, true));
        assert_eq!(text(with_graphs.clone()), "mneme: 2 graph launches not recorded: a reason\n");
        let both = RecorderSummary { kernels: vec![kernel("a")], ..with_graphs };
        assert!(text(both.clone()).starts_with("KERNEL") && text(both).ends_with("not recorded: a reason\n"));
        let library = UnwatchedLibrary { library: "plugin.so".into(), by: "dlmopen".into() };
        let hidden = RecorderSummary { unwatched: vec![library], ..summary(RecorderMode::Record, vec![]) };
        let told = text(hidden);
        assert!(told.contains("plugin.so (dlmopen)") && !told.contains("statically linked"), "{told}");
    }

    #[test]
    fn a_profile_ranks_by_total_time() {
        let timed = |name: &str, mean: u64| KernelSummary {
            gpu_time: Some(Times { count: 2, total: 2 * mean, min: mean, max: mean }),
            shapes: vec![ShapeSummary { grid: Dim3::new(7, 1, 1), block: Dim3::new(64, 1, 1), launches: 4 }],
            ..kernel(name)
        };
        let text = text(
            RecorderMode::Profile,
            "app",
            ExitStatus::default(),
            &[summary(RecorderMode::Profile, vec![timed("short", 25_000), timed("long", 75_000)])],
        );
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].starts_with("long") && lines[1].contains("75.0 %") && lines[1].contains("300.0 µs"), "{text}");
        assert!(lines[2].starts_with("short") && lines[3].contains("4 of 8 launches timed"), "{text}");
    }
}
