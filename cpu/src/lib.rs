//! `libmneme_cpu.so`: the ABIs of the CUDA driver and runtime, and of HIP, in software.
//!
//! A program (or the replayer) finds this library in the place of the vendor's, so the recorder's hooks, the arena and
//! the replayer work with it unchanged. `docs/how-it-works/cpu-device.md` describes how the device behaves,
//! `docs/reference/cpu-code-objects.md` the contract with the compiler. The folders:
//!
//! - `driver`: the exported `cu*` functions; in it `image`, which finds or compiles the CPU code object of an image;
//! - `runtime`: the exported `cuda*` functions, which reach the driver only through `dlsym`, as NVIDIA's runtime does;
//! - `hip`: the exported `hip*` functions, over the same driver; code that both runtimes share is in `runtime`;
//! - `loader`: places a code object in memory;
//! - `execution`: runs the blocks and threads of a grid;
//! - `architecture`: code that depends on the processor of this machine.

// A macro processes the runtimes' exports one entry at a time.
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

/// Runs when the library is loaded, and remembers the environment of that moment.
#[ctor::ctor(unsafe)]
fn start() {
    let _ = std::panic::catch_unwind(mneme_system::environment::remember);
}
