//! PTX: parsed once, and written as LLVM assembly for a GPU or for the CPU device, without LLVM.
//!
//! [`outline`] splits a module into its functions and variables. [`lift`] translates a whole module to LLVM IR for
//! NVPTX (see docs/how-it-works/lifting.md), and [`inline`] translates inline assembly to the code of a function for
//! the CPU device. Both use the same lexer, parser, emitter, and table of instructions.

mod assembly;
mod bits;
mod comparisons;
mod constants;
mod context;
mod control;
mod convert;
mod debug;
mod emitter;
mod error;
mod float;
mod fragment;
mod fusing;
mod image;
mod inline;
pub mod instructions;
mod integer;
mod lexer;
mod lifted;
mod matrix;
mod mbarrier;
mod memory;
mod module;
pub mod names;
pub mod outline;
mod parser;
mod passing;
mod program;
mod provenance;
mod quarter;
mod reader;
mod registers;
mod resolve;
mod selection;
mod special;
mod stores;
mod syntax;
mod video;
mod warp;

pub use context::Intrinsic;
pub use error::LiftError;
pub use fusing::unfused;
pub use inline::{Inline, Untranslated, inline};
pub use lifted::{FRAME, LIFTED, Lifted, Statistics};
pub use module::{CLUSTER, lift};
pub use program::lift_program;
pub use stores::{Store, stores};
pub use syntax::{Space, Type};
