//! The recording of a launch: its memory, and what only its IR has.

pub mod decoder;
pub mod instance;
pub mod interface;
pub mod snapshot;
