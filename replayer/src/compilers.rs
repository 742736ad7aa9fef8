//! Replays one configuration with every LLVM whose builder is installed (`--llvm all`).

use std::collections::BTreeMap;

use mneme_model::configuration::Configuration;
use mneme_model::result::ReplayResult;
use mneme_system::exit;
use serde::Serialize;

use crate::cli::OneShot;
use crate::context::ReplayContext;
use crate::error::Fatal;
use crate::job::Job;
use crate::process::stdout;
use crate::supervise::engine::Engine;
use crate::supervise::{Client, SupervisorEvent};

/// The printed object.
#[derive(Serialize)]
struct Printed<'a> {
    #[serde(rename = "Replay-config")]
    configuration: &'a Configuration,
    /// By the major version of LLVM.
    #[serde(rename = "Results")]
    results: &'a BTreeMap<u32, ReplayResult>,
}

/// Replays a configuration with each version. Returns the exit status: that of an unusable builder, else of the first
/// version that reads the IR but does not verify.
pub fn run(options: &OneShot, context: &ReplayContext, configuration: &Configuration) -> Result<i32, Fatal> {
    if let Some(option) = for_one_alone(options) {
        let error = format!("{option} is for one LLVM, and --llvm all replays with several; name a version");
        return Err(Fatal::new(exit::BAD_USAGE, error));
    }
    let (results, is_no_pipeline) = replay(options, context, configuration)?;
    mneme_system::remark!("{}", table(&results).trim_end());
    let mut text =
        serde_json::to_string_pretty(&Printed { configuration, results: &results }).expect("plain data serialises");
    text.push('\n');
    stdout::write(text.as_bytes())?;
    if is_no_pipeline {
        return Ok(exit::BAD_USAGE);
    }
    let reads = |version: u32| context.written_by.is_none_or(|found| version >= found);
    let statuses: Vec<i32> = results
        .iter()
        .filter(|(version, _)| reads(**version))
        .map(|(_, result)| result.status.exit_status())
        .filter(|status| *status != exit::VERIFIED)
        .collect();
    let unusable = statuses.iter().find(|status| **status == exit::INTERNAL);
    Ok(unusable.or(statuses.first()).copied().unwrap_or(exit::VERIFIED))
}

/// The first option that writes files or examines one build.
fn for_one_alone(options: &OneShot) -> Option<&'static str> {
    let asked = [
        ("--output-dir", options.output_dir.is_some()),
        ("--output-ll", options.output_ll.is_some()),
        ("--output-ptx", options.output_ptx.is_some()),
        ("--dump-diff", options.dump_diff.is_some()),
        ("--repeat", options.repeat.is_some()),
        ("--opt", options.code.external().is_some()),
        ("looking into the kernel", options.observation.observe().is_some()),
        ("--original", options.code.original),
        ("--source", options.code.source.is_some()),
    ];
    asked.into_iter().find(|(_, is_set)| *is_set).map(|(option, _)| option)
}

/// The results by version, and whether no version can read the pipeline.
fn replay(
    options: &OneShot,
    context: &ReplayContext,
    configuration: &Configuration,
) -> Result<(BTreeMap<u32, ReplayResult>, bool), Fatal> {
    let mut engine = Engine::start(context)?;
    let versions = context.programs.versions();
    let (mut results, mut is_no_pipeline) = (BTreeMap::new(), true);
    for version in &versions {
        let configuration = Configuration { llvm: Some(*version), ..configuration.clone() };
        let mut job = Job::new(u64::from(*version), configuration, options.runs.iterations, options.runs.warmup);
        job.run.counters.clone_from(&options.counters);
        // Equal code is measured again, because the times are compared.
        job.schedule.fresh = true;
        engine.submit(job);
    }
    while results.len() < versions.len() {
        if let SupervisorEvent::Finished { id, result, outcome, .. } = engine.next(Client::default())? {
            is_no_pipeline &=
                outcome.is_some_and(|outcome| outcome.as_ref().as_ref().is_err_and(|failed| failed.is_no_pipeline));
            results.insert(id as u32, *result);
        }
    }
    engine.leave();
    Ok((results, is_no_pipeline))
}

/// A line for each version: time, registers, spills, bytes of code, result.
fn table(results: &BTreeMap<u32, ReplayResult>) -> String {
    let mut text =
        format!("{:<10}{:>12}{:>11}{:>12}{:>10}  result\n", "LLVM", "time (us)", "registers", "spills (B)", "code (B)");
    for (version, result) in results {
        let known = |value: i64| if value < 0 { "-".to_owned() } else { value.to_string() };
        let metrics = &result.metrics;
        let spills = if metrics.spill_stores < 0 { -1 } else { metrics.spill_stores + metrics.spill_loads };
        let whole = result.environment.versions.get("llvm").filter(|whole| whole.starts_with(&version.to_string()));
        let reason = if result.error.is_empty() { String::new() } else { format!(": {}", result.error) };
        text += &format!(
            "{:<10}{:>12}{:>11}{:>12}{:>10}  {}{reason}\n",
            whole.map_or_else(|| version.to_string(), String::clone),
            time(result),
            known(result.reg_usage),
            known(spills),
            known(metrics.code_size),
            result.status.name(),
        );
    }
    text
}

/// The median of the measured runs, microseconds.
fn time(result: &ReplayResult) -> String {
    let mut times = result.measured().to_vec();
    times.sort_unstable();
    times.get(times.len() / 2).map_or_else(|| "-".into(), |time| format!("{:.2}", *time as f64 / 1e3))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::result::ReplayStatus;

    #[test]
    fn a_table_has_a_line_for_each_version() {
        let mut good = ReplayResult {
            status: ReplayStatus::Verified,
            exec_time: vec![9000, 2500, 2000],
            ..ReplayResult::default()
        };
        (good.warmup, good.reg_usage) = (1, 24);
        (good.metrics.spill_stores, good.metrics.spill_loads) = (8, 16);
        good.environment.versions.insert("llvm".into(), "19.1.7".into());
        let refused =
            ReplayResult { status: ReplayStatus::InvalidConfig, error: "no".into(), ..ReplayResult::default() };
        let text = table(&BTreeMap::from([(19, good), (22, refused)]));
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines[1], ["19.1.7", "2.50", "24", "24", "-", "verified"]);
        assert_eq!((lines[2][0], lines[2][1], lines[2].last()), ("22", "-", Some(&"no")));
        assert_eq!(lines.len(), 3);
    }
}
