//! A device behind the CUDA driver's ABI.

mod table;

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::null_mut;

use cudarc::driver::sys::{
    CUdevice_attribute as DeviceAttribute, CUfunction_attribute as FunctionAttribute, CUlaunchAttribute,
    CUlaunchAttributeID, CUlimit, CUmemAccess_flags, CUmemAllocationGranularity_flags, CUmemAllocationType,
    CUmemLocationType,
};
use mneme_abi::cuda::types::*;

use self::table::DriverTable;
use super::cupti::Cupti;
use super::{
    ContextLimit, Description, Device, DeviceError, DeviceFunction, DeviceLimits, DeviceModule, FunctionUse, Timer,
};
use crate::launch::{Dim3, Launch};

/// NVIDIA's driver library.
pub const LIBRARY: &str = "libcuda.so.1";

/// `CU_STREAM_DEFAULT`: in order with the default stream, which copies from and to the host and memsets run in.
const STREAM_DEFAULT: u32 = 0;

/// A device whose primary context is current on the thread that opened it.
pub struct Cuda {
    table: DriverTable,
    description: Description,
    device: CUdevice,
    stream: CUstream,
    /// Recorded before and after a launch.
    events: [CUevent; 2],
    page_size: u64,
    /// Times kernels, where events do not.
    cupti: Option<Cupti>,
}

impl Cuda {
    /// Loads the driver, initialises it and makes a context on device `ordinal`. On an H200 this takes 0.2 to 0.3 s.
    pub fn open(library: &Path, ordinal: i32) -> Result<Self, DeviceError> {
        let name = || library.display().to_string();
        let table = DriverTable::load(library)?;
        // SAFETY: cuInit takes no pointers; it may be called at any time.
        let started = unsafe { (table.cuInit)(0) };
        if started == Status::NO_DEVICE {
            return Err(DeviceError::NoDevice { library: name() });
        }
        let failed = |function, code| Err(call_error(&table, function, code));
        if started != Status::SUCCESS {
            return failed("cuInit", started);
        }
        let mut count = 0;
        // SAFETY: `count` is a valid place for the answer.
        let counted = unsafe { (table.cuDeviceGetCount)(&mut count) };
        if counted != Status::SUCCESS {
            return failed("cuDeviceGetCount", counted);
        }
        if count == 0 {
            return Err(DeviceError::NoDevice { library: name() });
        }
        if !(0..count).contains(&ordinal) {
            return Err(DeviceError::NoSuchDevice { library: name(), ordinal, count });
        }
        let mut device: CUdevice = 0;
        let mut context: CUcontext = null_mut();
        // SAFETY: the ordinal was checked, and both places are valid for the answers.
        let opened = unsafe {
            match (table.cuDeviceGet)(&mut device, ordinal) {
                Status::SUCCESS => (table.cuDevicePrimaryCtxRetain)(&mut context, device),
                error => error,
            }
        };
        if opened != Status::SUCCESS {
            return failed("cuDevicePrimaryCtxRetain", opened);
        }
        let mut cuda = Self {
            table,
            description: Description::default(),
            device,
            stream: null_mut(),
            events: [null_mut(); 2],
            page_size: 0,
            cupti: None,
        };
        cuda.prepare(context, ordinal)?;
        Ok(cuda)
    }

    /// Lets CUPTI time kernels, which it was started for before this device was opened.
    pub fn time_with(&mut self, cupti: Cupti) {
        self.cupti = Some(cupti);
    }

    fn prepare(&mut self, context: CUcontext, ordinal: i32) -> Result<(), DeviceError> {
        // SAFETY: the context was just retained; every other pointer is to a field or local of the right type.
        unsafe {
            self.check("cuCtxSetCurrent", (self.table.cuCtxSetCurrent)(context))?;
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
        let mut version = 0;
        // SAFETY: the buffer is as long as it is said to be, and the driver terminates the name.
        let name = unsafe {
            self.check(
                "cuDeviceGetName",
                (self.table.cuDeviceGetName)(name.as_mut_ptr(), name.len() as c_int, self.device),
            )?;
            self.check("cuDriverGetVersion", (self.table.cuDriverGetVersion)(&mut version))?;
            CStr::from_ptr(name.as_ptr()).to_string_lossy().into_owned()
        };
        let major = self.attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(DeviceAttribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        // The driver's version is 1000 * major + 10 * minor.
        let driver = format!("{}.{}", version / 1000, version % 1000 / 10);
        let memory = self.memory().map_or(0, |(_, total)| total);
        Ok(Description { name, arch: format!("sm_{major}{minor}"), driver, ordinal, memory, limits: self.limits() })
    }

    fn limits(&self) -> DeviceLimits {
        use DeviceAttribute as Of;
        let said = |attribute| {
            self.attribute(attribute).ok().and_then(|value| u32::try_from(value).ok()).filter(|value| *value > 0)
        };
        let axes = |[x, y, z]: [Of; 3]| Some(Dim3::new(said(x)?, said(y)?, said(z)?));
        let default = DeviceLimits::default();
        DeviceLimits {
            max_threads: said(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK).unwrap_or(default.max_threads),
            max_block: axes([
                Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
                Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
                Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
            ])
            .unwrap_or(default.max_block),
            max_grid: axes([
                Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
                Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
                Of::CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
            ])
            .unwrap_or(default.max_grid),
            warp_size: said(Of::CU_DEVICE_ATTRIBUTE_WARP_SIZE).unwrap_or(default.warp_size),
            shared_mem: said(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK).unwrap_or(default.shared_mem),
            shared_mem_optin: said(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            shared_mem_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR),
            registers: said(Of::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK),
            registers_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR),
            multiprocessors: said(Of::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT),
            threads_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR),
            blocks_per_multiprocessor: said(Of::CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR),
            l2_cache: said(Of::CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE),
        }
    }

    fn attribute(&self, attribute: DeviceAttribute) -> Result<c_int, DeviceError> {
        let mut value = 0;
        // SAFETY: `value` is a valid place for the answer.
        self.check("cuDeviceGetAttribute", unsafe {
            (self.table.cuDeviceGetAttribute)(&mut value, attribute as c_uint, self.device)
        })?;
        Ok(value)
    }

    fn function_attribute(&self, function: DeviceFunction, attribute: FunctionAttribute) -> i64 {
        let mut value = 0;
        // SAFETY: the handle is one the driver gave; `value` is a valid place for the answer.
        match unsafe { (self.table.cuFuncGetAttribute)(&mut value, attribute as c_uint, function.0 as CUfunction) } {
            Status::SUCCESS => i64::from(value),
            _ => -1,
        }
    }

    fn memory_properties(&self) -> CUmemAllocationProp {
        // SAFETY: the structure is plain data, for which zeros are valid and mean "nothing special".
        let mut properties: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        properties.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        properties.location.type_ = CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE;
        properties.location.id = self.device;
        properties
    }

    /// Maps new memory in a range that is reserved.
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
        self.set_access(address, size, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    }

    fn set_access(&self, address: u64, size: u64, flags: CUmemAccess_flags) -> Result<(), DeviceError> {
        let access = CUmemAccessDesc { location: self.memory_properties().location, flags };
        // SAFETY: plain data in; the driver refuses a range that is not mapped.
        self.check("cuMemSetAccess", unsafe { (self.table.cuMemSetAccess)(address, size as usize, &access, 1) })
    }

    fn check(&self, function: &'static str, code: Status) -> Result<(), DeviceError> {
        if code == Status::SUCCESS { Ok(()) } else { Err(call_error(&self.table, function, code)) }
    }

    fn launch(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<(), DeviceError> {
        // One by one: in a packed buffer they would have to lie as this architecture lays them out.
        let mut places: Vec<*mut c_void> =
            arguments.iter().map(|argument| argument.as_ptr().cast_mut().cast()).collect();
        let places = places.as_mut_ptr();
        let function = function.0 as CUfunction;
        let (grid, block) = (launch.grid, launch.block);
        let mut attributes = attributes(launch);
        if attributes.is_empty() {
            // SAFETY: the handle is the driver's; the arguments, one for each parameter by contract, live until the
            // call returns, and the driver only reads them.
            let code = unsafe {
                let shared = launch.shared_mem;
                let launch = self.table.cuLaunchKernel;
                launch(
                    function,
                    grid.x,
                    grid.y,
                    grid.z,
                    block.x,
                    block.y,
                    block.z,
                    shared,
                    self.stream,
                    places,
                    null_mut(),
                )
            };
            return self.check("cuLaunchKernel", code);
        }
        let config = CUlaunchConfig {
            gridDimX: grid.x,
            gridDimY: grid.y,
            gridDimZ: grid.z,
            blockDimX: block.x,
            blockDimY: block.y,
            blockDimZ: block.z,
            sharedMemBytes: launch.shared_mem,
            hStream: self.stream,
            attrs: attributes.as_mut_ptr(),
            numAttrs: attributes.len() as u32,
        };
        // SAFETY: as above; `config` and its attributes live until the call returns.
        self.check("cuLaunchKernelEx", unsafe { (self.table.cuLaunchKernelEx)(&config, function, places, null_mut()) })
    }
}

/// The launch attributes that have to be said.
pub fn attributes(launch: &Launch) -> Vec<CUlaunchAttribute> {
    let empty = |id| {
        // SAFETY: the structure is plain data, for which zeros are valid.
        let mut attribute: CUlaunchAttribute = unsafe { std::mem::zeroed() };
        attribute.id = id;
        attribute
    };
    let mut attributes = Vec::new();
    if let Some(cluster) = launch.attributes.cluster {
        let mut attribute = empty(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        attribute.value.clusterDim.x = cluster.x;
        attribute.value.clusterDim.y = cluster.y;
        attribute.value.clusterDim.z = cluster.z;
        attributes.push(attribute);
    }
    if launch.attributes.cooperative {
        let mut attribute = empty(CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE);
        attribute.value.cooperative = 1;
        attributes.push(attribute);
    }
    attributes
}

fn call_error(table: &DriverTable, function: &'static str, code: Status) -> DeviceError {
    let text = |get: unsafe extern "C" fn(Status, *mut *const i8) -> Status| {
        let mut text = std::ptr::null();
        // SAFETY: `text` is a valid place; on success the driver points it at a string constant.
        unsafe {
            match get(code, &mut text) {
                Status::SUCCESS if !text.is_null() => Some(CStr::from_ptr(text).to_string_lossy().into_owned()),
                _ => None,
            }
        }
    };
    let name = text(table.cuGetErrorName).unwrap_or_else(|| format!("CUDA error {code}"));
    let text = text(table.cuGetErrorString).unwrap_or_else(|| "no description".into());
    DeviceError::Call { function, code: code.0, name, text }
}

fn name_of(name: &str) -> Result<CString, DeviceError> {
    CString::new(name).map_err(|_| DeviceError::Call {
        function: "cuModuleGetFunction",
        code: Status::NOT_FOUND.0,
        name: "NOT_FOUND".into(),
        text: format!("the name {name:?} contains a zero byte"),
    })
}

impl Device for Cuda {
    fn description(&self) -> &Description {
        &self.description
    }

    fn page_size(&self) -> u64 {
        self.page_size
    }

    fn memory(&self) -> Result<(u64, u64), DeviceError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: both places are valid for the answers.
        self.check("cuMemGetInfo", unsafe { (self.table.cuMemGetInfo_v2)(&mut free, &mut total) })?;
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
            // SAFETY: this range was reserved just now and nothing is mapped in it.
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
        // A copy from pageable memory returns while the device still writes (in the default stream, not in ours); it
        // would hit memory that may not be written any more.
        // SAFETY: no pointers; the context is current.
        self.check("cuCtxSynchronize", unsafe { (self.table.cuCtxSynchronize)() })?;
        self.set_access(address, size, CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READ)
    }

    fn allocate(&self, size: u64) -> Result<u64, DeviceError> {
        let mut address = 0;
        // SAFETY: `address` is a valid place for the answer.
        match unsafe { (self.table.cuMemAlloc_v2)(&mut address, size as usize) } {
            Status::OUT_OF_MEMORY => Err(DeviceError::OutOfMemory { size }),
            code => self.check("cuMemAlloc", code).map(|()| address),
        }
    }

    fn free(&self, address: u64) -> Result<(), DeviceError> {
        // SAFETY: the driver refuses an address that it did not give; nothing of ours uses the memory any more.
        self.check("cuMemFree", unsafe { (self.table.cuMemFree_v2)(address) })
    }

    fn write(&self, address: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        // SAFETY: the slice is valid for its length; the driver checks the device's side.
        self.check("cuMemcpyHtoD", unsafe { (self.table.cuMemcpyHtoD_v2)(address, bytes.as_ptr().cast(), bytes.len()) })
    }

    fn zero(&self, address: u64, size: u64) -> Result<(), DeviceError> {
        // SAFETY: the driver checks the address; no host memory is involved.
        self.check("cuMemsetD8", unsafe { (self.table.cuMemsetD8_v2)(address, 0, size as usize) })
    }

    fn read(&self, address: u64, out: &mut [u8]) -> Result<(), DeviceError> {
        // SAFETY: the slice is valid for its length and exclusively ours; the driver checks the device's side.
        self.check("cuMemcpyDtoH", unsafe { (self.table.cuMemcpyDtoH_v2)(out.as_mut_ptr().cast(), address, out.len()) })
    }

    fn copy(&self, to: u64, from: u64, size: u64) -> Result<(), DeviceError> {
        // SAFETY: the driver checks both addresses; no host memory is involved.
        self.check("cuMemcpyDtoDAsync", unsafe {
            (self.table.cuMemcpyDtoDAsync_v2)(to, from, size as usize, self.stream)
        })
    }

    fn load(&self, image: &[u8]) -> Result<DeviceModule, DeviceError> {
        let mut module: CUmodule = null_mut();
        // SAFETY: the image is what the compiler made: an ELF object, which says its own size, or NUL-terminated PTX.
        self.check("cuModuleLoadData", unsafe { (self.table.cuModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
        Ok(DeviceModule(module as usize))
    }

    fn unload(&self, module: DeviceModule) -> Result<(), DeviceError> {
        // SAFETY: the handle is the driver's, and no kernel of the module runs: every launch is waited for.
        self.check("cuModuleUnload", unsafe { (self.table.cuModuleUnload)(module.0 as CUmodule) })
    }

    fn variable(&self, module: DeviceModule, name: &str) -> Result<Option<(u64, u64)>, DeviceError> {
        let (mut address, mut size) = (0, 0);
        let name = name_of(name)?;
        // SAFETY: the handle is the driver's, the name is terminated, both places are valid.
        match unsafe { (self.table.cuModuleGetGlobal_v2)(&mut address, &mut size, module.0 as CUmodule, name.as_ptr()) }
        {
            Status::NOT_FOUND => Ok(None),
            code => self.check("cuModuleGetGlobal", code).map(|()| Some((address, size as u64))),
        }
    }

    fn function(&self, module: DeviceModule, name: &str) -> Result<DeviceFunction, DeviceError> {
        let mut function: CUfunction = null_mut();
        let name = name_of(name)?;
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
        // SAFETY: no pointers; the context is current.
        self.check("cuCtxSetLimit", unsafe { (self.table.cuCtxSetLimit)(limit as c_uint, value as usize) })
    }

    fn allow_dynamic_shared(&self, function: DeviceFunction, bytes: u32) -> Result<(), DeviceError> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        let bytes = c_int::try_from(bytes).unwrap_or(c_int::MAX);
        // SAFETY: the handle is the driver's; no pointers besides.
        self.check("cuFuncSetAttribute", unsafe {
            (self.table.cuFuncSetAttribute)(function.0 as CUfunction, attribute as c_uint, bytes)
        })
    }

    fn allow_large_clusters(&self, function: DeviceFunction) -> Result<(), DeviceError> {
        let attribute = FunctionAttribute::CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED;
        // SAFETY: the handle is the driver's; no pointers besides.
        self.check("cuFuncSetAttribute", unsafe {
            (self.table.cuFuncSetAttribute)(function.0 as CUfunction, attribute as c_uint, 1)
        })
    }

    fn bus_id(&self) -> Option<String> {
        let mut text = [0; 32];
        // SAFETY: the buffer is as long as it is said to be, and the driver terminates the text.
        unsafe {
            let code = (self.table.cuDeviceGetPCIBusId)(text.as_mut_ptr(), text.len() as c_int, self.device);
            (code == Status::SUCCESS).then(|| CStr::from_ptr(text.as_ptr()).to_string_lossy().into_owned())
        }
    }

    fn enqueue(&self, function: DeviceFunction, launch: &Launch, arguments: &[Vec<u8>]) -> Result<(), DeviceError> {
        self.launch(function, launch, arguments)
    }

    fn run(
        &self,
        function: DeviceFunction,
        launch: &Launch,
        arguments: &[Vec<u8>],
    ) -> Result<(u64, Timer), DeviceError> {
        let [before, after] = self.events;
        let mut milliseconds = 0.0;
        let since = self.cupti.as_ref().map_or(0, Cupti::now);
        // SAFETY: events and stream are this object's own; `milliseconds` is a valid place for the answer.
        unsafe {
            self.check("cuEventRecord", (self.table.cuEventRecord)(before, self.stream))?;
            self.launch(function, launch, arguments)?;
            self.check("cuEventRecord", (self.table.cuEventRecord)(after, self.stream))?;
            self.check("cuStreamSynchronize", (self.table.cuStreamSynchronize)(self.stream))?;
            self.check("cuEventElapsedTime", (self.table.cuEventElapsedTime)(&mut milliseconds, before, after))?;
        }
        Ok(match self.cupti.as_ref().and_then(|cupti| cupti.latest(since)) {
            Some(time) => (time, Timer::Cupti),
            None => ((f64::from(milliseconds) * 1e6).round() as u64, Timer::Events),
        })
    }
}
