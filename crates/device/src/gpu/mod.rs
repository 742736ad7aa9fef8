//! A GPU behind its vendor's library: the common part of NVIDIA's driver and AMD's HIP.
//!
//! HIP mirrors the driver: most of its functions have the same meaning, arguments, types and numbers. A
//! [`VendorDriver`] provides the others.

mod images;
mod table;
mod vendor;

use std::cell::OnceCell;
use std::ffi::{CStr, CString};
use std::ptr::null_mut;

use cudarc::driver::sys::{CUfunction_attribute as FunctionAttribute, CUlimit, CUmemAllocationGranularity_flags};
use mneme_abi::cuda::structures::{AccessDescription, AllocationProperties, memory_access};
use mneme_abi::cuda::types::*;

use self::images::DeviceImages;
use self::table::FunctionTable;
#[cfg(test)]
pub use self::table::SHARED;
pub use self::table::VendorLibrary;
pub use self::vendor::{LaunchCall, VendorDriver};
use super::cupti::Cupti;
use super::rocprofiler::Rocprofiler;
use crate::device::{ContextLimit, Device, DeviceFunction, DeviceModule, FunctionUse};
use crate::error::{DeviceError, ProfilerError};
use mneme_model::device::{Description, Timer};
use mneme_model::images::Images;
use mneme_model::launch::Launch;

/// `CU_STREAM_DEFAULT`: ordered with the default stream, which runs host copies and memsets.
const STREAM_DEFAULT: u32 = 0;

/// A vendor's library that times kernels instead of events.
pub enum Profiler {
    Cupti(Cupti),
    Rocprofiler(Box<Rocprofiler>),
}

/// A device that is current on the thread that opened it.
pub struct Gpu {
    table: FunctionTable,
    vendor: Box<dyn VendorDriver>,
    description: Description,
    device: CUdevice,
    stream: CUstream,
    /// Recorded before and after a launch.
    events: [CUevent; 2],
    page_size: u64,
    profiler: Option<Profiler>,
    /// The arrays and objects of the recording.
    images: OnceCell<DeviceImages>,
    /// Keeps the functions in memory.
    library: VendorLibrary,
}

impl Gpu {
    /// Initialises a vendor's library and makes device `ordinal` current. On an H200 this takes 0.2 to 0.3 s.
    pub fn open(library: VendorLibrary, vendor: Box<dyn VendorDriver>, ordinal: i32) -> Result<Self, DeviceError> {
        let name = || library.name().to_owned();
        let table = FunctionTable::of(&library, vendor.spelling())?;
        let none = |status| match status {
            Status::NO_DEVICE => Err(DeviceError::NoDevice { library: name() }),
            _ => Ok(()),
        };
        // SAFETY: cuInit takes no pointers; it may be called at any time.
        let started = unsafe { (table.cuInit)(0) };
        none(started)?;
        vendor.check("cuInit", started)?;
        let mut count = 0;
        // SAFETY: `count` is a valid place for the answer.
        let counted = unsafe { (table.cuDeviceGetCount)(&mut count) };
        none(counted)?;
        vendor.check("cuDeviceGetCount", counted)?;
        if count == 0 {
            return Err(DeviceError::NoDevice { library: name() });
        }
        if !(0..count).contains(&ordinal) {
            return Err(DeviceError::NoSuchDevice { library: name(), ordinal, count });
        }
        let mut device: CUdevice = 0;
        // SAFETY: the ordinal was checked, and the place is valid for the answer.
        vendor.check("cuDeviceGet", unsafe { (table.cuDeviceGet)(&mut device, ordinal) })?;
        vendor.select(device)?;
        let mut gpu = Self {
            table,
            vendor,
            description: Description::default(),
            device,
            stream: null_mut(),
            events: [null_mut(); 2],
            page_size: 0,
            profiler: None,
            images: OnceCell::new(),
            library,
        };
        gpu.prepare(ordinal)?;
        Ok(gpu)
    }

    /// Lets a library time kernels. The library was started before this device was opened.
    pub fn time_with(&mut self, profiler: Profiler) {
        self.description.timer = match profiler {
            Profiler::Cupti(_) => Timer::Cupti,
            Profiler::Rocprofiler(_) => Timer::Rocprofiler,
        };
        self.profiler = Some(profiler);
    }

    fn cupti(&self) -> Option<&Cupti> {
        match &self.profiler {
            Some(Profiler::Cupti(cupti)) => Some(cupti),
            _ => None,
        }
    }

    fn rocprofiler(&self) -> Option<&Rocprofiler> {
        match &self.profiler {
            Some(Profiler::Rocprofiler(rocprofiler)) => Some(rocprofiler),
            _ => None,
        }
    }

    fn prepare(&mut self, ordinal: i32) -> Result<(), DeviceError> {
        // SAFETY: every pointer is to a field or local of the right type.
        unsafe {
            let mut stream = null_mut();
            self.check("cuStreamCreate", (self.table.cuStreamCreate)(&mut stream, STREAM_DEFAULT))?;
            self.stream = stream;
            for index in 0..self.events.len() {
                let mut event = null_mut();
                self.check("cuEventCreate", (self.table.cuEventCreate)(&mut event, 0))?;
                self.events[index] = event;
            }
            let mut granularity = 0;
            let minimum = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
            let properties = self.memory_properties();
            self.check(
                "cuMemGetAllocationGranularity",
                (self.table.cuMemGetAllocationGranularity)(&mut granularity, &properties, minimum as c_uint),
            )?;
            self.page_size = granularity as u64;
        }
        self.description = self.describe(ordinal)?;
        Ok(())
    }

    fn describe(&self, ordinal: i32) -> Result<Description, DeviceError> {
        let mut name = [0; 256];
        // SAFETY: the buffer has the stated length, and the driver terminates the name.
        let name = unsafe {
            self.check(
                "cuDeviceGetName",
                (self.table.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, self.device),
            )?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let driver = self.vendor.version()?;
        let memory = self.memory().map_or(0, |(_, total)| total);
        let (arch, limits) = self.vendor.properties(self.device)?;
        Ok(Description { name, arch, driver, ordinal, memory, limits, timer: Timer::Events })
    }

    fn function_attribute(&self, function: DeviceFunction, attribute: FunctionAttribute) -> i64 {
        let mut value = 0;
        // SAFETY: the handle is one the driver gave; `value` is a valid place for the answer.
        match unsafe { (self.table.cuFuncGetAttribute)(&mut value, attribute as c_uint, function.0 as CUfunction) } {
            Status::SUCCESS => i64::from(value),
            _ => -1,
        }
    }

    fn memory_properties(&self) -> AllocationProperties {
        AllocationProperties::pinned(self.device)
    }

    /// Maps new memory in a reserved range.
    fn map_reserved(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let bytes = size as usize;
        let mut handle = 0;
        let properties = self.memory_properties();
        // SAFETY: plain data in, one handle out.
        let created = unsafe { (self.table.cuMemCreate)(&mut handle, bytes, &properties, 0) };
        if created == Status::OUT_OF_MEMORY {
            return Err(DeviceError::OutOfMemory { size });
        }
        self.check("cuMemCreate", created)?;
        // SAFETY: the range has the handle's size, and the driver refuses one that is not reserved; the handle may be
        // released once it is mapped.
        unsafe {
            self.check("cuMemMap", (self.table.cuMemMap)(address, bytes, 0, handle, 0))?;
            self.check("cuMemRelease", (self.table.cuMemRelease)(handle))?;
        }
        self.set_access(address, size, memory_access::READ_WRITE)
    }

    fn set_access(&self, address: u64, size: u64, flags: u32) -> Result<(), DeviceError> {
        let access = AccessDescription { location: CUmemLocation::device(self.device), flags };
        // SAFETY: plain data in; the driver refuses a range that is not mapped.
        self.check("cuMemSetAccess", unsafe { (self.table.cuMemSetAccess)(address, size as usize, &access, 1) })
    }

    fn check(&self, function: &'static str, code: Status) -> Result<(), DeviceError> {
        self.vendor.check(function, code)
    }

    fn launch(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<(), DeviceError> {
        // One by one: a packed buffer would need this architecture's layout.
        let mut places: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.as_ptr().cast_mut().cast()).collect();
        let call = LaunchCall {
            function: function.0 as CUfunction,
            launch,
            stream: self.stream,
            parameters: places.as_mut_ptr(),
        };
        if launch.attributes.cluster.is_some() || launch.attributes.cooperative {
            // SAFETY: the handles are the driver's; the arguments, one for each parameter by contract, live until the
            // call returns, and the driver only reads them.
            return unsafe { self.vendor.launch_with_attributes(&call) };
        }
        let (grid, block) = (launch.grid, launch.block);
        // SAFETY: as above.
        let code = unsafe {
            let launch_kernel = self.table.cuLaunchKernel;
            launch_kernel(
                call.function,
                grid.x,
                grid.y,
                grid.z,
                block.x,
                block.y,
                block.z,
                launch.shared_mem,
                call.stream,
                call.parameters,
                null_mut(),
            )
        };
        self.check("cuLaunchKernel", code)
    }

    /// Converts a kernel's or variable's name for a library call.
    fn name_of(&self, function: &'static str, name: &str) -> Result<CString, DeviceError> {
        CString::new(name).map_err(|_| DeviceError::Call {
            function: self.vendor.spelled(function),
            code: Status::NOT_FOUND.0,
            name: "NOT_FOUND".into(),
            text: format!("the name {name:?} contains a zero byte"),
        })
    }
}

impl Device for Gpu {
    fn description(&self) -> &Description {
        &self.description
    }

    fn page_size(&self) -> u64 {
        self.page_size
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both places are valid for the answers.
        self.check("cuMemGetInfo_v2", unsafe { (self.table.cuMemGetInfo_v2)(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }

    fn reserve_at(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        let bytes = size as usize;
        let mut reserved: CUdeviceptr = 0;
        // SAFETY: `reserved` is a valid place; the range is only reserved, nothing of this process is replaced.
        let code = unsafe { (self.table.cuMemAddressReserve)(&mut reserved, bytes, 0, address, 0) };
        if code != Status::SUCCESS {
            return Err(DeviceError::Clash { address, size });
        }
        if reserved != address {
            // SAFETY: this range was just reserved, and has no mappings.
            let _ = unsafe { (self.table.cuMemAddressFree)(reserved, bytes) };
            return Err(DeviceError::Clash { address, size });
        }
        Ok(())
    }

    fn map_at(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.map_reserved(address, size)?;
        self.zero(address, size)
    }

    fn map_anywhere(&self, size: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        // SAFETY: `address` is a valid place for the answer; without a hint the driver chooses a free range.
        self.check("cuMemAddressReserve", unsafe {
            (self.table.cuMemAddressReserve)(&mut address, size as usize, 0, 0, 0)
        })?;
        self.map_reserved(address, size).map(|()| address)
    }

    fn protect(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        // A copy from pageable memory returns while the device still writes (in the default stream, not in this
        // object's); it would then write to protected memory.
        self.vendor.synchronize()?;
        self.set_access(address, size, memory_access::READ)
    }

    fn hide(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        self.set_access(address, size, memory_access::NONE)
    }

    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        // SAFETY: `address` is a valid place for the answer.
        match unsafe { (self.table.cuMemAlloc_v2)(&mut address, size as usize) } {
            Status::OUT_OF_MEMORY => Err(DeviceError::OutOfMemory { size }),
            code => self.check("cuMemAlloc_v2", code).map(|()| address),
        }
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        // SAFETY: the driver refuses addresses that it did not allocate; this program no longer uses the memory.
        self.check("cuMemFree_v2", unsafe { (self.table.cuMemFree_v2)(address) })
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: the slice is valid for its length; the driver checks the device's side.
        self.check("cuMemcpyHtoD_v2", unsafe {
            (self.table.cuMemcpyHtoD_v2)(address, bytes.as_ptr().cast(), bytes.len())
        })
    }

    fn zero(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        // SAFETY: the driver checks the address; no host memory is involved.
        self.check("cuMemsetD8_v2", unsafe { (self.table.cuMemsetD8_v2)(address, 0, size as usize) })
    }

    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: the slice is valid for its length and exclusively ours; the driver checks the device's side.
        self.check("cuMemcpyDtoH_v2", unsafe {
            (self.table.cuMemcpyDtoH_v2)(out.as_mut_ptr().cast(), address, out.len())
        })
    }

    fn copy(&self, to: u64, from: u64, size: u64) -> Result<(), DeviceError> {
        // SAFETY: the driver checks both addresses; no host memory is involved.
        self.check("cuMemcpyDtoDAsync_v2", unsafe {
            (self.table.cuMemcpyDtoDAsync_v2)(to, from, size as usize, self.stream)
        })
    }

    fn load(&self, image: &[u8]) -> Result<DeviceModule, DeviceError> {
        let mut module: CUmodule = null_mut();
        // SAFETY: the image is the compiler's output: an ELF object, which states its size, or NUL-terminated PTX.
        self.check("cuModuleLoadData", unsafe { (self.table.cuModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
        Ok(DeviceModule(module as usize))
    }

    fn unload(&self, module: DeviceModule) -> Result<(), DeviceError> {
        // SAFETY: the handle is the driver's, and no kernel of the module runs: every launch is waited for.
        self.check("cuModuleUnload", unsafe { (self.table.cuModuleUnload)(module.0 as CUmodule) })
    }

    fn variable(&self, module: DeviceModule, name: &str) -> Result<Option<(u64, u64)>, DeviceError> {
        let (mut address, mut size) = (0, 0);
        let name = self.name_of("cuModuleGetGlobal_v2", name)?;
        // SAFETY: the handle is the driver's, the name is terminated, both places are valid.
        match unsafe { (self.table.cuModuleGetGlobal_v2)(&mut address, &mut size, module.0 as CUmodule, name.as_ptr()) }
        {
            Status::NOT_FOUND => Ok(None),
            code => self.check("cuModuleGetGlobal_v2", code).map(|()| Some((address, size as u64))),
        }
    }

    fn function(&self, module: DeviceModule, name: &str) -> Result<DeviceFunction, DeviceError> {
        let mut function: CUfunction = null_mut();
        let name = self.name_of("cuModuleGetFunction", name)?;
        // SAFETY: the handle is the driver's, the name is terminated, the place is valid.
        self.check("cuModuleGetFunction", unsafe {
            (self.table.cuModuleGetFunction)(&mut function, module.0 as CUmodule, name.as_ptr())
        })?;
        Ok(DeviceFunction(function as usize))
    }

    fn function_use(&self, function: DeviceFunction) -> FunctionUse {
        let ask = |attribute| self.function_attribute(function, attribute);
        FunctionUse {
            registers: ask(FunctionAttribute::CU_FUNC_ATTRIBUTE_NUM_REGS),
            local: ask(FunctionAttribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES),
            constant: ask(FunctionAttribute::CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES),
            static_shared: ask(FunctionAttribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES),
        }
    }

    fn occupancy(&self, function: DeviceFunction, launch: &Launch) -> Option<(i64, f64)> {
        let mut blocks = 0;
        let threads = c_int::try_from(launch.block.count()).ok()?;
        let ask = self.table.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags;
        // SAFETY: the handle is the driver's; `blocks` is a valid place for the answer.
        let code = unsafe { ask(&mut blocks, function.0 as CUfunction, threads, launch.shared_mem as usize, 0) };
        let resident = self.description.limits.threads_per_multiprocessor?;
        (code == Status::SUCCESS)
            .then(|| (i64::from(blocks), f64::from(blocks) * f64::from(threads) / f64::from(resident)))
    }

    fn cache_bytes(&self) -> u64 {
        self.description.limits.l2_cache.unwrap_or(0).into()
    }

    fn set_limit(&self, limit: ContextLimit, value: u64) -> Result<(), DeviceError> {
        let limit = match limit {
            ContextLimit::Stack => CUlimit::CU_LIMIT_STACK_SIZE,
            ContextLimit::PrintfFifo => CUlimit::CU_LIMIT_PRINTF_FIFO_SIZE,
            ContextLimit::MallocHeap => CUlimit::CU_LIMIT_MALLOC_HEAP_SIZE,
        };
        self.vendor.set_limit(limit as c_uint, value as usize)
    }

    fn allow_dynamic_shared(&self, function: DeviceFunction, bytes: u32) -> Result<(), DeviceError> {
        self.vendor.allow_dynamic_shared(function.0 as CUfunction, bytes)
    }

    fn allow_large_clusters(&self, function: DeviceFunction) -> Result<(), DeviceError> {
        self.vendor.allow_large_clusters(function.0 as CUfunction)
    }

    fn bus_id(&self) -> Option<String> {
        let mut text = [0; 32];
        // SAFETY: the buffer has the stated length, and the driver terminates the text.
        unsafe {
            let code = (self.table.cuDeviceGetPCIBusId)(text.as_mut_ptr(), text.len() as c_int, self.device);
            (code == Status::SUCCESS).then(|| CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }

    fn enqueue(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<(), DeviceError> {
        self.launch(function, launch, arguments)
    }

    fn wait(&self) -> Result<(), DeviceError> {
        self.vendor.synchronize()
    }

    fn run(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<u64, DeviceError> {
        let [before, after] = self.events;
        let mut milliseconds = 0.0;
        let since = self.cupti().map_or(0, Cupti::now);
        // Held until the device is done: HIP may hand a launch to one of its threads.
        let tagged = self.rocprofiler().and_then(Rocprofiler::tag);
        if let Some(images) = self.images.get() {
            images.before_launch(self)?;
        }
        // SAFETY: events and stream are this object's own; `milliseconds` is a valid place for the answer.
        unsafe {
            self.check("cuEventRecord", (self.table.cuEventRecord)(before, self.stream))?;
            self.launch(function, launch, arguments)?;
            self.check("cuEventRecord", (self.table.cuEventRecord)(after, self.stream))?;
            if let Some(images) = self.images.get() {
                images.take_back(self)?;
            }
            self.check("cuStreamSynchronize", (self.table.cuStreamSynchronize)(self.stream))?;
            self.check("cuEventElapsedTime", (self.table.cuEventElapsedTime)(&mut milliseconds, before, after))?;
        }
        if let Some(tagged) = tagged {
            tagged.ended();
        }
        if let Some(cupti) = self.cupti() {
            cupti.launched(since);
        }
        Ok((f64::from(milliseconds) * 1e6).round() as u64)
    }

    fn make_images(&self, images: &Images) -> Result<(), DeviceError> {
        if !images.is_empty() {
            let made = DeviceImages::make(self, images)?;
            assert!(self.images.set(made).is_ok(), "images are made once");
        }
        Ok(())
    }

    fn fill_arrays(&self) -> Result<(), DeviceError> {
        self.images.get().map_or(Ok(()), |images| images.fill_now(self))
    }

    fn begin_series(&self) {
        match &self.profiler {
            Some(Profiler::Cupti(cupti)) => cupti.begin_series(),
            Some(Profiler::Rocprofiler(rocprofiler)) => rocprofiler.begin_series(),
            None => {}
        }
    }

    fn end_series(&self) -> Result<Option<(Vec<u64>, Timer)>, ProfilerError> {
        match &self.profiler {
            Some(Profiler::Cupti(cupti)) => Ok(Some((cupti.end_series()?, Timer::Cupti))),
            Some(Profiler::Rocprofiler(rocprofiler)) => Ok(Some((rocprofiler.end_series()?, Timer::Rocprofiler))),
            None => Ok(None),
        }
    }
}
