//! `mneme-tune compare`: shows two sessions side by side, as a table and as a page.

use std::path::PathBuf;

use maud::{Markup, html};
use mneme_model::text::ratio;
use mneme_system::console;
use serde_json::Value;

use super::{chart, document, headline, history};
use crate::archive::{Archive, flat, plain};
use crate::results;

const EXAMPLES: &str = "Example:
  mneme-tune compare before after --output comparison.html

Exit status: 0 done, 64 bad usage, 66 a folder has no results, 70 the page cannot be written.";

/// Compare two tuning sessions: their winners, times and parameters
#[derive(Debug, clap::Args)]
#[command(version, after_help = EXAMPLES)]
pub struct CompareOptions {
    /// The folder with the first session's results (its --results-dir)
    one: PathBuf,
    /// The folder with the other session's results
    other: PathBuf,
    /// Also write a page with both sessions' trials
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command, and returns the exit status.
pub fn run(options: &CompareOptions) -> i32 {
    let told = |(status, sentence): (i32, String)| {
        mneme_system::remark!("mneme-tune: {sentence}");
        status
    };
    compare(options).map_or_else(told, |()| 0)
}

fn compare(options: &CompareOptions) -> Result<(), (i32, String)> {
    let read = |folder: &PathBuf| Archive::read(folder).map_err(|error| (error.exit_status(), error.to_string()));
    let sessions = [read(&options.one)?, read(&options.other)?];
    let unwritable = |what: &dyn std::fmt::Display, error: std::io::Error| {
        (mneme_system::exit::INTERNAL, format!("{what} cannot be written: {error}"))
    };
    let rows = rows(&sessions);
    let doubt = doubt(&sessions);
    let conclusion = conclusion(&sessions);
    let printed = if options.json {
        format!("{:#}\n", as_json(&rows, doubt, conclusion.as_deref()))
    } else {
        text(&rows) + conclusion.map_or_else(String::new, |conclusion| format!("{conclusion}\n")).as_str()
    };
    if let Some(doubt) = doubt.filter(|_| !options.json) {
        mneme_system::remark!("mneme-tune: {doubt}");
    }
    console::write(&printed).map_err(|error| unwritable(&"standard output", error))?;
    if let Some(path) = &options.output {
        results::replace(path, page(&sessions).as_bytes()).map_err(|error| unwritable(&path.display(), error))?;
        mneme_system::remark!("The page is in {}", path.display());
    }
    Ok(())
}

/// Times of two sessions within this factor count as equal.
const NEAR: f64 = 1.03;
/// The fields that apply only with launch bounds.
const OF_BOUNDS: [&str; 2] = ["max_threads", "min_blocks_per_sm"];

/// The name of a row, and each session's value.
type Row = (String, [String; 2]);

fn rows(sessions: &[Archive; 2]) -> Vec<Row> {
    let both = |what: &str, of: &dyn Fn(&Archive) -> String| (what.to_owned(), [of(&sessions[0]), of(&sessions[1])]);
    let text = |value: &Value| if value.is_null() { "–".to_owned() } else { plain(value) };
    let count = |archive: &Archive| format!("{} of {}", archive.verified(), archive.trials.len());
    let mut rows = vec![
        both("session", &|it| it.folder.display().to_string()),
        both("kernel", &headline::kernel_name),
        both("device", &|it| text(&it.baseline["result"]["environment"]["device"])),
        both("sampler", &|it| text(&it.config["sampler"])),
        both("verified trials", &count),
        both("seconds", &|it| it.summary["elapsed_s"].as_f64().map_or_else(|| "–".into(), chart::number)),
        both("baseline", &|it| time(it, headline::baseline_metric(it))),
        both("best", &|it| time(it, it.best["metric"].as_f64())),
        both("speedup", &speedup),
    ];
    let winners = sessions.each_ref().map(|it| {
        let mut winner = flat(&it.best["config"]);
        if winner.get("set_launch_bounds") != Some(&true.into()) {
            OF_BOUNDS.iter().for_each(|name| drop(winner.remove(*name)));
        }
        winner
    });
    let names: std::collections::BTreeSet<&String> = winners.iter().flat_map(|winner| winner.keys()).collect();
    for name in names {
        let [one, other] = winners.each_ref().map(|winner| winner.get(name).map_or_else(|| "–".to_owned(), text));
        if one != other || sessions.iter().any(|it| it.parameters.contains(name)) {
            rows.push((name.clone(), [one, other]));
        }
    }
    rows
}

/// Why the times of the two sessions cannot be compared, if so.
fn doubt(sessions: &[Archive; 2]) -> Option<&'static str> {
    let differ = |of: &dyn Fn(&Archive) -> Value| of(&sessions[0]) != of(&sessions[1]);
    if differ(&|it| it.kernel().into()) {
        return Some("the sessions tuned different kernels, so their times cannot be compared");
    }
    if differ(&|it| it.baseline["result"]["environment"]["device"].clone()) {
        return Some("the sessions ran on different devices, so their times cannot be compared");
    }
    let launch = |it: &Archive| [&it.baseline["config"]["grid"], &it.baseline["config"]["block"]].map(Clone::clone);
    differ(&|it| launch(it).to_vec().into()).then_some("the sessions tuned different launches of the kernel")
}

/// Which session has the better best, by confirmed times if both have them; `None` if they cannot be compared.
fn conclusion(sessions: &[Archive; 2]) -> Option<String> {
    if doubt(sessions).is_some() || sessions.iter().any(|it| !it.is_time) {
        return None;
    }
    let measured = |it: &Archive| it.trials.iter().filter_map(|trial| trial.metric).min_by(f64::total_cmp);
    let of = |it: &Archive| {
        let confirmed = headline::confirmed(it).and_then(|_| it.best["metric"].as_f64());
        confirmed.map(|time| (time, true)).or_else(|| measured(it).map(|time| (time, false)))
    };
    let [one, other] = sessions.each_ref().map(of);
    let ((one, is_sure), (other, is_other_sure)) = (one?, other?);
    let (better, worse) = if one <= other { (0, 1) } else { (1, 0) };
    let name = |index: usize| sessions[index].folder.display();
    let faster = ratio(one.max(other) / one.min(other));
    let how = match (is_sure, is_other_sure) {
        (true, true) => "by the confirmed times, which are from different runs of the device".to_owned(),
        (is_sure, is_other_sure) => {
            let unsure: Vec<String> = [is_sure, is_other_sure]
                .iter()
                .zip(0..)
                .filter(|(sure, _)| !**sure)
                .map(|(_, it)| name(it).to_string())
                .collect();
            format!("not confirmed: of {}, the best measured trial counts", unsure.join(" and "))
        }
    };
    let is_close = one.max(other) <= NEAR * one.min(other);
    Some(match is_close {
        true => format!("{} and {} are about equally fast ({faster}x; {how})", name(0), name(1)),
        false => format!("{} is better: {faster}x as fast as {} ({how})", name(better), name(worse)),
    })
}

fn time(archive: &Archive, metric: Option<f64>) -> String {
    metric.map_or_else(|| "–".to_owned(), |metric| chart::metric(metric, archive.is_time))
}

fn speedup(archive: &Archive) -> String {
    match (headline::confirmed(archive), archive.best["speedup"].as_f64()) {
        (Some((estimate, low, high)), _) => format!("{} ({} to {})", ratio(estimate), ratio(low), ratio(high)),
        (None, Some(speedup)) => format!("{} (not confirmed)", ratio(speedup)),
        (None, None) => "–".into(),
    }
}

/// The rows in aligned columns.
fn text(rows: &[Row]) -> String {
    let width = |of: &dyn Fn(&Row) -> usize| rows.iter().map(of).max().unwrap_or(0);
    let first = width(&|(what, _)| what.chars().count());
    let second = width(&|(_, [one, _])| one.chars().count());
    rows.iter().map(|(what, [one, other])| format!("{what:<first$}  {one:<second$}  {other}\n")).collect()
}

fn as_json(rows: &[Row], doubt: Option<&str>, conclusion: Option<&str>) -> Value {
    let row = |(what, [one, other]): &Row| serde_json::json!({"what": what, "one": one, "other": other});
    serde_json::json!({"rows": rows.iter().map(row).collect::<Vec<_>>(), "doubt": doubt, "conclusion": conclusion})
}

fn page(sessions: &[Archive; 2]) -> String {
    let axes = history::Axes::of(&[&sessions[0], &sessions[1]]);
    let trials = |archive: &Archive| -> Markup {
        html! {
            section {
                h2 { "Trials of " (archive.folder.display()) }
                (history::history(archive, &axes, None))
            }
        }
    };
    let title = "Two tuning sessions";
    let body = html! {
        header { h1 { (title) } }
        main {
            section {
                @if let Some(doubt) = doubt(sessions) { p class="note" { (doubt) } }
                @if let Some(conclusion) = conclusion(sessions) { p { (conclusion) "." } }
                table {
                    tbody {
                        @for (what, [one, other]) in rows(sessions) {
                            tr { th scope="row" { (what) } td { (one) } td { (other) } }
                        }
                    }
                }
            }
            @if sessions[0].is_time == sessions[1].is_time {
                section { h2 { "Best so far" } (history::two(sessions)) }
            }
            @for archive in sessions { (trials(archive)) }
        }
    };
    document(title, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::folder;

    #[test]
    fn two_sessions_stand_beside_each_other() {
        let folders = [folder(60), folder(240)];
        let sessions = folders.each_ref().map(|folder| Archive::read(folder.path()).unwrap());
        let rows = rows(&sessions);
        let of = |what: &str| &rows.iter().find(|(name, _)| name == what).unwrap_or_else(|| panic!("{rows:?}")).1;
        assert!(of("verified trials")[0].ends_with("of 60") && of("verified trials")[1].ends_with("of 240"));
        assert!(of("block.x").iter().all(|width| width.parse::<u32>().is_ok()), "{rows:?}");
        assert_eq!(text(&rows).lines().count(), rows.len());
        super::super::tests::assert_well_formed(&page(&sessions));
    }
}
