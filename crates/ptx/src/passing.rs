//! The types in which functions take arguments and return results.

use super::error::LiftError;
use super::registers::{Ty, joined};
use super::syntax::{Param, Signature};

/// The type of a number that is passed.
pub fn passed(param: &Param<'_>) -> Ty {
    if param.pointer { Ty::Ptr(0) } else { Ty::stored(param.scalar) }
}

/// The type of a value that is passed: a number, or bytes as they lie in memory.
pub fn passed_type(param: &Param<'_>) -> String {
    match param.bytes {
        None => passed(param).text().to_owned(),
        Some(bytes) => {
            let unit = param.alignment().min(8);
            let unit = if bytes % unit == 0 && bytes > 0 { unit } else { 1 };
            format!("[{} x i{}]", bytes / unit, unit * 8)
        }
    }
}

pub fn result_type(signature: &Signature<'_>, line: u32) -> Result<String, LiftError> {
    match &signature.returns[..] {
        [] => Ok("void".into()),
        [one] => Ok(passed_type(one)),
        _ => Err(LiftError::at(line, "a function that returns several values")),
    }
}

/// The attributes of a parameter that is passed as bytes.
pub fn by_value(param: &Param<'_>) -> Option<String> {
    let bytes = param.bytes?;
    Some(format!("ptr byval([{bytes} x i8]) align {}", param.alignment()))
}

pub fn function_type(signature: &Signature<'_>, line: u32) -> Result<String, LiftError> {
    let param = |param: &Param<'_>| if param.bytes.is_some() { "ptr".into() } else { passed_type(param) };
    Ok(format!("{} ({})", result_type(signature, line)?, joined(&signature.params, param)))
}
