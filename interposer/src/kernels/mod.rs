//! Kernels: from the launched handle to the recorded code, and the progress of recording each.

pub mod code;
pub mod files;
pub mod function_settings;
pub mod handles;
pub mod images;
mod ir_unit;
pub mod kernel;
pub mod key;
pub mod known_instances;
mod last_read;
pub mod loaded_variables;
pub mod loading;
mod native;
pub mod origin;
mod original;
pub mod parameters;
pub mod profile;
pub mod progress;
pub mod recent;
pub mod refusal;
mod registered;
pub mod request;
pub mod setting;
pub mod tally;
