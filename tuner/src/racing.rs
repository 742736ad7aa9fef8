//! Racing: candidates that are clearly slow in their first run have no further ones.

use crate::early_stop::EarlyStop;
use crate::space::Point;

/// Gives up candidates whose first run took longer than the fastest first run so far, multiplied by a factor.
#[derive(Debug)]
pub struct Racing {
    factor: f64,
    /// ns.
    fastest: f64,
}

impl Racing {
    /// `factor` is above 1; so much has to be more than noise.
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
