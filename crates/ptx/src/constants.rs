//! Constant expressions: their syntax, and their values by PTX's rules.

use std::cmp::Ordering;

use super::lexer::Token;
use super::reader::{DEEPEST, Parsed, Parser, clip};
use super::syntax::Operand;

/// The value of an expression: its type decides how operators work on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Signed(i64),
    Unsigned(u64),
    Double(f64),
}

impl Number {
    /// The value as an integer; `None` for a float.
    pub fn integer(self) -> Option<i128> {
        match self {
            Self::Signed(value) => Some(value.into()),
            Self::Unsigned(value) => Some(value.into()),
            Self::Double(_) => None,
        }
    }

    fn bits(self) -> Option<u64> {
        self.integer().map(|value| value as u64)
    }

    fn truth(value: bool) -> Self {
        Self::Signed(value.into())
    }

    fn negated(self) -> Self {
        match self {
            Self::Signed(value) => Self::Signed(value.wrapping_neg()),
            Self::Unsigned(value) => Self::Unsigned(value.wrapping_neg()),
            Self::Double(value) => Self::Double(-value),
        }
    }
}

/// The reason for an expression without a value.
const MIXED: &str = "a constant expression of types that do not go together";

/// The value of a comparison; `None` for other operators.
fn compared(operator: [u8; 2], order: Option<Ordering>) -> Option<Number> {
    Some(Number::truth(match operator {
        [b'=', _] => order == Some(Ordering::Equal),
        [b'!', _] => order != Some(Ordering::Equal),
        [b'<', b'='] => order.is_some_and(Ordering::is_le),
        [b'>', b'='] => order.is_some_and(Ordering::is_ge),
        [b'<', 0] => order == Some(Ordering::Less),
        [b'>', 0] => order == Some(Ordering::Greater),
        _ => return None,
    }))
}

/// An operator's value. If one of two integers is unsigned, both are; remainders and complements are always unsigned.
fn combined(operator: [u8; 2], left: Number, right: Number) -> Result<Number, &'static str> {
    use Number::{Double, Signed, Unsigned};
    if let (Double(a), Double(b)) = (left, right) {
        return match operator {
            [b'+', _] => Ok(Double(a + b)),
            [b'-', _] => Ok(Double(a - b)),
            [b'*', _] => Ok(Double(a * b)),
            [b'/', _] => Ok(Double(a / b)),
            _ => compared(operator, a.partial_cmp(&b)).ok_or(MIXED),
        };
    }
    let (Some(a), Some(b)) = (left.bits(), right.bits()) else { return Err(MIXED) };
    let signed = matches!((left, right), (Signed(_), Signed(_)));
    let order = if signed { (a as i64).cmp(&(b as i64)) } else { a.cmp(&b) };
    if let Some(truth) = compared(operator, Some(order)) {
        return Ok(truth);
    }
    // Only the low six bits of the distance count.
    let distance = (b & 63) as u32;
    let of = |bits: u64| if signed { Signed(bits as i64) } else { Unsigned(bits) };
    Ok(match operator {
        [b'|', b'|'] => Number::truth(a != 0 || b != 0),
        [b'&', b'&'] => Number::truth(a != 0 && b != 0),
        [b'|', _] => of(a | b),
        [b'^', _] => of(a ^ b),
        [b'&', _] => of(a & b),
        // A shifted value keeps its own type.
        [b'<' | b'>', _] => match (left, operator[0]) {
            (Signed(a), b'<') => Signed(a << distance),
            (Signed(a), _) => Signed(a >> distance),
            (_, b'<') => Unsigned(a << distance),
            _ => Unsigned(a >> distance),
        },
        [b'+', _] => of(a.wrapping_add(b)),
        [b'-', _] => of(a.wrapping_sub(b)),
        [b'*', _] => of(a.wrapping_mul(b)),
        [_, _] if b == 0 => return Err("a division by zero"),
        [b'/', _] if signed => Signed((a as i64).wrapping_div(b as i64)),
        [b'/', _] => Unsigned(a / b),
        [_, _] => Unsigned(a % b),
    })
}

impl<'a> Parser<'a> {
    /// A number, possibly with a sign, or an expression.
    pub fn scalar_constant(&mut self) -> Parsed<Operand<'a>> {
        let negative = self.token == Token::Mark(b'-');
        let number = if negative { self.ahead() } else { self.token };
        // Expressions do not support single precision.
        if let Token::Number(text) = number
            && let Some(bits) = single(text)
        {
            if negative {
                self.bump();
            }
            self.bump();
            return Ok(Operand::F32(if negative { bits ^ 1 << 31 } else { bits }));
        }
        Ok(match self.number(0)? {
            Number::Double(value) => Operand::F64(value.to_bits()),
            Number::Signed(value) => Operand::Int(value.into()),
            Number::Unsigned(value) => Operand::Int(value.into()),
        })
    }

    /// A constant expression of integers.
    pub fn constant(&mut self) -> Parsed<i128> {
        match self.number(0)?.integer() {
            Some(value) => Ok(value),
            None => self.fail("a fraction in the place of an integer"),
        }
    }

    /// `+4`, `-4`, `+-4`, `+2*4-1`, or an empty text.
    pub fn offset(&mut self) -> Parsed<i64> {
        let mut offset = 0i64;
        while let Token::Mark(sign @ (b'+' | b'-')) = self.token {
            self.bump();
            let Some(value) = self.binary(10, 0)?.bits() else {
                return self.fail("an offset that is a fraction");
            };
            offset =
                if sign == b'+' { offset.wrapping_add_unsigned(value) } else { offset.wrapping_sub_unsigned(value) };
        }
        Ok(offset)
    }

    fn number(&mut self, depth: u32) -> Parsed<Number> {
        let condition = self.binary(1, depth)?;
        if !self.accept(b'?') {
            return Ok(condition);
        }
        let yes = self.number(depth + 1)?;
        self.expect(b':')?;
        let no = self.number(depth + 1)?;
        match (condition.bits(), yes.bits(), no.bits()) {
            // Each branch keeps its type.
            (Some(condition), Some(_), Some(_)) => Ok(if condition != 0 { yes } else { no }),
            _ => self.fail(MIXED),
        }
    }

    /// Binary operators with a precedence of at least `least`.
    fn binary(&mut self, least: u32, depth: u32) -> Parsed<Number> {
        if depth > DEEPEST {
            return self.fail("an expression that is nested too deeply");
        }
        let mut left = self.unary(depth)?;
        loop {
            let (operator, precedence) = match self.token {
                Token::Double(pair @ [b'|', b'|']) => (pair, 1),
                Token::Double(pair @ [b'&', b'&']) => (pair, 2),
                Token::Mark(mark @ b'|') => ([mark, 0], 3),
                Token::Mark(mark @ b'^') => ([mark, 0], 4),
                Token::Mark(mark @ b'&') => ([mark, 0], 5),
                Token::Double(pair @ ([b'=', b'='] | [b'!', b'='])) => (pair, 6),
                Token::Double(pair @ ([b'<', b'='] | [b'>', b'='])) => (pair, 7),
                Token::Mark(mark @ (b'<' | b'>')) => ([mark, 0], 7),
                Token::Double(pair @ ([b'<', b'<'] | [b'>', b'>'])) => (pair, 8),
                Token::Mark(mark @ (b'+' | b'-')) => ([mark, 0], 9),
                Token::Mark(mark @ (b'*' | b'/' | b'%')) => ([mark, 0], 10),
                _ => return Ok(left),
            };
            if precedence < least {
                return Ok(left);
            }
            self.bump();
            let right = self.binary(precedence + 1, depth + 1)?;
            left = match combined(operator, left, right) {
                Ok(value) => value,
                Err(what) => return self.fail(what),
            };
        }
    }

    fn unary(&mut self, depth: u32) -> Parsed<Number> {
        if depth > DEEPEST {
            return self.fail("an expression that is nested too deeply");
        }
        if self.accept(b'+') {
            return self.unary(depth + 1);
        }
        if self.accept(b'-') {
            return Ok(self.unary(depth + 1)?.negated());
        }
        match self.token {
            Token::Mark(mark @ (b'~' | b'!')) => {
                self.bump();
                let Some(bits) = self.unary(depth + 1)?.bits() else { return self.fail(MIXED) };
                Ok(if mark == b'~' { Number::Unsigned(!bits) } else { Number::truth(bits == 0) })
            }
            Token::Mark(b'(') => {
                self.bump();
                if let Some(word) = self.accept_word(|word| matches!(word, ".s64" | ".u64")) {
                    self.expect(b')')?;
                    let Some(bits) = self.unary(depth + 1)?.bits() else { return self.fail(MIXED) };
                    return Ok(if word == ".s64" { Number::Signed(bits as i64) } else { Number::Unsigned(bits) });
                }
                let value = self.number(depth + 1)?;
                self.expect(b')')?;
                Ok(value)
            }
            Token::Word("WARP_SZ") => {
                self.bump();
                Ok(Number::Signed(32))
            }
            Token::Number(text) => {
                let Some(value) = double(text).map(Number::Double).or_else(|| literal(text)) else {
                    return self.fail(format!("'{}' is no number", clip(text)));
                };
                self.bump();
                Ok(value)
            }
            _ => self.unexpected("an operand"),
        }
    }
}

/// An integer: unsigned with a `U`, or if it exceeds the signed range.
pub fn literal(text: &str) -> Option<Number> {
    let digits = text.strip_suffix(['U', 'u']);
    let value = match digits.unwrap_or(text).as_bytes() {
        [b'0', b'x' | b'X', rest @ ..] => (rest, 16),
        [b'0', b'b' | b'B', rest @ ..] => (rest, 2),
        [b'0', rest @ ..] if !rest.is_empty() => (rest, 8),
        rest => (rest, 10),
    };
    let value = u64::from_str_radix(std::str::from_utf8(value.0).ok()?, value.1).ok()?;
    Some(match i64::try_from(value) {
        Ok(value) if digits.is_none() => Number::Signed(value),
        _ => Number::Unsigned(value),
    })
}

fn single(text: &str) -> Option<u32> {
    let digits = text.strip_prefix("0f").or_else(|| text.strip_prefix("0F"))?;
    u32::from_str_radix(digits, 16).ok()
}

fn double(text: &str) -> Option<f64> {
    match text.as_bytes() {
        [b'0', b'd' | b'D', ..] => u64::from_str_radix(&text[2..], 16).ok().map(f64::from_bits),
        [b'0', b'x' | b'X' | b'b' | b'B' | b'f' | b'F', ..] => None,
        _ if text.contains(['.', 'e', 'E']) => text.parse().ok(),
        _ => None,
    }
}
