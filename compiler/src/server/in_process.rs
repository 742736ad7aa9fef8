//! Builds in one process without a fork, for profilers and debuggers.
//!
//! The builds are not isolated: a crash of the compiler ends the process.

use std::os::unix::net::UnixStream;

use mneme_builds::protocol::{BuildOrder, BuildReply};
use mneme_builds::{BuildTexts, NotBuilt};
use mneme_sandbox::frame;

use super::compile::compile;
use super::inputs::{Build, Inputs};

/// Makes the ordered builds until the stream ends.
///
/// # Errors
/// If the stream fails.
pub fn serve(inputs: &Inputs, mut client: UnixStream) -> std::io::Result<()> {
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
