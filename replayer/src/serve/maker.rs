//! The name of what makes machine code, found out in a forked process.
//!
//! An assembler's library may load the driver.

use std::fs::File;
use std::io::{Read, Write};
use std::time::Duration;

use mneme_compiler::Target;

use crate::context::ReplayContext;
use crate::context::settings::Isolation;
use crate::process::child::{Child, ChildStderr, ProcessEnd, pipe};

/// A library is loaded in seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// What makes machine code here; "" where the process that knows does not tell. The caller must have one thread only,
/// but where it is the one process for everything.
pub fn name(context: &ReplayContext) -> String {
    // The name depends on the kind alone.
    let target = context.devices[0].expected_target(&context.recorded.kernel.ours);
    let target = target.unwrap_or_else(|| Target::gpu(""));
    if context.isolation == Isolation::None {
        return mneme_compiler::maker(&target);
    }
    let Ok((reader, writer)) = pipe() else { return String::new() };
    let child = Child::start(ChildStderr::Kept, || {
        match File::from(writer).write_all(mneme_compiler::maker(&target).as_bytes()) {
            Ok(()) => mneme_core::exit::VERIFIED,
            Err(_) => mneme_core::exit::INTERNAL,
        }
    });
    let Ok(mut child) = child else { return String::new() };
    let mut name = String::new();
    let read = File::from(reader).read_to_string(&mut name);
    let complete = child.wait(LIMIT) == Some(ProcessEnd::Exited(mneme_core::exit::VERIFIED)) && read.is_ok();
    if complete { name } else { String::new() }
}
