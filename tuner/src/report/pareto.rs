//! The Pareto front: the first two objectives of each verified trial.

use std::collections::HashSet;

use maud::{Markup, html};
use serde_json::Value;

use super::chart::{self, Frame, Scale, coordinate, dots};
use crate::archive::{Archive, ArchivedTrial, plain};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 360.0;
const FRAME: Frame = Frame { left: 90.0, top: 14.0, right: 940.0, bottom: 300.0 };

/// The section; empty with a single objective.
pub fn pareto(archive: &Archive) -> Markup {
    let names: Vec<String> = archive.pareto["objectives"].as_array().into_iter().flatten().map(plain).collect();
    let [first, second, ..] = names.as_slice() else { return html! {} };
    let front: HashSet<u64> =
        archive.pareto["trials"].as_array().into_iter().flatten().filter_map(|trial| trial["trial"].as_u64()).collect();
    let costs = |trial: &ArchivedTrial| Some((cost(trial, 0)?, cost(trial, 1)?));
    let points: Vec<(u64, (f64, f64))> =
        archive.trials.iter().filter_map(|trial| Some((trial.number, costs(trial)?))).collect();
    let across = Scale::of_metrics(points.iter().map(|(_, (cost, _))| *cost), FRAME.left, FRAME.right);
    let up = Scale::of_metrics(points.iter().map(|(_, (_, cost))| *cost), FRAME.bottom, FRAME.top);
    let place = |(one, other): (f64, f64)| (across.place(one), up.place(other));
    let of = |on_front: bool| -> Vec<(f64, f64)> {
        points.iter().filter(|(number, _)| on_front == front.contains(number)).map(|(_, costs)| place(*costs)).collect()
    };
    html! {
        section {
            h2 { "Pareto front" }
            p class="note" { "The first two objectives of each verified trial. Less is better in both; maximised objectives are shown negated. " (front.len()) " trials are on the front of all " (names.len()) " objectives: " code { "pareto.json" } "." }
            svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label={ (first) " and " (second) " of each trial" } {
                @for tick in up.ticks(5.0) {
                    @let y = coordinate(up.place(tick));
                    line class="grid" x1=(FRAME.left) x2=(FRAME.right) y1=(y) y2=(y) {}
                    text class="tick" x=(FRAME.left - 8.0) y=(y) text-anchor="end" dominant-baseline="middle" { (reading(second, tick)) }
                }
                @for tick in across.ticks(7.0) {
                    text class="tick" x=(coordinate(across.place(tick))) y=(FRAME.bottom + 18.0) text-anchor="middle" {
                        (reading(first, tick))
                    }
                }
                text class="label" x=((FRAME.left + FRAME.right) / 2.0) y=(HEIGHT - 10.0) text-anchor="middle" { (first) }
                text class="label" x=(FRAME.left + 6.0) y=(FRAME.top + 4.0) { (second) }
                path class="dots stopped" d=(dots(of(false).into_iter())) {}
                path class="dots verified front" d=(dots(of(true).into_iter())) {}
            }
        }
    }
}

fn cost(trial: &ArchivedTrial, objective: usize) -> Option<f64> {
    trial.metric?;
    trial.line["objectives"].get(objective).and_then(Value::as_f64)
}

/// An objective's value, with its unit if it is the time.
fn reading(objective: &str, value: f64) -> String {
    chart::metric(value, objective == "time")
}
