//! `report.html`: the results of a session, as one self-contained page.
//!
//! The page is complete when it is written: charts are SVG, and the script only adds tips, selections, sorting and
//! copying. Text from recordings and results goes through maud, which escapes it.

mod chart;
mod columns;
pub mod command;
pub mod compare;
mod environment;
mod evidence;
mod failures;
mod headline;
mod heat;
mod history;
mod importance;
mod parallel;
mod pareto;
mod ranking;

use std::io;
use std::path::{Path, PathBuf};

use maud::{DOCTYPE, Markup, PreEscaped, html};
use serde_json::{Value, json};

use crate::archive::{Archive, ArchiveError};
use columns::Column;
use importance::Importance;

const STYLE: &str = include_str!("report.css");
const SCRIPT: &str = include_str!("report.js");

/// Verified trials from which parallel coordinates are useful.
const LINES: usize = 3;

/// Name of the file in a results folder.
pub const FILE: &str = "report.html";

#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("{} cannot be written: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Writes the report on a results folder to `output`, or into the folder. Returns its path.
pub fn write(folder: &Path, output: Option<&Path>) -> Result<PathBuf, ReportError> {
    write_archive(&Archive::read(folder)?, output)
}

/// Writes the report on an archive.
pub fn write_archive(archive: &Archive, output: Option<&Path>) -> Result<PathBuf, ReportError> {
    let path = output.map_or_else(|| archive.folder.join(FILE), Path::to_path_buf);
    crate::results::replace(&path, page(archive).as_bytes())
        .map_err(|source| ReportError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// The page.
pub fn page(archive: &Archive) -> String {
    let unordered: Vec<Column> = archive.parameters.iter().map(|name| Column::new(archive, name)).collect();
    let importance = importance::importance(archive, &unordered);
    let place = |name: &str| importance.iter().position(|it| it.parameter == name).unwrap_or(usize::MAX);
    let mut columns = unordered;
    columns.sort_by_key(|column| place(&column.name));
    let is_time = archive.is_time;
    let kernel = headline::kernel_name(archive);
    let verified = archive.trials.iter().any(|trial| trial.metric.is_some());
    let body = html! {
        (headline::header(archive, &kernel))
        main {
            (headline::figures(archive))
            (headline::winner(archive))
            @if verified {
                section {
                    h2 { "Trials" }
                    p class="note" { "Each trial's own measurement. The figures above come from rounds that measured the best few and the baseline again in turns." }
                    (history::history(archive, &history::Axes::of(&[archive]), Some("history")))
                }
                @if !columns.is_empty() && archive.trials.iter().filter(|trial| trial.metric.is_some()).count() >= LINES {
                    section {
                        h2 { "Parallel coordinates" }
                        p class="note" { "A line for each verified trial; darker lines (brighter on a dark page) are faster. Drag along an axis to select trials, click the axis to clear the selection." }
                        (parallel::parallel(archive, &columns, is_time))
                        p id="chosen-count" class="note" {}
                    }
                }
                (importance_section(&importance))
                (heat_maps(archive, &columns, is_time))
                (pareto::pareto(archive))
            }
            (failures::failures(archive))
            @if verified { (ranking::ranking(archive, &columns, is_time)) }
            (evidence::evidence(archive))
            (environment::environment(archive))
        }
        footer { "Written by mneme-tune " (env!("CARGO_PKG_VERSION")) " from " code { (archive.folder.display()) } "." }
        script type="application/json" id="data" { (PreEscaped(data(archive, &columns, is_time))) }
        script { (PreEscaped(SCRIPT)) }
    };
    document(&format!("Tuning of {kernel}"), &body)
}

/// A self-contained page with its style.
fn document(title: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body { (body) }
        }
    };
    page.into_string()
}

fn importance_section(importance: &[Importance]) -> Markup {
    const ROW: f64 = 26.0;
    const LEFT: f64 = 200.0;
    const FULL: f64 = 620.0;
    let place = |share: f64| chart::coordinate(LEFT + FULL * share.clamp(0.0, 1.0));
    html! {
        @if !importance.is_empty() {
            section {
                h2 { "Importance of parameters" }
                p class="note" {
                    "The share of the variance of the metric's logarithm that each parameter explains by itself: functional analysis of variance (fANOVA) over a random forest of "
                    (importance::TREES) " trees, grown from the verified trials (" (importance::SAMPLE) " of them at most). Whiskers are the standard deviation over the trees. "
                    "The rest to 1 comes from parameters in combination, and from noise."
                }
                svg viewBox={ "0 0 960 " (ROW * importance.len() as f64 + 6.0) } role="img" aria-label="Importance of parameters" {
                    @for (row, it) in importance.iter().enumerate() {
                        @let middle = ROW * (row as f64 + 0.5);
                        text class="tick" x=(LEFT - 8.0) y=(middle) text-anchor="end" dominant-baseline="middle" {
                            (mneme_model::text::shorten(&it.parameter, 28))
                        }
                        rect class="bar" x=(LEFT) y=(middle - 8.0)
                            width=(chart::coordinate(FULL * it.share.clamp(0.0, 1.0))) height="16" {}
                        line class="whisker" x1=(place(it.share - it.deviation)) x2=(place(it.share + it.deviation))
                            y1=(middle) y2=(middle) {}
                        text class="tick" x=(LEFT + FULL + 16.0) y=(middle) dominant-baseline="middle" {
                            (format!("{:.3}", it.share)) " ± " (format!("{:.3}", it.deviation))
                        }
                    }
                }
            }
        }
    }
}

/// Maps over the block's shape if it varies, otherwise over the two most important parameters.
fn heat_maps(archive: &Archive, columns: &[Column], is_time: bool) -> Markup {
    let named = |name: &str| columns.iter().find(|column| column.name == name);
    let (x, y, z) = (named("block.x"), named("block.y"), named("block.z"));
    let first_other = columns
        .iter()
        .find(|column| ![x, y, z].iter().flatten().any(|block| block.name == column.name) && !column.levels.is_empty());
    let mut pairs: Vec<(&Column, &Column)> = Vec::new();
    pairs.extend(x.zip(y));
    pairs.extend(x.zip(z));
    pairs.extend(x.or(y).or(z).zip(first_other));
    if pairs.is_empty()
        && let [first, second, ..] = columns
    {
        pairs.push((second, first));
    }
    let maps: Vec<Markup> = pairs.iter().filter_map(|(x, y)| heat::heat_map(archive, x, y, is_time)).collect();
    html! {
        @if !maps.is_empty() {
            section {
                h2 { "Heat map" }
                p class="note" { "The best verified metric for each pair of values, over all other parameters. Empty cells were not tried, or did not verify." }
                @for map in &maps { (map) }
            }
        }
    }
}

/// Parameters and trials as JSON that is safe in a script element. A trial is a list: its number, metric, status (an
/// index into `statuses`), and for each parameter the index of its level, or the number itself.
fn data(archive: &Archive, columns: &[Column], is_time: bool) -> String {
    let mut statuses: Vec<&str> = Vec::new();
    let trials: Vec<Value> = archive
        .trials
        .iter()
        .map(|trial| {
            let status = statuses.iter().position(|status| *status == trial.status).unwrap_or_else(|| {
                statuses.push(&trial.status);
                statuses.len() - 1
            });
            let mut row = vec![json!(trial.number), json!(trial.metric.map(short)), json!(status)];
            row.extend(columns.iter().map(|column| column.code(trial).map_or(Value::Null, short)));
            Value::Array(row)
        })
        .collect();
    let parameters: Vec<Value> = columns
        .iter()
        .map(|column| json!({"name": column.name, "levels": column.levels, "range": [column.range.0, column.range.1]}))
        .collect();
    let value = json!({"parameters": parameters, "statuses": statuses, "trials": trials, "time": is_time});
    // Escaped, so the data cannot end the element or begin a comment.
    value.to_string().replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
}

/// A number rounded to visible digits.
fn short(value: f64) -> Value {
    let rounded = (value * 10.0).round() / 10.0;
    if value.abs() < 100.0 && rounded != value {
        return json!(value);
    }
    if rounded.fract() == 0.0 && rounded.abs() < 1e15 { json!(rounded as i64) } else { json!(rounded) }
}

#[cfg(test)]
mod tests;
