//! `libmneme_rec.so`: records the GPU kernels of an unmodified application.
//!
//! The application is started with it in `LD_PRELOAD`.
//!
//! The CUDA *driver* API is the one layer that every way into the GPU passes: static and shared cudart, PyTorch,
//! Triton, Fortran. There are three ways to it, and each is hooked: plain symbols (programs that link libcuda), `dlsym`
//! ([`hooks::dlsym`], what cudart does), and `cuGetProcAddress`. No symbol of the CUDA *runtime* is exported: ours
//! would win over the versioned one of a cudart that was loaded `RTLD_LOCAL`, with no next one to call.
//!
//! A call goes: exported function ([`hooks`], one declarative `table`) → handler (in [`memory`], [`kernels`],
//! [`launches`], [`lifetimes`], [`driver`]) → the vendor's function ([`driver`]). Each folder uses those listed
//! before it:
//!
//! | folder | what it holds |
//! | --- | --- |
//! | [`process`] | the process that we are loaded into: settings, messages, the linker |
//! | [`driver`] | the vendor's functions; its contexts, streams and captures; the [gate](driver::gate) before it |
//! | [`memory`] | the arena, every live allocation, annotations |
//! | [`kernels`] | from a handle to the code that is recorded; what has been done about each kernel |
//! | [`apply`] | tuned code in the place of kernels |
//! | [`snapshot`] | device memory into the chunk store |
//! | [`recorder`] | which launches are recorded, and how; the profile |
//! | [`launches`] | everything that starts kernels |
//! | [`lifetimes`] | forks, ends of contexts and of the process |
//! | [`hooks`] | the exported functions, `dlsym`, `cuGetProcAddress` |
//!
//! Invariants:
//!
//! - What the application sees is what the vendor's library does; a failure of ours is a warning, never a changed
//!   result.
//! - Nothing of ours unwinds into the application, and our own calls bypass the hooks ([`process::reentrancy`]).
//! - No lock of ours but the [gate](driver::gate) is held across a call into the vendor's library.

pub mod apply;
pub mod driver;
pub mod hooks;
pub mod kernels;
pub mod launches;
pub mod lifetimes;
pub mod memory;
pub mod process;
pub mod recorder;
pub mod snapshot;
mod table;

#[global_allocator]
static ALLOCATOR: process::reserve::WithReserve = process::reserve::WithReserve::new();

/// Runs when the dynamic linker has loaded us. Constructors of other libraries may have called hooks before: everything
/// but what must happen before `main` is initialised at its first use.
#[ctor::ctor(unsafe)]
fn start() {
    let _ = std::panic::catch_unwind(|| {
        mneme_core::environment::remember();
        process::log::remember_standard_error();
        process::settings::remember_start_folder();
        recorder::note_start();
        recorder::hold_summary();
        process::device_choice::restart_on_the_cpu_device_if_needed();
        lifetimes::forks::register();
        lifetimes::exits::register();
        lifetimes::jumps::register();
        lifetimes::departures::register();
        recorder::signals::register();
    });
}
