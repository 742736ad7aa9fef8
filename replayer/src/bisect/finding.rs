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

/// The part at fault. The exit statuses are in docs/reference/exit-status.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing fails.
    Good,
    /// An IR pass.
    IrPass,
    /// LLVM's code generation.
    BackEnd,
    /// nvPTXCompiler or ptxas.
    Assembler,
    /// Undefined behaviour or a race in the kernel.
    Kernel,
    /// A field of the configuration that allows the compiler more than the kernel tolerates.
    Configuration,
    /// The reference fails too, or no build succeeded.
    Unclear,
}

impl Verdict {
    /// The status that `git bisect run` expects.
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

/// The first pass that turns good into bad.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Culprit {
    #[serde(flatten)]
    pub pass: Invocation,
    /// The number of passes that could be left out. `None` if the build ends at this pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub of: Option<u64>,
    /// The first pass that may be the culprit. Lower than the culprit's number if passes between them could not be
    /// judged.
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

/// The lowest level of a stage that fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailingLevel {
    /// The configuration's field: `codegen_opt` or `ptx_opt`.
    pub field: &'static str,
    pub good: u8,
    pub bad: u8,
}

/// The result of a bisection.
#[derive(Clone, Debug, Serialize)]
pub struct BisectFinding {
    pub verdict: Verdict,
    pub failing: FailureKind,
    /// One sentence.
    pub summary: String,
    pub pipeline: String,
    /// The configuration that the failing one was compared with.
    pub reference: String,
    /// The pipeline pass that causes or exposes the failure.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pass: Option<Culprit>,
    /// The same for a pass of code generation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codegen_pass: Option<Culprit>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub level: Option<FailingLevel>,
    /// The build whose optimised IR code generation or the assembler gets wrong.
    #[serde(skip)]
    pub given: Option<Experiment>,
    /// The field of the configuration that the failure needs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub field: Option<&'static str>,
    /// Assumptions about the kernel that the failure needs. It is unknown whether the kernel breaks them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub assumptions: Vec<&'static str>,
    /// How often the failing configuration fails, unless it fails every time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<FailureRate>,
    /// Further evidence for the verdict, one sentence each.
    pub evidence: Vec<String>,
    /// The figures of the reference and of the failing configuration, in ns or registers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub figures: Option<(f64, f64)>,
    /// Why the failing configuration fails.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// How to find invalid accesses, if it fails because of some; otherwise empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
    /// The first buffer that differs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mismatch: Option<Mismatch>,
    /// The last writer of its first differing element.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writer: Option<LastWrite>,
    /// The written files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<Files>,
    pub effort: Effort,
}

impl BisectFinding {
    /// Makes an interruption report the finding so far, and `files`: the state of the files.
    pub fn keep_when_interrupted(&self, files: &str) {
        on_interruption_say(&format!(
            "mneme-bisect: interrupted, when this was found: {}: {}; {files}",
            self.verdict.description(),
            self.summary
        ));
    }

    /// A finding before the search.
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
            hint: String::new(),
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
    /// The pass alone, as `opt -passes` takes it. `None` if no such text gives the same function.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opt: Option<String>,
    /// Instructions of the reproducer before and after its reduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instructions: Option<(u64, u64)>,
    /// The difference, and the file that contains it.
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
    /// Time until the search found the culprit.
    pub search_seconds: f64,
}
