//! Names and numbers as people read them.

/// A name cut to `limit` characters.
pub fn shorten(name: &str, limit: usize) -> String {
    if name.chars().count() <= limit {
        return name.into();
    }
    name.chars().take(limit.saturating_sub(1)).chain(std::iter::once('…')).collect()
}

/// A speedup; one that is hardly known may have ends with dozens of digits.
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
    fn long_names_are_cut() {
        assert_eq!(shorten("abcdef", 6), "abcdef");
        assert_eq!(shorten("abcdef", 4), "abc…");
    }
}
