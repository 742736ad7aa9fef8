//! The code that a kernel is run from, which the recorder asks this device for.

use crate::abi::{Out, enter};
use crate::driver::function;
use crate::runtime::{calls, registration};
use crate::status::Status;

/// The code object that a kernel or function is in: where it is and its size in bytes, for as long as the function is
/// loaded. A kernel of HIP's may be named by the host's address of it, as its launch does. Vendors have no such
/// function.
///
/// # Safety
/// Both pointers are null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mneme_cpu_code(function: usize, start: Out<*const u8>, size: Out<usize>) -> Status {
    enter(|| {
        let named = |address| calls::directly(|| function::get(registration::kernel(address)?));
        let function = function::get(function).or_else(|_| named(function))?;
        let object = function.kernel.object();
        start.put(object.as_ptr())?;
        size.put(object.len())
    })
}
