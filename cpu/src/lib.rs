//! `libmneme_cpu.so`: the CUDA driver and runtime ABI, and HIP's, in software.
//!
//! A program (or the replayer) finds this library where it expects the vendor's, so the recorder's hooks, the arena and
//! the replayer run over it unchanged. `docs/how-it-works/cpu-device.md` is the contract with the compiler's lowering.
//! The folders:
//!
//! - `driver`: the exported `cu*` functions; in it `image`, from a fat binary or code image to a CPU code object;
//! - `runtime`: the exported `cuda*` functions, which reach the driver only through `dlsym`, as NVIDIA's runtime does;
//! - `hip`: the exported `hip*` functions, over the same driver; what both runtimes do is in `runtime`;
//! - `loader`: places a code object in memory;
//! - `execution`: runs the blocks and threads of a grid;
//! - `architecture`: what differs between the processors that all of this runs on.

// The runtimes' exports are one macro that takes an entry at a time.
#![recursion_limit = "512"]

mod abi;
mod architecture;
mod driver;
mod execution;
mod half;
mod handles;
mod hip;
mod loader;
mod original;
mod refusal;
mod release;
mod report;
mod runtime;
mod status;
#[cfg(test)]
mod testing;

/// Runs when the library is loaded: its settings are those of that moment.
#[ctor::ctor(unsafe)]
fn start() {
    let _ = std::panic::catch_unwind(mneme_core::environment::remember);
}
