//! The name of what makes machine code.
//!
//! A process of its own finds it out: an assembler's library may load the driver.

use std::time::Duration;

use mneme_builds::Target;
use mneme_builds::protocol::Question;

use crate::context::ReplayContext;

/// A library is loaded in seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// What makes machine code here; "" where the process that knows does not tell.
pub fn name(context: &ReplayContext) -> String {
    // The name depends on the kind alone.
    let target = context.devices[0].expected_target(&context.recorded.kernel.ours);
    let target = target.unwrap_or_else(|| Target::gpu(""));
    context.program.ask(Question::Maker { target }, &[], LIMIT).map_or_else(|_| String::new(), |(name, _)| name)
}
