//! LLVM assembly as text: its functions, and differences between two versions.

use similar::TextDiff;

/// A function's definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionText<'a> {
    pub name: &'a str,
    /// From `define` to the closing brace.
    pub text: &'a str,
}

/// The functions that a module defines.
pub fn functions(module: &str) -> Vec<FunctionText<'_>> {
    let mut found = Vec::new();
    let mut start = None;
    let mut at = 0;
    for line in module.split_inclusive('\n') {
        if line.starts_with("define ") {
            start = Some(at);
        }
        at += line.len();
        if line.trim_end() == "}"
            && let Some(from) = start.take()
            && let Some(name) = name(&module[from..at])
        {
            found.push(FunctionText { name, text: &module[from..at] });
        }
    }
    found
}

/// The name in `define … @name(…) {`.
fn name(definition: &str) -> Option<&str> {
    let (_, rest) = definition.split_once('@')?;
    match rest.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"').map(|(name, _)| name),
        None => rest.split_once('(').map(|(name, _)| name),
    }
}

/// The function's text without the parts that LLVM prints differently after rereading it: the numbers of attributes and
/// metadata, and the order of predecessors.
pub fn comparable(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    // LLVM lists a block's predecessors in the order of the uses of its name.
    let lines: String =
        text.split_inclusive('\n').map(|line| line.split_once("; preds = ").map_or(line, |(code, _)| code)).collect();
    let mut letters = lines.chars().peekable();
    while let Some(letter) = letters.next() {
        plain.push(letter);
        if letter == '#' || letter == '!' {
            while letters.next_if(char::is_ascii_digit).is_some() {}
        }
    }
    plain
}

/// Functions that differ between both modules, each with its new text. The new text is empty if the function is gone.
pub fn changed<'a>(before: &'a str, after: &'a str) -> Vec<(FunctionText<'a>, &'a str)> {
    let after = functions(after);
    let of = |name: &str| after.iter().find(|function| function.name == name).map_or("", |function| function.text);
    let pairs = functions(before).into_iter().map(|function| (function, of(function.name)));
    pairs.filter(|(function, text)| comparable(function.text) != comparable(text)).collect()
}

/// A unified difference, and the numbers of removed and added lines.
pub fn difference(before: &str, after: &str, names: (&str, &str)) -> (String, usize, usize) {
    let diff = TextDiff::from_lines(before, after);
    let text = diff.unified_diff().context_radius(4).header(names.0, names.1).to_string();
    let count = |sign: char| text.lines().skip(2).filter(|line| line.starts_with(sign)).count();
    let (removed, added) = (count('-'), count('+'));
    (text, removed, added)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "target triple = \"x\"\n\ndefine void @f(ptr %0) #0 {\n  %2 = load i32, ptr %0, !tbaa !12\n  switch i32 %2, label %3 [\n    i32 1, label %4\n  ]\n\n3:                ; preds = %1\n  ret void\n\n4:\n  ret void\n}\n\ndeclare void @g()\n\ndefine internal i32 @\"odd name\"() {\n  ret i32 1\n}\n";

    #[test]
    fn functions_are_found_by_name() {
        let found = functions(MODULE);
        assert_eq!(found.iter().map(|function| function.name).collect::<Vec<_>>(), ["f", "odd name"]);
        assert!(found[1].text.ends_with("ret i32 1\n}\n"));
    }

    #[test]
    fn numbers_of_metadata_make_no_difference() {
        assert!(changed(MODULE, &MODULE.replace("!12", "!7").replace("#0", "#31")).is_empty());
        let other = MODULE.replace("i32 1\n}", "i32 2\n}");
        let changed = changed(MODULE, &other);
        assert_eq!(changed.len(), 1);
        let (text, removed, added) = difference(changed[0].0.text, changed[0].1, ("before", "after"));
        assert!(text.contains("-  ret i32 1") && text.contains("+  ret i32 2"), "{text}");
        assert_eq!((removed, added), (1, 1));
    }
}
