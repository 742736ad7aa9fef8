//! The interface to a device that a replay needs.

use mneme_model::device::{Description, Timer};
use mneme_model::images::Images;
use mneme_model::launch::Launch;

use crate::error::{DeviceError, ProfilerError};

/// Alignment and minimum size, bytes, of a reservation at a chosen address. Measured on an H200 (driver 580): the
/// driver honours a hint exactly if it is a multiple of 32 MiB and the size is at least that. It serves smaller
/// reservations from its own ranges, and rounds other addresses up.
pub const RESERVATION: u64 = 32 << 20;

/// A loaded code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModule(pub(crate) usize);

/// A kernel of a loaded code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFunction(pub(crate) usize);

/// The driver's facts about a kernel; -1 if unknown. Memory in bytes of a thread, shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionUse {
    pub registers: i64,
    pub local: i64,
    pub constant: i64,
    pub static_shared: i64,
}

/// Limits of a context that affect a kernel, all in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextLimit {
    /// Stack of a thread.
    Stack,
    /// Buffer of `printf` on the device.
    PrintfFifo,
    /// Heap of `malloc` on the device.
    MallocHeap,
}

/// One device with a context current on the calling thread.
///
/// Copies and launches run in the order of the calls. The driver checks device addresses against its mappings.
pub trait Device {
    fn description(&self) -> &Description;

    /// Granularity of [`Device::map_at`], bytes.
    fn page_size(&self) -> u64;

    /// Free and total memory, bytes.
    fn memory(&self) -> Result<(u64, u64), DeviceError>;

    /// Reserves exactly this range of addresses; both multiples of [`RESERVATION`].
    fn reserve_at(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Maps `size` bytes of new memory at `address`, inside a reserved range; both multiples of the page size. The
    /// memory is zero.
    fn map_at(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Maps `size` bytes of new memory at an address of the driver's choice; a multiple of the page size. Its contents
    /// are undefined.
    fn map_anywhere(&self, size: u64) -> Result<u64, DeviceError>;

    /// Forbids all writes to mapped memory once previous ones have ended; both multiples of the page size. A later
    /// write fails as an illegal address.
    fn protect(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Forbids kernels and copies to read or write mapped memory, until [`Device::protect`] lets them read it again.
    fn hide(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// New memory at an address of the driver's choice.
    fn allocate(&self, size: u64) -> Result<u64, DeviceError>;

    /// Frees memory from [`Device::allocate`].
    fn free(&self, address: u64) -> Result<(), DeviceError>;

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    fn zero(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies within the device, after all previous work and before every later launch.
    fn copy(&self, to: u64, from: u64, size: u64) -> Result<(), DeviceError>;

    fn load(&self, image: &[u8]) -> Result<DeviceModule, DeviceError>;

    fn unload(&self, module: DeviceModule) -> Result<(), DeviceError>;

    /// Address and size, bytes, of a variable; `None` if the module has no such variable.
    fn variable(&self, module: DeviceModule, name: &str) -> Result<Option<(u64, u64)>, DeviceError>;

    fn function(&self, module: DeviceModule, name: &str) -> Result<DeviceFunction, DeviceError>;

    fn function_use(&self, function: DeviceFunction) -> FunctionUse;

    /// The number of a launch's blocks that fit on one multiprocessor at a time, and the fraction of its threads that
    /// they use; `None` if the driver does not report it.
    fn occupancy(&self, function: DeviceFunction, launch: &Launch) -> Option<(i64, f64)>;

    /// Size of the level 2 cache, bytes; 0 without one.
    fn cache_bytes(&self) -> u64;

    /// Sets a limit of the context. Set the heap's limit before launching any kernel that uses the heap.
    fn set_limit(&self, limit: ContextLimit, value: u64) -> Result<(), DeviceError>;

    /// Lets launches of `function` request this much dynamic shared memory, bytes.
    fn allow_dynamic_shared(&self, function: DeviceFunction, bytes: u32) -> Result<(), DeviceError>;

    /// Lets launches of `function` request clusters with more blocks than the portable limit.
    fn allow_large_clusters(&self, function: DeviceFunction) -> Result<(), DeviceError>;

    /// The device's bus address, e.g. "00000000:18:00.0", if known.
    fn bus_id(&self) -> Option<String>;

    /// Launches after all previous work, without waiting. `arguments` match the kernel's parameters in number, size and
    /// order. The driver determines their offsets: alignments beyond 16 bytes count from the architecture's start of
    /// parameters in constant memory.
    fn enqueue(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<(), DeviceError>;

    /// Waits for all previous work.
    fn wait(&self) -> Result<(), DeviceError>;

    /// Launches in the same way, waits, and returns the kernel's time by events, ns.
    fn run(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<u64, DeviceError>;

    /// Makes arrays and objects with their recorded handles. From then on each [`Device::run`] fills the arrays from
    /// their memory before the launch, and copies those with surfaces back after it.
    fn make_images(&self, images: &Images) -> Result<(), DeviceError>;

    /// Fills the arrays now, instead of right before the next [`Device::run`].
    fn fill_arrays(&self) -> Result<(), DeviceError>;

    /// Begins a series of [`Device::run`]s. [`Device::end_series`] may return more accurate times.
    fn begin_series(&self);

    /// Ends the series. Returns the times of the successful runs by the device's own clock, in order; `None` if events
    /// time kernels. After an error, use the times by events.
    fn end_series(&self) -> Result<Option<(Vec<u64>, Timer)>, ProfilerError>;
}
