//! Reasons why a kernel's code cannot be recorded.

use std::path::PathBuf;

/// The reason why a replay cannot run the code as the application does. The subject of a message is the kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodeRefusal {
    /// No source has its code. Its object may have had IR before it was changed.
    #[error("{lacks}: {}", changed.as_ref().map_or_else(|| "build with mneme-cc".into(), |object| format!("{} has changed since it was loaded", object.display())))]
    NoIr { lacks: &'static str, changed: Option<PathBuf> },
    #[error("several translation units define a private {0}, and the driver does not report which one the kernel uses")]
    Ambiguous(String),
    #[error("it uses texture or surface objects, which are not recorded with HIP")]
    Textures,
    #[error("it uses the texture or surface reference {0}")]
    TextureReference(String),
    #[error("it calls through pointers in memory (function pointers)")]
    CallsPointers,
    #[error(
        "it uses addresses of code (function pointers, or virtual functions of a class that is private to its file)"
    )]
    CodeAddresses,
    /// Says what it does: "allocates", "frees".
    #[error(
        "it {0} memory on the device (malloc, free, new, delete), whose heap is not recorded; allocate memory on the host \
         (cudaMalloc, hipMalloc) and pass it to the kernel"
    )]
    DeviceHeap(&'static str),
    #[error("it launches kernels itself (dynamic parallelism), and a replay runs a single kernel")]
    LaunchesKernels,
    #[error(
        "its variable {0} holds addresses in its module, which a replay without IR loads elsewhere; build with mneme-cc"
    )]
    HoldsAddresses(String),
    #[error("a variable of its module, {0}, is private to its file; build with mneme-cc")]
    PrivateVariable(String),
}
