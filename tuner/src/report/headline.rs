//! The head of a report: the kernel, the winner if there is one, and how to run it.

use std::path::Path;

use maud::{Markup, html};
use mneme_model::configuration::Configuration;
use mneme_model::result::Environment;
use mneme_model::text::ratio;
use mneme_recording::database::KernelRecord;
use serde_json::Value;

use super::chart;
use crate::archive::{Archive, flat, one, plain};
use crate::results::{demangled, proteus};
use crate::winner::{ReplayedWinner, apply_command, proteus_usage, replay_command, source};

/// The baseline's time, ns: from the rounds against a confirmed winner, otherwise its first measurement.
pub fn baseline_metric(archive: &Archive) -> Option<f64> {
    let in_turns = confirmed(archive).and_then(|_| archive.summary["confirmation"]["baseline"].as_f64());
    let found = in_turns
        .or_else(|| archive.summary["baseline_metric"].as_f64())
        .or_else(|| archive.baseline["metric"].as_f64());
    found.filter(|_| archive.is_time)
}

/// The kernel's demangled name.
pub fn kernel_name(archive: &Archive) -> String {
    archive.kernel().map_or_else(|| "a recorded kernel".into(), demangled)
}

pub fn header(archive: &Archive, kernel: &str) -> Markup {
    let environment = &archive.baseline["result"]["environment"];
    let text = |key: &str| environment[key].as_str().unwrap_or_default();
    // The parameters go to a smaller line, as there may be forty.
    let (name, parameters) = kernel.split_once('(').map_or((kernel, None), |(name, rest)| (name, Some(rest)));
    html! {
        header {
            h1 { (name) }
            @if let Some(parameters) = parameters { p class="signature" { "(" (parameters) } }
            p class="note" {
                @if !text("device").is_empty() { (text("device")) " (" (text("arch")) ", driver " (text("driver")) "). " }
                @if let Some(started) = started(archive) { "Started " (started) ". " }
                @if let Some(status) = archive.summary["status"].as_str() { "Session: " (status.replace('_', " ")) "." }
            }
        }
    }
}

/// When the first trial started.
fn started(archive: &Archive) -> Option<String> {
    let first = times(archive, "start_time").min()?;
    Some(first.strftime("%Y-%m-%d %H:%M UTC").to_string())
}

fn times(archive: &Archive, key: &'static str) -> impl Iterator<Item = jiff::Timestamp> {
    archive.trials.iter().filter_map(move |trial| trial.line["result"][key].as_str()?.parse().ok())
}

/// The session's duration in seconds; for an interrupted session, from the start of the first trial to the end of the
/// last one.
fn duration(archive: &Archive) -> Option<f64> {
    let whole = archive.summary["num_resumed"].as_u64() == Some(0);
    if let Some(seconds) = archive.summary["elapsed_s"].as_f64().filter(|seconds| whole && *seconds > 0.0) {
        return Some(seconds);
    }
    let seconds =
        (times(archive, "end_time").max()? - times(archive, "start_time").min()?).total(jiff::Unit::Second).ok()?;
    (seconds > 0.0).then_some(seconds)
}

/// The winner's speedup with its interval, from the rounds with the baseline; `None` if no winner was confirmed.
pub fn confirmed(archive: &Archive) -> Option<(f64, f64, f64)> {
    let finalists = archive.summary["confirmation"]["finalists"]
        .as_array()
        .filter(|_| archive.summary["confirmation"]["significant"] == true)?;
    let speedup = &finalists.iter().find(|finalist| finalist["trial"] == archive.best["trial"])?["speedup"];
    Some((speedup["estimate"].as_f64()?, speedup["low"].as_f64()?, speedup["high"].as_f64()?))
}

/// What the speedup of a session without a confirmed winner means.
fn unconfirmed(archive: &Archive) -> &'static str {
    if archive.best["trial"].is_number() {
        "speedup of the fastest trial, not confirmed"
    } else if archive.summary["status"] == "interrupted" {
        "speedup: interrupted before a winner was confirmed"
    } else {
        "speedup: the recorded configuration is the best"
    }
}

/// A row of figures.
pub fn figures(archive: &Archive) -> Markup {
    let is_time = archive.is_time;
    let summary = &archive.summary;
    let best = archive.trials.iter().filter_map(|trial| trial.metric).min_by(f64::total_cmp);
    let told = summary["best_metric"].as_f64().or_else(|| archive.best["metric"].as_f64()).filter(|_| is_time);
    let best = told.or(best);
    let early = match archive.trials.iter().filter(|trial| trial.stopped.is_some()).count() {
        0 => String::new(),
        given_up => format!(", {given_up} of them given up early"),
    };
    let speedup = summary["best_speedup"].as_f64().or_else(|| archive.best["speedup"].as_f64());
    let metric_name =
        if is_time { archive.config["metric"].as_str() } else { one(&archive.config["objective"]) }.unwrap_or("metric");
    let rounds = confirmed(archive).and_then(|_| summary["confirmation"]["rounds"].as_u64());
    let how =
        rounds.map_or_else(|| metric_name.to_owned(), |rounds| format!("geometric mean of {rounds} rounds in turns"));
    html! {
        section class="figures" {
            @if let Some((estimate, low, high)) = confirmed(archive) {
                @let confidence = archive.summary["confirmation"]["confidence"].as_f64().map_or(String::new(), |it| format!(", {:.0} % confidence", 100.0 * it));
                (figure(&format!("{}×", ratio(estimate)), &format!("confirmed speedup, {} to {}{confidence}", ratio(low), ratio(high))))
            } @else if let Some(speedup) = speedup {
                (figure(&format!("{}×", ratio(speedup)), unconfirmed(archive)))
            }
            @if let Some(best) = best { (figure(&chart::metric(best, is_time), &format!("best ({how})"))) }
            @if let Some(baseline) = baseline_metric(archive) {
                (figure(&chart::metric(baseline, is_time), &format!("baseline ({how})")))
            }
            (figure(&archive.trials.len().to_string(), &format!("trials, {} verified{early}", archive.verified())))
            @if let (Some(made), Some(saved @ 1..)) = (summary["num_runs"].as_u64(), summary["num_runs_saved"].as_u64()) {
                (figure(&made.to_string(), &format!("runs; {saved} more of candidates that were already clearly slower were skipped")))
            }
            @if let Some(disturbed @ 1..) = summary["references"]["disturbed"].as_u64() {
                @let change = 100.0 * summary["references"]["largest_change"].as_f64().unwrap_or_default();
                (figure(&format!("{change:+.1} %"), &format!("largest change of the baseline's time, which was off in {disturbed} of {} references", summary["references"]["count"])))
            }
            @if let Some(repeated @ 1..) = summary["references"]["repeated"].as_u64() {
                (figure(&repeated.to_string(), "trials measured again, because the device was disturbed"))
            }
            @if let Some(in_doubt @ 1..) = summary["references"]["in_doubt"].as_u64() {
                (figure(&in_doubt.to_string(), "trials whose only measurement was disturbed"))
            }
            @if let Some(seconds) = duration(archive) {
                (figure(&chart::number(archive.trials.len() as f64 / seconds), &format!("trials a second, {} s in all", chart::number(seconds))))
            }
        }
    }
}

fn figure(value: &str, what: &str) -> Markup {
    html! { div { strong { (value) } span { (what) } } }
}

/// The winner, its differences from the baseline, and the commands that run it.
pub fn winner(archive: &Archive) -> Markup {
    let configuration = serde_json::from_value::<Configuration>(archive.best["config"].clone()).ok();
    let recorded = serde_json::from_value::<Configuration>(archive.baseline["config"].clone()).ok();
    let Some(mut best) = configuration else {
        return html! {
            section {
                h2 { "No winner" }
                p { @match archive.baseline["metric"].as_f64() {
                    Some(_) => { "No configuration but the baseline verified." }
                    None => { "The baseline did not verify, so candidates cannot be compared with it: " (archive.baseline["result"]["error"].as_str().unwrap_or("no reason was given")) }
                } }
            }
        };
    };
    // Settings that do not apply are not shown as differences.
    let applied = |config: &Configuration| serde_json::to_value(config.grounded()).unwrap_or_default();
    let changes = changes(&recorded.as_ref().map(applied).unwrap_or_default(), &applied(&best));
    let in_recording = in_recording(archive);
    // Another installation may choose another compiler by default.
    let environment = serde_json::from_value::<Environment>(archive.best["result"]["environment"].clone());
    best.llvm = best.llvm.or(environment.ok().and_then(|environment| environment.compiled_by_another()));
    let is_candidate = archive.best["trial"].is_number();
    let is_exported = is_candidate
        && (!archive.is_time || !archive.tuned_kernels.is_null() || archive.config["proteus_output"].is_string());
    let is_winner = is_candidate && archive.summary["confirmation"]["significant"] != false;
    let faster = match (
        archive.summary["verdict"].as_str().filter(|verdict| !verdict.is_empty()),
        archive.best["speedup"].as_f64(),
    ) {
        (Some(verdict), _) => verdict[..1].to_uppercase() + &verdict[1..] + ".",
        (None, Some(speedup)) if speedup > 1.0 => {
            "The best configuration was faster than the baseline in its trial; it was not measured again.".into()
        }
        (None, _) if archive.summary["status"] == "interrupted" => {
            "The session was interrupted before a winner was confirmed.".into()
        }
        (None, _) => "No configuration was faster than the baseline.".into(),
    };
    html! {
        section {
            h2 { @if is_winner { "Winner" } @else { "No winner" } }
            p { (faster) }
            (finalists(archive))
            @if !changes.is_empty() {
                table {
                    thead { tr { th {} th { "baseline" } th { "best" } } }
                    tbody {
                        @for (name, before, after) in &changes {
                            tr { th scope="row" { (name) } td { (before) } td { strong { (after) } } }
                        }
                    }
                }
            }
            @for edge in archive.summary["edges"].as_array().into_iter().flatten() {
                p class="note" { "The best lies on an edge of the space, so a better one may lie outside: " (plain(edge)) "." }
            }
            @if is_exported && archive.config["record_database"] != Value::Null {
                (command("Run your application with it, without a rebuild", &apply_command(&archive.folder)))
                @if let Some(source) = recorded.as_ref().and_then(|recorded| source(recorded, &best)) {
                    (command("Change the launch in its source", &source))
                }
            }
            (command("Replay it", &replay_command(&replayed_winner(archive, in_recording.as_ref()), &best)))
            @if archive.config["no_proteus_output"] != true && is_exported {
                @let file = archive.config["proteus_output"].as_str().map_or_else(|| archive.folder.join(proteus::FILE), Into::into);
                @let usage = proteus_usage(&file, recorded.as_ref(), &best);
                (command("If your application is built with Proteus", &usage.command))
                @if let Some(remark) = usage.remark { p class="note" { (remark) "." } }
            }
        }
    }
}

/// The finalists and their outcomes.
fn finalists(archive: &Archive) -> Markup {
    let finalists = archive.summary["confirmation"]["finalists"].as_array();
    let number = |value: &Value| value.as_f64().map_or_else(|| "–".to_owned(), ratio);
    html! {
        @if let Some(finalists) = finalists.filter(|finalists| !finalists.is_empty()) {
            table {
                thead { tr { th { "measured again" } th { "what" } th class="number" { "speedup" } th class="number" { "from" } th class="number" { "to" } th class="number" { "rounds" } th { "against the baseline" } } }
                tbody {
                    @for it in finalists {
                        tr {
                            td { "trial " (plain(&it["trial"])) } td { (choice(archive, &it["trial"])) }
                            td class="number" { (number(&it["speedup"]["estimate"])) }
                            td class="number" { (number(&it["speedup"]["low"])) }
                            td class="number" { (number(&it["speedup"]["high"])) }
                            td class="number" { (plain(&it["rounds"])) } td { (plain(&it["fate"])) }
                        }
                    }
                }
            }
            p class="note" {
                "Each round runs the baseline and all of these once more, in a random order. The winner is the one whose interval has the highest lower end. "
                "Finalists are the candidates with the lowest mean of all looks."
            }
        }
    }
}

/// The varying parameters of a trial.
fn choice(archive: &Archive, trial: &Value) -> String {
    let Some(trial) = archive.trials.iter().find(|it| Some(it.number) == trial.as_u64()) else { return String::new() };
    let value = |name: &String| Some(format!("{name} {}", plain(trial.choice.get(name)?)));
    archive.parameters.iter().filter_map(value).collect::<Vec<_>>().join(", ")
}

fn command(what: &str, line: &str) -> Markup {
    html! {
        p class="what" { (what) }
        div class="command" { pre { code { (line) } } button type="button" class="copy" hidden { "Copy" } }
    }
}

/// Fields whose values differ: name, before, after.
fn changes(before: &Value, after: &Value) -> Vec<(String, String, String)> {
    let (before, after) = (flat(before), flat(after));
    let absent = Value::Null;
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let value = |of: &std::collections::BTreeMap<String, Value>, name: &String| {
        plain(of.get(name).unwrap_or(&absent)).replace("null", "–")
    };
    names
        .into_iter()
        .map(|name| (name.clone(), value(&before, name), value(&after, name)))
        .filter(|(_, before, after)| before != after)
        .collect()
}

/// The recorded configuration, if the recording is still there. The baseline may have another pipeline.
fn in_recording(archive: &Archive) -> Option<Configuration> {
    let path = Path::new(one(&archive.config["record_database"])?);
    let record = KernelRecord::load(path).ok()?;
    let (_, instance) = record.instance(path, one(&archive.config["record_id"])).ok()?;
    Some(instance.recorded_configuration())
}

/// The options with which the session replayed.
fn replayed_winner<'a>(archive: &'a Archive, recorded: Option<&'a Configuration>) -> ReplayedWinner<'a> {
    let config = &archive.config;
    let mut options = Vec::new();
    for name in ["iterations", "warmup", "rtol", "atol", "dtype", "tolerance", "timer", "device"] {
        match &config[name] {
            Value::Null => {}
            Value::Array(values) => options.extend(values.iter().map(|value| format!("--{name}={}", plain(value)))),
            value => options.push(format!("--{name}={}", plain(value))),
        }
    }
    if config["from_ptx"] == true {
        options.push("--from-ptx".into());
    }
    ReplayedWinner {
        database: one(&config["record_database"]).unwrap_or("RECORDING.json"),
        instance: one(&config["record_id"]).unwrap_or("ID"),
        recorded,
        options,
    }
}
