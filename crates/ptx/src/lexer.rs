//! The words of PTX text.

use memchr::{memchr, memchr3};

/// A word of the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Token<'a> {
    /// Names, opcodes with their modifiers, and single directives: words of letters, digits, `_`, `$`, `%`, `.` and
    /// `::`.
    Word(&'a str),
    Number(&'a str),
    Text(&'a str),
    Mark(u8),
    /// `<<`, `>>`, `==`, `!=`, `<=`, `>=`, `&&`, `||`.
    Double([u8; 2]),
    End,
}

#[derive(Clone)]
pub struct Lexer<'a> {
    text: &'a str,
    at: usize,
    pub line: u32,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0, line: 1 }
    }

    /// The number of bytes read.
    pub fn place(&self) -> usize {
        self.at
    }

    fn byte(&self, ahead: usize) -> u8 {
        self.text.as_bytes().get(self.at + ahead).copied().unwrap_or(0)
    }

    /// Skips to the end of the line.
    pub fn skip_line(&mut self) {
        while self.at < self.text.len() && self.byte(0) != b'\n' {
            self.at += 1;
        }
    }

    /// Skips to after the brace that closes an open one; false if that is missing. Does not look at the contents, which
    /// are most of a module, or count lines.
    pub fn skip_block(&mut self) -> bool {
        let bytes = self.text.as_bytes();
        let next_slash = |at: usize| memchr(b'/', &bytes[at..]).map_or(bytes.len(), |length| at + length);
        let (mut depth, mut slash) = (1, next_slash(self.at));
        while depth > 0 {
            let brace = memchr3(b'{', b'}', b'"', &bytes[self.at..]).map_or(bytes.len(), |length| self.at + length);
            self.at = brace.min(slash);
            match bytes.get(self.at) {
                None => return false,
                Some(b'{') => depth += 1,
                Some(b'}') => depth -= 1,
                // Braces in a string or comment do not count.
                Some(_) => {
                    let before = self.at;
                    self.skip_blanks();
                    if self.at == before {
                        self.token();
                    }
                    if self.at > slash {
                        slash = next_slash(self.at);
                    }
                    continue;
                }
            }
            self.at += 1;
        }
        true
    }

    pub fn skip_blanks(&mut self) {
        while self.at < self.text.len() {
            match (self.byte(0), self.byte(1)) {
                (b'\n', _) => {
                    self.line += 1;
                    self.at += 1;
                }
                (b'/', b'/') => self.skip_line(),
                (b'/', b'*') => {
                    let rest = &self.text.as_bytes()[self.at..];
                    let end = rest.windows(2).skip(2).position(|pair| pair == b"*/").map_or(rest.len(), |at| at + 4);
                    self.line += rest[..end].iter().filter(|byte| **byte == b'\n').count() as u32;
                    self.at += end;
                }
                (byte, _) if byte.is_ascii_whitespace() => self.at += 1,
                (0, _) => self.at += 1,
                _ => break,
            }
        }
    }

    pub fn token(&mut self) -> Token<'a> {
        self.skip_blanks();
        let start = self.at;
        let first = self.byte(0);
        if start >= self.text.len() {
            return Token::End;
        }
        if first.is_ascii_digit() {
            self.number();
            return Token::Number(&self.text[start..self.at]);
        }
        // A name has more than its `%`; a single `%` is the remainder operator.
        if is_part(first) && (first != b'%' || is_part(self.byte(1))) {
            self.word();
            return Token::Word(&self.text[start..self.at]);
        }
        if first == b'"' {
            self.at += 1;
            while self.at < self.text.len() && !matches!(self.byte(0), b'"' | b'\n') {
                self.at += 1;
            }
            let text = &self.text[start + 1..self.at];
            self.at += usize::from(self.at < self.text.len());
            return Token::Text(text);
        }
        let second = self.byte(1);
        if matches!(&[first, second], b"<<" | b">>" | b"==" | b"!=" | b"<=" | b">=" | b"&&" | b"||") {
            self.at += 2;
            return Token::Double([first, second]);
        }
        // Skip the rest of a multi-byte character.
        self.at += self.text[start..].chars().next().map_or(1, char::len_utf8);
        Token::Mark(first)
    }

    fn word(&mut self) {
        // Directives may follow each other without a blank: `.reg.b32`.
        let is_directive = self.byte(0) == b'.';
        self.at += 1;
        loop {
            if is_directive && self.byte(0) == b'.' {
                break;
            }
            if is_part(self.byte(0)) {
                self.at += 1;
            } else if (self.byte(0), self.byte(1)) == (b':', b':') {
                self.at += 2;
            } else {
                break;
            }
        }
    }

    fn number(&mut self) {
        let start = self.at;
        let is_plain =
            |text: &str| !matches!(text.as_bytes(), [b'0', b'x' | b'X' | b'f' | b'F' | b'd' | b'D' | b'b' | b'B', ..]);
        loop {
            let byte = self.byte(0);
            let sign = matches!(byte, b'+' | b'-')
                && matches!(self.text.as_bytes()[self.at - 1], b'e' | b'E')
                && is_plain(&self.text[start..self.at])
                && self.byte(1).is_ascii_digit();
            if !(byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'_' || sign) {
                break;
            }
            self.at += 1;
        }
    }
}

impl<'a> Iterator for Lexer<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        Some(self.token()).filter(|token| *token != Token::End)
    }
}

fn is_part(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$' | b'%' | b'.')
}
