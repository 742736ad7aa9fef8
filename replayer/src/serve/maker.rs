//! The name of what makes machine code.
//!
//! A process of its own finds it out: an assembler's library may load the driver.

use std::time::Duration;

use mneme_builds::Target;
use mneme_builds::protocol::Question;
use mneme_core::exit;

use crate::context::ReplayContext;
use crate::error::Fatal;

/// A library is loaded in seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// What makes machine code here.
///
/// # Errors
/// The process that knows ends without telling. A session is not begun then: times are only compared with those of the
/// same maker, and a name left out would be another one.
pub fn name(context: &ReplayContext) -> Result<String, Fatal> {
    // The name depends on the kind alone.
    let target = context.devices[0].expected_target(&context.recorded.kernel.ours);
    let target = target.unwrap_or_else(|| Target::gpu(""));
    let program = context.programs.of(context.llvm)?;
    match program.ask(Question::Maker { target }, &[], LIMIT) {
        Ok((name, _)) => Ok(name),
        Err(error) => {
            Err(Fatal::new(exit::INTERNAL, format!("what makes machine code here cannot be found out: {error}")))
        }
    }
}
