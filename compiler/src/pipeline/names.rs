//! Suggestions for pass names that LLVM does not know.

use crate::llvm;

/// LLVM's message with the nearest name that it knows.
pub fn explain(message: &str) -> String {
    let Some(token) = unknown(message) else { return message.to_owned() };
    // LLVM also prints this for `default` without a level.
    if token == "default" || matches!(token.strip_prefix('O'), Some("0" | "1" | "2" | "3" | "s" | "z")) {
        return format!("{message}; did you mean 'default<O3>'? There are O0 to O3, Os and Oz");
    }
    let names = llvm::pass_names();
    let nearest = known(&names).map(|name| (distance(token, name), name)).min();
    // At most a third of the letters may differ. More than that is another word.
    match nearest.filter(|(distance, _)| *distance <= token.len().div_ceil(3)) {
        Some((_, name)) => format!("{message}; did you mean '{name}'?"),
        None => format!("{message}; 'opt-{} -print-passes' lists all passes", env!("MNEME_LLVM_MAJOR")),
    }
}

/// The name in "unknown function pass 'x'", without its parameters.
fn unknown(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("unknown ")?;
    let token = rest.split('\'').nth(1)?;
    Some(token.split(['<', '(']).next().unwrap_or(token)).filter(|token| !token.is_empty())
}

/// Pass names from LLVM's list, which has indented lines with parameters after `<`, and the pipelines, which it lacks.
fn known(list: &str) -> impl Iterator<Item = &str> {
    let listed = list.lines().filter(|line| line.starts_with(' ')).map(str::trim);
    let names = listed.map(|line| line.split('<').next().unwrap_or(line)).filter(|name| !name.is_empty());
    names.chain([
        "default", "thinlto", "lto", "module", "cgscc", "function", "loop", "loop-mssa", "require", "invalidate",
        "repeat",
    ])
}

/// Edit distance: letters to insert, delete or replace.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (i, letter) in one.chars().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], i + 1);
        for (j, theirs) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *theirs);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        for (message, meant) in [
            ("unknown pass name 'instcombin'", "instcombine"),
            ("unknown function pass 'loop-unrol<O3>'", "loop-unroll"),
            ("unknown module pass 'global-dce'", "globaldce"),
            ("unknown function pass 'simplfycfg'", "simplifycfg"),
        ] {
            assert!(explain(message).contains(&format!("did you mean '{meant}'?")), "{}", explain(message));
        }
        for message in ["unknown pass name 'default<O9>'", "unknown pass name 'default'", "unknown pass name 'O3'"] {
            assert!(explain(message).contains("did you mean 'default<O3>'?"), "{}", explain(message));
        }
        assert!(explain("unknown pass name 'qqqqqqqqqqqq'").contains("-print-passes"));
        assert_eq!(explain("invalid pipeline 'a,,b'"), "invalid pipeline 'a,,b'");
    }

    #[test]
    fn distances() {
        for (one, other, expected) in [("", "abc", 3), ("kitten", "sitting", 3), ("sroa", "sroa", 0), ("ab", "ba", 2)] {
            assert_eq!(distance(one, other), expected);
        }
    }
}
