//! The IR, PTX and logs that a build returns, and the selection of them.

use serde::{Deserialize, Serialize};

use crate::progress::Stage;

/// The outputs of a build besides its image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Keep {
    /// The IR that the pipeline starts from.
    pub before: bool,
    /// The IR after it.
    pub after: bool,
    /// The instructions of an AMD GPU as text.
    pub isa: bool,
    /// The expanded pipeline.
    pub pipeline: bool,
    /// The last stage, [`Stage::Pipeline`] or [`Stage::CodeGeneration`]; the artifact then lacks an image.
    pub until: Option<Stage>,
}

/// An intermediate text of a build.
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

/// The requested texts, as far as the build has produced them.
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
