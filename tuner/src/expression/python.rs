//! Python's expressions in the syntax of this crate's, as far as restrictions of spaces need them.

/// Translates a restriction such as `32 <= x * y <= 1024 and (p == 0 or x % 32 != 0)`.
///
/// # Errors
/// A sentence with what is not understood.
pub fn translate(text: &str) -> Result<String, String> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0, text };
    let found = parser.choice()?;
    match parser.peek() {
        "" => Ok(found.truth()),
        other => Err(format!("the restriction '{text}' cannot be read at '{other}'")),
    }
}

/// An expression of the other syntax.
struct Translated {
    text: String,
    is_truth: bool,
}

impl Translated {
    fn value(text: String) -> Self {
        Self { text, is_truth: false }
    }

    fn is_true(text: String) -> Self {
        Self { text, is_truth: true }
    }

    /// As true or false: numbers are true unless they are 0.
    fn truth(self) -> String {
        if self.is_truth { self.text } else { format!("({0} != 0 && {0} != false)", self.text) }
    }
}

const COMPARISONS: [&str; 6] = ["<", "<=", ">", ">=", "==", "!="];

struct Parser<'a> {
    tokens: Vec<&'a str>,
    at: usize,
    text: &'a str,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> &'a str {
        self.tokens.get(self.at).copied().unwrap_or("")
    }

    fn take(&mut self) -> &'a str {
        let token = self.peek();
        self.at += 1;
        token
    }

    fn takes(&mut self, token: &str) -> bool {
        let found = self.peek() == token;
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, token: &str) -> Result<(), String> {
        if self.takes(token) {
            return Ok(());
        }
        let found = if self.peek().is_empty() { "its end" } else { self.peek() };
        Err(format!("the restriction '{}' has {found} where '{token}' belongs", self.text))
    }

    fn choice(&mut self) -> Result<Translated, String> {
        let first = self.any()?;
        if !self.takes("if") {
            return Ok(first);
        }
        let condition = self.any()?.truth();
        self.expect("else")?;
        let second = self.choice()?;
        Ok(Translated {
            text: format!("(if {condition} {{ {} }} else {{ {} }})", first.text, second.text),
            is_truth: first.is_truth && second.is_truth,
        })
    }

    fn any(&mut self) -> Result<Translated, String> {
        self.joined("or", " || ", Self::all)
    }

    fn all(&mut self) -> Result<Translated, String> {
        self.joined("and", " && ", Self::negation)
    }

    fn joined(
        &mut self,
        word: &str,
        sign: &str,
        inner: fn(&mut Self) -> Result<Translated, String>,
    ) -> Result<Translated, String> {
        let first = inner(self)?;
        if self.peek() != word {
            return Ok(first);
        }
        let mut sides = vec![first.truth()];
        while self.takes(word) {
            sides.push(inner(self)?.truth());
        }
        Ok(Translated::is_true(format!("({})", sides.join(sign))))
    }

    fn negation(&mut self) -> Result<Translated, String> {
        if self.takes("not") {
            return Ok(Translated::is_true(format!("!({})", self.negation()?.truth())));
        }
        self.comparison()
    }

    /// Comparisons may be chained: `a <= b < c` holds where both do.
    fn comparison(&mut self) -> Result<Translated, String> {
        let mut left = self.binary(0)?;
        let mut all = Vec::new();
        loop {
            let sign = self.peek();
            if COMPARISONS.contains(&sign) {
                self.at += 1;
                let right = self.binary(0)?;
                all.push(format!("({} {sign} {})", left.text, right.text));
                left = right;
            } else if sign == "in" || (sign == "not" && self.tokens.get(self.at + 1) == Some(&"in")) {
                self.at += if sign == "in" { 1 } else { 2 };
                let right = self.binary(0)?;
                let negation = if sign == "in" { "" } else { "!" };
                all.push(format!("{negation}({} in {})", left.text, right.text));
                left = right;
            } else {
                break;
            }
        }
        match all.len() {
            0 => Ok(left),
            1 => Ok(Translated::is_true(all.remove(0))),
            _ => Ok(Translated::is_true(format!("({})", all.join(" && ")))),
        }
    }

    fn binary(&mut self, level: usize) -> Result<Translated, String> {
        const LEVELS: [&[&str]; 2] = [&["+", "-"], &["*", "/", "//", "%"]];
        let Some(signs) = LEVELS.get(level) else { return self.unary() };
        let mut left = self.binary(level + 1)?;
        while signs.contains(&self.peek()) {
            let sign = self.take();
            let right = self.binary(level + 1)?;
            left = Translated::value(match sign {
                "//" => format!("floor({} / {})", left.text, right.text),
                _ => format!("({} {sign} {})", left.text, right.text),
            });
        }
        Ok(left)
    }

    fn unary(&mut self) -> Result<Translated, String> {
        if self.takes("-") {
            return Ok(Translated::value(format!("(-{})", self.unary()?.text)));
        }
        self.takes("+");
        let base = self.atom()?;
        if self.takes("**") {
            return Ok(Translated::value(format!("({} ** {})", base.text, self.unary()?.text)));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<Translated, String> {
        let token = self.take();
        match token {
            "(" | "[" => self.list(token),
            "True" => Ok(Translated::is_true("true".into())),
            "False" => Ok(Translated::is_true("false".into())),
            _ if token.starts_with(['"', '\'']) => {
                Ok(Translated::value(format!("\"{}\"", token[1..token.len() - 1].replace('"', "\\\""))))
            }
            _ if token.starts_with(|first: char| first.is_ascii_digit() || first == '.') => {
                Ok(Translated::value(token.into()))
            }
            _ if token.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') => {
                if !self.takes("(") {
                    return Ok(Translated::value(token.into()));
                }
                let arguments = self.list("(")?.text;
                let arguments = arguments.trim_start_matches(['(', '[']).trim_end_matches([')', ']']);
                let name = if token == "int" { "floor" } else { token };
                Ok(Translated::value(format!("{name}({arguments})")))
            }
            _ => Err(format!("the restriction '{}' cannot be read at '{token}'", self.text)),
        }
    }

    /// What follows an opening bracket: one expression in parentheses, or a list.
    fn list(&mut self, open: &str) -> Result<Translated, String> {
        let close = if open == "(" { ")" } else { "]" };
        let mut items = Vec::new();
        let mut is_list = open == "[";
        while !self.takes(close) {
            items.push(self.choice()?);
            if self.takes(",") {
                is_list = true;
            } else {
                self.expect(close)?;
                break;
            }
        }
        if is_list {
            let items: Vec<String> = items.into_iter().map(|item| item.text).collect();
            return Ok(Translated::value(format!("[{}]", items.join(", "))));
        }
        let Some(Translated { text, is_truth }) = items.pop() else { return Ok(Translated::value("[]".into())) };
        Ok(Translated { text: format!("({text})"), is_truth })
    }
}

fn tokens(text: &str) -> Result<Vec<&str>, String> {
    const SIGNS: [&str; 21] =
        ["**", "//", "<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "%", "(", ")", "[", "]", ",", "{", "}", "."];
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let length = if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        } else if first == '"' || first == '\'' {
            let end =
                rest[1..].find(first).ok_or_else(|| format!("the restriction '{text}' has a string without an end"))?;
            end + 2
        } else if first.is_ascii_alphanumeric()
            || first == '_'
            || (first == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit()))
        {
            let is_number = !(first.is_ascii_alphabetic() || first == '_');
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || (is_number && c == '.')))
                .unwrap_or(rest.len())
        } else {
            SIGNS
                .iter()
                .find(|sign| rest.starts_with(**sign))
                .map(|sign| sign.len())
                .ok_or_else(|| format!("the restriction '{text}' has '{first}', which is not understood"))?
        };
        found.push(&rest[..length]);
        at += length;
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::{ExpressionEngine, Values};
    use serde_json::json;

    #[test]
    fn restrictions_mean_what_they_mean_in_python() {
        let (language, mut values) = (ExpressionEngine::default(), Values::default());
        for (name, value) in [("x", json!(32)), ("y", json!(3)), ("p", json!(0)), ("b", json!(true)), ("s", json!("a"))]
        {
            values.set(name, &value);
        }
        for (text, expected) in [
            ("32 <= x * y <= 1024", true),
            ("96 < x * y <= 1024", false),
            ("p == 0 or x % 32 != 0", true),
            ("not p and b", true),
            ("p", false),
            ("not (x > 1 and y > 3)", true),
            ("x // y == 10 and x / y != 10", true),
            ("-x + 2 ** y ** 1 == -24", true),
            ("x in [16, 32] and y not in (1, 2)", true),
            ("s == 'a'", true),
            ("(1 if p else 2) == 2", true),
            ("max(x, y) == 32 and min([x, y]) == 3", true),
            ("(x*1+ y * 2) * (2+p) * 4 <= 303", false),
        ] {
            let translated = translate(text).unwrap();
            let expression =
                language.read(&translated, &values).unwrap_or_else(|error| panic!("{text}: {translated}: {error}"));
            assert_eq!(language.evaluate(&expression, &mut values), Ok(json!(expected)), "{text}: {translated}");
        }
        for text in ["x >", "x ? y", "(x", "lambda x: x", "x y"] {
            assert!(translate(text).is_err(), "{text}");
        }
    }
}
