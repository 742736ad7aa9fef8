//! Launch dimensions and attributes of a kernel.

use serde::{Deserialize, Serialize};

/// The dynamic shared memory that a kernel may use without permission, bytes (CUDA Programming Guide, "Shared Memory").
pub const DEFAULT_DYNAMIC_SHARED: u32 = 48 << 10;

/// A point in time of the recorded launch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Moment {
    /// Before the launch.
    #[default]
    Prologue,
    /// After it.
    Epilogue,
}

/// A grid or block shape; every component is at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(expecting = "an object with x, y and z (those left out are as recorded)")]
pub struct Dim3 {
    pub x: u32,
    #[serde(default = "one")]
    pub y: u32,
    #[serde(default = "one")]
    pub z: u32,
}

fn one() -> u32 {
    1
}

impl Dim3 {
    #[inline]
    pub const fn new(x: u32, y: u32, z: u32) -> Self {
        Self { x, y, z }
    }

    /// Number of threads (of a block) or blocks (of a grid).
    pub fn count(&self) -> u64 {
        (u64::from(self.x) * u64::from(self.y)).saturating_mul(u64::from(self.z))
    }

    pub fn as_array(&self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

impl Default for Dim3 {
    fn default() -> Self {
        Self::new(1, 1, 1)
    }
}

impl From<[u32; 3]> for Dim3 {
    fn from([x, y, z]: [u32; 3]) -> Self {
        Self { x, y, z }
    }
}

impl std::fmt::Display for Dim3 {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}x{}", self.x, self.y, self.z)
    }
}

/// All properties of a launch except its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Launch {
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    pub attributes: LaunchAttributes,
}

impl Launch {
    /// Whether the launch is empty, without blocks or threads, which every driver refuses.
    #[inline]
    pub fn is_empty(&self) -> bool {
        [self.grid, self.block].iter().any(|dim| dim.count() == 0)
    }
}

/// Launch attributes beyond the dimensions (`CUlaunchAttribute`), as recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LaunchAttributes {
    /// Thread-block cluster shape, if the launch set one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Dim3>,
    /// The launch was cooperative (grid-wide synchronisation).
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub cooperative: bool,
    /// `CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES` of the function, bytes, if the application raised it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_dynamic_shared: Option<u32>,
    /// Limits of the context, bytes, if the application changed them (`cuCtxSetLimit`).
    #[serde(skip_serializing_if = "Limits::is_default")]
    pub limits: Limits,
}

/// Limits of a context that affect a kernel, bytes; `None` for the driver's default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Stack of a thread (`CU_LIMIT_STACK_SIZE`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stack: Option<u64>,
    /// Buffer of `printf` on the device (`CU_LIMIT_PRINTF_FIFO_SIZE`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub printf_fifo: Option<u64>,
    /// Heap of `malloc` on the device (`CU_LIMIT_MALLOC_HEAP_SIZE`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub malloc_heap: Option<u64>,
}

impl Limits {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}
