//! `libmneme_rec.so`: records the GPU kernels of an unmodified application that is started with it in `LD_PRELOAD`.
//!
//! The CUDA *driver* API is the one layer that every way into the GPU passes: static and shared cudart, PyTorch, Triton,
//! Fortran. Three doors lead to it, and each is ours: plain symbols (programs that link libcuda), `dlsym`
//! ([`linker`], what cudart does), and `cuGetProcAddress` ([`proc_address`]). No symbol of the CUDA *runtime* is
//! exported: ours would win over the versioned one of a cudart that was loaded `RTLD_LOCAL`, with no next one to call.
//!
//! A call goes: exported function ([`hooks`], one declarative table) → handler ([`memory`], [`code`], [`launches`]) →
//! the vendor's function ([`vendor`]). Invariants:
//!
//! - What the application sees is what the vendor's library does; a failure of ours is a warning, never a changed result.
//! - Nothing of ours unwinds into the application, and our own calls bypass the hooks ([`reentrancy`]).
//! - No lock of ours but the [`gate`] is held across a call into the vendor's library.

pub mod allocations;
pub mod annotations;
pub mod arena;
pub mod background;
pub mod buffers;
pub mod captures;
pub mod code;
pub mod contexts;
pub mod device_choice;
pub mod exits;
pub mod frees;
pub mod gate;
pub mod graphs;
pub mod hasher;
pub mod hooks;
pub mod images;
pub mod ir;
pub mod launches;
pub mod legacy;
pub mod linker;
pub mod log;
pub mod memory;
mod native;
pub mod output;
pub mod pageable;
pub mod pinned;
pub mod proc_address;
pub mod profile;
pub mod progress;
pub mod proteus;
pub mod recent;
pub mod recorder;
pub mod reentrancy;
pub mod settings;
pub mod snapshot;
pub mod summary;
pub mod tally;
pub mod timing;
pub mod vendor;

/// Runs when the dynamic linker has loaded us. Constructors of other libraries may have called hooks before: everything
/// but what must happen before `main` is initialised at its first use.
#[ctor::ctor(unsafe)]
fn start() {
    let _ = std::panic::catch_unwind(|| {
        settings::remember_start_folder();
        device_choice::restart_on_the_cpu_device_if_needed();
        gate::renew_in_children();
        exits::register();
    });
}
