//! The metric of each trial in their order, the best so far, and which failed.

use maud::{Markup, html};

use super::chart::{self, Frame, Scale, coordinate, dots, line};
use super::parallel::MANY;
use crate::archive::Archive;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 340.0;
const FRAME: Frame = Frame { left: 72.0, top: 14.0, right: 944.0, bottom: 276.0 };
/// Where failures are ticked off, below the frame.
const FAILURES: f64 = 288.0;

/// The chart; `is_time` says that metrics are in ns.
pub fn history(archive: &Archive, baseline: Option<f64>, is_time: bool) -> Markup {
    let verified: Vec<(f64, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial.number as f64, trial.metric?))).collect();
    let last = archive.trials.iter().map(|trial| trial.number).max().unwrap_or(0) as f64;
    let stopped_metrics = archive.trials.iter().filter_map(|trial| trial.stopped);
    let across = Scale::linear(0.0, last, FRAME.left + 6.0, FRAME.right - 6.0);
    let up = Scale::of_metrics(
        verified.iter().map(|(_, metric)| *metric).chain(baseline).chain(stopped_metrics),
        FRAME.bottom,
        FRAME.top,
    );
    let mut best = f64::INFINITY;
    let mut steps: Vec<(f64, f64)> = Vec::new();
    let mut in_order = verified.clone();
    in_order.sort_by(|a, b| a.0.total_cmp(&b.0));
    for (number, metric) in in_order {
        if metric < best {
            if best.is_finite() {
                steps.push((across.place(number), up.place(best)));
            }
            best = metric;
            steps.push((across.place(number), up.place(best)));
        }
    }
    if best.is_finite() {
        steps.push((across.place(last), up.place(best)));
    }
    let failed = archive.trials.iter().filter(|trial| trial.metric.is_none() && trial.stopped.is_none());
    let stopped: Vec<(f64, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial.number as f64, trial.stopped?))).collect();
    html! {
        svg id="history" class=(if verified.len() > MANY { "many" } else { "few" }) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Metric of each trial" {
            @for tick in up.ticks(5.0) {
                @let y = coordinate(up.place(tick));
                line class="grid" x1=(FRAME.left) x2=(FRAME.right) y1=(y) y2=(y) {}
                text class="tick" x=(FRAME.left - 8.0) y=(y) text-anchor="end" dominant-baseline="middle" {
                    (chart::metric(tick, is_time))
                }
            }
            @for tick in across.ticks(8.0).into_iter().filter(|tick| tick.fract() == 0.0) {
                text class="tick" x=(coordinate(across.place(tick))) y=(FAILURES + 22.0) text-anchor="middle" { (tick) }
            }
            text class="label" x=((FRAME.left + FRAME.right) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { "trial" }
            path class="dots verified" d=(dots(verified.iter().map(|(number, metric)| (across.place(*number), up.place(*metric))))) {}
            path class="dots stopped" d=(dots(stopped.iter().map(|(number, metric)| (across.place(*number), up.place(*metric))))) {}
            path class="dots failed" d=(dots(failed.map(|trial| (across.place(trial.number as f64), FAILURES)))) {}
            path class="best" d=(line(steps.into_iter())) {}
            @if let Some(baseline) = baseline {
                @let y = coordinate(up.place(baseline));
                line class="baseline" x1=(FRAME.left) x2=(FRAME.right) y1=(y) y2=(y) {}
                text class="tick baseline-label" x=(FRAME.right) y=(coordinate(up.place(baseline) - 5.0)) text-anchor="end" { "baseline" }
            }
            circle id="history-mark" class="mark" r="5" visibility="hidden" {}
        }
        p class="legend" {
            span class="key verified" {} "verified " span class="key best" {} "best so far " span class="key baseline" {} "baseline "
            @if !stopped.is_empty() { span class="key stopped" {} "given up early " }
            span class="key failed" {} "failed, below the axis"
        }
    }
}
