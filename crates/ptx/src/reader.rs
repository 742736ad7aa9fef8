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

    pub fn accept(&mut self, mark: u8) -> bool {
        let found = self.token == Token::Mark(mark);
        if found {
            self.bump();
        }
        found
    }

    pub fn expect(&mut self, mark: u8) -> Parsed<()> {
        if self.accept(mark) { Ok(()) } else { self.unexpected(&format!("'{}'", mark as char)) }
    }
}

/// A text shortened for a message.
pub fn clip(text: &str) -> String {
    text.chars().take(60).collect()
}
