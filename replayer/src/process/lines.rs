//! Reads lines from a descriptor that is watched together with others.

use std::os::fd::AsFd;

/// The longest allowed line, bytes: more than any pipeline or kernel needs, and little enough that an endless line does
/// no harm.
const LONGEST: usize = 64 << 20;

/// Divides input into lines.
#[derive(Default)]
pub struct LineReader {
    bytes: Vec<u8>,
    /// How many of `bytes` were searched for the end of a line.
    searched: usize,
    /// Whether the rest of a too long line is being skipped.
    skipping: bool,
    ended: bool,
    count: u64,
}

/// A line and its number, from 1.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub number: u64,
    /// `None` if it was too long to keep.
    pub text: Option<Vec<u8>>,
}

impl Line {
    /// Whether the line is blank.
    pub fn is_blank(&self) -> bool {
        self.text.as_ref().is_some_and(|text| text.trim_ascii().is_empty())
    }
}

/// The error for a line that was not kept.
#[derive(Debug, thiserror::Error)]
#[error("the line has more than {LONGEST} bytes")]
pub struct TooLong;

/// The JSON error of a line, without the line number, which is always that of a single line.
pub fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(reason, _)| reason).replace('`', "'")
}

impl LineReader {
    /// Reads available input. Returns false at the end. Reads the descriptor itself, because `poll` does not report
    /// data in a buffered reader.
    pub fn fill(&mut self, from: impl AsFd) -> std::io::Result<bool> {
        let mut buffer = [0; 64 * 1024];
        match nix::unistd::read(from, &mut buffer) {
            Ok(count) => {
                self.push(&buffer[..count]);
                self.ended = count == 0;
                Ok(count > 0)
            }
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }
}

impl Iterator for LineReader {
    type Item = Line;

    /// The next complete line; after the end of input, also an unterminated last one.
    fn next(&mut self) -> Option<Line> {
        let end = self.bytes[self.searched..].iter().position(|byte| *byte == b'\n').map(|at| self.searched + at);
        let text = match end {
            Some(end) => {
                let rest = self.bytes.split_off(end + 1);
                std::mem::replace(&mut self.bytes, rest)
            }
            None if self.ended && !self.bytes.is_empty() => std::mem::take(&mut self.bytes),
            None if self.bytes.len() > LONGEST => {
                (self.skipping, self.searched) = (true, 0);
                self.bytes.clear();
                return None;
            }
            None => {
                self.searched = self.bytes.len();
                return None;
            }
        };
        self.searched = 0;
        self.count += 1;
        let kept = !std::mem::take(&mut self.skipping) && text.len() <= LONGEST + 1;
        Some(Line { number: self.count, text: kept.then_some(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_the_same_however_they_are_cut() {
        let text = b"one\n\nthree\nlast";
        for cut in 1..=text.len() {
            let mut lines = LineReader::default();
            let mut found = Vec::new();
            for part in text.chunks(cut) {
                lines.push(part);
                found.extend(lines.by_ref());
            }
            assert_eq!(found.len(), 3, "the last line may go on");
            lines.ended = true;
            found.extend(lines.by_ref());
            let words: Vec<String> =
                found.iter().map(|line| String::from_utf8(line.text.clone().unwrap()).unwrap()).collect();
            assert_eq!(words, ["one\n", "\n", "three\n", "last"], "cut at {cut}");
            assert_eq!(found.iter().map(|line| line.number).collect::<Vec<_>>(), [1, 2, 3, 4]);
            assert!(found[1].is_blank() && !found[0].is_blank());
            assert!(lines.next().is_none());
        }
    }

    #[test]
    fn a_line_without_end_is_left_out_and_the_next_is_not() {
        let mut lines = LineReader::default();
        let part = vec![b'x'; LONGEST / 4];
        for _ in 0..6 {
            lines.push(&part);
            assert!(lines.next().is_none());
            assert!(lines.bytes.len() <= LONGEST + part.len());
        }
        lines.push(b"\n{}\n");
        assert_eq!(lines.next(), Some(Line { number: 1, text: None }));
        assert_eq!(lines.next(), Some(Line { number: 2, text: Some(b"{}\n".to_vec()) }));
    }
}
