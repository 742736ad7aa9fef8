//! The fastest trials, with the device's information on their code.

use maud::{Markup, html};
use mneme_model::text::{ratio, shorten};
use mneme_model::units;
use serde_json::Value;

use super::chart;
use super::columns::Column;
use crate::archive::{Archive, ArchivedTrial, plain};

/// Rows of the table.
const ROWS: usize = 50;

pub fn ranking(archive: &Archive, columns: &[Column], is_time: bool) -> Markup {
    let mut ranked: Vec<(&ArchivedTrial, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial, trial.metric?))).collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let looks = &archive.summary["looks"];
    let is_looked_at = looks.as_object().is_some_and(|looks| !looks.is_empty());
    let look = |trial: &ArchivedTrial| &looks[trial.number.to_string()];
    let winner = archive.best["trial"].as_u64();
    html! {
        section {
            h2 { "Fastest trials" }
            p class="note" { "Of " (ranked.len()) " verified trials, by their first measurement; click a heading to sort. All trials are in " code { "trials.jsonl" } ", and as a table with " code { "mneme-tune report --csv" } "." }
            @if is_looked_at {
                p class="note" { "After the search, the session looked at the candidates again that might be among the best. The finalists are those with the lowest mean of all looks, so the fastest first measurement need not win." }
            }
            div class="wide" {
                table class="sortable" {
                    thead {
                        tr {
                            th class="number" { "rank" } th class="number" { "trial" }
                            @for column in columns { th { (column.name) } }
                            th class="number" { "metric" } @if is_looked_at { th class="number" { "mean of all looks" } th class="number" { "looks" } } th class="number" { "speedup" } th class="number" { "fastest run" } th class="number" { "registers" }
                            th class="number" { "spilled bytes" } th class="number" { "occupancy" } th class="number" { "code" }
                        }
                    }
                    tbody {
                        @for (rank, (trial, metric)) in ranked.iter().take(ROWS).enumerate() {
                            @let metrics = &trial.line["result"]["metrics"];
                            tr {
                                td class="number" { (rank + 1) } td class="number" data-value=(trial.number) { (trial.number) @if winner == Some(trial.number) { " " strong { "winner" } } }
                                @for column in columns {
                                    td { (trial.choice.get(&column.name).map_or_else(String::new, text)) }
                                }
                                (cell(Some(*metric), |value| chart::metric(value, is_time)))
                                @if is_looked_at {
                                    (cell(look(trial)["mean"].as_f64().or(Some(*metric)), units::time))
                                    (cell(look(trial)["visits"].as_f64().or(Some(1.0)), chart::number))
                                }
                                (cell(trial.line["speedup"].as_f64(), ratio))
                                (cell(fastest(&trial.line["result"]), units::time))
                                (cell(known(&metrics["registers"]), chart::number))
                                (cell(
                                    known(&metrics["spill_stores"])
                                        .zip(known(&metrics["spill_loads"]))
                                        .map(|(stores, loads)| stores + loads),
                                    chart::number,
                                ))
                                (cell(metrics["occupancy"].as_f64(), |value| format!("{:.0} %", 100.0 * value)))
                                (cell(known(&metrics["code_size"]), |value| units::bytes(value as u64)))
                            }
                        }
                    }
                }
            }
        }
    }
}

fn text(value: &Value) -> String {
    value.as_f64().map_or_else(|| shorten(&plain(value), 60), chart::number)
}

/// A number that sorts by its value.
fn cell(value: Option<f64>, text: impl Fn(f64) -> String) -> Markup {
    html! {
        @match value {
            Some(value) => { td class="number" data-value=(value) { (text(value)) } }
            None => { td class="number" { "–" } }
        }
    }
}

/// A number; results write -1 for unknown ones.
fn known(value: &Value) -> Option<f64> {
    value.as_f64().filter(|value| *value >= 0.0)
}

/// The fastest measured run, ns.
fn fastest(result: &Value) -> Option<f64> {
    let warmup = result["warmup"].as_u64().unwrap_or(0) as usize;
    result["exec_time"].as_array()?.iter().skip(warmup).filter_map(Value::as_f64).min_by(f64::total_cmp)
}
