//! Images of code: ELF objects, CPU code objects, and the LLVM IR that travels with them.
//!
//! Everything here reads untrusted bytes: it must not panic and must not allocate more than a small multiple of its input.

pub mod cpu_object;
pub mod elf;
pub mod ir_section;
