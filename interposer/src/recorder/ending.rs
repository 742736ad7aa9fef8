//! Ends a recording: closes the packs, writes the occurrences, and prints a summary.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use mneme_model::summary::{self as report, RecorderMode, RecorderSummary};
use mneme_recording::database;

use super::{
    FINISHED, FIRST_DEVICE, LOADED, STARTED, graph_launches, is_recording_process, output, profile, summary, unwatched,
};
use crate::apply;
use crate::driver::gate;
use crate::kernels::handles;
use crate::kernels::kernel::Kernel;
use crate::kernels::progress::{Failed, Occurrences};
use crate::process::flags::FLAGS;
use crate::process::settings::settings;

/// Ends the recording: closes the packs, writes the occurrences, and informs the user. Acts once, and only in a process
/// that launched kernels or has loaded a library that the recorder cannot watch.
pub fn finish() {
    if !(is_recording_process() || unwatched::any()) || FINISHED.swap(true, Ordering::SeqCst) {
        return;
    }
    FLAGS.records.store(false, Ordering::SeqCst);
    apply::stop_loading();
    // Lets a recorded launch of another thread finish, but does not wait for calls that are stuck in the vendor's
    // library.
    let _closed = gate::close(Duration::from_millis(200));
    output::close(write_occurrences);
    profile::collect_at_end();
    deliver();
}

/// Tells `mneme` once that this process launches kernels.
pub fn announce() {
    static ANNOUNCED: AtomicBool = AtomicBool::new(false);
    if !ANNOUNCED.swap(true, Ordering::Relaxed) {
        summary::announce(&RecorderSummary { unfinished: true, ..summary_with(Vec::new()) });
    }
}

/// Delivers the summary of everything up to now.
pub fn deliver() {
    let kernels: Vec<_> =
        handles::kernels().iter().map(|kernel| report_on(kernel)).filter(|kernel| kernel.launches > 0).collect();
    summary::deliver(&summary_with(kernels), settings().summary.as_deref());
}

fn summary_with(kernels: Vec<report::KernelSummary>) -> RecorderSummary {
    let settings = settings();
    RecorderSummary {
        process: std::process::id(),
        started: LOADED.load(Ordering::Relaxed),
        rank: settings.rank,
        selected: settings.rank_selected || settings.mode == RecorderMode::Apply,
        mode: settings.mode,
        device: FIRST_DEVICE.get().cloned().unwrap_or_default(),
        folder: settings.folder.display().to_string(),
        seconds: STARTED.get().map_or(0.0, |start| start.elapsed().as_secs_f64()),
        kernels,
        graphs: graph_launches::so_far(),
        unwatched: unwatched::all(),
        unfinished: false,
    }
}

/// Writes how often each instance was launched.
pub fn write_occurrences() {
    for kernel in handles::kernels() {
        let progress = &kernel.progress;
        let Some(Ok(code)) = progress.code.get() else { continue };
        let repeated: BTreeMap<String, u64> = {
            let recorded = progress.recorded();
            let written = recorded.instances.iter().filter(|(_, occurrences)| occurrences.written);
            written
                .map(|(hash, occurrences)| (hash.to_string(), occurrences.count + progress.tally.launches(*hash)))
                .filter(|(_, count)| *count > 1)
                .collect()
        };
        if let Err(error) = database::set_occurrences(&settings().folder, code.static_hash, &repeated) {
            output::give_up(&error.to_string());
        }
    }
}

/// Summarises a kernel.
fn report_on(kernel: &Kernel) -> report::KernelSummary {
    let progress = &kernel.progress;
    let settings = settings();
    let recorded = progress.recorded();
    let count = |matches: fn(&Occurrences) -> bool| {
        recorded.instances.values().filter(|occurrences| matches(occurrences)).count() as u64
    };
    let (instances, known) = (count(|occurrences| occurrences.written), count(|occurrences| occurrences.known_before));
    let file = match progress.code.get() {
        Some(Ok(code)) if settings.mode == RecorderMode::Record && instances + known > 0 => {
            Some(settings.folder.join(format!("{}.json", code.static_hash)).display().to_string())
        }
        _ => None,
    };
    let launches = progress.launches.load(Ordering::Relaxed);
    let seen: u64 =
        recorded.instances.iter().map(|(hash, occurrences)| occurrences.count + progress.tally.launches(*hash)).sum();
    let failure = |(reason, failed): (&String, &Failed)| report::RecordingFailure {
        reason: reason.clone(),
        launches: failed.launches,
        broken: failed.broken,
    };
    let mut failures: Vec<_> = recorded.failures.iter().map(failure).collect();
    if let Some(Err(refusal)) = progress.code.get() {
        failures.push(report::RecordingFailure {
            reason: refusal.to_string(),
            launches: progress.tally.refused(),
            broken: false,
        });
    }
    let failed: u64 = failures.iter().map(|failure| failure.launches).sum();
    let mut left_out = if settings.mode == RecorderMode::Profile {
        0
    } else {
        launches.saturating_sub(seen + failed + recorded.rejected)
    };
    if recorded.given_up && left_out > 0 {
        let launches = std::mem::take(&mut left_out);
        let broken = failures.iter().any(|failure| failure.broken);
        failures.push(report::RecordingFailure { reason: "given up after that".to_owned(), launches, broken });
    }
    let outcome = if settings.mode == RecorderMode::Apply { apply::outcome(kernel) } else { None };
    if settings.mode == RecorderMode::Apply {
        left_out = 0;
    }
    let applied = outcome.map(|(applied, kept)| {
        failures = kept;
        applied
    });
    let (profiled, shapes) = progress.profile.result();
    report::KernelSummary {
        kernel: kernel.demangled.clone(),
        mangled: kernel.name.clone(),
        launches,
        instances,
        known,
        repeats: seen.saturating_sub(instances + known),
        left_out,
        rejected: recorded.rejected,
        memory_bytes: recorded.memory_bytes,
        disk_bytes: recorded.bytes,
        code: progress.code.get().and_then(|code| code.as_ref().ok()).map_or("", |code| code.source()).to_owned(),
        file,
        failures,
        // Launches that were recorded for a trial ran without the tuned code.
        gpu_time: profiled
            .or((recorded.gpu_time.count > 0 && settings.mode != RecorderMode::Apply).then_some(recorded.gpu_time)),
        shapes,
        applied,
    }
}
