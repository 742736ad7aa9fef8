//! Writes to standard output and error, without panics and without control characters.
//!
//! `println!` and `eprintln!` panic if the stream is full or its reader is gone. Names, tags, paths and messages of a
//! recording may contain anything, so all text written here passes through [`plain`], and so does text that other
//! libraries write ([`PlainStderr`]).

use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

use nix::unistd::AccessFlags;

/// Escapes characters that control a terminal or change the direction of text, for example as `\u001b`, which JSON
/// reads as the same character. Line ends and tabs stay.
pub fn plain(text: &str) -> Cow<'_, str> {
    if !text.chars().any(steers) {
        return Cow::Borrowed(text);
    }
    let mut plain = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match steers(character) {
            true => plain.push_str(&format!("\\u{:04x}", u32::from(character))),
            false => plain.push(character),
        }
    }
    Cow::Owned(plain)
}

/// Control characters except line ends and tabs, separators of lines and paragraphs, and characters that change the
/// direction of text. All have four hexadecimal digits.
fn steers(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\n' | '\t');
    is_control
        || matches!(character, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Converts a program's bytes to [`plain`] text, however they are split.
#[derive(Debug, Default)]
pub struct PlainBytes {
    /// The beginning of an incomplete character.
    rest: Vec<u8>,
}

impl PlainBytes {
    /// The text of the next bytes; replacement characters stand for invalid UTF-8.
    pub fn next(&mut self, bytes: &[u8]) -> String {
        self.rest.extend_from_slice(bytes);
        let left = self.rest.split_off(incomplete_end(&self.rest));
        let text = plain(&String::from_utf8_lossy(&self.rest)).into_owned();
        self.rest = left;
        text
    }
}

/// The start of an incomplete character at the end; otherwise the end.
fn incomplete_end(bytes: &[u8]) -> usize {
    let from = bytes.len().saturating_sub(3);
    (from..bytes.len())
        .find(|start| {
            std::str::from_utf8(&bytes[*start..])
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(bytes.len())
}

/// Standard error for libraries that write whole lines.
#[derive(Debug, Default)]
pub struct PlainStderr;

impl Write for PlainStderr {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        io::stderr().write_all(plain(&String::from_utf8_lossy(bytes)).as_bytes())?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

/// Writes text. A reader that has gone away is not an error.
pub fn write(text: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    match output.write_all(plain(text).as_bytes()).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome,
    }
}

/// Whether the error is a full disk, an exceeded quota, or the process's limit.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge)
}

/// Fails if a file cannot be written, so that you know before the work whose result it will hold. The file's contents
/// do not change.
pub fn check_place(path: &Path) -> io::Result<()> {
    let access = |path: &Path, rights| nix::unistd::access(path, rights).map_err(io::Error::from);
    if path.is_dir() {
        return Err(ErrorKind::IsADirectory.into());
    }
    if path.exists() {
        return access(path, AccessFlags::W_OK);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    access(folder, AccessFlags::W_OK | AccessFlags::X_OK)
}

/// Writes a line for people to standard error, and ignores a missing reader.
pub fn remark(line: fmt::Arguments<'_>) {
    // A single write keeps the lines of several processes apart.
    let _ = io::stderr().write_all(plain(&format!("{line}\n")).as_bytes());
}

/// Writes a line with colours to standard error. Other text in it must already be [`plain`].
pub fn painted(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Replaces the line that the terminal's cursor is in.
pub fn status_line(line: &str) {
    let _ = write!(io::stderr(), "\r\x1b[K{}", plain(line));
}

/// [`remark`](crate::console::remark) with the syntax of `eprintln!`.
#[macro_export]
macro_rules! remark {
    ($($text:tt)*) => { $crate::console::remark(format_args!($($text)*)) };
}

/// Output lines of a program that continues its work after a failed write and reports the failure at its end.
#[derive(Debug, Default)]
pub struct OutputLines(RefCell<Option<io::Error>>);

impl OutputLines {
    pub fn say(&self, line: &str) {
        if let Err(error) = write(&format!("{line}\n")) {
            self.0.borrow_mut().get_or_insert(error);
        }
    }

    /// The first error, if there was one.
    pub fn complete(&self) -> io::Result<()> {
        self.0.take().map_or(Ok(()), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_steers_a_terminal() {
        assert!(matches!(plain("k<float>(a)\n\té✓"), Cow::Borrowed(_)));
        assert_eq!(plain("a\x1b[31m\r\u{9b}\u{7f}\u{202e}b"), "a\\u001b[31m\\u000d\\u009b\\u007f\\u202eb");
        // JSON reads the escape as the same text.
        let name = "\u{9b}31m\u{2066}\u{7f}";
        let json = serde_json::to_string(name).unwrap();
        assert_ne!(plain(&json), json);
        assert_eq!(serde_json::from_str::<String>(&plain(&json)).unwrap(), name);
    }

    #[test]
    fn bytes_may_be_cut_anywhere() {
        let text = "é✓\x1b😀 \u{9b}".as_bytes();
        for first in 0..text.len() {
            for second in first..text.len() {
                let mut bytes = PlainBytes::default();
                let parts = [&text[..first], &text[first..second], &text[second..]];
                let all: String = parts.into_iter().map(|part| bytes.next(part)).collect();
                assert_eq!(all, "é✓\\u001b😀 \\u009b", "{first} {second}");
            }
        }
        let mut bytes = PlainBytes::default();
        assert_eq!(bytes.next(b"a\xff\xfe\x1b"), "a\u{fffd}\u{fffd}\\u001b");
    }
}
