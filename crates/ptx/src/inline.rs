//! Inline PTX as the code of a function for the CPU device.
//!
//! It is straight-line code over registers, as in CUDA's headers and hand-tuned kernels. Assembly with branches or
//! unsupported instructions is refused; the error names the instruction.

use super::context::{Context, Intrinsic, Results, Target};
use super::emitter::Emitter;
use super::lexer::Token;
use super::reader::Parser;
use super::registers::Registers;
use super::resolve::{Names, resolve};
use super::syntax::*;

/// Code equivalent to inline PTX.
#[derive(Clone, Debug, Default)]
pub struct Inline {
    /// The body of a function with the parameters `%a0`, `%a1`, ….
    pub code: String,
    /// The intrinsics for which the code calls other functions ([`Intrinsic::stand_in`]).
    pub intrinsics: Vec<Intrinsic>,
    /// Whether the code makes its thread wait for others, apart from its intrinsics.
    pub collective: bool,
    /// Whether the code uses the shared memory that CUDA reserves for its own libraries.
    pub reserved: bool,
}

/// Constraints that allow the same registers, the width of these in bits, and the instruction that copies them.
const CLASSES: [(&[&str], u32, &str); 5] = [
    (&["b"], 1, "mov.pred"),
    (&["c", "h"], 16, "mov.b16"),
    (&["r", "f"], 32, "mov.b32"),
    (&["l", "d"], 64, "mov.b64"),
    (&["q"], 128, "mov.b128"),
];

/// Prefix of the assembly's operands in PTX; the number follows.
pub const OPERAND: &str = "%asm_";

/// Translates inline assembly with LLVM's constraints; `result` and `parameters` are LLVM's types.
///
/// # Errors
/// A statement has no translation.
pub fn inline(text: &str, constraints: &str, result: &str, parameters: &[String]) -> Result<Inline, Untranslated> {
    let source = format!("{};}}", with_named_operands(text));
    translate(&source, constraints, result, parameters).map_err(|place| {
        let statement = match place {
            Some(at) => &source[at..][..source[at..].find(';').unwrap_or(source.len() - at)],
            None => &source[..source.len() - 2],
        };
        Untranslated::of(statement)
    })
}

/// Assembly without a translation. The message is the construct's name for the user.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Untranslated {
    #[error("texture `{0}`")]
    Texture(String),
    #[error("surface `{0}`")]
    Surface(String),
    #[error("tensor cores: `{0}`")]
    TensorCores(String),
    #[error("inline PTX `{0}`")]
    Other(String),
}

impl Untranslated {
    pub fn of(statement: &str) -> Self {
        let words = statement.trim_end().trim_end_matches(';').split_whitespace();
        let text = words.collect::<Vec<_>>().join(" ").replace(OPERAND, "$");
        match text.split('.').next().unwrap_or_default() {
            "tex" | "tld4" | "txq" => Self::Texture(text),
            "suld" | "sust" | "sured" | "suq" => Self::Surface(text),
            "wmma" | "mma" | "wgmma" | "ldmatrix" | "stmatrix" | "tcgen05" => Self::TensorCores(text),
            _ => Self::Other(text),
        }
    }
}

/// Converts LLVM's assembly text, in which `$0` and `${0:x}` are operands and `$$` a dollar sign, to PTX.
pub fn with_named_operands(text: &str) -> String {
    let mut named = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('$') {
        named.push_str(before);
        rest = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((inner, after)) => {
                named.push_str(OPERAND);
                named.push_str(inner.split(':').next().unwrap_or(inner));
                after
            }
            None if after.starts_with(|c: char| c.is_ascii_digit()) => {
                named.push_str(OPERAND);
                after
            }
            None => {
                named.push('$');
                after.strip_prefix('$').unwrap_or(after)
            }
        };
    }
    named + rest
}

/// # Errors
/// The start of the statement without a translation; `None` for the whole text.
fn translate(source: &str, constraints: &str, result: &str, parameters: &[String]) -> Result<Inline, Option<usize>> {
    let names: Vec<String> = (0..constraints.split(',').count()).map(|index| format!("{OPERAND}{index}")).collect();
    let mut binding = Binding::of(constraints, &names, result, parameters).ok_or(None)?;
    let mut parser = Parser::new(source);
    let body = parser.body().ok().filter(|_| parser.token == Token::End);
    let at = parser.lexer.place().min(source.len() - 2);
    let begin = source[..at].rfind(';').map_or(0, |end| end + 1);
    binding.statements.extend(body.ok_or(Some(begin))?);
    let place = |text: &str| Some(text.as_ptr() as usize - source.as_ptr() as usize);
    let known = |statement: &Statement<'_>| match statement {
        Statement::Open | Statement::Close | Statement::Registers { .. } | Statement::Instruction(_) => None,
        Statement::Label { name, .. } => Some(place(name)),
        _ => Some(None),
    };
    if let Some(unknown) = binding.statements.iter().find_map(known) {
        return Err(unknown);
    }
    let function = Function { signature: binding.signature, ..Function::default() };
    let module = Module::default();
    let line_of = |line: u32| source.split('\n').take(line as usize - 1).map(|line| line.len() + 1).sum::<usize>();
    let body = resolve(&function, &binding.statements, &module, &Names::default(), &mut Vec::new(), 0)
        .map_err(|error| Some(line_of(error.line)))?;
    let results = Results { whole: result.to_owned(), outputs: binding.outputs };
    let mut context = Context::new(Target::Cpu(results), &module);
    let emitter = Emitter::new(&mut context, &function, &body, Registers::bits(&body), vec![None; parameters.len()]);
    let written = emitter.write();
    let (code, _) = written.map_err(|_| context.refused.and_then(place))?;
    Ok(Inline {
        code: format!("entry:\n{}{code}", binding.prologue),
        intrinsics: context.intrinsics.into_iter().collect(),
        collective: context.collective,
        reserved: context.reserved,
    })
}

/// The operands of the assembly as registers that a function takes and returns.
#[derive(Default)]
struct Binding<'a> {
    signature: Signature<'a>,
    /// Converts the parameters to bits.
    prologue: String,
    /// Initialises outputs with the inputs tied to them.
    statements: Vec<Statement<'a>>,
    /// LLVM's types.
    outputs: Vec<String>,
}

impl<'a> Binding<'a> {
    fn of(constraints: &str, names: &'a [String], result: &str, parameters: &[String]) -> Option<Self> {
        let mut binding = Self::default();
        let results = result_types(result);
        let constraints = constraints.split(',').filter(|it| !it.is_empty() && !it.starts_with('~'));
        for (constraint, name) in constraints.zip(names) {
            if let Some(class) = constraint.strip_prefix('=') {
                let ty = results.get(binding.outputs.len())?;
                bits_of_type(ty)?;
                let class = class.trim_start_matches('&');
                let (_, bits, _) = *CLASSES.iter().find(|(classes, ..)| classes.contains(&class))?;
                binding.signature.returns.push(register(name, bits));
                binding.outputs.push(ty.clone());
                continue;
            }
            let index = binding.signature.params.len();
            let Some(ty) = parameters.get(index) else { continue };
            let own = bits_of_type(ty)?;
            let cast = if ty.starts_with("ptr") { "ptrtoint" } else { "bitcast" };
            binding.prologue.push_str(&format!("  %P{index} = {cast} {ty} %a{index} to i{own}\n"));
            binding.signature.params.push(register(name, own));
            if let Ok(tied) = constraint.parse::<usize>() {
                let output = binding.signature.returns.get(tied)?;
                let (.., text) = *CLASSES.iter().find(|(_, bits, _)| *bits == output.scalar.bits)?;
                let operands = vec![Operand::Name(output.name), Operand::Name(name)];
                let instruction = Instruction { guard: None, text, operands, line: 1, location: None };
                binding.statements.push(Statement::Instruction(instruction));
            }
        }
        Some(binding)
    }
}

fn register(name: &str, bits: u32) -> Param<'_> {
    let kind = if bits == 1 { Kind::Predicate } else { Kind::Bits };
    Param { in_register: true, align: None, scalar: Scalar { kind, bits }, bytes: None, pointer: false, name }
}

/// Width in bits of an LLVM type, if an operand may have it.
fn bits_of_type(ty: &str) -> Option<u32> {
    match ty {
        "i1" => Some(1),
        "i8" => Some(8),
        "i16" | "half" | "bfloat" => Some(16),
        "i32" | "float" | "<2 x half>" | "<2 x bfloat>" => Some(32),
        "i64" | "double" => Some(64),
        "i128" => Some(128),
        _ => ty.starts_with("ptr").then_some(64),
    }
}

/// The types of `{ a, b }`, or a single type.
fn result_types(result: &str) -> Vec<String> {
    match result.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(inner) => inner.split(',').map(|ty| ty.trim().to_owned()).collect(),
        None if result == "void" => Vec::new(),
        None => vec![result.to_owned()],
    }
}

impl Emitter<'_, '_> {
    /// Returns the outputs as LLVM's types.
    pub fn give(&mut self, results: &Results) {
        let mut values = Vec::new();
        for (register, ty) in self.body.return_registers.clone().into_iter().flatten().zip(&results.outputs) {
            let bits = bits_of_type(ty).unwrap_or(32);
            let value = self.read_register(register, super::registers::Ty::Int(bits));
            values.push(match ty.as_str() {
                ty if ty.starts_with("ptr") => self.value(format_args!("inttoptr i64 {value} to {ty}")),
                ty if ty.starts_with('i') => value,
                ty => self.value(format_args!("bitcast i{bits} {value} to {ty}")),
            });
        }
        let whole = &results.whole;
        let value = match &values[..] {
            [] => return self.end_with(|this| this.line("ret void")),
            [value] if !whole.starts_with('{') => value.clone(),
            values => {
                let mut all = "poison".to_owned();
                for (index, (value, ty)) in values.iter().zip(&results.outputs).enumerate() {
                    all = self.value(format_args!("insertvalue {whole} {all}, {ty} {value}, {index}"));
                }
                all
            }
        };
        self.end_with(|this| this.line(format_args!("ret {whole} {value}")));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, constraints: &str, result: &str, parameters: &[&str]) -> Result<String, Untranslated> {
        let parameters: Vec<String> = parameters.iter().map(|ty| (*ty).to_owned()).collect();
        inline(text, constraints, result, &parameters).map(|inline| inline.code)
    }

    #[test]
    fn operands_and_names_may_have_dollar_signs() {
        let text = ".reg .b32 a$$b; add.u32 a$$b, $1, ${2:x}; mov.b32 $0, a$$b";
        let code = code(text, "=r,f,0,~{memory}", "i32", &["float", "i32"]).unwrap();
        assert!(code.contains("bitcast float %a0 to i32") && code.contains("add i32"), "{code}");
    }

    #[test]
    fn what_has_no_translation_is_named() {
        let other = |text: &str| Untranslated::Other(text.into());
        for (text, expected) in [
            ("add.u32 $0, $1, 1; frob.u32  $0, 1;", other("frob.u32 $0, 1")),
            ("L: bra L;", other("L: bra L")),
            ("tex.9d.x {$0}, [$1];", Untranslated::Texture("tex.9d.x {$0}, [$1]".into())),
            ("mov.u32 $0, nothing;", other("mov.u32 $0, nothing")),
            ("mov.u32 $0, ];", other("mov.u32 $0, ]")),
        ] {
            assert_eq!(code(text, "=r,r", "i32", &["i32"]), Err(expected));
        }
        assert_eq!(code("mov.u32 $0, $1;", "=m,r", "i32", &["i32"]), Err(other("mov.u32 $0, $1")));
    }
}
