//! The comparisons of PTX as LLVM has them.
//!
//! They serve code that is lifted, and inline PTX on the CPU device.

/// The predicate of `fcmp` for a comparison of numbers with fractions.
pub fn of_floats(comparison: &str) -> Option<String> {
    let (order, relation) = match comparison {
        "num" => return Some("ord".into()),
        "nan" => return Some("uno".into()),
        other => other.strip_suffix('u').map_or(("o", other), |relation| ("u", relation)),
    };
    ["eq", "ne", "lt", "le", "gt", "ge"].contains(&relation).then(|| format!("{order}{relation}"))
}

/// The predicate of `icmp` for a comparison of integers.
pub fn of_integers(comparison: &str, signed: bool) -> Option<&'static str> {
    Some(match (comparison, signed) {
        ("eq", _) => "eq",
        ("ne", _) => "ne",
        ("lt", true) => "slt",
        ("le", true) => "sle",
        ("gt", true) => "sgt",
        ("ge", true) => "sge",
        ("lt", false) | ("lo", _) => "ult",
        ("le", false) | ("ls", _) => "ule",
        ("gt", false) | ("hi", _) => "ugt",
        ("ge", false) | ("hs", _) => "uge",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nan_is_unordered_and_signs_are_those_of_the_type_or_of_the_word() {
        let [one, une, none] = ["ne", "neu", "lo"].map(of_floats);
        assert_eq!((one.as_deref(), une.as_deref(), none), (Some("one"), Some("une"), None));
        assert_eq!((of_integers("lt", true), of_integers("lt", false)), (Some("slt"), Some("ult")));
        assert_eq!((of_integers("hs", true), of_integers("ltu", false)), (Some("uge"), None));
    }
}
