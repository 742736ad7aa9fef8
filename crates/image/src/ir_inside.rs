//! LLVM IR of `mneme-cc` inside code objects for AMD GPUs that programs load at run time.
//!
//! The section is the same as in objects of programs, but does not need to record which image a unit became.

use super::ir_section::{self, SECTION, Unit};
use super::{bundle, code_object, elf};

/// The units in a code object, or in all code objects of an offload bundle; empty for other images.
pub fn units(image: &[u8]) -> Vec<Unit<'static>> {
    let plain = bundle::plain(image);
    let entries = plain.iter().flat_map(|plain| bundle::entries(plain)).map(|entry| entry.bytes);
    let objects = entries.chain([image]).filter(|object| code_object::is_code_object(object));
    let sections = objects.filter_map(|object| elf::section(object, SECTION));
    sections.flat_map(ir_section::decode).map(Unit::into_owned).collect()
}
