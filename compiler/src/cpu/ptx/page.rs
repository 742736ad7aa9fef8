//! The documentation page of PTX instructions, made by translating every form for both targets.

use std::path::Path;

use mneme_ptx::lift;

use super::{FunctionSignature, translate};
use crate::lifting::tests::table::forms::{Form, REGISTERS, forms};
use crate::lifting::tests::table::left_out;

const HEADER: &str = ".version 8.6\n.target sm_90a\n.address_size 64\n";

const HEAD: &str = "\
# Instructions of PTX

Generated from the table in `crates/ptx/src/instructions.rs`; a test has each form translated for both targets, and compares.

**IR**: [lifted](../how-it-works/lifting.md) code has LLVM's own operations, so that LLVM optimises it. **assembly**:
the instruction stays what it is, as inline assembly. **CPU device**: whether the CPU device runs it, in lifted code and
in inline assembly.

Braces in an instruction hold choices. The operand `t` is a register of the last type and `s` one of the first type;
`h`, `r`, `l` and `q` have 16, 32, 64 and 128 bits, and `p` is a predicate. `r4` stands for four such registers. An
instruction that is not listed stays inline assembly, and the CPU device refuses it.

| form | lifted | CPU device |
| --- | --- | --- |
";

const LEFT_OUT: &str = "
## Forms that are not compared with a model

A test runs every other form on edge values at `default<O0>`, `default<O1>` and `default<O3>`, and compares the results
with PTX's manual: on the CPU device always, and on a GPU with `MNEME_TEST_DEVICE=cuda`
(`cargo test -p mneme-compiler --lib -- table`). Results are exact. Those of `.approx` and of tensor cores are within
the manual's bounds. The manual leaves open what `div` and `rem` give for a divisor of zero.

| reason, and the test that covers the forms otherwise | forms |
| --- | --- |
";

/// The result for all instructions of a form, with the exceptions.
fn outcome(form: &Form, of: impl Fn(&str) -> &'static str) -> String {
    let outcomes: Vec<(&str, &str)> =
        form.statements.iter().map(|(opcode, text)| (of(text), opcode.as_str())).collect();
    let count = |outcome: &str| outcomes.iter().filter(|(own, _)| *own == outcome).count();
    let main = outcomes.iter().map(|(outcome, _)| *outcome).max_by_key(|outcome| count(outcome)).unwrap_or_default();
    let others: Vec<String> = outcomes
        .iter()
        .filter(|(outcome, _)| *outcome != main)
        .map(|(outcome, opcode)| format!("`{opcode}`: {outcome}"))
        .collect();
    if others.is_empty() { main.to_owned() } else { format!("{main}; {}", others.join(", ")) }
}

fn lifted(statement: &str) -> &'static str {
    let lifted = lift(&format!("{HEADER}.visible .entry k() {{ {REGISTERS}\n{statement}\nret; }}\n"));
    match lifted.map(|lifted| lifted.statistics.in_assembly()) {
        Ok(0) => "IR",
        Ok(_) => "assembly",
        Err(_) => "no",
    }
}

fn on_the_cpu(statement: &str) -> &'static str {
    let signature = FunctionSignature { name: "f".into(), result: "void".into(), parameters: Vec::new() };
    match translate(&format!("{REGISTERS} {statement}"), "", &signature) {
        Ok(_) => "yes",
        Err(_) => "no",
    }
}

#[test]
fn the_page_lists_what_becomes_of_every_form() {
    let mut page = HEAD.to_owned();
    for form in forms() {
        let (lifted, cpu) = (outcome(&form, lifted), outcome(&form, on_the_cpu));
        page.push_str(&format!("| `{}` | {lifted} | {cpu} |\n", form.pattern.replace('|', "\\|")));
    }
    page.push_str(LEFT_OUT);
    let mut by_reason: Vec<(&str, Vec<String>)> = Vec::new();
    for (form, reason) in forms().filter_map(|form| left_out(&form).map(|reason| (form, reason))) {
        let pattern = format!("`{}`", form.pattern.replace('|', "\\|"));
        match by_reason.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, patterns)) => patterns.push(pattern),
            None => by_reason.push((reason, vec![pattern])),
        }
    }
    for (reason, patterns) in by_reason {
        page.push_str(&format!("| {reason} | {} |\n", patterns.join("<br>")));
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/reference/ptx.md");
    if std::env::var_os("MNEME_UPDATE_DOCS").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let message =
        "docs/reference/ptx.md is stale: run `MNEME_UPDATE_DOCS=1 cargo test -p mneme-compiler --lib -- page`";
    assert!(std::fs::read_to_string(&path).unwrap() == page, "{message}");
}
