//! Heat maps: the best metric for each pair of values of two parameters.

use std::collections::BTreeMap;

use maud::{Markup, html};
use mneme_model::text::shorten;

use super::chart::{self, coordinate};
use super::columns::Column;
use super::parallel::GROUPS;
use crate::archive::Archive;

/// Limit on rows and columns.
const MOST: usize = 64;
const WIDTH: f64 = 960.0;
const LEFT: f64 = 190.0;
const ROW: f64 = 26.0;
const TOP: f64 = 8.0;
/// Widest column, and narrowest column with a number in it.
const WIDEST: f64 = 96.0;
const TEXT: f64 = 46.0;

/// A map of `x` against `y`; `None` if either has too many values, or none.
pub fn heat_map(archive: &Archive, x: &Column, y: &Column, is_time: bool) -> Option<Markup> {
    if [x, y].iter().any(|column| column.levels.is_empty() || column.levels.len() > MOST) {
        return None;
    }
    let mut best: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for trial in &archive.trials {
        if let (Some(column), Some(row), Some(metric)) = (x.code(trial), y.code(trial), trial.metric) {
            let cell = best.entry((row as usize, column as usize)).or_insert(f64::INFINITY);
            *cell = cell.min(metric);
        }
    }
    let low = best.values().copied().fold(f64::INFINITY, f64::min);
    let high = best.values().copied().fold(f64::NEG_INFINITY, f64::max);
    let group = |metric: f64| match (metric / low).ln() / (high / low).ln() {
        fraction if fraction.is_finite() => ((fraction * GROUPS as f64) as usize).min(GROUPS - 1),
        _ => 0,
    };
    let width = ((WIDTH - LEFT - 4.0) / x.levels.len() as f64).min(WIDEST);
    let bottom = TOP + ROW * y.levels.len() as f64;
    let stride = (TEXT / width).ceil() as usize;
    Some(html! {
        svg class="heat" viewBox={ "0 0 " (WIDTH) " " (bottom + 44.0) } role="img" aria-label={ "Best metric by " (x.name) " and " (y.name) } {
            @for (row, level) in y.levels.iter().enumerate() {
                @let middle = coordinate(TOP + ROW * (row as f64 + 0.5));
                text class="tick" x=(LEFT - 8.0) y=(middle) text-anchor="end" dominant-baseline="middle" {
                    (shorten(level, 26)) title { (level) }
                }
                @for (column, across) in x.levels.iter().enumerate() {
                    @let left = LEFT + width * column as f64;
                    @match best.get(&(row, column)) {
                        Some(value) => {
                            g {
                                title { (x.name) " = " (across) ", " (y.name) " = " (level) ": " (chart::metric(*value, is_time)) }
                                rect class={ "cell f" (group(*value)) @if *value == low { " first" } }
                                    x=(coordinate(left)) y=(coordinate(TOP + ROW * row as f64))
                                    width=(coordinate(width - 1.0)) height=(ROW - 1.0) {}
                                @if width >= TEXT {
                                    text class={ "value t" (group(*value)) } x=(coordinate(left + width / 2.0)) y=(middle)
                                        text-anchor="middle" dominant-baseline="middle" {
                                        (chart::metric(*value, is_time))
                                    }
                                }
                            }
                        }
                        None => {
                            rect class="cell none" x=(coordinate(left)) y=(coordinate(TOP + ROW * row as f64))
                                width=(coordinate(width - 1.0)) height=(ROW - 1.0) {}
                        }
                    }
                }
            }
            @for (column, level) in x.levels.iter().enumerate().step_by(stride.max(1)) {
                text class="tick" x=(coordinate(LEFT + width * (column as f64 + 0.5))) y=(bottom + 16.0)
                    text-anchor="middle" { (shorten(level, 12)) }
            }
            text class="label" x=(coordinate(LEFT + width * x.levels.len() as f64 / 2.0)) y=(bottom + 36.0)
                text-anchor="middle" { (x.name) }
            text class="label" x="4" y=(TOP + 12.0) { (shorten(&y.name, 24)) }
        }
    })
}
