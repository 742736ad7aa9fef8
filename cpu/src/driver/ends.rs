//! The end of a context, and of everything that belongs to it.
//!
//! All functions first wait for the context's work.

use super::{arrays, context, event, lanes, memory, module, stream, textures};
use crate::status::StatusResult;

/// Destroys a created context.
pub fn destroy(context: usize) -> StatusResult {
    lanes::wait(&lanes::of_context(context))?;
    end_with(context::destroy(context)?)
}

/// Releases a primary context, which ends with its last user.
pub fn release_primary(ordinal: i32) -> StatusResult {
    if let (context, 1) = context::primary_of(ordinal)? {
        lanes::wait(&lanes::of_context(context))?;
    }
    end_with(context::release_primary(ordinal)?)
}

pub fn reset_primary(ordinal: i32) -> StatusResult {
    let (context, _) = context::primary_of(ordinal)?;
    lanes::wait(&lanes::of_context(context))?;
    end_with(context::reset_primary(ordinal)?)
}

/// Ends everything that belongs to a destroyed context; does nothing for 0.
fn end_with(context: usize) -> StatusResult {
    if context != 0 {
        textures::end_with(context);
        arrays::end_with(context);
        memory::end_with(context);
        module::end_with(context);
        stream::end_with(context);
        event::end_with(context);
    }
    Ok(())
}
