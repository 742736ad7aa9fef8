//! Reads sections of embedded IR, and selects the units for one vendor's GPUs.

use std::sync::Arc;

use mneme_image::elf;
use mneme_image::ir_section::{self, Unit};
use mneme_model::architecture::Vendor;

/// The AMD architectures for which the process has IR.
pub fn amd_architectures() -> Vec<String> {
    let units = elf::loaded_objects().iter().flat_map(|object| units_of(object, Vendor::Amd)).collect::<Vec<_>>();
    units.iter().map(|unit| unit.table.arch.clone()).collect()
}

/// The units in the file of a loaded object.
pub fn units_of(object: &elf::LoadedObject, vendor: Vendor) -> Vec<Arc<Unit<'static>>> {
    let Ok(file) = elf::MappedFile::open(&object.path) else { return Vec::new() };
    file.section(ir_section::SECTION).map(|section| decoded(section, vendor)).unwrap_or_default()
}

/// The units in the contents of a section.
pub fn decoded(section: &[u8], vendor: Vendor) -> Vec<Arc<Unit<'static>>> {
    let units = ir_section::decode(section).into_iter();
    let meant = units.filter(|unit| Vendor::of_triple(&unit.table.triple) == Some(vendor));
    meant.map(|unit| Arc::new(unit.into_owned())).collect()
}
