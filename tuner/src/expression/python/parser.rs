//! Python's grammar of expressions, by recursive descent.

use super::functions::Function;
use super::node::Node;
use super::token::{Token, tokens};
use super::value::{Comparison, Kind, Operator, Sign, Value};

/// Nesting of an expression.
const MAX_DEPTH: usize = 64;

/// Binary operators, the weakest first.
const LEVELS: [&[(&str, Operator)]; 6] = [
    &[("|", Operator::Or)],
    &[("^", Operator::Xor)],
    &[("&", Operator::And)],
    &[("<<", Operator::ShiftLeft), (">>", Operator::ShiftRight)],
    &[("+", Operator::Add), ("-", Operator::Subtract)],
    &[("*", Operator::Multiply), ("/", Operator::Divide), ("//", Operator::FloorDivide), ("%", Operator::Remainder)],
];

const KEYWORDS: [&str; 13] =
    ["and", "or", "not", "in", "is", "if", "else", "for", "lambda", "await", "yield", "async", "from"];

/// Reads an expression about `names`.
///
/// # Errors
/// What is not understood, as the end of a sentence about the expression.
pub fn read(text: &str, names: &[String]) -> Result<Node, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, depth: 0, names };
    let found = parser.choice()?;
    match parser.tokens.get(parser.at) {
        None => Ok(found),
        Some(token) => Err(format!("cannot be read at '{}'", token.shown())),
    }
}

struct Parser<'a> {
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    names: &'a [String],
}

type Read = Result<Node, String>;

impl Parser<'_> {
    fn sign(&self) -> &'static str {
        match self.tokens.get(self.at) {
            Some(Token::Sign(sign)) => sign,
            _ => "",
        }
    }

    fn is_word(&self, ahead: usize, word: &str) -> bool {
        matches!(self.tokens.get(self.at + ahead), Some(Token::Name(name)) if name == word)
    }

    fn takes(&mut self, sign: &str) -> bool {
        let found = self.sign() == sign;
        self.at += usize::from(found);
        found
    }

    fn takes_word(&mut self, word: &str) -> bool {
        let found = self.is_word(0, word);
        self.at += usize::from(found);
        found
    }

    fn shown(&self) -> String {
        self.tokens.get(self.at).map_or("its end".into(), |token| format!("'{}'", token.shown()))
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.takes(sign) { Ok(()) } else { Err(format!("has {} where '{sign}' belongs", self.shown())) }
    }

    fn nested(&mut self, inner: impl FnOnce(&mut Self) -> Read) -> Read {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(format!("is nested more than {MAX_DEPTH} levels deep"));
        }
        let found = inner(self);
        self.depth -= 1;
        found
    }

    fn choice(&mut self) -> Read {
        self.nested(|parser| {
            let first = parser.any()?;
            if !parser.takes_word("if") {
                return Ok(first);
            }
            let condition = parser.any()?;
            if !parser.takes_word("else") {
                return Err(format!("has {} where 'else' belongs", parser.shown()));
            }
            let second = parser.choice()?;
            Ok(Node::Choice(Box::new([condition, first, second])))
        })
    }

    fn any(&mut self) -> Read {
        self.joined("or", Self::all, Node::Any)
    }

    fn all(&mut self) -> Read {
        self.joined("and", Self::negation, Node::All)
    }

    fn joined(&mut self, word: &str, inner: fn(&mut Self) -> Read, of: fn(Vec<Node>) -> Node) -> Read {
        let first = inner(self)?;
        if !self.is_word(0, word) {
            return Ok(first);
        }
        let mut sides = vec![first];
        while self.takes_word(word) {
            sides.push(inner(self)?);
        }
        Ok(of(sides))
    }

    fn negation(&mut self) -> Read {
        if self.takes_word("not") {
            return Ok(Node::Not(Box::new(self.nested(Self::negation)?)));
        }
        self.comparison()
    }

    fn comparison(&mut self) -> Read {
        let first = self.binary(0)?;
        let mut others = Vec::new();
        while let Some(comparison) = self.takes_comparison() {
            let other = self.binary(0)?;
            if matches!(comparison, Comparison::Is | Comparison::IsNot) {
                let is_single = |node: &Node| matches!(node, Node::Constant(Value::None | Value::Bool(_)));
                let before = others.last().map_or(&first, |(_, before)| before);
                if !is_single(before) && !is_single(&other) {
                    return Err("has 'is' between values, which depends on how Python keeps them; use ==".into());
                }
            }
            others.push((comparison, other));
        }
        Ok(if others.is_empty() { first } else { Node::Comparison(Box::new(first), others) })
    }

    fn takes_comparison(&mut self) -> Option<Comparison> {
        let (found, length) = match self.sign() {
            "<" => (Comparison::Less, 1),
            "<=" => (Comparison::LessOrEqual, 1),
            ">" => (Comparison::Greater, 1),
            ">=" => (Comparison::GreaterOrEqual, 1),
            "==" => (Comparison::Equal, 1),
            "!=" => (Comparison::Unequal, 1),
            _ if self.is_word(0, "in") => (Comparison::In, 1),
            _ if self.is_word(0, "not") && self.is_word(1, "in") => (Comparison::NotIn, 2),
            _ if self.is_word(0, "is") && self.is_word(1, "not") => (Comparison::IsNot, 2),
            _ if self.is_word(0, "is") => (Comparison::Is, 1),
            _ => return None,
        };
        self.at += length;
        Some(found)
    }

    fn binary(&mut self, level: usize) -> Read {
        let Some(operators) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| *sign == self.sign()) {
            self.at += 1;
            let right = self.binary(level + 1)?;
            left = Node::Binary(*operator, Box::new(left), Box::new(right)).folded();
        }
        Ok(left)
    }

    fn unary(&mut self) -> Read {
        let sign = match self.sign() {
            "+" => Sign::Plus,
            "-" => Sign::Minus,
            "~" => Sign::Invert,
            _ => return self.power(),
        };
        self.at += 1;
        Ok(Node::Unary(sign, Box::new(self.nested(Self::unary)?)).folded())
    }

    /// Binds more than a sign before it, and less than one after it.
    fn power(&mut self) -> Read {
        let mut base = self.atom()?;
        while self.takes("[") {
            let index = self.choice()?;
            self.expect("]")?;
            base = Node::Item(Box::new(base), Box::new(index));
        }
        if self.takes("**") {
            let exponent = self.nested(Self::unary)?;
            return Ok(Node::Binary(Operator::Power, Box::new(base), Box::new(exponent)).folded());
        }
        Ok(base)
    }

    fn atom(&mut self) -> Read {
        let unexpected = format!("cannot be read at {}", self.shown());
        let token = self.tokens.get(self.at).cloned().ok_or("ends where a value belongs")?;
        self.at += 1;
        match token {
            Token::Integer(value) => Ok(Node::Constant(Value::Integer(value))),
            Token::Float(value) => Ok(Node::Constant(Value::Float(value))),
            Token::Text(mut text) => {
                while let Some(Token::Text(more)) = self.tokens.get(self.at) {
                    text.push_str(more);
                    self.at += 1;
                }
                Ok(Node::Constant(Value::Text(text.into())))
            }
            Token::Name(name) if KEYWORDS.contains(&name.as_str()) => Err(unexpected),
            Token::Name(name) => self.named(&name),
            Token::Sign("(") => self.parentheses(),
            Token::Sign("[") => Ok(Node::Sequence(Kind::List, self.items("]")?.0).folded()),
            Token::Sign("{") => match self.items("}")?.0 {
                items if items.is_empty() => Err("has a dictionary, which is not understood".into()),
                items => Ok(Node::Sequence(Kind::Set, items).folded()),
            },
            Token::Sign(_) => Err(unexpected),
        }
    }

    fn named(&mut self, name: &str) -> Read {
        match name {
            "True" => return Ok(Node::Constant(Value::Bool(true))),
            "False" => return Ok(Node::Constant(Value::Bool(false))),
            "None" => return Ok(Node::Constant(Value::None)),
            _ => {}
        }
        let place = self.names.iter().position(|known| known == name);
        let mut called = name.to_owned();
        if place.is_none() && name == "math" && self.takes(".") {
            let Some(Token::Name(member)) = self.tokens.get(self.at) else { return Err("has 'math.' alone".into()) };
            called = format!("math.{member}");
            self.at += 1;
        }
        if self.takes("(") {
            let function = Function::named(&called)
                .ok_or_else(|| format!("calls '{called}', which is no function that is known here"))?;
            let (arguments, _) = self.items(")")?;
            function.takes(arguments.len()).map_err(|what| format!("calls '{called}' with {what}"))?;
            return Ok(Node::Call(function, arguments).folded());
        }
        if self.sign() == "." {
            return Err(format!("reads a part of '{name}', which is not understood"));
        }
        place.map(Node::Name).ok_or_else(|| {
            format!("has the name '{called}', which is not known here; known are {}", self.names.join(", "))
        })
    }

    /// What an opening parenthesis begins: an expression, or a tuple.
    fn parentheses(&mut self) -> Read {
        let (mut items, is_tuple) = self.items(")")?;
        Ok(match items.pop() {
            Some(only) if !is_tuple => only,
            last => Node::Sequence(Kind::Tuple, items.into_iter().chain(last).collect()).folded(),
        })
    }

    /// Expressions up to a closing bracket, and whether there are commas.
    fn items(&mut self, close: &str) -> Result<(Vec<Node>, bool), String> {
        let (mut items, mut commas) = (Vec::new(), false);
        while !self.takes(close) {
            items.push(self.choice()?);
            if !self.takes(",") {
                self.expect(close)?;
                break;
            }
            commas = true;
        }
        Ok((items, commas))
    }
}
