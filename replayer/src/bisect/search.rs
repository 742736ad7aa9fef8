//! The search for the first pass of a pipeline that makes the difference.
//!
//! It judges several points at a time, and assumes only that good and bad do not alternate between neighbouring judged
//! points. Both sides of the result have always been judged.

use std::collections::BTreeMap;

/// The judgement of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Judgement {
    Good,
    Bad,
    /// The point could not be judged, for example because its build failed.
    Unclear,
}

/// The border between good and bad: the last good point and the first bad one after it. They are neighbours unless all
/// points between them are unclear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Border {
    pub good: u64,
    pub bad: u64,
}

pub struct PassSearch {
    judged: BTreeMap<u64, Judgement>,
    end: u64,
}

impl PassSearch {
    /// Starts a search whose point `end` is bad. Points begin at 0.
    pub fn new(end: u64) -> Self {
        Self { judged: BTreeMap::from([(end, Judgement::Bad)]), end }
    }

    pub fn learn(&mut self, point: u64, judgement: Judgement) {
        self.judged.insert(point, judgement);
    }

    /// At most `width` points to judge next. Empty when the search is done.
    pub fn next(&self, width: usize) -> Vec<u64> {
        let open =
            |from: u64, to: u64| -> Vec<u64> { (from..to).filter(|point| !self.judged.contains_key(point)).collect() };
        let open = match self.border() {
            Some(border) => open(border.good + 1, border.bad),
            // No good point is known. If there is one, and bad does not turn good again, it is below all bad ones.
            None => match open(0, self.first_bad()) {
                below if below.is_empty() => open(0, self.end),
                below => below,
            },
        };
        let width = width.max(1).min(open.len());
        (1..=width).map(|at| open[(at * (open.len() + 1) / (width + 1)).saturating_sub(1)]).collect()
    }

    fn first_bad(&self) -> u64 {
        self.judged.iter().find(|(_, judgement)| **judgement == Judgement::Bad).map_or(self.end, |(point, _)| *point)
    }

    /// The last known good point and the first bad one after it. `None` if no point was good.
    pub fn border(&self) -> Option<Border> {
        let of = |wanted: Judgement| {
            self.judged.iter().filter(move |(_, judgement)| **judgement == wanted).map(|(point, _)| *point)
        };
        let good = of(Judgement::Good).next_back()?;
        let bad = of(Judgement::Bad).find(|point| *point > good)?;
        Some(Border { good, bad })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Searches, and returns the border and the number of rounds.
    fn search(end: u64, width: usize, judge: impl Fn(u64) -> Judgement) -> (Option<Border>, usize) {
        let mut search = PassSearch::new(end);
        let mut rounds = 0;
        loop {
            let points = search.next(width);
            if points.is_empty() {
                return (search.border(), rounds);
            }
            assert!(points.len() <= width && points.windows(2).all(|pair| pair[0] < pair[1]));
            rounds += 1;
            points.into_iter().for_each(|point| search.learn(point, judge(point)));
        }
    }

    proptest! {
        #[test]
        fn the_first_bad_pass_is_found(end in 1u64..2000, width in 1usize..20, culprit in 0u64..2000) {
            let culprit = culprit % end + 1;
            let judge = |point| if point < culprit { Judgement::Good } else { Judgement::Bad };
            let (border, rounds) = search(end, width, judge);
            prop_assert_eq!(border, Some(Border { good: culprit - 1, bad: culprit }));
            prop_assert!(rounds as f64 <= (end as f64 + 1.0).log(width as f64 + 1.0).ceil() + 2.0, "{} rounds", rounds);
        }

        #[test]
        fn whatever_is_found_was_judged_on_both_sides(end in 1u64..300, width in 1usize..8, seed: u64) {
            let judge = |point: u64| match (point.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ seed) >> 61 {
                0..=3 => Judgement::Good,
                4..=6 => Judgement::Bad,
                _ => Judgement::Unclear,
            };
            if let Some(border) = search(end, width, judge).0 {
                prop_assert_eq!(judge(border.good), Judgement::Good);
                prop_assert!(border.bad == end || judge(border.bad) == Judgement::Bad);
                prop_assert!((border.good + 1..border.bad).all(|point| judge(point) == Judgement::Unclear));
            } else {
                prop_assert!((0..end).all(|point| judge(point) != Judgement::Good));
            }
        }
    }

    #[test]
    fn three_hundred_passes_take_three_rounds_of_sixteen() {
        assert!(search(300, 16, |point| if point < 137 { Judgement::Good } else { Judgement::Bad }).1 <= 3);
    }
}
