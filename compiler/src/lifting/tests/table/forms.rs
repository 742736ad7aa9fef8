//! The forms in the table of instructions, as statements.

use mneme_ptx::Type;
use mneme_ptx::instructions::INSTRUCTIONS;

/// A form of some instructions.
pub struct Form {
    /// As the table has it, the names as a choice, with the operands.
    pub pattern: String,
    /// Each instruction of it, with its modifiers, and as a statement over [`REGISTERS`].
    pub statements: Vec<(String, String)>,
}

/// The registers that statements of forms use.
pub const REGISTERS: &str = ".reg .pred p; .reg .b16 h; .reg .b32 r; .reg .b64 l; .reg .b128 q;";

/// All forms of the table.
pub fn forms() -> impl Iterator<Item = Form> {
    let all = INSTRUCTIONS.iter().flat_map(|(names, _, forms)| forms.iter().map(move |form| (*names, *form)));
    all.map(|(names, form)| {
        let (modifiers, operands) = form.split_once(' ').unwrap_or((form, ""));
        let names = if let [name] = names { (*name).to_owned() } else { format!("{{{}}}", names.join(",")) };
        let pattern = names + modifiers;
        let statement = |opcode: String| (format!("{opcode} {};", operands_of(&opcode, operands)), opcode);
        let statements = choices(&pattern).into_iter().map(statement).map(|(text, opcode)| (opcode, text)).collect();
        let pattern = format!("{pattern} {operands}").trim_end().to_owned();
        Form { pattern, statements }
    })
}

/// All texts that a pattern with choices in braces stands for.
fn choices(pattern: &str) -> Vec<String> {
    let Some((before, rest)) = pattern.split_once('{') else { return vec![pattern.to_owned()] };
    let (inner, after) = rest.split_once('}').unwrap_or((rest, ""));
    let after = choices(after);
    inner.split(',').flat_map(|one| after.iter().map(move |rest| format!("{before}{one}{rest}"))).collect()
}

/// The operands with registers of the instruction's types.
fn operands_of(opcode: &str, operands: &str) -> String {
    let types: Vec<Type> = opcode.split('.').filter_map(Type::of).collect();
    let register = |ty: Option<&Type>| match ty.map_or(32, |ty| ty.bits()) {
        1 => "p",
        8 | 16 => "h",
        32 => "r",
        64 => "l",
        _ => "q",
    };
    let mut text = String::new();
    for word in operands.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let (name, rest) = word.split_at(word.find(|c: char| !c.is_ascii_alphanumeric()).unwrap_or(word.len()));
        match name {
            "t" => text.push_str(register(types.last())),
            "s" => text.push_str(register(types.first())),
            "t4" => text.push_str(&[register(types.last()); 4].join(", ")),
            "r4" => text.push_str(&["r"; 4].join(", ")),
            "r8" => text.push_str(&["r"; 8].join(", ")),
            other => text.push_str(other),
        }
        text.push_str(rest);
    }
    text
}

#[test]
fn forms_are_statements_over_registers() {
    assert_eq!(choices("{a,b}.{c,}"), ["a.c", "a.", "b.c", "b."]);
    assert_eq!(operands_of("cvt.u16.f64", "s, t, {t4}, 5"), "h, l, {l, l, l, l}, 5");
}
