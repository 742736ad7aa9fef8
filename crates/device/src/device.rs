//! A device as a replay needs it.

use mneme_model::device::{Description, Timer};
use mneme_model::launch::Launch;

use crate::error::{DeviceError, ProfilerError};

/// Alignment and least size, bytes, of a reservation at an address of ours. Measured on an H200 (driver 580): a hint at
/// a multiple of 32 MiB for at least so much is honoured exactly; smaller reservations are served from ranges of the
/// driver's own and other addresses are rounded up.
pub const RESERVATION: u64 = 32 << 20;

/// A loaded code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceModule(pub(crate) usize);

/// A kernel of a loaded code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFunction(pub(crate) usize);

/// What the driver says of a kernel; -1 where it does not say. Memory in bytes of a thread, shared memory of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FunctionUse {
    pub registers: i64,
    pub local: i64,
    pub constant: i64,
    pub static_shared: i64,
}

/// Limits of a context that a kernel notices, all in bytes.
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
/// Copies and launches run in the order of the calls. Device addresses are checked by the driver against what it has
/// mapped.
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

    /// Forbids all writes to memory that was mapped, once those before have ended; both multiples of the page size. A
    /// write is then an illegal address.
    fn protect(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// Forbids kernels and copies to read or write mapped memory, until [`Device::protect`] lets them read it again.
    fn hide(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    /// New memory at an address of the driver's choice.
    fn allocate(&self, size: u64) -> Result<u64, DeviceError>;

    /// Frees what [`Device::allocate`] gave.
    fn free(&self, address: u64) -> Result<(), DeviceError>;

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError>;

    fn zero(&self, address: u64, size: u64) -> Result<(), DeviceError>;

    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError>;

    /// Copies within the device, after everything before it and before every later launch.
    fn copy(&self, to: u64, from: u64, size: u64) -> Result<(), DeviceError>;

    fn load(&self, image: &[u8]) -> Result<DeviceModule, DeviceError>;

    fn unload(&self, module: DeviceModule) -> Result<(), DeviceError>;

    /// Address and size, bytes, of a variable; `None` where the module has no such variable.
    fn variable(&self, module: DeviceModule, name: &str) -> Result<Option<(u64, u64)>, DeviceError>;

    fn function(&self, module: DeviceModule, name: &str) -> Result<DeviceFunction, DeviceError>;

    fn function_use(&self, function: DeviceFunction) -> FunctionUse;

    /// How many blocks of a launch one multiprocessor holds at a time, and the fraction of its threads that they use;
    /// `None` where the driver does not say.
    fn occupancy(&self, function: DeviceFunction, launch: &Launch) -> Option<(i64, f64)>;

    /// Size of the level 2 cache, bytes; 0 where there is none.
    fn cache_bytes(&self) -> u64;

    /// Sets a limit of the context. The heap's can be set only before a kernel that uses the heap was launched.
    fn set_limit(&self, limit: ContextLimit, value: u64) -> Result<(), DeviceError>;

    /// Lets launches of `function` ask for so much dynamic shared memory, bytes.
    fn allow_dynamic_shared(&self, function: DeviceFunction, bytes: u32) -> Result<(), DeviceError>;

    /// Lets launches of `function` ask for clusters of more blocks than all devices can take.
    fn allow_large_clusters(&self, function: DeviceFunction) -> Result<(), DeviceError>;

    /// Where the device sits, e.g. "00000000:18:00.0", where it says.
    fn bus_id(&self) -> Option<String>;

    /// Launches after everything before it, and does not wait. `arguments` are as many as the kernel has parameters and
    /// as large, in their order; where they go is the driver's to know: alignments beyond 16 bytes count from where an
    /// architecture begins its parameters in constant memory.
    fn enqueue(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<(), DeviceError>;

    /// Waits for everything before it.
    fn wait(&self) -> Result<(), DeviceError>;

    /// Launches likewise, waits, and returns the kernel's time by events, ns.
    fn run(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<u64, DeviceError>;

    /// Begins a series of [`Device::run`]s, whose times [`Device::end_series`] may tell better.
    fn begin_series(&self);

    /// Ends the series: the times of the runs that ended well by the device's own clock, in their order; `None` if events
    /// time kernels. After an error the times by events stand.
    fn end_series(&self) -> Result<Option<(Vec<u64>, Timer)>, ProfilerError>;
}
