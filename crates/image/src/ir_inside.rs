//! LLVM IR of `mneme-cc` inside code objects for AMD GPUs, which programs load by themselves.
//!
//! The section is the one that objects of programs have. Here nothing has to tell which image a unit became.

use super::ir_section::{self, SECTION, Unit};
use super::{bundle, code_object, elf};

/// The units in a code object, or in those of an offload bundle; empty for other images.
pub fn units(image: &[u8]) -> Vec<Unit<'static>> {
    let plain = bundle::plain(image);
    let entries = plain.iter().flat_map(|plain| bundle::entries(plain)).map(|entry| entry.bytes);
    let objects = entries.chain([image]).filter(|object| code_object::is_code_object(object));
    let sections = objects.filter_map(|object| elf::section(object, SECTION));
    sections.flat_map(ir_section::decode).map(Unit::into_owned).collect()
}
