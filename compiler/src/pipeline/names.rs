//! Suggestions for pass names that LLVM does not know.

use mneme_model::text;

use crate::llvm;

/// LLVM's message with the nearest name that it knows, and the parameters that were given.
pub fn explain(message: &str) -> String {
    let Some(token) = quoted(message).filter(|_| message.contains("unknown ")) else {
        let open = quoted(message).and_then(unclosed);
        let open = open.map(|closed| format!("; a bracket is not closed: did you mean '{closed}'?"));
        return message.to_owned() + &open.unwrap_or_default();
    };
    let closed = unclosed(token);
    let token = closed.as_deref().unwrap_or(token);
    let (name, parameters) = token.split_at(token.find(['<', '(']).unwrap_or(token.len()));
    // Optimisation levels as compilers take them. LLVM also prints this for `default` with another level.
    let level = name.trim_start_matches('-').strip_prefix(['O', 'o']).filter(|level| is_level(level));
    let parameter = parameters.trim_matches(['<', 'O', '>']);
    let level = level.or_else(|| (name == "default").then_some(if is_level(parameter) { parameter } else { "3" }));
    if let Some(level) = level {
        return format!("{message}; did you mean 'default<O{level}>'? There are O0 to O3, Os and Oz");
    }
    let names = llvm::pass_names();
    match text::meant(name, known(&names)) {
        Some(meant) => format!("{message}; did you mean '{meant}{parameters}'?"),
        None => format!("{message}; 'opt-{} -print-passes' lists all passes", env!("MNEME_LLVM_MAJOR")),
    }
}

fn is_level(text: &str) -> bool {
    matches!(text, "0" | "1" | "2" | "3" | "s" | "z")
}

/// The text in quotes, as in "unknown function pass 'x<y>'".
fn quoted(message: &str) -> Option<&str> {
    message.split('\'').nth(1).filter(|token| !token.is_empty())
}

/// A pipeline with the brackets that it lacks at its end; `None` if it lacks none.
fn unclosed(pipeline: &str) -> Option<String> {
    let mut open = Vec::new();
    for letter in pipeline.chars() {
        match letter {
            '<' => open.push('>'),
            '(' => open.push(')'),
            '>' | ')' if open.pop() != Some(letter) => return None,
            _ => {}
        }
    }
    (!open.is_empty()).then(|| pipeline.chars().chain(open.into_iter().rev()).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_is_answered_with_the_name_that_was_meant() {
        for (message, meant) in [
            ("unknown pass name 'instcombin'", "instcombine"),
            ("unknown function pass 'loop-unrol<O3>'", "loop-unroll<O3>"),
            ("unknown pass name 'defualt<O2>'", "default<O2>"),
            ("unknown pass name 'default<O2'", "default<O2>"),
            ("unknown function pass 'gnv'", "gvn"),
            ("unknown function pass 'loop-unrol<O3'", "loop-unroll<O3>"),
            ("invalid pipeline 'function(sroa,loop(licm)'", "function(sroa,loop(licm))"),
            ("unknown pass name 'O2'", "default<O2>"),
            ("unknown pass name '-Os'", "default<Os>"),
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
}
