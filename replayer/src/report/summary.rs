//! The summary of a replay for a terminal.

use std::fmt::Write;

use mneme_model::configuration::Configuration;
use mneme_model::result::{Evidence, ReplayResult, ReplayStatus};
use mneme_model::units;

/// The width of the names at the beginning of lines, characters.
const WIDTH: usize = 10;

/// The lines of the summary. `kernel` is the demangled name.
pub fn text(kernel: &str, configuration: &Configuration, result: &ReplayResult) -> String {
    let lines = [
        ("kernel", Some(kernel.to_owned())),
        ("launch", Some(launch(configuration))),
        ("code", Some(code(configuration, result))),
        ("verdict", Some(verdict(result))),
        ("evidence", result.evidence.as_ref().map(evidence)),
        ("time", time(result)),
        ("resources", resources(result)),
        ("json", Some("mneme replay --json prints the whole result, and so does a pipe".into())),
    ];
    let mut text = String::new();
    for (name, line) in lines {
        let _ = line.map(|line| writeln!(text, "{name:<WIDTH$} {line}"));
    }
    text
}

fn launch(it: &Configuration) -> String {
    let memory = if it.shared_mem > 0 {
        format!(", {} of shared memory", units::bytes(it.shared_mem.into()))
    } else {
        String::new()
    };
    format!("grid {}, block {}{memory}", it.grid, it.block)
}

fn code(it: &Configuration, result: &ReplayResult) -> String {
    let versions = &result.environment.versions;
    let llvm = versions.get("llvm").map_or(String::new(), |version| format!(", LLVM {version}"));
    let size = if result.obj_size > 0 { format!(", {}", units::bytes(result.obj_size)) } else { String::new() };
    if it.original {
        return format!("the application's own{size}");
    }
    format!("{}, code generation level {}{llvm}{size}", it.passes, it.codegen_opt)
}

fn verdict(result: &ReplayResult) -> String {
    let meaning = match result.status {
        ReplayStatus::Verified => "all memory is as recorded",
        ReplayStatus::FailedVerification => "memory differs from the recording",
        ReplayStatus::Unproven => "memory is as recorded, but that shows too little",
        ReplayStatus::CompileError => "the build failed",
        ReplayStatus::InvalidConfig => "the configuration is invalid",
        ReplayStatus::InvalidLaunch => "the device refused the launch",
        ReplayStatus::RuntimeError => "the kernel failed while it ran",
        ReplayStatus::Timeout => "it took longer than --timeout",
        ReplayStatus::InternalError => "a part of Mneme failed or is missing",
    };
    let faults = result.faults.as_ref().map_or(0, |faults| faults.findings.len());
    let faults = match faults {
        0 => String::new(),
        faults => format!("; --check found {}, see above", units::counted(faults, "fault")),
    };
    format!("{}: {meaning}{faults}", result.status.name().replace('_', " "))
}

fn evidence(it: &Evidence) -> String {
    let fresh = match &it.fresh_inputs {
        none if none.is_none() => String::new(),
        inputs => format!("; right on {} of {} fresh inputs", inputs.agreed, inputs.tried - inputs.discarded),
    };
    format!(
        "{} compared; the kernel writes {} of them, and {} would differ if it did nothing{fresh}",
        units::bytes(it.compared),
        units::bytes(it.written),
        units::bytes(it.shown)
    )
}

fn time(result: &ReplayResult) -> Option<String> {
    let mut times = result.measured().to_vec();
    times.sort_unstable();
    let time = |ns: u64| units::time(ns as f64);
    let (first, last) = (*times.first()?, *times.last()?);
    let (device, timer) = (&result.environment.device, &result.environment.timer);
    let timer = if timer.is_empty() { String::new() } else { format!(", by {timer}") };
    Some(match times.len() {
        1 => format!("{} in one run on {device}{timer}", time(first)),
        runs => {
            let median = time(times[runs / 2]);
            format!("{median}, the median of {runs} runs ({} to {}) on {device}{timer}", time(first), time(last))
        }
    })
}

/// The multiprocessor resources of the code. The CPU device has none.
fn resources(result: &ReplayResult) -> Option<String> {
    let metrics = &result.metrics;
    let spilled = metrics.spill_stores.max(0) + metrics.spill_loads.max(0);
    let registers = (metrics.registers >= 0).then(|| format!("{} registers", metrics.registers))?;
    let told = [
        Some(registers),
        (metrics.spill_stores >= 0).then(|| format!("{spilled} bytes spilled")),
        metrics
            .occupancy
            .filter(|occupancy| *occupancy > 0.0)
            .map(|occupancy| format!("occupancy {:.0} %", 100.0 * occupancy)),
    ];
    Some(told.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;
    use mneme_model::observation::{Fault, Faults, Finding, Site};

    #[test]
    fn a_few_lines_say_what_became_of_a_replay() {
        let configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(64, 1, 1), 0);
        let of = |result: &ReplayResult| text("k(int*)", &configuration, result);
        let failed = of(&ReplayResult { status: ReplayStatus::CompileError, ..ReplayResult::default() });
        let result = ReplayResult {
            status: ReplayStatus::Verified,
            exec_time: vec![9_000_000, 2_000_000, 1_000_000, 3_000_000],
            warmup: 1,
            evidence: Some(Evidence { compared: 4096, written: 64, shown: 64, ..Evidence::default() }),
            ..ReplayResult::default()
        };
        let verified = of(&result);
        let names = |text: &str| {
            text.lines().map(|line| line.split(' ').next().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(names(&failed), ["kernel", "launch", "code", "verdict", "json"]);
        assert_eq!(names(&verified), ["kernel", "launch", "code", "verdict", "evidence", "time", "json"]);
        assert!(verified.contains("2.00 ms") && verified.contains("verified"), "{verified}");
        assert!(failed.contains("compile error"), "{failed}");
        let finding = Finding { fault: Fault::Race, site: Site::default(), count: 1, examples: vec![] };
        let faults = Faults { findings: vec![finding], ..Faults::default() };
        let checked = of(&ReplayResult { faults: Some(faults), ..result });
        assert!(checked.contains("found 1 fault") && !verified.contains("--check"), "{checked}");
    }
}
