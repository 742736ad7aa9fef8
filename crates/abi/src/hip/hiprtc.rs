//! Functions of hiprtc, HIP's compiler at run time, that return no status.

use super::types::*;
use crate::declare::declare;

declare! { ($)
    402 hiprtcGetErrorString(result: c_uint) -> *const c_char;
}
