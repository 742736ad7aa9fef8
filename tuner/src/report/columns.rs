//! A parameter's values along an axis.

use serde_json::Value;

use crate::archive::{Archive, ArchivedTrial, plain};

/// Up to this number of distinct values, each has its own evenly spaced position. More numbers are placed
/// proportionally.
const LEVELS: usize = 48;

/// A parameter's values over all trials.
#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    /// The distinct values in order, as text; empty if there are too many numbers.
    pub levels: Vec<String>,
    /// Smallest and largest number, for a column without levels.
    pub range: (f64, f64),
}

impl Column {
    pub fn new(archive: &Archive, name: &str) -> Self {
        let mut values: Vec<&Value> = archive.trials.iter().filter_map(|trial| trial.choice.get(name)).collect();
        let numeric = values.iter().all(|value| value.is_number());
        if numeric {
            values.sort_by(|a, b| a.as_f64().unwrap_or(0.0).total_cmp(&b.as_f64().unwrap_or(0.0)));
        } else {
            values.sort_by_key(|value| plain(value));
        }
        let range = (
            values.first().and_then(|value| value.as_f64()).unwrap_or(0.0),
            values.last().and_then(|value| value.as_f64()).unwrap_or(0.0),
        );
        values.dedup();
        let keep = !numeric || values.len() <= LEVELS;
        Self {
            name: name.into(),
            levels: if keep { values.into_iter().map(plain).collect() } else { Vec::new() },
            range,
        }
    }

    /// A trial's value as a number: the index of its level, or the number itself; `None` if the parameter does not
    /// apply.
    pub fn code(&self, trial: &ArchivedTrial) -> Option<f64> {
        let value = trial.choice.get(&self.name)?;
        if self.levels.is_empty() {
            return value.as_f64();
        }
        let text = plain(value);
        self.levels.iter().position(|level| *level == text).map(|place| place as f64)
    }

    /// How far lines through one level may be apart; 0 for proportional values.
    pub fn gap(&self) -> f64 {
        if self.levels.is_empty() { 0.0 } else { 0.25 / (self.levels.len() as f64).max(4.0) }
    }

    /// A code's position on the axis, 0 to 1.
    pub fn place(&self, code: f64) -> f64 {
        let (low, high) = if self.levels.is_empty() { self.range } else { (0.0, self.levels.len() as f64 - 1.0) };
        if high > low { (code - low) / (high - low) } else { 0.5 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn column(values: &[Value]) -> (Column, Archive) {
        let trials = values
            .iter()
            .map(|value| ArchivedTrial { choice: [("p".to_owned(), value.clone())].into(), ..ArchivedTrial::default() })
            .collect();
        let archive = Archive { trials, ..Archive::default() };
        (Column::new(&archive, "p"), archive)
    }

    #[test]
    fn numbers_are_in_order_of_size_and_words_in_that_of_the_alphabet() {
        let (numbers, archive) = column(&[json!(128), json!(64), json!(1024), json!(64)]);
        assert_eq!(numbers.levels, ["64", "128", "1024"]);
        assert_eq!(
            archive.trials.iter().map(|trial| numbers.place(numbers.code(trial).unwrap())).collect::<Vec<_>>(),
            [0.5, 0.0, 1.0, 0.0]
        );
        assert_eq!(column(&[json!("b"), json!(true), json!("a")]).0.levels, ["a", "b", "true"]);
    }

    #[test]
    fn many_numbers_have_places_in_proportion() {
        let values: Vec<Value> = (0..200).map(|i| json!(10.0 + f64::from(i) / 2.0)).collect();
        let (numbers, archive) = column(&values);
        assert!(numbers.levels.is_empty());
        assert_eq!(numbers.place(numbers.code(&archive.trials[0]).unwrap()), 0.0);
        assert!((numbers.place(60.0) - 50.0 / 99.5).abs() < 1e-12);
        assert_eq!(numbers.code(&ArchivedTrial::default()), None);
    }
}
