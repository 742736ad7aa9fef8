//! The table in section `.mneme.cpu` of a CPU code object (docs/cpu-device.md).

use serde::{Deserialize, Serialize};

pub const SECTION: &str = ".mneme.cpu";
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Table {
    pub version: u32,
    pub kernels: Vec<Kernel>,
    pub variables: Vec<Variable>,
    pub refused: Vec<Refusal>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Mangled name, as the application knows it.
    pub name: String,
    /// Symbol of the entry, `extern "C" fn(params: *const u8)`.
    pub entry: String,
    pub parameters: Vec<Parameter>,
    /// Size of the parameter buffer, bytes.
    pub parameter_bytes: u32,
    /// Offset of dynamic shared memory from the block's shared base: the static shared memory, rounded up, bytes.
    pub dynamic_shared_offset: u32,
    /// Static shared memory, bytes.
    pub static_shared: u32,
    /// Whether threads of a block may wait for one another (barriers, warp operations).
    pub collective: bool,
    /// Launch bound (threads of a block) the kernel was compiled with, 0 = none.
    #[serde(default)]
    pub max_threads: u32,
}

/// One kernel parameter in the parameter buffer; offset and size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameter {
    pub offset: u32,
    pub size: u32,
}

/// A `__device__` or `__constant__` variable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    pub name: String,
    /// Symbol in the object, of `size` bytes.
    pub symbol: String,
    pub size: u64,
    pub constant: bool,
}

/// A kernel that the CPU device cannot run, and why ("inline PTX `...`", "texture `tex.2d`").
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refusal {
    pub kernel: String,
    pub reason: String,
}
