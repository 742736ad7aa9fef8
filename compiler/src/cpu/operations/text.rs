//! A writer of a function's body in LLVM assembly.

use std::fmt::{Display, Write};

use mneme_ptx::{Inline, Intrinsic};

/// The body of a function under construction. Arguments are `%a0`, `%a1`, …; results get fresh names.
#[derive(Default)]
pub struct FunctionBody {
    text: String,
    /// The text before the body: allocations in the frame.
    frame: String,
    next: usize,
    /// Whether the function makes its thread wait for others.
    pub collective: bool,
    /// Whether it uses the shared memory that CUDA reserves for its libraries.
    pub reserved: bool,
    /// Intrinsics that it calls through functions that replace them.
    pub intrinsics: Vec<Intrinsic>,
}

impl From<Inline> for FunctionBody {
    fn from(inline: Inline) -> Self {
        let Inline { code, intrinsics, collective, reserved } = inline;
        Self { text: code, collective, reserved, intrinsics, ..Self::default() }
    }
}

/// The translation of a function that a device module declares.
pub enum Meaning {
    /// LLVM supports it on every target, or the C library has it.
    Native,
    /// Its definition for the CPU.
    Defined(FunctionBody),
    /// Unsupported on the CPU device. The text names the construct for the user.
    Unsupported(String),
}

/// Inline assembly without a meaning on the CPU device. The message is its name for the user.
#[derive(Debug, thiserror::Error)]
pub enum Untranslated {
    #[error(transparent)]
    Ptx(#[from] mneme_ptx::Untranslated),
    #[error("inline assembly `{0}`")]
    Amd(String),
}

impl FunctionBody {
    /// Adds an instruction with a result, and returns the result's name.
    pub fn value(&mut self, instruction: impl Display) -> String {
        let name = format!("%t{}", self.next);
        self.next += 1;
        let _ = writeln!(self.text, "  {name} = {instruction}");
        name
    }

    /// Adds an allocation in the function's frame, and returns its address.
    pub fn place(&mut self, ty: impl Display) -> String {
        let name = format!("%t{}", self.next);
        self.next += 1;
        let _ = writeln!(self.frame, "  {name} = alloca {ty}, align 16");
        name
    }

    /// Adds an instruction without a result, or a label.
    pub fn line(&mut self, instruction: impl Display) {
        let _ = writeln!(self.text, "  {instruction}");
    }

    pub fn ret(&mut self, ty: &str, value: impl Display) {
        if ty == "void" {
            self.line("ret void");
        } else {
            self.line(format_args!("ret {ty} {value}"));
        }
    }
}

/// The name and types of a function to define, in LLVM assembly.
pub struct FunctionSignature {
    pub name: String,
    pub result: String,
    pub parameters: Vec<String>,
}

impl FunctionSignature {
    /// The signature of the function that replaces an intrinsic in inline PTX.
    pub fn standing_in(intrinsic: &Intrinsic) -> Self {
        let Intrinsic { result, parameters, .. } = intrinsic.clone();
        Self { name: intrinsic.stand_in(), result, parameters }
    }

    /// Returns `define … { body }`. The function is not internal yet, because it has to satisfy a declaration when it
    /// is linked.
    pub fn define(&self, body: &FunctionBody) -> String {
        let mut parameters = String::new();
        for (i, ty) in self.parameters.iter().enumerate() {
            let _ = write!(parameters, "{}{ty} %a{i}", if i == 0 { "" } else { ", " });
        }
        format!(
            "define {} @\"{}\"({parameters}) alwaysinline nounwind {{\n{}{}}}\n",
            self.result, self.name, body.frame, body.text
        )
    }
}
