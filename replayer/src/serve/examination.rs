//! The examination of a kernel and of pipelines, before anything is built.
//!
//! A separate process reads the IR, as LLVM may crash on it. If that fails the answer is that nothing is known; builds
//! then report what is wrong.

use std::time::Duration;

use mneme_builds::protocol::{CodeParts, Question};
use mneme_builds::{Replacement, Target};
use mneme_core::protocol::Examination;

use crate::context::ReplayContext;

/// Reading the IR of a large program takes seconds.
const LIMIT: Duration = Duration::from_secs(60);

/// How the register is called in PTX that has the grid's dimensions.
const GRID: &str = "%nctaid";

pub fn of(context: &ReplayContext, passes: Vec<String>) -> Examination {
    let nothing = Examination { problems: vec![None; passes.len()], reads_grid: None };
    let details = &context.recorded.kernel.ours;
    let target = context.devices[0].expected_target(details).unwrap_or_else(|| Target::gpu(&details.ir_arch));
    let (parts, blob) = CodeParts::join(&context.modules, None);
    let kernel = context.recorded.kernel.kernel_name.clone();
    let question = Question::Examine { kernel, parts, target, passes };
    let asked = context.programs.of(context.llvm).map_err(|error| error.to_string());
    let answer = asked.and_then(|program| {
        let (found, _) = program.ask(question, &blob, LIMIT).map_err(|error| error.to_string())?;
        found
    });
    let found = answer.unwrap_or_else(|error: String| {
        tracing::warn!("the kernel cannot be examined: {error}");
        nothing
    });
    match &context.replacement {
        // Recorded PTX is that of the kernel and what it reaches.
        Some(Replacement::Ptx(text)) => Examination { reads_grid: Some(text.contains(GRID)), ..found },
        _ => found,
    }
}
