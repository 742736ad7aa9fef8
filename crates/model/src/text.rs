//! Formats names and numbers for people.

/// A name cut to `limit` characters.
pub fn shorten(name: &str, limit: usize) -> String {
    if name.chars().count() <= limit {
        return name.into();
    }
    name.chars().take(limit.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// The maximum number of names in a sentence.
const SHOWN: usize = 5;
/// The number of characters of a name to compare: mangled names may have thousands.
const COMPARED: usize = 120;

/// The names most similar to the requested one, and the number of others, for a sentence; all names if there are few.
pub fn closest(wanted: &str, names: impl IntoIterator<Item = impl AsRef<str>>) -> String {
    let mut names: Vec<(usize, String)> =
        names.into_iter().map(|name| (unlikeness(wanted, name.as_ref()), name.as_ref().to_owned())).collect();
    names.sort();
    names.dedup();
    let others = names.len().saturating_sub(SHOWN);
    let shown: Vec<String> = names.into_iter().take(SHOWN).map(|(_, name)| shorten(&name, 2 * COMPARED)).collect();
    match (shown.is_empty(), others) {
        (true, _) => "none".into(),
        (false, 0) => shown.join(", "),
        (false, others) => format!("{} and {others} more", shown.join(", ")),
    }
}

/// The name that a mistyped one stands for, if there is one: at most a third of the letters may differ, because more than
/// that is another word.
pub fn meant<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let letters = |text: &str| text.chars().collect::<Vec<char>>();
    let wanted = letters(typed);
    let nearest = names.into_iter().map(|name| (distance(&wanted, &letters(name)), name)).min()?;
    (nearest.0 <= wanted.len().div_ceil(3)).then_some(nearest.1)
}

/// The end of a message about a mistyped name: the name that it stands for, or "".
pub fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    meant(typed, names).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// The number of letters by which two names differ; a function's name may lack its parameters.
fn unlikeness(wanted: &str, name: &str) -> usize {
    let letters = |text: &str| text.to_lowercase().chars().take(COMPARED).collect::<Vec<char>>();
    let wanted = letters(wanted);
    let whole = distance(&wanted, &letters(name));
    name.split_once('(').map_or(whole, |(plain, _)| whole.min(distance(&wanted, &letters(plain))))
}

/// Levenshtein's distance.
fn distance(one: &[char], other: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, with) in other.iter().enumerate() {
            let changed = diagonal + usize::from(letter != with);
            diagonal = row[column + 1];
            row[column + 1] = changed.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

/// A speedup; an uncertain one may have bounds with dozens of digits.
pub fn ratio(value: f64) -> String {
    if (0.001..1000.0).contains(&value) { format!("{value:.3}") } else { format!("{value:.1e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_places_or_a_power_of_ten() {
        assert_eq!([1.122_36, 0.5, 3.06e50, 3.3e-51].map(ratio), ["1.122", "0.500", "3.1e50", "3.3e-51"]);
    }

    #[test]
    fn of_many_names_the_likest_are_shown() {
        let names: Vec<String> = (0..1200).map(|number| format!("kernel{number}")).collect();
        let shown = closest("kernel77x", &names);
        assert!(shown.starts_with("kernel77,") && shown.ends_with("and 1195 more"), "{shown}");
        assert_eq!(closest("b", ["abc", "b(int*)", "b(int*)"]), "b(int*), abc");
        assert_eq!(closest("b", [""; 0]), "none");
        for (one, other, expected) in [("", "abc", 3), ("kitten", "sitting", 3), ("sroa", "sroa", 0), ("abc", "ac", 1)]
        {
            let [one, other] = [one, other].map(|text| text.chars().collect::<Vec<char>>());
            assert_eq!(distance(&one, &other), expected);
        }
        assert!(closest("x", ["y".repeat(100_000)]).len() < 1000);
    }

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        let names = ["default", "thinlto", "lto"];
        assert_eq!(meant("defualt", names), Some("default"));
        assert_eq!(meant("qqqqqqq", names), None);
        assert_eq!(did_you_mean("ltoo", names), "; did you mean 'lto'?");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
