//! Registration of fat binaries, kernels and variables by the compiler's start-up code.
//!
//! Host addresses identify kernels and variables. Images are loaded on first use.

use std::collections::{BTreeMap, HashMap};
use std::ffi::{CString, c_void};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use super::session::driver_with_context;
use crate::abi::{CStringArgument, Out};
use crate::handles::Registry;
use crate::status::{Status, StatusResult};

struct FatBinary {
    wrapper: usize,
    library: OnceLock<Result<usize, Status>>,
    /// HIP's managed variables: the device's name and the address of the memory. The device has a pointer of that name.
    managed: Mutex<Vec<(CString, u64)>>,
}

/// A kernel or variable.
struct Named {
    binary: Arc<FatBinary>,
    name: CString,
    kernel: OnceLock<Result<usize, Status>>,
}

static BINARIES: Registry<FatBinary> = Registry::new("registered code");
static KERNELS: Mutex<Option<HashMap<usize, Arc<Named>>>> = Mutex::new(None);
/// Memory of HIP's managed variables, by the addresses that host code uses for them.
static MANAGED: Mutex<BTreeMap<usize, (u64, usize)>> = Mutex::new(BTreeMap::new());
static VARIABLES: Mutex<Option<HashMap<usize, Arc<Named>>>> = Mutex::new(None);

fn lock(map: &Mutex<Option<HashMap<usize, Arc<Named>>>>) -> MutexGuard<'_, Option<HashMap<usize, Arc<Named>>>> {
    map.lock().unwrap_or_else(PoisonError::into_inner)
}

pub fn add_binary(wrapper: usize) -> usize {
    BINARIES.insert(Arc::new(FatBinary { wrapper, library: OnceLock::new(), managed: Mutex::default() }))
}

pub fn remove_binary(handle: usize) {
    let Ok(binary) = BINARIES.remove(handle) else { return };
    for map in [&KERNELS, &VARIABLES] {
        if let Some(map) = lock(map).as_mut() {
            map.retain(|_, named| !Arc::ptr_eq(&named.binary, &binary));
        }
    }
    if let Some(Ok(library)) = binary.library.get()
        && let Ok(driver) = driver_with_context()
    {
        let _ = driver.cuLibraryUnload(*library);
    }
}

fn add(
    map: &Mutex<Option<HashMap<usize, Arc<Named>>>>,
    handle: usize,
    host: usize,
    name: CStringArgument,
) -> StatusResult {
    let binary = BINARIES.get(handle)?;
    let name = CString::new(name.get()?).map_err(|_| Status::INVALID_VALUE)?;
    lock(map).get_or_insert_default().insert(host, Arc::new(Named { binary, name, kernel: OnceLock::new() }));
    Ok(())
}

pub fn add_kernel(handle: usize, host: usize, name: CStringArgument) -> StatusResult {
    add(&KERNELS, handle, host, name)
}

pub fn add_variable(handle: usize, host: usize, name: CStringArgument) -> StatusResult {
    add(&VARIABLES, handle, host, name)
}

/// Registers a managed variable of HIP: host code has a pointer at `place`, whose memory begins with the value at
/// `initial`.
pub fn add_managed(handle: usize, place: Out<u64>, initial: u64, name: CStringArgument, bytes: usize) -> StatusResult {
    let binary = BINARIES.get(handle)?;
    let name = CString::new(name.get()?).map_err(|_| Status::INVALID_VALUE)?;
    let driver = driver_with_context()?;
    let mut address = 0;
    driver.cuMemAllocManaged(Out::to(&mut address), bytes.max(1), 1)?;
    driver.cuMemcpy(address, initial, bytes)?;
    place.put(address)?;
    binary.managed.lock().unwrap_or_else(PoisonError::into_inner).push((name, address));
    // Host code may name the variable by the address of its memory, or by that of the pointer.
    let mut managed = MANAGED.lock().unwrap_or_else(PoisonError::into_inner);
    managed.insert(place.address(), (address, bytes));
    managed.insert(address as usize, (address, bytes));
    Ok(())
}

fn find(map: &Mutex<Option<HashMap<usize, Arc<Named>>>>, host: usize) -> Option<Arc<Named>> {
    lock(map).as_ref().and_then(|map| map.get(&host).cloned())
}

impl FatBinary {
    fn library(&self) -> Result<usize, Status> {
        *self.library.get_or_init(|| {
            let mut library = 0;
            let nothing = std::ptr::null::<c_void>();
            driver_with_context()?.cuLibraryLoadData(
                Out::to(&mut library),
                self.wrapper as *const c_void,
                nothing,
                nothing,
                0,
                nothing,
                nothing,
                0,
            )?;
            self.point_to_managed(library)?;
            Ok(library)
        })
    }

    fn point_to_managed(&self, library: usize) -> StatusResult {
        let driver = driver_with_context()?;
        for (name, target) in self.managed.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let (mut address, mut size) = (0u64, 0usize);
            let name = CStringArgument(name.as_ptr());
            match driver.cuLibraryGetGlobal(Out::to(&mut address), Out::to(&mut size), library, name) {
                // The variable is unused in device code.
                Err(Status::NOT_FOUND) => {}
                done => {
                    done?;
                    driver.cuMemcpyHtoD_v2(address, std::ptr::from_ref(target) as u64, size_of::<u64>())?;
                }
            }
        }
        Ok(())
    }
}

/// The `CUkernel` of a host function.
pub fn kernel(host: usize) -> Result<usize, Status> {
    let named = find(&KERNELS, host).ok_or(Status::INVALID_DEVICE_FUNCTION)?;
    *named.kernel.get_or_init(|| {
        let library = named.binary.library()?;
        let mut kernel = 0;
        match driver_with_context()?.cuLibraryGetKernel(
            Out::to(&mut kernel),
            library,
            CStringArgument(named.name.as_ptr()),
        ) {
            Err(Status::NOT_FOUND) => Err(Status::INVALID_DEVICE_FUNCTION),
            done => done.map(|()| kernel),
        }
    })
}

/// The host function of a `CUkernel`.
pub fn host_of(kernel: usize) -> Option<usize> {
    let kernels = lock(&KERNELS);
    let is_it = |named: &Named| named.kernel.get() == Some(&Ok(kernel));
    kernels.as_ref()?.iter().find(|(_, named)| is_it(named)).map(|(host, _)| *host)
}

/// Address and size of the variable with this host address.
pub fn variable(host: usize) -> Result<(u64, usize), Status> {
    if let Some(managed) = MANAGED.lock().unwrap_or_else(PoisonError::into_inner).get(&host) {
        return Ok(*managed);
    }
    let named = find(&VARIABLES, host).ok_or(Status::INVALID_SYMBOL)?;
    let library = named.binary.library()?;
    let (mut address, mut size) = (0, 0);
    match driver_with_context()?.cuLibraryGetGlobal(
        Out::to(&mut address),
        Out::to(&mut size),
        library,
        CStringArgument(named.name.as_ptr()),
    ) {
        Err(Status::NOT_FOUND) => Err(Status::INVALID_SYMBOL),
        done => done.map(|()| (address, size)),
    }
}
