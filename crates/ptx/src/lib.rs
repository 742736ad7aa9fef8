//! PTX: read once, and written as LLVM assembly for a GPU or for the CPU device, without LLVM.
//!
//! [`outline`] splits a module into its functions and variables. [`lift`] makes LLVM IR for NVPTX of a whole module
//! (docs/how-it-works/lifting.md tells what becomes of what), and [`inline`] the code of a function for the CPU device
//! of inline assembly. Both use the same lexer, parser and emitter, and the same table of instructions.

mod assembly;
mod bits;
mod comparisons;
mod constants;
mod context;
mod control;
mod convert;
mod debug;
mod dominance;
mod emitter;
mod error;
mod float;
mod fragment;
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
mod packed;
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
pub use inline::{Inline, Untranslated, inline};
pub use lifted::{FRAME, LIFTED, Lifted, Statistics};
pub use module::{CLUSTER, lift};
pub use program::lift_program;
pub use stores::{Store, stores};
pub use syntax::Space;
