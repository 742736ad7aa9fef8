//! The end of a context, and what ends with it.

use super::{arrays, event, memory, module, stream, textures};
use crate::status::StatusResult;

/// Ends what belongs to a context that is gone, 0 where none is.
pub fn end_with(context: usize) -> StatusResult {
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
