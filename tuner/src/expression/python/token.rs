//! Tokens of Python's expressions.

#[derive(Clone, Debug, PartialEq)]
pub enum Token {
    Integer(i128),
    Float(f64),
    Text(String),
    /// A name or a keyword.
    Name(String),
    Sign(&'static str),
}

impl Token {
    /// As an error shows it.
    pub fn shown(&self) -> String {
        match self {
            Self::Integer(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => format!("'{text}'"),
            Self::Name(name) => name.clone(),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

/// Longer ones before those that they begin with.
const SIGNS: [&str; 29] = [
    "**", "//", "<<", ">>", "<=", ">=", "==", "!=", ":=", "<", ">", "+", "-", "*", "/", "%", "&", "|", "^", "~", "(",
    ")", "[", "]", "{", "}", ",", ".", ":",
];

/// Splits a text.
///
/// # Errors
/// What is not understood, as in "has '?', which is not understood".
pub fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut found = Vec::new();
    // Open brackets; a line may end within them alone.
    let mut depth = 0i32;
    let mut rest = text.trim_start_matches([' ', '\t']);
    while let Some(first) = rest.chars().next() {
        if first == '\n' && depth <= 0 && !is_blank(rest) {
            return Err("goes on in another line, which Python allows within brackets alone".into());
        }
        if first == '#' {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
            continue;
        }
        if first.is_ascii_whitespace() {
            rest = &rest[1..];
            continue;
        }
        let (token, after) = if first == '"' || first == '\'' {
            string(rest)?
        } else if first.is_ascii_digit() || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())) {
            number(rest)?
        } else if first.is_alphabetic() || first == '_' {
            let end = rest.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(rest.len());
            if rest[end..].starts_with(['"', '\'']) {
                return Err(format!("has a string that begins with {}, which is not understood", &rest[..end]));
            }
            (Token::Name(rest[..end].to_owned()), &rest[end..])
        } else {
            let sign = SIGNS.iter().find(|sign| rest.starts_with(**sign));
            let sign = sign.ok_or_else(|| format!("has '{first}', which is not understood"))?;
            match *sign {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            (Token::Sign(sign), &rest[sign.len()..])
        };
        found.push(token);
        rest = after;
    }
    Ok(found)
}

/// Whether nothing but comments follows.
fn is_blank(text: &str) -> bool {
    text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#'))
}

fn string(text: &str) -> Result<(Token, &str), String> {
    let quote = &text[..1];
    if text.starts_with(&quote.repeat(3)) {
        return Err("has a string in three quotes, which is not understood".into());
    }
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        match character {
            '\n' => break,
            '\\' => value.push(match characters.next() {
                Some((_, 'n')) => '\n',
                Some((_, 't')) => '\t',
                Some((_, plain @ ('\\' | '\'' | '"'))) => plain,
                _ => return Err("has a string with an escape that is not understood".into()),
            }),
            _ if character.to_string() == quote => return Ok((Token::Text(value), &text[at + 1..])),
            _ => value.push(character),
        }
    }
    Err("has a string without an end".into())
}

fn number(text: &str) -> Result<(Token, &str), String> {
    let mut end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(text.len());
    // The sign of an exponent is part of the number.
    let is_hexadecimal = text[..end].to_ascii_lowercase().starts_with("0x");
    if text[..end].ends_with(['e', 'E']) && !is_hexadecimal && text[end..].starts_with(['+', '-']) {
        let digits = &text[end + 1..];
        end += 1 + digits.find(|c: char| !(c.is_ascii_digit() || c == '_')).unwrap_or(digits.len());
    }
    let (written, rest) = text.split_at(end);
    let wrong = || format!("has '{written}', which is no number that is understood");
    let lower = written.to_ascii_lowercase();
    if lower.ends_with('_') || lower.contains("__") {
        return Err(wrong());
    }
    let digits = lower.replace('_', "");
    let based = [("0x", 16), ("0o", 8), ("0b", 2)];
    if let Some((prefix, base)) = based.iter().find(|(prefix, _)| digits.starts_with(prefix)) {
        let value = i128::from_str_radix(&digits[prefix.len()..], *base).map_err(|_| wrong())?;
        return Ok((Token::Integer(value), rest));
    }
    if digits.bytes().all(|byte| byte.is_ascii_digit()) {
        if digits.starts_with('0') && digits.bytes().any(|digit| digit != b'0') {
            return Err(wrong());
        }
        return Ok((Token::Integer(digits.parse().map_err(|_| wrong())?), rest));
    }
    // Python's floats are written as Rust's are, apart from names such as "inf", which no digit begins.
    Ok((Token::Float(digits.parse().map_err(|_| wrong())?), rest))
}
