//! Explains failed reads of memory: the variables in it, and facts for a bug report.

use mneme_abi::cuda::sys::CUpointer_attribute as Attribute;
use mneme_recording::manifest::RecordedVariable;

use super::SnapshotError;
use crate::driver::{self, Status};
use crate::process::log::{self, debug};
use crate::process::recorded_family;

/// Attributes of pointers that describe the memory at an address.
const ATTRIBUTES: [(&str, Attribute); 6] = [
    ("memory type", Attribute::CU_POINTER_ATTRIBUTE_MEMORY_TYPE),
    ("managed", Attribute::CU_POINTER_ATTRIBUTE_IS_MANAGED),
    ("device", Attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL),
    ("mapped", Attribute::CU_POINTER_ATTRIBUTE_MAPPED),
    ("range start", Attribute::CU_POINTER_ATTRIBUTE_RANGE_START_ADDR),
    ("range size", Attribute::CU_POINTER_ATTRIBUTE_RANGE_SIZE),
];

/// Adds the names of the variables in the unreadable memory.
pub fn explain(error: SnapshotError, variables: &[RecordedVariable]) -> SnapshotError {
    let SnapshotError::Copy { address, bytes, status, .. } = error else { return error };
    let end = address.saturating_add(bytes as u64);
    let inside = |variable: &&RecordedVariable| {
        variable.address < end && address < variable.address.saturating_add(variable.size)
    };
    let found: Vec<&RecordedVariable> = variables.iter().filter(inside).collect();
    if log::enabled(log::LogLevel::Debug) {
        debug!("cannot copy {bytes} bytes at {address:#x}: {}", driver_error(address));
        for RecordedVariable { name, address, size, constant, .. } in &found {
            debug!("variable {name}: {size} bytes at {address:#x}, constant: {constant}; {}", driver_error(*address));
        }
    }
    let names = found.iter().map(|variable| variable.name.as_str()).collect::<Vec<_>>().join(", ");
    let names = if names.is_empty() { names } else { format!(" (variable {names})") };
    SnapshotError::Copy { address, bytes, status, names }
}

fn driver_error(address: u64) -> String {
    let (mut start, mut size) = (0, 0);
    // SAFETY: valid places; the driver returns an error for an unknown address.
    let status = unsafe { driver::hooked::cuMemGetAddressRange_v2::call(&mut start, &mut size, address) };
    let mut text = format!("allocation of {size} bytes at {start:#x} ({})", recorded_family::error(status));
    for (name, attribute) in ATTRIBUTES {
        let mut value = 0u64;
        // SAFETY: the largest of these attributes has eight bytes, and the rest stays zero.
        let status =
            unsafe { driver::hooked::cuPointerGetAttribute::call((&raw mut value).cast(), attribute as u32, address) };
        text += &if status == Status::SUCCESS {
            format!(", {name} {value:#x}")
        } else {
            format!(", {name}: {}", recorded_family::error(status))
        };
    }
    text
}
