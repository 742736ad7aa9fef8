//! The targets that code is generated for, and the forms of their code.

use serde::{Deserialize, Serialize};

/// What to generate code for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Target {
    /// An NVIDIA GPU; `arch` is the *device's* architecture ("sm_90"), which may be newer than the IR's.
    Nvptx { arch: String },
    /// The CPU device; pipelines run as for the NVIDIA GPU `arch`.
    Cpu { arch: String },
}

/// The form of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// Machine code of an NVIDIA GPU, an ELF object.
    Cubin,
    /// PTX text, NUL-terminated, for the driver to compile: no assembler was found on this machine.
    Ptx,
    /// An object for the CPU device, see docs/how-it-works/cpu-device.md.
    CpuObject,
}
