//! The IR, PTX and logs that a build returns, and the choice among them.

use serde::{Deserialize, Serialize};

use crate::progress::Stage;

/// What a build returns besides its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The IR that the pipeline starts from.
    pub before: bool,
    /// The IR after it.
    pub after: bool,
    /// The instructions of an AMD GPU as text.
    pub isa: bool,
    /// What stands behind the pipeline's name.
    pub pipeline: bool,
    /// The last stage, [`Stage::Pipeline`] or [`Stage::CodeGeneration`]: the artifact has no image then.
    pub until: Option<Stage>,
}

/// A text that a build comes to on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BuildText {
    /// The IR that the pipeline starts from.
    IrBefore,
    /// The IR after it.
    Ir,
    Ptx,
    /// Instructions of an AMD GPU.
    Isa,
}

/// The texts that a build has come to, as far as they were asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BuildTexts {
    pub ir_before: Option<String>,
    pub ir: Option<String>,
    pub ptx: Option<String>,
    pub isa: Option<String>,
}

impl BuildTexts {
    pub fn add(&mut self, text: BuildText, contents: String) {
        *match text {
            BuildText::IrBefore => &mut self.ir_before,
            BuildText::Ir => &mut self.ir,
            BuildText::Ptx => &mut self.ptx,
            BuildText::Isa => &mut self.isa,
        } = Some(contents);
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        [&self.ir_before, &self.ir, &self.ptx, &self.isa].into_iter().flatten().map(String::len).sum()
    }
}
