//! The history of a session: each trial's metric, the best so far, and failures.

use maud::{Markup, html};

use super::chart::{self, Frame, Scale, coordinate, dots, line};
use super::headline;
use super::parallel::MANY;
use crate::archive::Archive;

const WIDTH: f64 = 960.0;
const HEIGHT: f64 = 340.0;
const FRAME: Frame = Frame { left: 72.0, top: 14.0, right: 944.0, bottom: 276.0 };
/// Height of the failures' ticks, below the frame.
const FAILURES: f64 = 288.0;

/// The axes of a chart of trials and metrics.
pub struct Axes {
    across: Scale,
    up: Scale,
    last: f64,
}

impl Axes {
    /// Axes that fit all trials of these sessions.
    pub fn of(archives: &[&Archive]) -> Self {
        let numbers = archives.iter().flat_map(|archive| archive.trials.iter().map(|trial| trial.number));
        let last = numbers.max().unwrap_or(0) as f64;
        let metrics = archives.iter().flat_map(|archive| {
            let of_trials = archive.trials.iter().flat_map(|trial| [trial.metric, trial.stopped]);
            of_trials.chain([headline::baseline_metric(archive)]).flatten()
        });
        let across = Scale::linear(0.0, last, FRAME.left + 6.0, FRAME.right - 6.0);
        Self { across, up: Scale::of_metrics(metrics, FRAME.bottom, FRAME.top), last }
    }

    fn place(&self, number: f64, metric: f64) -> (f64, f64) {
        (self.across.place(number), self.up.place(metric))
    }

    fn frame(&self, is_time: bool) -> Markup {
        html! {
            @for tick in self.up.ticks(5.0) {
                @let y = coordinate(self.up.place(tick));
                line class="grid" x1=(FRAME.left) x2=(FRAME.right) y1=(y) y2=(y) {}
                text class="tick" x=(FRAME.left - 8.0) y=(y) text-anchor="end" dominant-baseline="middle" {
                    (chart::metric(tick, is_time))
                }
            }
            @for tick in self.across.ticks(8.0).into_iter().filter(|tick| tick.fract() == 0.0) {
                text class="tick" x=(coordinate(self.across.place(tick))) y=(FAILURES + 22.0) text-anchor="middle" { (tick) }
            }
            text class="label" x=((FRAME.left + FRAME.right) / 2.0) y=(HEIGHT - 6.0) text-anchor="middle" { "trial" }
        }
    }

    /// The best metric so far after each trial, as a path.
    fn best_so_far(&self, archive: &Archive) -> String {
        let mut in_order: Vec<(f64, f64)> =
            archive.trials.iter().filter_map(|trial| Some((trial.number as f64, trial.metric?))).collect();
        in_order.sort_by(|one, other| one.0.total_cmp(&other.0));
        let (mut best, mut steps) = (f64::INFINITY, Vec::new());
        for (number, metric) in in_order {
            if metric < best {
                steps.extend(best.is_finite().then(|| self.place(number, best)));
                best = metric;
                steps.push(self.place(number, best));
            }
        }
        let last = archive.trials.iter().map(|trial| trial.number as f64).fold(0.0, f64::max);
        steps.extend(best.is_finite().then(|| self.place(last.min(self.last), best)));
        line(steps.into_iter())
    }
}

/// The best so far of two sessions, in one chart.
pub fn two(sessions: &[Archive; 2]) -> Markup {
    let axes = Axes::of(&[&sessions[0], &sessions[1]]);
    let is_time = sessions[0].is_time;
    html! {
        svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="The best so far of both sessions" {
            (axes.frame(is_time))
            @for (archive, class) in sessions.iter().zip(["best", "best other"]) {
                path class=(class) d=(axes.best_so_far(archive)) {}
            }
        }
        p class="legend" {
            span class="key best" {} (sessions[0].folder.display()) " " span class="key other" {} (sessions[1].folder.display())
        }
    }
}

/// The chart of a session. The page's script finds it by `id`.
pub fn history(archive: &Archive, axes: &Axes, id: Option<&str>) -> Markup {
    let (is_time, baseline) = (archive.is_time, headline::baseline_metric(archive));
    let (across, up) = (&axes.across, &axes.up);
    let verified: Vec<(f64, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial.number as f64, trial.metric?))).collect();
    let failed = archive.trials.iter().filter(|trial| trial.metric.is_none() && trial.stopped.is_none());
    let stopped: Vec<(f64, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial.number as f64, trial.stopped?))).collect();
    html! {
        svg id=[id] class=(if verified.len() > MANY { "many" } else { "few" }) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } role="img" aria-label="Metric of each trial" {
            (axes.frame(is_time))
            path class="dots verified" d=(dots(verified.iter().map(|(number, metric)| (across.place(*number), up.place(*metric))))) {}
            path class="dots stopped" d=(dots(stopped.iter().map(|(number, metric)| (across.place(*number), up.place(*metric))))) {}
            path class="dots failed" d=(dots(failed.map(|trial| (across.place(trial.number as f64), FAILURES)))) {}
            path class="best" d=(axes.best_so_far(archive)) {}
            @if let Some(baseline) = baseline {
                @let y = coordinate(up.place(baseline));
                line class="baseline" x1=(FRAME.left) x2=(FRAME.right) y1=(y) y2=(y) {}
                text class="tick baseline-label" x=(FRAME.right) y=(coordinate(up.place(baseline) - 5.0)) text-anchor="end" { "baseline" }
            }
            @if id.is_some() { circle id="history-mark" class="mark" r="5" visibility="hidden" {} }
        }
        p class="legend" {
            span class="key verified" {} "verified " span class="key best" {} "best so far " span class="key baseline" {} "baseline "
            @if !stopped.is_empty() { span class="key stopped" {} "given up early " }
            span class="key failed" {} "failed, below the axis"
        }
    }
}
