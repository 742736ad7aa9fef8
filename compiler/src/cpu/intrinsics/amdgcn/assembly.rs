//! AMD inline assembly without an effect on the CPU.
//!
//! Such assembly prevents the optimisation of a value, or waits for accesses.

use crate::cpu::operations::text::{FunctionBody, FunctionSignature, Untranslated};

/// Instructions without an effect on the CPU device, which completes accesses at once.
const IDLE: [&str; 3] = ["s_nop", "s_waitcnt", "s_sleep"];

/// The function that replaces the assembly.
pub fn translate(text: &str, constraints: &str, signature: &FunctionSignature) -> Result<FunctionBody, Untranslated> {
    let refused = || Untranslated::Amd(text.trim().replace(['\n', '\t'], " "));
    let instructions = text.split(['\n', ';']).next().unwrap_or_default();
    let has_more = text.lines().any(|line| {
        let code = line.split(';').next().unwrap_or_default().trim();
        !code.is_empty() && !IDLE.iter().any(|idle| code.starts_with(idle))
    });
    let code = instructions.trim();
    if has_more || (!code.is_empty() && !IDLE.iter().any(|idle| code.starts_with(idle))) {
        return Err(refused());
    }
    let mut body = FunctionBody::default();
    let (outputs, inputs): (Vec<&str>, Vec<&str>) = constraints
        .split(',')
        .map(str::trim)
        .filter(|constraint| !constraint.is_empty() && !constraint.starts_with('~'))
        .partition(|constraint| constraint.starts_with('='));
    // An empty text leaves its input in the output register.
    let tied: Vec<Option<usize>> =
        (0..outputs.len()).map(|output| inputs.iter().position(|input| input.parse() == Ok(output))).collect();
    let result = signature.result.as_str();
    match (result, &tied[..]) {
        ("void", []) => body.ret("void", ""),
        (_, [Some(input)]) => body.ret(result, format!("%a{input}")),
        (_, several) if several.len() > 1 && several.iter().all(Option::is_some) => {
            let mut whole = "poison".to_owned();
            for (index, input) in several.iter().flatten().enumerate() {
                let ty = signature.parameters.get(*input).ok_or_else(refused)?;
                whole = body.value(format!("insertvalue {result} {whole}, {ty} %a{input}, {index}"));
            }
            body.ret(result, whole);
        }
        _ => return Err(refused()),
    }
    Ok(body)
}
