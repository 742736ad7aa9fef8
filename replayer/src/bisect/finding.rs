//! The findings of a bisection, as data.

use std::path::PathBuf;

use mneme_builds::progress::Invocation;
use mneme_model::observation::LastWrite;
use mneme_model::result::Mismatch;
use mneme_sandbox::interruption::on_interruption_say;
use serde::Serialize;

use super::experiments::Experiment;
use super::rate::FailureRate;
use crate::cli::FailureKind;

/// Whose fault it is. The exit statuses are in docs/reference/exit-status.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing fails.
    Good,
    /// A pass over IR.
    IrPass,
    /// LLVM's code generation.
    BackEnd,
    /// nvPTXCompiler or ptxas.
    Assembler,
    /// Undefined behaviour or a race in the kernel itself.
    Kernel,
    /// A field of the configuration that allows what the kernel does not bear.
    Configuration,
    /// The reference fails too, or nothing could be built.
    Unclear,
}

impl Verdict {
    /// As `git bisect run` takes it.
    pub fn exit_status(self) -> i32 {
        match self {
            Self::Good => 0,
            Self::IrPass => 1,
            Self::BackEnd => 2,
            Self::Assembler => 3,
            Self::Kernel => 4,
            Self::Configuration => 5,
            Self::Unclear => 125,
        }
    }

    pub fn description(self) -> &'static str {
        match self {
            Self::Good => "nothing fails",
            Self::IrPass => "an IR pass",
            Self::BackEnd => "LLVM's back end",
            Self::Assembler => "the assembler",
            Self::Kernel => "undefined behaviour or a race in the kernel itself",
            Self::Configuration => "a field of the configuration",
            Self::Unclear => "it cannot be judged",
        }
    }
}

/// The pass at which good turns into bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Culprit {
    #[serde(flatten)]
    pub pass: Invocation,
    /// Passes in all that may be left out; `None` where the build ends at this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The first number that may be it as well, where those between could not be judged.
    pub from: u64,
}

impl std::fmt::Display for Culprit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Invocation { number, pass, unit } = &self.pass;
        let of = self.of.map_or_else(String::new, |of| format!(" of {of}"));
        match *number {
            0 => write!(f, "{pass} on {unit}, which LLVM does not leave out"),
            number if self.from < number => {
                write!(f, "one of the passes {} to {number}{of}, the last of them {pass} on {unit}", self.from)
            }
            number => write!(f, "pass {number}{of}: {pass} on {unit}"),
        }
    }
}

/// A level of a stage that fails, the levels below it do not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingLevel {
    /// The configuration's field: `codegen_opt` or `ptx_opt`.
    pub field: &'static str,
    pub good: u8,
    pub bad: u8,
}

/// Everything that is known at the end.
#[derive(Clone, Debug, Serialize)]
pub struct BisectFinding {
    pub verdict: Verdict,
    pub failing: FailureKind,
    /// One sentence.
    pub summary: String,
    pub pipeline: String,
    /// What the failing configuration was compared with.
    pub reference: String,
    /// The pass of the pipeline that makes the difference, or exposes it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<Culprit>,
    /// The same of code generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codegen_pass: Option<Culprit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<FailingLevel>,
    /// The build of which code generation or the assembler gets wrong what the pipeline makes.
    #[serde(skip)]
    pub given: Option<Experiment>,
    /// The field of the configuration without which nothing fails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    /// Assumptions about the kernel without which nothing fails, and of which nobody knows whether it breaks them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<&'static str>,
    /// How often the failing configuration fails, if not every time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<FailureRate>,
    /// What speaks for the verdict beyond the search, a sentence each.
    pub evidence: Vec<String>,
    /// Reference and failing figure, ns or registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<(f64, f64)>,
    /// Why the failing configuration fails.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// The first buffer that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<Mismatch>,
    /// Who wrote its first differing element last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<LastWrite>,
    /// What was written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
    pub effort: Effort,
}

impl BisectFinding {
    /// Has an interruption tell what was found until now, and `files`, what became of the files.
    pub fn keep_when_interrupted(&self, files: &str) {
        on_interruption_say(&format!(
            "mneme-bisect: interrupted, when this was found: {}: {}; {files}",
            self.verdict.description(),
            self.summary
        ));
    }

    /// Before anything is known.
    pub fn unclear(failing: FailureKind, pipeline: &str, reference: &str) -> Self {
        Self {
            verdict: Verdict::Unclear,
            failing,
            summary: String::new(),
            pipeline: pipeline.to_owned(),
            reference: reference.to_owned(),
            pass: None,
            codegen_pass: None,
            level: None,
            given: None,
            field: None,
            assumptions: Vec::new(),
            failure_rate: None,
            evidence: Vec::new(),
            figures: None,
            error: String::new(),
            mismatch: None,
            writer: None,
            files: None,
            effort: Effort::default(),
        }
    }
}

/// Files about the culprit.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Files {
    pub folder: PathBuf,
    /// The function that the pass changed.
    pub function: String,
    /// Lines that the pass removed and added in it.
    pub removed: usize,
    pub added: usize,
    /// The pass alone, as `opt -passes` takes it; `None` where no such text gives the same function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt: Option<String>,
    /// Instructions of the reproducer before and after it was made smaller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<(u64, u64)>,
    /// The difference, and the file that has it.
    #[serde(skip)]
    pub diff: String,
    #[serde(skip)]
    pub diff_file: &'static str,
}

#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Effort {
    pub builds: u64,
    pub replays: u64,
    pub seconds: f64,
    /// Until the culprit was known.
    pub search_seconds: f64,
}
