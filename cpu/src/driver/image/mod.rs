//! Images that a program passes to the driver, and their kernels that run here.
//!
//! An image is a fat binary, a cubin, PTX, an offload bundle, a code object for AMD GPUs, or a CPU code object.
//!
//! GPU machine code cannot run, so loading an image looks up the LLVM IR that was embedded beside it. A helper process
//! compiles the IR when the program first asks for a kernel or variable of the image.

mod compile;
mod foreign;
pub mod processor;
mod sections;
mod text;
mod units;

use std::sync::{Arc, OnceLock};

use mneme_image::{bundle, cpu_object, elf, in_memory};

use super::allocations::{self, MemoryKind};
use crate::loader::{self, Loaded, PlacementRange};
use crate::status::Status;
use foreign::ForeignVariable;

/// Code that is loaded together: one object, or units that are linked into one program.
struct Group {
    /// `None` for a CPU code object, which needs no compilation.
    units: Option<units::Group>,
    loaded: OnceLock<Result<Arc<ResidentObject>, Status>>,
}

/// A loaded image.
pub struct Image {
    groups: Vec<Group>,
    foreign: Vec<ForeignVariable>,
}

/// A kernel of a loaded object, or one that the compiler refused.
#[derive(Clone)]
pub struct ImageKernel {
    loaded: Arc<ResidentObject>,
    row: cpu_object::CpuKernel,
    refusal: Option<String>,
    of_amd: bool,
}

impl ImageKernel {
    /// Whether its IR was made for an AMD processor; false for a CPU code object.
    pub fn is_of_amd(&self) -> bool {
        self.of_amd
    }

    pub fn row(&self) -> &cpu_object::CpuKernel {
        &self.row
    }

    /// The required feature that this device lacks.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.as_deref()
    }

    /// The addresses of its object.
    pub fn addresses(&self) -> std::ops::Range<usize> {
        self.loaded.addresses()
    }

    /// The code object that contains it.
    pub fn object(&self) -> &[u8] {
        &self.loaded.bytes
    }

    pub fn entry(&self) -> Result<crate::execution::grid::KernelEntry, Status> {
        let address = self.loaded.symbol(&self.row.entry).ok_or(Status::INVALID_IMAGE)?;
        // SAFETY: the table says that this symbol is an entry, which has this type. The object stays loaded with
        // `self`.
        Ok(unsafe { std::mem::transmute::<usize, crate::execution::grid::KernelEntry>(address as usize) })
    }
}

impl Image {
    /// Reads the image at an address. C callers pass no length; the image's own headers contain it.
    pub fn at(address: *const u8) -> Result<Self, Status> {
        if address.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller of the driver promises an image.
        let image = unsafe { image_at(address) }.ok_or(Status::INVALID_IMAGE)?;
        if loader::is_code_object(image) {
            return Self::of_object(image);
        }
        Self::of_units(image, units::groups_for(address as usize, image))
    }

    /// Reads an image from a file.
    pub fn from_bytes(mut bytes: Vec<u8>) -> Result<Self, Status> {
        if loader::is_code_object(&bytes) {
            return Self::of_object(&bytes);
        }
        bytes.push(0);
        Self::of_units(&bytes, units::groups_for(0, &bytes))
    }

    fn of_object(object: &[u8]) -> Result<Self, Status> {
        let loaded = load(object.into(), PlacementRange::Replay)?;
        Ok(Self { groups: vec![Group { units: None, loaded: OnceLock::from(Ok(loaded)) }], foreign: Vec::new() })
    }

    fn of_units(image: &[u8], groups: Result<Vec<units::Group>, units::NoCode>) -> Result<Self, Status> {
        let groups = groups.map_err(|reason| {
            crate::report::say!("{reason}");
            Status::NO_BINARY_FOR_GPU
        })?;
        Ok(Self {
            groups: groups.into_iter().map(|units| Group { units: Some(units), loaded: OnceLock::new() }).collect(),
            foreign: ForeignVariable::of_image(image),
        })
    }

    pub fn kernel(&self, name: &str) -> Result<ImageKernel, Status> {
        for group in &self.groups {
            if group.units.as_ref().is_some_and(|units| !units.defines(name)) {
                continue;
            }
            let loaded = group.load()?;
            let of_amd = group.units.as_ref().is_some_and(|units| units.arch.starts_with("gfx"));
            if let Some(row) = loaded.table.kernels.iter().find(|row| row.name == name) {
                // Objects from files are untrusted.
                if ![32, 64].contains(&row.warp_size) {
                    return Err(Status::INVALID_IMAGE);
                }
                return Ok(ImageKernel { row: row.clone(), refusal: None, loaded, of_amd });
            }
            if let Some(refused) = loaded.table.refused.iter().find(|refused| refused.kernel == name) {
                let row = group.units.as_ref().and_then(|units| units.row_without_code(name));
                let row = row.unwrap_or_else(|| units::bare_row(name));
                return Ok(ImageKernel { row, refusal: Some(refused.reason.clone()), loaded, of_amd });
            }
        }
        Err(Status::NOT_FOUND)
    }

    /// Address and size of a variable.
    pub fn variable(&self, name: &str) -> Result<(u64, u64), Status> {
        for group in &self.groups {
            if group.units.as_ref().is_some_and(|units| !units.defines(name)) {
                continue;
            }
            let loaded = group.load()?;
            let found = loaded.table.variables.iter().find(|variable| variable.name == name);
            if let Some((address, size)) =
                found.and_then(|variable| Some((loaded.symbol(&variable.symbol)?, variable.size)))
            {
                return Ok((address, size));
            }
        }
        let foreign = self.foreign.iter().find(|variable| variable.is_named(name));
        foreign.map(ForeignVariable::place).ok_or(Status::NOT_FOUND)
    }

    pub fn kernel_names(&self) -> Result<Vec<String>, Status> {
        let mut names = Vec::new();
        for group in &self.groups {
            match &group.units {
                Some(units) => names.extend(units.kernels().into_iter().map(str::to_owned)),
                None => names.extend(group.load()?.table.kernels.iter().map(|row| row.name.clone())),
            }
        }
        Ok(names)
    }
}

impl Group {
    fn load(&self) -> Result<Arc<ResidentObject>, Status> {
        self.loaded
            .get_or_init(|| {
                let units = self.units.as_ref().ok_or(Status::INVALID_IMAGE)?;
                let object = compile::object(units).map_err(|error| {
                    crate::report::say!("{error}");
                    Status::NO_BINARY_FOR_GPU
                })?;
                load(object, PlacementRange::Application)
            })
            .clone()
    }
}

/// A loaded object whose variables are in the table of allocations, so copies and queries accept them.
pub struct ResidentObject {
    object: Loaded,
    bytes: Arc<[u8]>,
}

impl std::ops::Deref for ResidentObject {
    type Target = Loaded;

    fn deref(&self) -> &Loaded {
        &self.object
    }
}

impl ResidentObject {
    fn variables(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let variables = self.object.table.variables.iter().filter(|variable| variable.size > 0);
        variables.filter_map(|variable| Some((self.object.symbol(&variable.symbol)?, variable.size)))
    }
}

impl Drop for ResidentObject {
    fn drop(&mut self) {
        for (address, _) in self.variables() {
            let _ = allocations::forget(address, MemoryKind::Module);
        }
    }
}

fn load(bytes: Arc<[u8]>, range: PlacementRange) -> Result<Arc<ResidentObject>, Status> {
    let object = loader::load(&bytes, range).map_err(|error| {
        crate::report::say!("{error}");
        Status::INVALID_IMAGE
    })?;
    let resident = ResidentObject { object, bytes };
    for (address, size) in resident.variables() {
        allocations::add(address, size, MemoryKind::Module);
    }
    Ok(Arc::new(resident))
}

/// Returns the bytes of an image in the caller's memory.
/// # Safety
/// A wrapper, a fat binary, an offload bundle, an ELF image or NUL-terminated text must be at the address, and stay for
/// `'a`.
unsafe fn image_at<'a>(address: *const u8) -> Option<&'a [u8]> {
    // SAFETY: promised by the caller.
    unsafe {
        let image = in_memory::contents(address)?;
        let size = match in_memory::size(image) {
            Some(size) => usize::try_from(size).ok()?,
            None => mapped(image)?,
        };
        Some(std::slice::from_raw_parts(image, size))
    }
}

/// Bytes from an image to the end of its object's mapping, for the only image that does not contain its size: a
/// compressed bundle of version 1.
///
/// # Safety
/// There must be an image at the address.
unsafe fn mapped(image: *const u8) -> Option<usize> {
    // SAFETY: promised by the caller. Only a text can be shorter than a magic number, and its size was found before.
    if unsafe { std::slice::from_raw_parts(image, bundle::COMPRESSED_MAGIC.len()) } != bundle::COMPRESSED_MAGIC {
        return None;
    }
    let start = image as usize;
    let segments = elf::object_at(start)?.segments;
    segments.into_iter().find(|segment| segment.contains(&start)).map(|segment| segment.end - start)
}
