//! `libmneme_cpu.so`: the CUDA driver and runtime ABI in software.
//!
//! A program (or the replayer) finds this library where it expects the vendor's, so the recorder's hooks, the arena and
//! the replayer run over it unchanged. `docs/how-it-works/cpu-device.md` is the contract with the compiler's lowering.
//! The rooms:
//!
//! - `driver`: the exported `cu*` functions; in it `image`, from a fat binary or code image to a CPU code object;
//! - `runtime`: the exported `cuda*` functions, which reach the driver only through `dlsym`, as NVIDIA's runtime does;
//! - `loader`: places a code object in memory;
//! - `execution`: runs the blocks and threads of a grid.

// The runtime's exports are one macro that takes an entry at a time.
#![recursion_limit = "256"]

mod abi;
mod driver;
mod execution;
mod handles;
mod loader;
mod report;
mod runtime;
mod status;
#[cfg(test)]
mod testing;
