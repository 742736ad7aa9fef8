//! The server of `mneme-build-NN`, which makes builds by a plan or answers a question.
//!
//! A fork server, which has loaded and warmed up LLVM and the assembler, forks the builders, so a crash in LLVM is the
//! result of one configuration. The protocol is in `mneme_builds::protocol`.

mod assemblies;
mod builder;
mod compile;
mod fork_server;
mod inputs;
mod original;
mod preload;
mod questions;

use std::io;
use std::os::unix::net::UnixStream;

use mneme_builds::protocol::{BuildOrder, BuildReply, BuilderGreeting, Greeted, Opening};
use mneme_builds::{BuildTexts, NotBuilt};
use mneme_sandbox::{child, frame};

use self::compile::compile;
use self::inputs::{Build, Inputs};

/// Serves the client at the other end of the stream until it ends. `prepared` first warms up LLVM and the assembler,
/// and lets this process read the recorded IR itself.
///
/// # Errors
/// If the stream is cut off or carries an unknown message, or if the system fails.
pub fn run(mut client: UnixStream, prepared: bool) -> io::Result<()> {
    let greeting = BuilderGreeting::of(crate::version::llvm_version());
    frame::write(&mut client, &Greeted::Ok(greeting), &[])?;
    if prepared {
        crate::warm::up();
    }
    let Some((opening, blob)) = frame::read::<Opening>(&mut client)? else { return Ok(()) };
    match opening {
        Opening::Question(question) => questions::answer(client, question, &blob),
        Opening::Plan(plan, parts) => {
            let (modules, replacement) = parts.cut(&blob).map_err(io::Error::other)?;
            drop(blob);
            let inputs = Inputs { plan: *plan, modules, replacement };
            if inputs.plan.in_process {
                return in_process(&inputs, client);
            }
            child::name(c"mneme-forksrv");
            fork_server::serve(&inputs, client, prepared)
        }
    }
}

/// Makes the ordered builds in this process, for profilers and debuggers, until the stream ends. A crash of the compiler
/// ends the process.
///
/// # Errors
/// If the stream fails.
fn in_process(inputs: &Inputs, mut client: UnixStream) -> std::io::Result<()> {
    while let Some((order, _)) = frame::read::<BuildOrder>(&mut client)? {
        let mut texts = BuildTexts::default();
        let mut reader = |text, contents: &str| texts.add(text, contents.to_owned());
        let outcome = compile(&Build::new(inputs, &order.target, &order.spec), &mut |_| false, &mut reader);
        let (outcome, image) = match outcome {
            Ok((built, image)) => (Ok(built), image),
            Err(failed) => (Err(NotBuilt { texts: Box::new(texts), ..failed }), Vec::new()),
        };
        let assembled = outcome.is_ok();
        frame::write(&mut client, &BuildReply { number: order.number, outcome: Some(outcome), assembled }, &image)?;
    }
    Ok(())
}
