//! Parallel coordinates: an axis for each parameter, and a line for each verified trial.
//!
//! Lines are coloured by the trial's rank.

use std::fmt::Write;

use maud::{Markup, html};
use mneme_model::text::shorten;

use super::chart::{self, Frame, coordinate};
use super::columns::Column;
use crate::archive::{Archive, ArchivedTrial};

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 380.0;
const FRAME: Frame = Frame { left: 60.0, top: 44.0, right: 880.0, bottom: 356.0 };
/// Number of colours: trials are split into equal groups from fast to slow.
pub const GROUPS: usize = 8;
/// Limit on axes.
const AXES: usize = 12;
/// Limit on labels along an axis.
const LABELS: usize = 16;
/// Number of trials above which lines are thin, and drawn beside each other instead of on top.
pub const MANY: usize = 400;

/// The position of axis number `index` of `count`.
fn across(index: usize, count: usize) -> f64 {
    if count < 2 { FRAME.left } else { FRAME.left + (FRAME.right - FRAME.left) * index as f64 / (count as f64 - 1.0) }
}

fn up(place: f64) -> f64 {
    FRAME.bottom - (FRAME.bottom - FRAME.top) * place
}

/// The chart. `columns` are the parameters, most important first. The last axis is the trial's rank, with the fastest
/// at the top.
pub fn parallel(archive: &Archive, columns: &[Column], is_time: bool) -> Markup {
    let columns = &columns[..columns.len().min(AXES)];
    let mut ranked: Vec<(&ArchivedTrial, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial, trial.metric?))).collect();
    ranked.sort_by(|a, b| a.1.total_cmp(&b.1));
    let count = columns.len() + 1;
    let mut groups = vec![String::new(); GROUPS];
    let many = ranked.len() > MANY;
    for (rank, (trial, _)) in ranked.iter().enumerate() {
        // The golden ratio spreads any number of positions evenly.
        let spread = if many { (trial.number as f64 * 0.618_034).fract() - 0.5 } else { 0.0 };
        let group = &mut groups[rank * GROUPS / ranked.len()];
        let mut pen_is_down = false;
        for (index, column) in columns.iter().enumerate() {
            // A parameter that does not apply leaves a gap.
            let Some(code) = column.code(trial) else {
                pen_is_down = false;
                continue;
            };
            let _ = write!(
                group,
                "{}{} {}",
                if pen_is_down { 'L' } else { 'M' },
                coordinate(across(index, count)),
                coordinate(up(column.place(code) + spread * column.gap()))
            );
            pen_is_down = true;
        }
        let place = 1.0 - rank as f64 / (ranked.len() as f64 - 1.0).max(1.0);
        let _ = write!(
            group,
            "{}{} {}",
            if pen_is_down { 'L' } else { 'M' },
            coordinate(across(count - 1, count)),
            coordinate(up(place))
        );
    }
    let at = |fraction: f64| {
        ranked.get(((ranked.len() as f64 - 1.0) * (1.0 - fraction)).round() as usize).map(|(_, metric)| *metric)
    };
    html! {
        svg id="parallel" class=(if many { "many" } else { "few" }) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Parallel coordinates of parameters and rank"
            data-top=(FRAME.top) data-bottom=(FRAME.bottom) data-axes=(count)
            data-left=(FRAME.left) data-right=(FRAME.right) {
            g class="lines" {
                @for (index, path) in groups.iter().enumerate().rev().filter(|(_, path)| !path.is_empty()) {
                    path class={ "group g" (index) } d=(path) {}
                }
            }
            path id="parallel-chosen" class="chosen" d="" {}
            @for (index, column) in columns.iter().enumerate() {
                @let x = coordinate(across(index, count));
                line class="axis" x1=(x) x2=(x) y1=(FRAME.top) y2=(FRAME.bottom) {}
                text class="label" x=(x) y=(if index % 2 == 0 { FRAME.top - 12.0 } else { FRAME.top - 28.0 }) text-anchor="middle" {
                    (shorten(&column.name, 22)) title { (column.name) }
                }
                @for (place, label) in labels(column) {
                    text class="tick halo" x=(coordinate(across(index, count) + 5.0)) y=(coordinate(up(place)))
                        dominant-baseline="middle" {
                        (shorten(&label, 18)) title { (label) }
                    }
                }
            }
            @let x = coordinate(across(count - 1, count));
            line class="axis" x1=(x) x2=(x) y1=(FRAME.top) y2=(FRAME.bottom) {}
            text class="label" x=(x) y=(FRAME.top - 12.0) text-anchor="middle" { "rank" }
            @for fraction in [1.0, 0.75, 0.5, 0.25, 0.0] {
                @if let Some(metric) = at(fraction) {
                    text class="tick" x=(coordinate(across(count - 1, count) + 6.0)) y=(coordinate(up(fraction)))
                        dominant-baseline="middle" {
                        (chart::metric(metric, is_time))
                    }
                }
            }
        }
    }
}

/// Labels along an axis with their positions; only some of many levels.
fn labels(column: &Column) -> Vec<(f64, String)> {
    if column.levels.is_empty() {
        let (low, high) = column.range;
        return [0.0, 0.25, 0.5, 0.75, 1.0].map(|place| (place, chart::number(low + place * (high - low)))).into();
    }
    let stride = column.levels.len().div_ceil(LABELS);
    let places = column.levels.iter().enumerate().step_by(stride);
    places.map(|(index, level)| (column.place(index as f64), level.clone())).collect()
}
