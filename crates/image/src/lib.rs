//! Images of code, and the LLVM IR embedded in them.
//!
//! Images are ELF objects, fat binaries, machine code, PTX, offload bundles and CPU code objects. All code here reads
//! untrusted bytes: it must not panic, and must not allocate more than a small multiple of its input.

// These macros panic if the reader is gone; use `mneme_system::console` instead.
#![warn(clippy::print_stderr, clippy::print_stdout)]

pub mod bitcode;
pub mod bundle;
pub mod code_object;
pub mod cpu_object;
pub mod cubin;
pub mod elf;
pub mod embedded;
pub mod fatbin;
pub mod in_memory;
pub mod ir_inside;
pub mod ir_path;
pub mod ir_section;
pub mod stub;
pub mod sum;
pub mod symbol;
pub mod triton_cache;

pub use mneme_ptx::outline as ptx;
