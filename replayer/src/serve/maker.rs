//! The name of the assembler that makes machine code.
//!
//! A separate process determines it, because an assembler's library may load the driver.

use std::time::Duration;

use mneme_builds::Target;
use mneme_builds::protocol::Question;
use mneme_system::exit;

use crate::context::ReplayContext;
use crate::error::Fatal;

/// Loading a library takes seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// The name of the assembler that makes machine code here.
///
/// # Errors
/// The process ends without an answer. The session then does not start: times are only comparable with those of the
/// same assembler, and an empty name would count as another one.
pub fn name(context: &ReplayContext) -> Result<String, Fatal> {
    // The name depends only on the kind of target.
    let target = context.devices[0].expected_target(&context.recorded.kernel.ours);
    let target = target.unwrap_or_else(|| Target::gpu(""));
    let program = context.programs.of(context.llvm)?;
    match program.ask(Question::Maker { target }, &[], LIMIT) {
        Ok((name, _)) => Ok(name),
        Err(error) => Err(Fatal::new(exit::INTERNAL, format!("cannot determine the assembler: {error}"))),
    }
}
