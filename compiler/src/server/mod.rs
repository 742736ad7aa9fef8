//! The server of `mneme-build-NN`, which builds by a plan, or answers a question.
//!
//! Builders are forked by a fork server, which has LLVM and the assembler loaded and warm; a crash in LLVM is then one
//! configuration's result. `mneme_builds::protocol` is how it is spoken with.

mod assemblies;
mod builder;
mod compile;
mod fork_server;
mod in_process;
mod inputs;
mod original;
mod preload;
mod questions;

use std::io;
use std::os::unix::net::UnixStream;

use mneme_builds::process::{child, frame};
use mneme_builds::protocol::{BuilderGreeting, Greeted, Opening};

use self::inputs::Inputs;

/// Serves the one at the other end of `client` until that one is content or gone. `prepared` gets LLVM and the
/// assembler warm first, and lets this process read the recorded IR itself.
///
/// # Errors
/// The stream, which may be cut off, or not say what is understood; or the system.
pub fn run(mut client: UnixStream, prepared: bool) -> io::Result<()> {
    let greeting = BuilderGreeting::of(crate::llvm_version());
    frame::write(&mut client, &Greeted::Ok(greeting), &[])?;
    if prepared {
        crate::warm_up();
    }
    let Some((opening, blob)) = frame::read::<Opening>(&mut client)? else { return Ok(()) };
    match opening {
        Opening::Question(question) => questions::answer(client, question, &blob),
        Opening::Plan(plan, parts) => {
            let (modules, replacement) = parts.cut(&blob).map_err(io::Error::other)?;
            drop(blob);
            let inputs = Inputs { plan: *plan, modules, replacement };
            if inputs.plan.in_process {
                return in_process::serve(&inputs, client);
            }
            child::name(c"mneme-forksrv");
            fork_server::serve(&inputs, client, prepared)
        }
    }
}
