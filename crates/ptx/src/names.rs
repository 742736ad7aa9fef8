//! Replaces names of variables in PTX with addresses.
//!
//! LLVM compiles code differently for a name and for a number: it folds offsets into instructions for a name, and
//! inspects the bits of a number. Variables with known addresses therefore keep their names until LLVM is done. Then
//! the variable is removed from the module, and each function that uses it gets its address in a register, from which
//! the assembler makes the same code as from a name.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::lexer::{Lexer, Token};

/// A variable: its name in PTX, and its address.
pub type NamedAddress = (String, u64);

/// Prefix of registers for addresses; the variable's number follows.
const REGISTER: &str = "%mneme_";

/// PTX without the declarations of `variables`, and with addresses instead of their names.
pub fn resolve(ptx: &str, variables: &[NamedAddress]) -> String {
    if variables.is_empty() {
        return ptx.to_owned();
    }
    let mut text = String::with_capacity(ptx.len());
    let mut lines = ptx.split_inclusive('\n');
    while let Some(line) = lines.next() {
        if line.starts_with(".extern") && words(line).any(|word| number(word, variables).is_some()) {
            continue;
        }
        text.push_str(line);
        if line.trim_end() == "{" {
            // Inline assembly has nested scopes.
            let mut depth = 1;
            let body = lines.by_ref().take_while(|line| {
                let code = line.split("//").next().unwrap_or_default();
                depth += code.matches('{').count() as i64 - code.matches('}').count() as i64;
                depth > 0
            });
            write_body(&mut text, &body.collect::<Vec<_>>(), variables);
            // The closing brace.
            text.push_str("}\n");
        }
    }
    text
}

/// The body of a function: declarations, the used addresses, instructions.
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

/// A statement with registers instead of names; adds the numbers of the variables to `used`.
fn replaced(statement: &str, variables: &[NamedAddress], used: &mut BTreeSet<usize>) -> String {
    let (mut text, mut done) = (String::new(), operands(statement));
    text.push_str(&statement[..done]);
    for word in words(&statement[done..]) {
        let Some(number) = number(word, variables) else { continue };
        used.insert(number);
        let start = word.as_ptr() as usize - statement.as_ptr() as usize;
        let _ = write!(text, "{}{REGISTER}{number}", &statement[done..start]);
        done = start + word.len();
    }
    text + &statement[done..]
}

/// The start of an instruction's operands. Its own name may be a variable's, too.
fn operands(statement: &str) -> usize {
    let mut lexer = Lexer::new(statement);
    loop {
        match lexer.token() {
            Token::Mark(b'{' | b'}') => {}
            Token::Mark(b'@') => {
                if lexer.token() == Token::Mark(b'!') {
                    lexer.token();
                }
            }
            _ => return lexer.place(),
        }
    }
}

fn number(word: &str, variables: &[NamedAddress]) -> Option<usize> {
    variables.iter().position(|(name, _)| name == word)
}

/// The words of a text that may be names.
fn words(text: &str) -> impl Iterator<Item = &str> {
    Lexer::new(text).filter_map(|token| match token {
        Token::Word(word) => Some(word),
        _ => None,
    })
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
