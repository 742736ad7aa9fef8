//! Kernels: from the handle that is launched to the code that is recorded, and what has been done about each.

pub mod code;
pub mod handles;
pub mod images;
pub mod key;
pub mod loading;
mod native;
mod original;
pub mod profile;
pub mod progress;
pub mod recent;
pub mod request;
pub mod tally;
