//! Formats names and numbers for people.

use strsim::osa_distance;

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
    let nearest = names.into_iter().map(|name| (osa_distance(typed, name), name)).min()?;
    (nearest.0 <= typed.chars().count().div_ceil(3)).then_some(nearest.1)
}

/// The end of a message about a mistyped name: the name that it stands for, or "".
pub fn did_you_mean<'a>(typed: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    meant(typed, names).map_or_else(String::new, |name| format!("; did you mean '{name}'?"))
}

/// The number of letters by which two names differ; a function's name may lack its parameters.
fn unlikeness(wanted: &str, name: &str) -> usize {
    let compared = |text: &str| text.to_lowercase().chars().take(COMPARED).collect::<String>();
    let wanted = compared(wanted);
    let whole = osa_distance(&wanted, &compared(name));
    name.split_once('(').map_or(whole, |(plain, _)| whole.min(osa_distance(&wanted, &compared(plain))))
}

/// A speedup in three significant digits; an uncertain one may have bounds with dozens of digits.
pub fn ratio(value: f64) -> String {
    if !(0.001..1000.0).contains(&value) {
        return format!("{value:.1e}");
    }
    let rounded: f64 = format!("{value:.2e}").parse().expect("a number that was written is one");
    let places = (2 - rounded.log10().floor() as i32).max(0) as usize;
    format!("{rounded:.places$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_have_three_digits_or_a_power_of_ten() {
        assert_eq!([1.122_36, 0.5, 3.06e50, 3.3e-51].map(ratio), ["1.12", "0.500", "3.1e50", "3.3e-51"]);
        assert_eq!([58.141, 9.996, 999.7, 0.012_34, 0.0].map(ratio), ["58.1", "10.0", "1000", "0.0123", "0.0e0"]);
    }

    #[test]
    fn of_many_names_the_likest_are_shown() {
        let names: Vec<String> = (0..1200).map(|number| format!("kernel{number}")).collect();
        let shown = closest("kernel77x", &names);
        assert!(shown.starts_with("kernel77,") && shown.ends_with("and 1195 more"), "{shown}");
        assert_eq!(closest("b", ["abc", "b(int*)", "b(int*)"]), "b(int*), abc");
        assert_eq!(closest("b", [""; 0]), "none");
        assert!(closest("x", ["y".repeat(100_000)]).len() < 1000);
    }

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        let names = ["default", "thinlto", "lto"];
        assert_eq!(meant("defualt", names), Some("default"));
        assert_eq!(meant("qqqqqqq", names), None);
        assert_eq!(meant("gnv", ["dce", "gvn", "licm"]), Some("gvn"), "letters change places in one step");
        assert_eq!(did_you_mean("ltoo", names), "; did you mean 'lto'?");
    }

    #[test]
    fn long_names_are_cut() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
