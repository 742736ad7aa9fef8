//! The state of the parser: the next word, and the error for an unexpected one.

use super::error::LiftError;
use super::lexer::{Lexer, Token};
use super::syntax::Module;

/// The maximum nesting of braces, brackets and parentheses.
pub const DEEPEST: u32 = 64;

pub struct Parser<'a> {
    pub lexer: Lexer<'a>,
    pub token: Token<'a>,
    /// The line of the token.
    pub line: u32,
    /// The number of the `.loc` directive in force.
    pub location: Option<usize>,
    /// The module read so far.
    pub module: Module<'a>,
}

pub type Parsed<T> = Result<T, LiftError>;

impl<'a> Parser<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut lexer = Lexer::new(text);
        let token = lexer.token();
        let line = lexer.line;
        Self { lexer, token, line, location: None, module: Module::default() }
    }

    pub fn fail<T>(&self, what: impl Into<String>) -> Parsed<T> {
        Err(LiftError::at(self.line, what))
    }

    pub fn unexpected<T>(&self, wanted: &str) -> Parsed<T> {
        let found = match self.token {
            Token::Word(word) | Token::Number(word) | Token::Text(word) => format!("'{}'", clip(word)),
            Token::Mark(mark) => format!("'{}'", mark as char),
            Token::Double([first, second]) => format!("'{}{}'", first as char, second as char),
            Token::End => "the end of the text".into(),
        };
        self.fail(format!("{wanted} is missing before {found}"))
    }

    pub fn bump(&mut self) -> Token<'a> {
        let token = self.token;
        self.token = self.lexer.token();
        self.line = self.lexer.line;
        token
    }

    /// The token after the next one.
    pub fn ahead(&self) -> Token<'a> {
        self.lexer.clone().token()
    }

    pub fn accept(&mut self, mark: u8) -> bool {
        let found = self.token == Token::Mark(mark);
        if found {
            self.bump();
        }
        found
    }

    /// Takes the next word if `is` holds for it.
    pub fn accept_word(&mut self, is: impl FnOnce(&str) -> bool) -> Option<&'a str> {
        match self.token {
            Token::Word(word) if is(word) => {
                self.bump();
                Some(word)
            }
            _ => None,
        }
    }

    pub fn expect(&mut self, mark: u8) -> Parsed<()> {
        if self.accept(mark) { Ok(()) } else { self.unexpected(&format!("'{}'", mark as char)) }
    }

    /// Skips to after the next `close`, or to after the one that closes an open one.
    pub fn skip_to(&mut self, open: u8, close: u8) -> Parsed<()> {
        let mut depth = 0u32;
        loop {
            match self.bump() {
                Token::Mark(mark) if mark == open => depth += 1,
                Token::Mark(mark) if mark == close => depth = depth.saturating_sub(1),
                Token::End => return self.unexpected(&format!("'{}'", close as char)),
                _ => continue,
            }
            if depth == 0 {
                return Ok(());
            }
        }
    }

    /// Items separated by commas.
    pub fn listed<T>(&mut self, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(b',') {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Items separated by commas, up to a closing character.
    pub fn separated<T>(&mut self, close: u8, mut item: impl FnMut(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        while !self.accept(close) {
            items.push(item(self)?);
            if !self.accept(b',') && self.token != Token::Mark(close) {
                return self.unexpected("','");
            }
        }
        Ok(items)
    }
}

/// A text shortened for a message.
pub fn clip(text: &str) -> String {
    text.chars().take(60).collect()
}
