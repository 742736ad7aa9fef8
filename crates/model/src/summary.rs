//! The recorder's summary of a process, written at the end of the process.
//!
//! Each process appends a line of JSON to the file that `MNEME_SUMMARY` names. `mneme record` and `mneme profile` read
//! it; scripts may, too. If the file is `mneme`'s memory, a process also writes a line at its first launch, so `mneme`
//! knows of the process if it ends without a summary.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};

use crate::launch::Dim3;

/// The environment variable that names the file.
pub const VARIABLE: &str = "MNEME_SUMMARY";
/// Name prefix of the memory in which `mneme` collects summaries. The recorder writes to a path below `/proc` only if
/// it leads to memory of the process's [run](mneme_system::run).
pub const MEMORY_NAME: &str = "mneme-summary";

/// The recorder's mode in a process: `MNEME_MODE`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecorderMode {
    #[default]
    Record,
    /// Times kernels without recording them.
    Profile,
    /// Finds out which launches a recording would contain.
    DryRun,
    /// Launches tuned kernels in place of the application's own, without recording.
    Apply,
}

impl RecorderMode {
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "record" => Some(Self::Record),
            "profile" => Some(Self::Profile),
            "dry-run" => Some(Self::DryRun),
            "apply" => Some(Self::Apply),
            _ => None,
        }
    }

    /// The mode's name in the variable.
    pub fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Profile => "profile",
            Self::DryRun => "dry-run",
            Self::Apply => "apply",
        }
    }
}

/// One process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RecorderSummary {
    pub process: u32,
    /// Start of the program in the process, ns since 1970. A program writes its line before an `exec`; if the `exec`
    /// fails, it writes another line later, which counts.
    pub started: u64,
    /// The rank in a distributed run.
    pub rank: Option<u64>,
    /// Whether this rank records.
    pub selected: bool,
    pub mode: RecorderMode,
    /// Device of the last launch, e.g. "NVIDIA H200".
    pub device: String,
    /// The folder of the recording.
    pub folder: String,
    /// From the first launch to the end, seconds.
    pub seconds: f64,
    pub kernels: Vec<KernelSummary>,
    #[serde(skip_serializing_if = "GraphLaunches::is_empty")]
    pub graphs: GraphLaunches,
    /// Libraries whose calls bypass the recorder.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unwatched: Vec<UnwatchedLibrary>,
    /// Set in the line that the process writes at its first launch and replaces at its end. If it remains, the process
    /// is still running or was killed (SIGKILL).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unfinished: bool,
}

/// Launches of graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GraphLaunches {
    /// Launches that were expanded node by node; each kernel counts as a launch.
    pub expanded: u64,
    /// Launches of whole graphs whose kernels had been recorded before, or are not meant to be.
    pub complete: u64,
    /// Launches of whole graphs, whose kernels are not examined, by reason.
    pub whole: BTreeMap<String, u64>,
}

impl GraphLaunches {
    pub fn is_empty(&self) -> bool {
        self.expanded == 0 && self.complete == 0 && self.whole.is_empty()
    }

    pub fn merge(&mut self, other: &Self) {
        self.expanded += other.expanded;
        self.complete += other.complete;
        for (reason, count) in &other.whole {
            *self.whole.entry(reason.clone()).or_default() += count;
        }
    }

    /// A description for people: a line for each kind.
    pub fn text(&self, mode: RecorderMode) -> String {
        let done = match mode {
            RecorderMode::Profile => "timed",
            RecorderMode::Apply => "replaced",
            RecorderMode::Record | RecorderMode::DryRun => "recorded",
        };
        let launches = |count: u64| format!("{count} graph {}", if count == 1 { "launch" } else { "launches" });
        let mut text = String::new();
        if self.expanded > 0 {
            let _ = writeln!(text, "mneme: {} done node by node", launches(self.expanded));
        }
        if self.complete > 0 {
            let _ = writeln!(
                text,
                "mneme: {} done as a whole, because no kernel had to be recorded",
                launches(self.complete)
            );
        }
        for (reason, count) in &self.whole {
            let _ = writeln!(text, "mneme: {} not {done}: {reason}", launches(*count));
        }
        text
    }
}

/// A library that resolves its own functions first, so its calls bypass the recorder.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub struct UnwatchedLibrary {
    /// The library's name in the program.
    pub library: String,
    /// How it was loaded: `RTLD_DEEPBIND` or `dlmopen`.
    pub by: String,
}

/// One kernel of a process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelSummary {
    /// Demangled.
    pub kernel: String,
    pub mangled: String,
    pub launches: u64,
    /// Instances added to the recording, or that a recording would add after a dry run.
    pub instances: u64,
    /// Instances already in the recording from an earlier run.
    pub known: u64,
    /// Launches that were only counted, because an instance has the same dimensions and scalar arguments.
    pub repeats: u64,
    /// Launches that the settings exclude.
    pub left_out: u64,
    /// Launches that the driver refused: nothing ran.
    pub rejected: u64,
    /// Device memory of the largest instance, bytes.
    pub memory_bytes: u64,
    /// Bytes added to the recording.
    pub disk_bytes: u64,
    /// The code to recompile from, e.g. "IR"; empty if not determined.
    pub code: String,
    /// The kernel's file, if any of it is recorded.
    pub file: Option<String>,
    pub failures: Vec<RecordingFailure>,
    /// Times of the timed launches: recorded ones; in a profile, all or a sample.
    pub gpu_time: Option<Times>,
    /// Launch shapes, the most frequent first.
    pub shapes: Vec<ShapeSummary>,
    /// Results for a kernel with tuned code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub applied: Option<Applied>,
}

/// Tuned code in place of a kernel. Launches with the application's own code are among the kernel's failures.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Applied {
    /// Launches of tuned code.
    pub replaced: u64,
    /// Launches of tuned code with dimensions other than the application's.
    pub reshaped: u64,
    /// Launches of tuned code that was specialised for them while the application ran.
    #[serde(skip_serializing_if = "is_none")]
    pub specialised: u64,
    /// Launches, with or without tuned code, that kept the application's dimensions although a winner has others.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept_dimensions: Vec<KeptDimensions>,
    /// Times of a launch in the tuning session, ns; with several winners, those of the first one launched.
    pub before: Option<f64>,
    pub after: Option<f64>,
}

fn is_none(count: &u64) -> bool {
    *count == 0
}

impl Applied {
    #[must_use]
    fn and(mut self, other: Self) -> Self {
        for kept in other.kept_dimensions {
            match self.kept_dimensions.iter_mut().find(|known| known.reason == kept.reason) {
                Some(known) => {
                    known.launches += kept.launches;
                    known.replaced += kept.replaced;
                }
                None => self.kept_dimensions.push(kept),
            }
        }
        Self {
            replaced: self.replaced + other.replaced,
            reshaped: self.reshaped + other.reshaped,
            specialised: self.specialised + other.specialised,
            kept_dimensions: self.kept_dimensions,
            before: self.before.or(other.before),
            after: self.after.or(other.after),
        }
    }
}

/// Reasons for keeping the application's dimensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptDimensions {
    pub reason: String,
    pub launches: u64,
    /// Launches among them with tuned code.
    pub replaced: u64,
}

/// Reasons for not recording or not replacing launches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordingFailure {
    pub reason: String,
    pub launches: u64,
    /// Whether this is a failure (a full disk), not just a kind of launch that cannot be recorded.
    pub broken: bool,
}

/// Times of launches, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    /// Launches that were timed.
    pub count: u64,
    pub total: u64,
    pub min: u64,
    pub max: u64,
}

impl Times {
    pub fn add(&mut self, time: u64) {
        *self = self.and(Self { count: 1, total: time, min: time, max: time });
    }

    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.count, other.count) {
            (0, _) => other,
            (_, 0) => self,
            _ => Self {
                count: self.count + other.count,
                total: self.total + other.total,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
            },
        }
    }

    /// ns; 0 without timed launches.
    pub fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.total as f64 / self.count as f64 }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeSummary {
    pub grid: Dim3,
    pub block: Dim3,
    pub launches: u64,
}

impl KernelSummary {
    /// Launches that were not recorded, over all reasons.
    pub fn failed(&self) -> u64 {
        self.failures.iter().map(|failure| failure.launches).sum()
    }

    /// GPU time of all launches, estimated from the timed ones, ns.
    pub fn total_gpu_time(&self) -> f64 {
        self.gpu_time.map_or(0.0, |times| times.mean() * self.launches as f64)
    }

    /// Merges the summary of the same kernel in another process.
    pub fn merge(&mut self, other: Self) {
        self.launches += other.launches;
        self.instances += other.instances;
        self.known += other.known;
        self.repeats += other.repeats;
        self.left_out += other.left_out;
        self.rejected += other.rejected;
        self.memory_bytes = self.memory_bytes.max(other.memory_bytes);
        self.disk_bytes += other.disk_bytes;
        self.gpu_time = match (self.gpu_time, other.gpu_time) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
        self.applied = match (self.applied.take(), other.applied) {
            (Some(one), Some(other)) => Some(one.and(other)),
            (one, other) => one.or(other),
        };
        if self.code.is_empty() {
            self.code = other.code;
        }
        self.file = self.file.take().or(other.file);
        for failure in other.failures {
            match self.failures.iter_mut().find(|known| known.reason == failure.reason) {
                Some(known) => {
                    known.launches += failure.launches;
                    known.broken |= failure.broken;
                }
                None => self.failures.push(failure),
            }
        }
        for shape in other.shapes {
            match self.shapes.iter_mut().find(|known| (known.grid, known.block) == (shape.grid, shape.block)) {
                Some(known) => known.launches += shape.launches,
                None => self.shapes.push(shape),
            }
        }
        self.shapes.sort_by_key(|shape| std::cmp::Reverse(shape.launches));
    }
}

/// The kernels of all processes, by mangled name, in order of first mention.
pub fn merged(summaries: &[RecorderSummary]) -> Vec<KernelSummary> {
    let mut merged: Vec<KernelSummary> = Vec::new();
    for kernel in summaries.iter().flat_map(|summary| &summary.kernels) {
        match merged.iter_mut().find(|known| known.mangled == kernel.mangled) {
            Some(known) => known.merge(kernel.clone()),
            None => merged.push(kernel.clone()),
        }
    }
    merged
}

/// The graph launches of all processes.
pub fn merged_graphs(summaries: &[RecorderSummary]) -> GraphLaunches {
    let mut merged = GraphLaunches::default();
    summaries.iter().for_each(|summary| merged.merge(&summary.graphs));
    merged
}

/// Parses the lines of processes; skips truncated lines, and lines of a program that has written a later one.
pub fn parse(text: &str) -> Vec<RecorderSummary> {
    let mut summaries: Vec<RecorderSummary> = Vec::new();
    for summary in text.lines().filter_map(|line| serde_json::from_str::<RecorderSummary>(line).ok()) {
        let is_same = |known: &&mut RecorderSummary| {
            known.started != 0 && (known.process, known.started) == (summary.process, summary.started)
        };
        match summaries.iter_mut().find(is_same) {
            Some(known) => *known = summary,
            None => summaries.push(summary),
        }
    }
    summaries
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(launches: u64, time: u64) -> KernelSummary {
        KernelSummary {
            mangled: "_Z1kv".into(),
            launches,
            gpu_time: Some(Times { count: 1, total: time, min: time, max: time }),
            failures: vec![RecordingFailure { reason: "device not idle".into(), launches: 1, broken: true }],
            ..KernelSummary::default()
        }
    }

    #[test]
    fn lines_of_several_processes_are_added_up() {
        let summary = |process, launches, time| RecorderSummary {
            process,
            kernels: vec![kernel(launches, time)],
            ..RecorderSummary::default()
        };
        let lines = [summary(1, 2, 10), summary(2, 4, 30)].map(|summary| serde_json::to_string(&summary).unwrap());
        let text = format!("{}\n{}\n{}", lines[0], lines[1], &lines[0][..20]);
        let merged = merged(&parse(&text));
        assert_eq!(merged.len(), 1);
        assert_eq!((merged[0].launches, merged[0].failed()), (6, 2));
        assert_eq!(merged[0].gpu_time, Some(Times { count: 2, total: 40, min: 10, max: 30 }));
        assert_eq!(merged[0].total_gpu_time(), 120.0);
    }

    #[test]
    fn the_last_line_of_a_program_counts() {
        let line = |process, started, seconds| {
            let summary = RecorderSummary { process, started, seconds, ..RecorderSummary::default() };
            serde_json::to_string(&summary).unwrap()
        };
        // A process that continues after its line, a process that executes another program, and two of a release
        // without the time.
        let lines = [(1, 10, 1.0), (2, 10, 2.0), (1, 10, 3.0), (2, 20, 4.0), (3, 0, 5.0), (3, 0, 6.0)];
        let text = lines.map(|(process, started, seconds)| line(process, started, seconds)).join("\n");
        let seconds: Vec<f64> = parse(&text).iter().map(|summary| summary.seconds).collect();
        assert_eq!(seconds, [3.0, 2.0, 4.0, 5.0, 6.0]);
    }

    #[test]
    fn launches_of_graphs_add_up() {
        let one = GraphLaunches { expanded: 1, complete: 4, whole: [("a".to_owned(), 1)].into() };
        let other =
            GraphLaunches { expanded: 0, complete: 1, whole: [("a".to_owned(), 2), ("b".to_owned(), 1)].into() };
        let summaries = [one, other].map(|graphs| RecorderSummary { graphs, ..RecorderSummary::default() });
        let merged = merged_graphs(&summaries);
        assert_eq!((merged.expanded, merged.complete, merged.whole["a"], merged.whole["b"]), (1, 5, 3, 1));
        assert_eq!(merged.text(RecorderMode::Record).lines().count(), 4);
        assert!(GraphLaunches::default().text(RecorderMode::Record).is_empty());
    }

    #[test]
    fn modes_have_names() {
        for mode in [RecorderMode::Record, RecorderMode::Profile, RecorderMode::DryRun, RecorderMode::Apply] {
            assert_eq!(RecorderMode::parse(mode.name()), Some(mode));
            assert_eq!(serde_json::to_value(mode).unwrap(), mode.name());
        }
        assert_eq!(RecorderMode::parse("appply"), None);
    }
}
