//! `libmneme_rec.so` records the GPU kernels of an unmodified application.
//!
//! `mneme record` starts the application with this library in `LD_PRELOAD`.
//!
//! The recorder hooks the CUDA *driver* API, because every program reaches the GPU through it: static and shared
//! cudart, PyTorch, Triton, Fortran. Programs find the driver's functions in three ways, and each is hooked: plain
//! symbols (programs that link libcuda), `dlsym` ([`hooks::dlsym`], as cudart does), and `cuGetProcAddress`. The
//! library exports no symbol of the CUDA *runtime*: it would take the place of the versioned symbol of a cudart that
//! was loaded `RTLD_LOCAL`, which `RTLD_NEXT` does not find.
//!
//! A call goes from the exported function ([`hooks`], one declarative `table`) to a handler (in [`memory`],
//! [`kernels`], [`launches`], [`lifetimes`] or [`driver`]), and from there to the vendor's function ([`driver`]). Each
//! folder uses those listed before it:
//!
//! | folder | what it holds |
//! | --- | --- |
//! | [`process`] | the application's process: settings, messages, the linker |
//! | [`driver`] | the vendor's functions; its contexts, streams and captures; the [gate](driver::gate) before it |
//! | [`memory`] | the arena, every live allocation, annotations |
//! | [`kernels`] | from a handle to the code that is recorded; progress and counts of each kernel |
//! | [`apply`] | tuned code in the place of kernels |
//! | [`snapshot`] | device memory into the chunk store |
//! | [`recorder`] | which launches are recorded, and how; the profile |
//! | [`launches`] | everything that starts kernels |
//! | [`lifetimes`] | forks, ends of contexts and of the process |
//! | [`hooks`] | the exported functions, `dlsym`, `cuGetProcAddress` |
//!
//! Invariants:
//!
//! - The application sees what the vendor's library does. If the recorder fails, it warns and never changes a result.
//! - No panic unwinds into the application, and the recorder's own calls bypass the hooks ([`process::reentrancy`]).
//! - The [gate](driver::gate) is the only lock that the recorder holds across a call into the vendor's library.

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

/// Runs when the dynamic linker has loaded this library. Constructors of other libraries may have called hooks before,
/// so only what must happen before `main` is initialised here, and everything else at its first use.
#[ctor::ctor(unsafe)]
fn start() {
    let _ = std::panic::catch_unwind(|| {
        mneme_system::environment::remember();
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
