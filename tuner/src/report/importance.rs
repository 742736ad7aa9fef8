//! The importance of each parameter, by functional analysis of variance over a random forest.
//!
//! Hutter, Hoos and Leyton-Brown, "An Efficient Approach for Assessing Hyperparameter Importance", ICML 2014.

use std::num::NonZeroUsize;

use fanova::{FanovaOptions, RandomForestOptions};

use super::columns::Column;
use crate::archive::{Archive, ArchivedTrial};

/// The share of the variance of the metric's logarithm that one parameter explains.
#[derive(Clone, Debug)]
pub struct Importance {
    pub parameter: String,
    /// Mean and standard deviation over the trees of the forest, 0 to 1.
    pub share: f64,
    pub deviation: f64,
}

/// Trees of the forest.
pub const TREES: usize = 64;
/// Limit on the trials from which the forest is grown; evenly chosen from more.
pub const SAMPLE: usize = 1000;
/// Minimum of trials for a result.
const FEWEST: usize = 10;

/// The importance of every varying parameter, most important first; empty if too few trials verified, or all are
/// equally fast.
pub fn importance(archive: &Archive, columns: &[Column]) -> Vec<Importance> {
    let verified: Vec<(&ArchivedTrial, f64)> =
        archive.trials.iter().filter_map(|trial| Some((trial, trial.metric.filter(|metric| *metric > 0.0)?))).collect();
    let stride = verified.len().div_ceil(SAMPLE).max(1);
    let sample: Vec<_> = verified.into_iter().step_by(stride).collect();
    let targets: Vec<f64> = sample.iter().map(|(_, metric)| metric.ln()).collect();
    if sample.len() < FEWEST || targets.iter().all(|target| (target - targets[0]).abs() < 1e-12) {
        return Vec::new();
    }
    // A parameter that does not apply to a trial gets a value below all others.
    let features: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| {
            sample.iter().map(|(trial, _)| column.code(trial).unwrap_or(column.range.0.min(0.0) - 1.0)).collect()
        })
        .collect();
    let Some(trees) = NonZeroUsize::new(TREES).filter(|_| !features.is_empty()) else { return Vec::new() };
    let forest = RandomForestOptions::new().seed(0).trees(trees);
    let features: Vec<&[f64]> = features.iter().map(Vec::as_slice).collect();
    let Ok(mut fanova) = FanovaOptions::new().random_forest(forest).fit(features, &targets) else { return Vec::new() };
    let mut found: Vec<Importance> = columns
        .iter()
        .enumerate()
        .map(|(index, column)| {
            let importance = fanova.quantify_importance(&[index]);
            let number = |value: f64| if value.is_finite() { value } else { 0.0 };
            Importance {
                parameter: column.name.clone(),
                share: number(importance.mean),
                deviation: number(importance.stddev),
            }
        })
        .collect();
    found.sort_by(|a, b| b.share.total_cmp(&a.share));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::tests::folder;

    #[test]
    fn what_decides_comes_first() {
        let folder = folder(240);
        let archive = Archive::read(folder.path()).unwrap();
        let columns: Vec<Column> = archive.parameters.iter().map(|name| Column::new(&archive, name)).collect();
        let found = importance(&archive, &columns);
        assert_eq!(found.len(), 4);
        // By the rule, the square of the pipeline outweighs the width of the block, and the other parameters have no
        // effect.
        assert_eq!((found[0].parameter.as_str(), found[1].parameter.as_str()), ("passes", "block.x"));
        assert!(found[0].share > 0.6 && found[2].share < 0.05, "{found:?}");
    }

    #[test]
    fn few_trials_and_equal_ones_tell_nothing() {
        let folder = folder(9);
        let archive = Archive::read(folder.path()).unwrap();
        assert!(importance(&archive, &[Column::new(&archive, "passes")]).is_empty());
        let mut archive = Archive::read(self::folder(60).path()).unwrap();
        archive.trials.iter_mut().for_each(|trial| trial.metric = trial.metric.and(Some(5.0)));
        assert!(importance(&archive, &[Column::new(&archive, "passes")]).is_empty());
        assert!(importance(&archive, &[]).is_empty());
    }
}
