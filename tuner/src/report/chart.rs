//! Shared parts of charts: a frame in SVG units, scales with ticks, short numbers.

use std::fmt::Write;

use mneme_model::units;

/// A rectangle of the drawing, in SVG units.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub left: f64,
    pub top: f64,
    pub right: f64,
    pub bottom: f64,
}

/// Maps values to an axis, logarithmically if they have a wide range.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
    /// Positions of the low and the high end.
    from: f64,
    to: f64,
}

/// A scale is logarithmic if its largest value exceeds the smallest by more than this factor.
const WIDE: f64 = 8.0;

impl Scale {
    /// A scale for metrics, which are positive, with some room at both ends.
    pub fn of_metrics(metrics: impl Iterator<Item = f64>, from: f64, to: f64) -> Self {
        let (low, high) =
            metrics.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), metric| (low.min(metric), high.max(metric)));
        let (low, high) = if low.is_finite() { (low, high) } else { (1.0, 1.0) };
        if low > 0.0 && high / low > WIDE {
            Self { low: low / 1.1, high: high * 1.1, logarithmic: true, from, to }
        } else {
            let room = ((high - low) * 0.06).max(high.abs() * 1e-3).max(1e-9);
            Self { low: low - room, high: high + room, logarithmic: false, from, to }
        }
    }

    pub fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        Self { low, high: if high > low { high } else { low + 1.0 }, logarithmic: false, from, to }
    }

    pub fn place(&self, value: f64) -> f64 {
        let fraction = if self.logarithmic {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + fraction * (self.to - self.from)
    }

    /// Round values on the scale, about `count` of them.
    pub fn ticks(&self, count: f64) -> Vec<f64> {
        if self.logarithmic {
            let candidates = |steps: &[f64]| -> Vec<f64> {
                let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
                let all = (first..=last)
                    .flat_map(|power| steps.iter().map(move |step| step * 10f64.powi(power)).collect::<Vec<_>>());
                all.filter(|value| *value >= self.low && *value <= self.high).collect()
            };
            let fine = candidates(&[1.0, 2.0, 5.0]);
            return if fine.len() as f64 > 2.0 * count { candidates(&[1.0]) } else { fine };
        }
        let raw = (self.high - self.low) / count;
        let power = 10f64.powf(raw.log10().floor());
        let step =
            [1.0, 2.0, 5.0, 10.0].into_iter().map(|factor| factor * power).find(|step| *step >= raw).unwrap_or(raw);
        let first = (self.low / step).ceil() as i64;
        let last = (self.high / step).floor() as i64;
        (first..=last).map(|index| index as f64 * step).collect()
    }
}

/// A coordinate with one decimal, without trailing zeros or a negative zero.
pub fn coordinate(value: f64) -> String {
    let rounded = (value * 10.0).round() / 10.0;
    format!("{}", if rounded == 0.0 { 0.0 } else { rounded })
}

/// Dots as a single path: each is a move and a line of zero length, with round caps.
pub fn dots(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.fold(String::new(), |mut path, (x, y)| {
        let _ = write!(path, "M{} {}h0", coordinate(x), coordinate(y));
        path
    })
}

/// A path through points.
pub fn line(points: impl Iterator<Item = (f64, f64)>) -> String {
    let mut path = String::new();
    for (index, (x, y)) in points.enumerate() {
        let _ = write!(path, "{}{} {}", if index == 0 { 'M' } else { 'L' }, coordinate(x), coordinate(y));
    }
    path
}

/// A metric for people: a time with its unit, or a number if the objective is not the time.
pub fn metric(value: f64, is_time: bool) -> String {
    if is_time { units::time(value) } else { number(value) }
}

/// Formats a number with four significant digits.
pub fn number(value: f64) -> String {
    if value == 0.0 {
        return "0".into();
    }
    let magnitude = value.abs().log10().floor() as i32;
    if !(-4..=9).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let text = format!("{value:.*}", (3 - magnitude).max(0) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').into() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_place_and_tick() {
        let scale = Scale::linear(0.0, 10.0, 100.0, 0.0);
        assert_eq!([0.0, 5.0, 10.0].map(|value| scale.place(value)), [100.0, 50.0, 0.0]);
        assert_eq!(scale.ticks(5.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let wide = Scale::of_metrics([1e3, 1e6].into_iter(), 0.0, 1.0);
        assert!(wide.logarithmic && (wide.place(31_622.776) - 0.5).abs() < 1e-6);
        assert_eq!(wide.ticks(6.0), [1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6]);
        let one = Scale::of_metrics([5.0].into_iter(), 0.0, 1.0);
        assert!((one.place(5.0) - 0.5).abs() < 1e-6);
        assert!(Scale::of_metrics(std::iter::empty(), 0.0, 1.0).place(1.0).is_finite());
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.0, 1.0, 1234.56, 0.012_345, 1e12].map(number), ["0", "1", "1235", "0.01235", "1.000e12"]);
        assert_eq!([1.0, 2.25, -0.04].map(coordinate), ["1", "2.3", "0"]);
        assert_eq!(dots([(1.0, 2.0), (3.55, 4.0)].into_iter()), "M1 2h0M3.6 4h0");
        assert_eq!(line([(1.0, 2.0), (3.0, 4.0)].into_iter()), "M1 2L3 4");
    }
}
