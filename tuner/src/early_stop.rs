//! Early stopping: rules that give up a candidate after its first runs.

use crate::space::Point;

/// A rule that decides after a few runs whether a candidate deserves the others.
pub trait EarlyStop {
    /// Whether a candidate with this metric in ns is hopeless.
    fn hopeless(&mut self, point: &Point, metric: f64) -> bool;
}

/// Gives up candidates whose first run took longer than the fastest first run so far, times a factor.
#[derive(Debug)]
pub struct Racing {
    factor: f64,
    /// ns.
    fastest: f64,
}

impl Racing {
    /// `factor` is above 1, by more than the noise of times.
    pub fn new(factor: f64) -> Self {
        Self { factor, fastest: f64::INFINITY }
    }
}

impl EarlyStop for Racing {
    fn hopeless(&mut self, _point: &Point, metric: f64) -> bool {
        self.fastest = self.fastest.min(metric);
        metric > self.factor * self.fastest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_clearly_slower_than_the_fastest_is_given_up() {
        let mut racing = Racing::new(1.5);
        let fates: Vec<bool> =
            [100.0, 149.0, 151.0, 60.0, 95.0, 61.0].iter().map(|time| racing.hopeless(&Point::new(), *time)).collect();
        assert_eq!(fates, [false, false, true, false, true, false]);
    }
}
