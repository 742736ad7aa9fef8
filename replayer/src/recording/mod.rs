//! The recording of a launch: its memory, and the parts that only its IR contains.

pub mod decoder;
pub mod instance;
pub mod interface;
pub mod snapshot;
