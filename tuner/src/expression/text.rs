//! Finds names and conjunctions in the text of an expression.

/// The names in an expression, each with a field after a dot (`block.x`). Includes functions and keywords, but not the
/// content of strings. After the first string with values in it (`${a}`), every word counts.
pub fn names(text: &str) -> Vec<&str> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let mut found = Vec::new();
    let (mut rest, mut interpolated) = (0, false);
    while let Some((start, first)) = text[rest..].char_indices().map(|(at, c)| (rest + at, c)).next() {
        let after =
            |stop: &dyn Fn(char) -> bool, from: usize| text[from..].find(stop).map_or(text.len(), |at| from + at);
        rest = start + first.len_utf8();
        if (first == '"' || first == '`') && !interpolated {
            interpolated = first == '`' && interpolates(&text[start..]);
            if !interpolated {
                rest = end_of_string(text, start);
            }
        } else if is_name(first) {
            rest = after(&|c| !is_name(c), start);
            let field = text[rest..].strip_prefix('.').and_then(|field| field.chars().next());
            if !first.is_ascii_digit() && field.is_some_and(|first| first.is_ascii_alphabetic()) {
                rest = after(&|c| !is_name(c), rest + 1);
            }
            if !first.is_ascii_digit() {
                found.push(&text[start..rest]);
            }
        }
    }
    found
}

/// The names in an expression with all fields after dots (`unit__counter.sum.per_second`), and their positions. Skips
/// the content of strings.
pub fn paths(text: &str) -> Vec<(usize, &str)> {
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    let begins = |character: char| character.is_ascii_alphabetic() || character == '_';
    let end = |from: usize| text[from..].find(|c| !is_name(c)).map_or(text.len(), |at| from + at);
    let (mut found, mut at) = (Vec::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let start = at;
        at += first.len_utf8();
        if first == '"' || first == '`' {
            at = end_of_string(text, start);
        } else if is_name(first) {
            at = end(start);
            while text[at..].strip_prefix('.').is_some_and(|field| field.starts_with(begins)) {
                at = end(at + 1);
            }
            if begins(first) {
                found.push((start, &text[start..at]));
            }
        }
    }
    found
}

/// The terms of a conjunction; the expression itself if it is not a conjunction.
pub fn conjuncts(text: &str) -> Vec<&str> {
    let text = text.trim();
    if interpolates(text) {
        return vec![text];
    }
    let (mut depth, mut at, mut places) = (0, 0, Vec::new());
    // Whether the first parenthesis closes at the last character.
    let mut enclosed = text.starts_with('(');
    while let Some(character) = text[at..].chars().next() {
        let next = at + character.len_utf8();
        match character {
            '"' | '`' => {
                at = end_of_string(text, at);
                continue;
            }
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            '|' if depth == 0 && text[at..].starts_with("||") => return vec![text],
            '&' if depth == 0 && text[at..].starts_with("&&") => {
                places.push(at);
                at += 2;
                continue;
            }
            _ => {}
        }
        if depth == 0 && next < text.len() {
            enclosed = false;
        }
        at = next;
    }
    if enclosed && text.ends_with(')') {
        return conjuncts(&text[1..text.len() - 1]);
    }
    if places.is_empty() {
        return vec![text];
    }
    let ends = places.iter().copied().chain([text.len()]);
    let starts = std::iter::once(0).chain(places.iter().map(|place| place + 2));
    starts.zip(ends).flat_map(|(start, end)| conjuncts(&text[start..end])).collect()
}

/// Whether the text may have a string with values in it.
fn interpolates(text: &str) -> bool {
    text.split_once('`').is_some_and(|(_, rest)| rest.contains("${"))
}

/// The end of the string that begins at `start`.
fn end_of_string(text: &str, start: usize) -> usize {
    let quote = text[start..].chars().next().unwrap_or('"');
    let mut escaped = false;
    for (at, character) in text[start + 1..].char_indices() {
        if character == quote && !escaped {
            return start + 1 + at + 1;
        }
        escaped = character == '\\' && !escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_outside_of_strings() {
        assert_eq!(names("ceil(n / block.x) >= 2.5 && \"tile\" + `k` != a1"), ["ceil", "n", "block.x", "a1"]);
        assert_eq!(names("block"), ["block"]);
        assert_eq!(names("\"x\" + `${a} \"${`${b}`}` == c"), ["a", "b", "c"]);
        assert_eq!(conjuncts("`${a && b}` == c && d"), ["`${a && b}` == c && d"]);
    }

    #[test]
    fn conjunctions_are_split_where_all_of_them_has_to_hold() {
        assert_eq!(conjuncts("a > 1 && (b || c) && \"x&&y\" == d"), ["a > 1", "b || c", "\"x&&y\" == d"]);
        assert_eq!(conjuncts("((a && b)) && c"), ["a", "b", "c"]);
        assert_eq!(conjuncts("(a) && (b)"), ["a", "b"]);
        assert_eq!(conjuncts("a && b || c"), ["a && b || c"]);
        assert_eq!(conjuncts("min(a, b) > 1"), ["min(a, b) > 1"]);
    }
}
