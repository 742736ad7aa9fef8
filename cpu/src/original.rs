//! The code from which a kernel runs, which the recorder requests from this device.

use mneme_abi::cuda::types::*;

use crate::abi::{Out, answer, answers, enter};
use crate::driver::function;
use crate::runtime::{calls, registration};
use crate::status::StatusResult;

answers! {
    mneme_cpu_code: (function, start, size) => enter(|| put_code(function, start, size));
}

fn put_code(function: usize, start: Out<*const u8>, size: Out<usize>) -> StatusResult {
    let named = |address| calls::directly(|| function::get(registration::kernel(address)?));
    let function = function::get(function).or_else(|_| named(function))?;
    let object = function.kernel.object();
    start.put(object.as_ptr())?;
    size.put(object.len())
}
