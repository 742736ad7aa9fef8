//! Variables that compilers put into machine code beside the program's own, such as Proteus's IR.
//!
//! The IR that runs here lacks them, because it is what they hold. A program that asks for one gets a copy of its
//! initial value.

use mneme_image::fatbin::{self, FatbinKind};
use mneme_image::{cubin, embedded};

use crate::driver::allocations::{self, MemoryKind};

/// A variable, in the table of allocations.
pub struct ForeignVariable {
    name: String,
    value: Box<[u8]>,
}

impl ForeignVariable {
    /// Those in the machine code for NVIDIA GPUs of an image, newest architecture first.
    pub fn of_image(image: &[u8]) -> Vec<Self> {
        if image.starts_with(b"\x7fELF") {
            return Self::of_cubin(image);
        }
        let mut entries = fatbin::entries(image);
        entries.retain(|entry| entry.kind == FatbinKind::Cubin);
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.architecture));
        entries.iter().filter_map(|entry| entry.contents()).flat_map(|contents| Self::of_cubin(&contents)).collect()
    }

    fn of_cubin(image: &[u8]) -> Vec<Self> {
        let Some(cubin) = cubin::parse(image) else { return Vec::new() };
        let foreign = cubin.variables.iter().filter(|variable| embedded::is_foreign(&variable.name));
        foreign.filter_map(|variable| Some(Self::new(&variable.name, cubin::contents(image, variable)?))).collect()
    }

    fn new(name: &str, value: &[u8]) -> Self {
        let variable = Self { name: name.to_owned(), value: value.into() };
        let (address, size) = variable.place();
        allocations::add(address, size, MemoryKind::Module);
        variable
    }

    pub fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    /// Its address and size.
    pub fn place(&self) -> (u64, u64) {
        (self.value.as_ptr() as u64, self.value.len() as u64)
    }
}

impl Drop for ForeignVariable {
    fn drop(&mut self) {
        let _ = allocations::forget(self.place().0, MemoryKind::Module);
    }
}
