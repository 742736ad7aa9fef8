//! Addresses for the names of variables in PTX.
//!
//! LLVM compiles code for a name otherwise than for a number: it adds offsets to a name where an instruction takes
//! them, and looks at the bits of a number. So names of variables whose addresses are known stay until LLVM is done.
//! Then the variable is no part of the module, and its address is in a register of each function that uses it; the
//! assembler makes of that what it makes of a name.

use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A variable: its name in PTX, and where it is.
pub type NamedAddress = (String, u64);

/// How registers with addresses begin; the number of the variable follows.
const REGISTER: &str = "%mneme_";

/// PTX without the declarations of `variables`, and with their addresses in the place of names.
pub fn resolve(ptx: &str, variables: &[NamedAddress]) -> String {
    if variables.is_empty() {
        return ptx.to_owned();
    }
    let mut text = String::with_capacity(ptx.len());
    let mut lines = ptx.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if line.starts_with(".extern") && tokens(line).any(|(_, token)| number(token, variables).is_some()) {
            continue;
        }
        text.push_str(line);
        if line.trim_end() == "{" {
            // Inline assembly has scopes of its own.
            let mut depth = 1;
            let body = lines.by_ref().take_while(|line| {
                let code = line.split("//").next().unwrap_or_default();
                depth += code.matches('{').count() as i64 - code.matches('}').count() as i64;
                depth > 0
            });
            write_body(&mut text, &body.collect::<Vec<_>>(), variables);
            // What ended it.
            text.push_str("}\n");
        }
    }
    text
}

/// The body of a function: declarations, what is used of addresses, instructions.
fn write_body(text: &mut String, body: &[&str], variables: &[NamedAddress]) {
    let is_instruction = |line: &&str| !matches!(line.trim_start().as_bytes().first(), None | Some(b'.' | b'/'));
    let first = body.iter().position(is_instruction).unwrap_or(body.len());
    let (declarations, instructions) = body.split_at(first);
    declarations.iter().for_each(|line| text.push_str(line));
    let mut used = BTreeSet::new();
    let instructions: String = instructions
        .iter()
        .flat_map(|line| line.split_inclusive(';'))
        .map(|statement| replaced(statement, variables, &mut used))
        .collect();
    for number in used {
        let address = variables[number].1;
        let _ = writeln!(text, "\t.reg .b64 {REGISTER}{number};\n\tmov.u64 {REGISTER}{number}, {address};");
    }
    text.push_str(&instructions);
}

/// A statement with registers for names; the numbers of the variables go to `used`.
fn replaced(statement: &str, variables: &[NamedAddress], used: &mut BTreeSet<usize>) -> String {
    let operands = operands(statement);
    let mut text = statement[..operands].to_owned();
    let mut done = operands;
    for (start, token) in tokens(statement).filter(|(start, _)| *start >= operands) {
        let Some(number) = number(token, variables) else { continue };
        used.insert(number);
        let _ = write!(text, "{}{REGISTER}{number}", &statement[done..start]);
        done = start + token.len();
    }
    text + &statement[done..]
}

/// Where the operands of an instruction begin. Its own name may be a variable's, too.
fn operands(statement: &str) -> usize {
    let after_word = |from: usize| {
        let rest = &statement[from..];
        let word = rest.find(|c: char| !(c.is_whitespace() || c == '{' || c == '}')).unwrap_or(rest.len());
        let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
        (from + end, rest[word..end].starts_with('@'))
    };
    match after_word(0) {
        (end, true) => after_word(end).0,
        (end, false) => end,
    }
}

fn number(token: &str, variables: &[NamedAddress]) -> Option<usize> {
    variables.iter().position(|(name, _)| name == token)
}

/// The words of a line that names can be, with their places: parts of instructions' names and of types begin with a
/// dot.
fn tokens(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '%' | '.');
    line.split(move |c: char| !is_part(c))
        .map(move |token| (token.as_ptr() as usize - line.as_ptr() as usize, token))
        .filter(|(_, token)| !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_registers_where_they_are_addresses() {
        let ptx = "\
.target sm_90
.extern .global .align 4 .f32 bias;
.extern .global .align 4 .b8 table[64];
.visible .global .align 4 .f32 bias2;

.visible .entry k(
\t.param .u64 k_param_0
)
{
\t.reg .f32 \t%f<3>;
\t.reg .b64 \t%rd<4>;

// %bb.0:
\tld.param.u64 \t%rd1, [k_param_0];
\t@%p1 bra \t$L__BB0_2;
\tld.global.f32 \t%f1, [bias];
\tmov.u64 \t%rd2, table;
\t@%p2 st.global.f32 \t[table+16], %f1;
\t{ // begin inline {
\ttable.x {%f1, %f2}, [bias2]; st.f32 [bias+-4], %f1;
}
$L__BB0_2:
\tret;

}
.func f()
{
\tret;
}
";
        let variables = [("bias".to_owned(), 4096), ("table".to_owned(), 8192), ("global".to_owned(), 1)];
        let text = resolve(ptx, &variables);
        assert!(!text.contains(".extern") && text.contains("bias2;"), "{text}");
        let expected = "\
{
\t.reg .f32 \t%f<3>;
\t.reg .b64 \t%rd<4>;

// %bb.0:
\t.reg .b64 %mneme_0;
\tmov.u64 %mneme_0, 4096;
\t.reg .b64 %mneme_1;
\tmov.u64 %mneme_1, 8192;
\tld.param.u64 \t%rd1, [k_param_0];
\t@%p1 bra \t$L__BB0_2;
\tld.global.f32 \t%f1, [%mneme_0];
\tmov.u64 \t%rd2, %mneme_1;
\t@%p2 st.global.f32 \t[%mneme_1+16], %f1;
\t{ // begin inline {
\ttable.x {%f1, %f2}, [bias2]; st.f32 [%mneme_0+-4], %f1;
}
$L__BB0_2:
\tret;

}
.func f()
{
\tret;
}
";
        assert!(text.ends_with(expected), "{text}");
        assert_eq!(resolve(ptx, &[]), ptx);
        assert_eq!(resolve("// {\n{", &variables), "// {\n{}\n", "cut off");
    }
}
