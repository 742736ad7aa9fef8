//! A parser of inline PTX, which splits its text into statements.

use super::types::Type;

#[derive(Debug)]
pub enum InlineStatement {
    Open,
    Close,
    Declare { bits: u32, names: Vec<String> },
    Instruction(InlineInstruction),
    Unknown(String),
}

#[derive(Debug)]
pub struct InlineInstruction {
    /// `@p` or `@!p` (true).
    pub guard: Option<(bool, String)>,
    /// The parts of the opcode, without types.
    pub name: String,
    pub modifiers: Vec<String>,
    pub types: Vec<Type>,
    pub operands: Vec<InlineOperand>,
    pub text: String,
}

impl InlineInstruction {
    /// All parts of the opcode in their order, types included.
    pub fn opcode(&self) -> Option<Vec<&str>> {
        let ends = |c: char| c.is_whitespace() || c == '{' || c == '[';
        let is_opcode = |word: &&str| word.strip_prefix(&*self.name).is_some_and(|rest| rest.starts_with('.'));
        Some(self.text.split(ends).find(is_opcode)?.split('.').collect())
    }
}

#[derive(Clone, Debug)]
pub enum InlineOperand {
    Name(String),
    Immediate(i128),
    /// A decimal floating-point literal.
    Decimal(f64),
    Vector(Vec<InlineOperand>),
    /// `[base + offset]`.
    Address(Box<InlineOperand>, i128),
    /// `[handle, coordinates]`.
    Texel(Box<InlineOperand>, Box<InlineOperand>),
    /// `!p`.
    Negated(String),
    /// `d|p`.
    Pair(Box<InlineOperand>, Box<InlineOperand>),
    /// `_`.
    Sink,
}

/// Registers that a text declares: more than any compiler's assembly has.
const MOST_NAMES: usize = 1 << 16;
/// Levels of operands: a vector of vectors in an address has three.
const DEEPEST: usize = 8;

/// Statements of the assembly text of LLVM, in which `$0` is an operand and `$$` a dollar sign.
pub fn statements(text: &str) -> Vec<InlineStatement> {
    let text = without_comments(&text.replace("$$", "\u{1}"));
    let (mut found, mut declared) = (Vec::new(), 0);
    let mut rest = text.as_str();
    loop {
        rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ';');
        if rest.is_empty() {
            return found;
        }
        if let Some(inner) = rest.strip_prefix('{') {
            found.push(InlineStatement::Open);
            rest = inner;
        } else if let Some(outer) = rest.strip_prefix('}') {
            found.push(InlineStatement::Close);
            rest = outer;
        } else {
            let end = rest.find(';').unwrap_or(rest.len());
            let text = rest[..end].trim();
            let statement = statement(text, MOST_NAMES - declared);
            if let InlineStatement::Declare { names, .. } = &statement {
                declared += names.len();
            }
            found.push(statement);
            rest = &rest[end..];
        }
    }
}

fn without_comments(text: &str) -> String {
    let mut clean = String::new();
    let mut rest = text;
    while let Some(start) = rest.find('/') {
        let (before, from) = rest.split_at(start);
        clean.push_str(before);
        if from.starts_with("//") {
            rest = from.find('\n').map_or("", |end| &from[end..]);
        } else if from.starts_with("/*") {
            rest = from.find("*/").map_or("", |end| &from[end + 2..]);
        } else {
            clean.push('/');
            rest = &from[1..];
        }
    }
    clean.push_str(rest);
    clean
}

/// A statement, which declares at most so many registers.
fn statement(text: &str, most: usize) -> InlineStatement {
    let parsed = match text.strip_prefix(".reg") {
        Some(declaration) => declare(declaration, most),
        None => instruction(text),
    };
    parsed.unwrap_or_else(|| InlineStatement::Unknown(text.to_owned()))
}

fn declare(text: &str, most: usize) -> Option<InlineStatement> {
    let (ty, names) = text.trim().strip_prefix('.')?.split_once(char::is_whitespace)?;
    let bits = Type::parse(ty)?.whole();
    let mut all = Vec::new();
    for name in names.split(',').map(str::trim) {
        // `r<3>` declares r0, r1 and r2.
        match name.strip_suffix('>').and_then(|name| name.split_once('<')) {
            Some((stem, count)) => {
                let count: usize = count.parse().ok().filter(|count| all.len().saturating_add(*count) <= most)?;
                all.extend((0..count).map(|i| format!("{stem}{i}")));
            }
            None => all.push(name.to_owned()),
        }
    }
    if all.len() > most {
        return None;
    }
    Some(InlineStatement::Declare { bits, names: all })
}

fn instruction(text: &str) -> Option<InlineStatement> {
    let mut rest = text;
    let mut guard = None;
    if let Some(after) = rest.strip_prefix('@') {
        let (predicate, after) = after.trim_start().split_once(char::is_whitespace)?;
        guard = Some(match predicate.strip_prefix('!') {
            Some(name) => (true, operand_name(name)),
            None => (false, operand_name(predicate)),
        });
        rest = after.trim_start();
    }
    let end = rest.find(|c: char| c.is_whitespace() || c == '{' || c == '[').unwrap_or(rest.len());
    let (opcode, operands) = rest.split_at(end);
    let mut parts = opcode.split('.').filter(|part| !part.is_empty());
    let name = parts.next()?.to_owned();
    if name.ends_with(':') {
        return None;
    }
    let (mut modifiers, mut types) = (Vec::new(), Vec::new());
    for part in parts {
        match Type::parse(part) {
            Some(ty) => types.push(ty),
            None => modifiers.push(part.to_owned()),
        }
    }
    let operands = operands_of(operands, DEEPEST)?;
    Some(InlineStatement::Instruction(InlineInstruction {
        guard,
        name,
        modifiers,
        types,
        operands,
        text: text.replace('\u{1}', "$"),
    }))
}

/// Splits at commas outside of brackets.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0, 0);
    for (i, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth -= 1,
            ',' if depth == 0 => {
                parts.push(text[start..i].trim());
                start = i + 1;
            }
            _ => {}
        }
    }
    parts.push(text[start..].trim());
    parts.retain(|part| !part.is_empty());
    parts
}

fn operands_of(text: &str, depth: usize) -> Option<Vec<InlineOperand>> {
    split(text).into_iter().map(|text| operand(text, depth)).collect()
}

/// An operand with so many levels of operands in it.
fn operand(text: &str, depth: usize) -> Option<InlineOperand> {
    let depth = depth.checked_sub(1)?;
    if let Some(inner) = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        return operands_of(inner, depth).map(InlineOperand::Vector);
    }
    if let Some(inner) = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        if let [handle, coordinates] = split(inner)[..] {
            let [handle, coordinates] = [handle, coordinates].map(|text| operand(text, depth).map(Box::new));
            return Some(InlineOperand::Texel(handle?, coordinates?));
        }
        let (base, offset) = match inner.rfind(['+', '-']).filter(|at| *at > 0) {
            Some(at) => (&inner[..at], number(inner[at..].replace([' ', '+'], "").as_str())?),
            None => (inner, 0),
        };
        return Some(InlineOperand::Address(Box::new(operand(base.trim(), depth)?), offset));
    }
    if let Some((value, predicate)) = text.split_once('|') {
        let [value, predicate] = [value, predicate].map(|text| operand(text.trim(), depth).map(Box::new));
        return Some(InlineOperand::Pair(value?, predicate?));
    }
    if let Some(name) = text.strip_prefix('!') {
        return Some(InlineOperand::Negated(operand_name(name.trim())));
    }
    if text == "_" {
        return Some(InlineOperand::Sink);
    }
    if text.starts_with(|c: char| c.is_ascii_digit() || c == '-' || c == '+') {
        return number(text).map(InlineOperand::Immediate).or_else(|| text.parse().ok().map(InlineOperand::Decimal));
    }
    let plain = text.chars().all(|c| c.is_alphanumeric() || "_$%.{}:\u{1}".contains(c));
    (plain && !text.is_empty()).then(|| InlineOperand::Name(operand_name(text)))
}

/// `${0:x}` and `${0}` are `$0`.
fn operand_name(text: &str) -> String {
    match text.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => format!("${}", inner.split(':').next().unwrap_or(inner)),
        None => text.to_owned(),
    }
}

/// Integers (decimal, `0x`, octal, with `U`) and the bits of `0f`/`0d` literals.
fn number(text: &str) -> Option<i128> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits.trim_start()),
        None => (false, text.trim_start_matches('+')),
    };
    let lower = digits.to_ascii_lowercase();
    let value = if let Some(bits) = lower.strip_prefix("0f").or_else(|| lower.strip_prefix("0d")) {
        i128::from(u64::from_str_radix(bits, 16).ok()?)
    } else {
        let digits = lower.trim_end_matches('u');
        if let Some(hex) = digits.strip_prefix("0x") {
            i128::from(u64::from_str_radix(hex, 16).ok()?)
        } else if let Some(binary) = digits.strip_prefix("0b") {
            i128::from(u64::from_str_radix(binary, 2).ok()?)
        } else if digits.len() > 1 && digits.starts_with('0') {
            i128::from(u64::from_str_radix(digits, 8).ok()?)
        } else {
            digits.parse().ok()?
        }
    };
    if negative { value.checked_neg() } else { Some(value) }
}
