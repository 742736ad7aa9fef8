//! Numbers as people read them.

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
}
