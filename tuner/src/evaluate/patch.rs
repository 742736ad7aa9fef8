//! Applies unified diffs and SEARCH/REPLACE blocks to a source.
//!
//! Models write both, and models count badly. Therefore a hunk's line numbers only choose among equal places, its
//! lengths are ignored, and blanks at the ends of lines do not matter. All other text has to be in the source, and a
//! SEARCH block has to fit at exactly one place.

use thiserror::Error;

/// Why a change does not fit the source; each message is for its author.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PatchError {
    #[error("the diff has no hunk: each begins with a line such as @@ -1,4 +1,4 @@")]
    NoHunk,
    #[error("the diff changes several files, and only the kernel's source can change")]
    SeveralFiles,
    #[error("hunk {number} does not fit the source: these lines are not in it one after the other:\n{lines}")]
    NoPlace { number: usize, lines: String },
    #[error("there is no complete block of <<<<<<< SEARCH, =======, >>>>>>> REPLACE")]
    NoBlock,
    #[error("block {number} has no text to search for")]
    Empty { number: usize },
    #[error("the text of block {number} is not in the source:\n{lines}")]
    NotFound { number: usize, lines: String },
    #[error("the text of block {number} is {times} times in the source; add lines around it:\n{lines}")]
    Ambiguous { number: usize, times: usize, lines: String },
}

/// Lines of an error's excerpt.
const EXCERPT: usize = 6;

fn excerpt(lines: &[&str]) -> String {
    lines.iter().take(EXCERPT).copied().collect::<Vec<_>>().join("\n")
}

/// A source as lines.
struct Lines(Vec<String>);

impl Lines {
    fn new(source: &str) -> Self {
        Self(source.split('\n').map(str::to_owned).collect())
    }

    /// Where these lines are, from the first line on.
    fn places(&self, wanted: &[&str]) -> Vec<usize> {
        let fits =
            |at: &usize| wanted.iter().zip(&self.0[*at..]).all(|(one, other)| one.trim_end() == other.trim_end());
        (0..(self.0.len() + 1).saturating_sub(wanted.len())).filter(fits).collect()
    }

    fn replace(&mut self, at: usize, count: usize, with: &[&str]) {
        self.0.splice(at..at + count, with.iter().map(|line| (*line).to_owned()));
    }

    fn text(self) -> String {
        self.0.join("\n")
    }
}

/// A hunk of a unified diff.
#[derive(Default)]
struct Hunk<'a> {
    /// The line number in the old source.
    line: usize,
    old: Vec<&'a str>,
    new: Vec<&'a str>,
}

/// Applies a unified diff.
pub fn diff(source: &str, diff: &str) -> Result<String, PatchError> {
    let mut lines = Lines::new(source);
    // Lines that earlier hunks added.
    let (mut shift, mut after) = (0isize, 0);
    for (number, Hunk { line, old, new }) in hunks(diff)?.into_iter().enumerate() {
        // A hunk without old lines names the line before it.
        let named = if old.is_empty() { line } else { line.saturating_sub(1) };
        let expected = named.saturating_add_signed(shift);
        let places = lines.places(&old).into_iter().filter(|place| *place >= after);
        let place = places.min_by_key(|place| place.abs_diff(expected));
        let place = place.ok_or_else(|| PatchError::NoPlace { number: number + 1, lines: excerpt(&old) })?;
        lines.replace(place, old.len(), &new);
        shift += new.len() as isize - old.len() as isize;
        after = place + new.len();
    }
    Ok(lines.text())
}

fn hunks(diff: &str) -> Result<Vec<Hunk<'_>>, PatchError> {
    let (mut hunks, mut files) = (Vec::<Hunk>::new(), 0);
    let mut inside = false;
    let mut lines = diff.lines().peekable();
    while let Some(line) = lines.next() {
        if line.starts_with("--- ") && lines.peek().is_some_and(|next| next.starts_with("+++ ")) {
            (files, inside) = (files + 1, false);
            lines.next();
        } else if let Some(header) = line.strip_prefix("@@") {
            let digits = |it: char| !it.is_ascii_digit();
            let line = header.split_once('-').and_then(|(_, rest)| rest.split(digits).next()?.parse().ok());
            hunks.push(Hunk { line: line.unwrap_or(0), ..Hunk::default() });
            inside = true;
        } else if let Some(hunk) = hunks.last_mut().filter(|_| inside) {
            match (line.chars().next(), line.get(1..).unwrap_or_default()) {
                (Some('-'), old) => hunk.old.push(old),
                (Some('+'), new) => hunk.new.push(new),
                // Models leave out the blank of an empty line of context.
                (Some(' ') | None, both) => {
                    hunk.old.push(both);
                    hunk.new.push(both);
                }
                // "\ No newline at end of file", or the text after the diff.
                (Some(other), _) => inside = other == '\\',
            }
        }
    }
    for hunk in &mut hunks {
        // Empty lines at the end belong to the text after the diff.
        while hunk.old.last() == Some(&"") && hunk.new.last() == Some(&"") {
            hunk.old.pop();
            hunk.new.pop();
        }
    }
    match files {
        _ if hunks.is_empty() => Err(PatchError::NoHunk),
        0 | 1 => Ok(hunks),
        _ => Err(PatchError::SeveralFiles),
    }
}

/// Applies SEARCH/REPLACE blocks, in their order.
pub fn blocks(source: &str, text: &str) -> Result<String, PatchError> {
    let mut lines = Lines::new(source);
    let found = searches(text);
    if found.is_empty() {
        return Err(PatchError::NoBlock);
    }
    for (number, (search, replace)) in found.into_iter().enumerate() {
        let number = number + 1;
        if search.iter().all(|line| line.trim().is_empty()) {
            return Err(PatchError::Empty { number });
        }
        match lines.places(&search)[..] {
            [place] => lines.replace(place, search.len(), &replace),
            [] => return Err(PatchError::NotFound { number, lines: excerpt(&search) }),
            ref several => {
                return Err(PatchError::Ambiguous { number, times: several.len(), lines: excerpt(&search) });
            }
        }
    }
    Ok(lines.text())
}

/// The complete blocks of a text.
fn searches(text: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut found = Vec::new();
    // The block that is being read: its SEARCH part, and its REPLACE part once that has begun.
    let mut open: Option<(Vec<&str>, Option<Vec<&str>>)> = None;
    for line in text.lines() {
        match (line.trim_end(), &mut open) {
            ("<<<<<<< SEARCH", _) => open = Some((Vec::new(), None)),
            ("=======", Some((_, replace @ None))) => *replace = Some(Vec::new()),
            (">>>>>>> REPLACE", _) => {
                if let Some((search, Some(replace))) = open.take() {
                    found.push((search, replace));
                }
            }
            (_, Some((_, Some(replace)))) => replace.push(line),
            (_, Some((search, None))) => search.push(line),
            (_, None) => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "a\nb\n  c\nb\n  c\nd\n";

    #[test]
    fn hunks_go_to_the_nearest_place_that_fits() {
        let changed = |hunks: &str| diff(SOURCE, hunks);
        assert_eq!(changed("--- k.cu\n+++ k.cu\n@@ -4,2 +4,2 @@\n b\n-  c\n+  C\n").unwrap(), "a\nb\n  c\nb\n  C\nd\n");
        assert_eq!(changed("@@ -1 +1 @@\n b\n-  c  \n+  C\n").unwrap(), "a\nb\n  C\nb\n  c\nd\n");
        let two = "@@ -1,1 +1,2 @@\n a\n+x\n@@ -2,2 +3,1 @@\n-b\n-  c\n@@ -6,1 @@\n-d\n+e\n";
        assert_eq!(changed(two).unwrap(), "a\nx\nb\n  c\ne\n");
        assert_eq!(changed("@@ -1,0 +2 @@\n+x\n").unwrap(), "a\nx\nb\n  c\nb\n  c\nd\n");
        assert_eq!(
            changed("text\n@@ -6 +6 @@\n-d\n+e\n\\ No newline at end of file\n\nmore text\n").unwrap(),
            "a\nb\n  c\nb\n  c\ne\n"
        );
        assert!(matches!(changed("@@ -1 +1 @@\n-x\n+y\n"), Err(PatchError::NoPlace { number: 1, .. })));
        assert_eq!(changed("nothing"), Err(PatchError::NoHunk));
        let several = "--- a\n+++ a\n@@ -1 +1 @@\n-a\n+b\n--- b\n+++ b\n@@ -1 +1 @@\n-a\n+b\n";
        assert_eq!(changed(several), Err(PatchError::SeveralFiles));
        assert_eq!(diff("--- x\n", "@@ -1 +1 @@\n---- x\n+-- y\n").unwrap(), "-- y\n");
    }

    #[test]
    fn blocks_fit_at_one_place() {
        let block = |search: &str, replace: &str| {
            blocks(SOURCE, &format!("Faster:\n<<<<<<< SEARCH\n{search}=======\n{replace}>>>>>>> REPLACE\nDone."))
        };
        assert_eq!(block("  c\nd\n", "  C\n").unwrap(), "a\nb\n  c\nb\n  C\n");
        assert_eq!(block("a\n", "").unwrap(), "b\n  c\nb\n  c\nd\n");
        assert!(matches!(block("b\n", "x\n"), Err(PatchError::Ambiguous { times: 2, .. })));
        assert!(matches!(block("x\n", "y\n"), Err(PatchError::NotFound { .. })));
        assert_eq!(block("", "y\n"), Err(PatchError::Empty { number: 1 }));
        for text in ["", "<<<<<<< SEARCH\na\n", "<<<<<<< SEARCH\na\n=======\nb\n", "=======\n>>>>>>> REPLACE"] {
            assert_eq!(blocks(SOURCE, text), Err(PatchError::NoBlock), "{text}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_it_panic(source in "[-+ @ab\\n]{0,60}", text in "[-+ @ab\\n<=>SEARCHREPLACE]{0,120}") {
            let _ = (diff(&source, &text), blocks(&source, &text));
        }
    }
}
