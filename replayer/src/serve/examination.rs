//! Examines a kernel and pipelines, before anything is built.
//!
//! A separate process reads the IR, because LLVM may crash on it. If that fails, the answer is unknown; builds then
//! report the problem.

use std::fmt::Display;
use std::time::Duration;

use mneme_builds::builder::AskError;
use mneme_builds::protocol::{CodeParts, Question};
use mneme_builds::{Refusal, Replacement, Target};
use mneme_model::protocol::Examination;

use crate::context::ReplayContext;

/// Reading the IR of a large program takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// The register with the grid's dimensions in PTX.
const GRID: &str = "%nctaid";

pub fn of(context: &ReplayContext, passes: Vec<String>) -> Examination {
    let nothing = Examination { problems: vec![None; passes.len()], reads_grid: None };
    let details = &context.recorded.kernel.ours;
    let target = context.devices[0].expected_target(details).unwrap_or_else(|| Target::gpu(&details.ir_arch));
    let (parts, blob) = CodeParts::join(&context.modules, None);
    let kernel = context.recorded.kernel.kernel_name.clone();
    let question = Question::Examine { kernel, parts, target, passes };
    let program = context.programs.of(context.llvm).map_err(AskError::from);
    let answer = program.and_then(|program| program.ask::<Result<Examination, Refusal>>(question, &blob, LIMIT));
    let unknown = |error: &dyn Display| tracing::warn!("cannot examine the kernel: {error}");
    let found = match answer {
        Ok((found, _)) => found.inspect_err(|error| unknown(error)).unwrap_or(nothing),
        Err(error) => {
            unknown(&error);
            nothing
        }
    };
    match &context.replacement {
        // Recorded PTX consists of the kernel and everything that it reaches.
        Some(Replacement::Ptx(text)) => Examination { reads_grid: Some(text.contains(GRID)), ..found },
        _ => found,
    }
}
