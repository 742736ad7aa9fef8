//! The origin of a kernel: the object that contains its IR, and the image that it was loaded from.

use std::borrow::Borrow;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mneme_image::elf::MappedFile;
use mneme_image::ir_section::{self, SymbolKind, Unit};
use mneme_model::architecture::{GpuArchitecture, Processor, Vendor};

use super::images::LoadedImage;
use super::ir_unit::IrUnit;
use crate::process::log::warning;

/// A loaded ELF object with device code.
pub struct Object {
    path: PathBuf,
    version: Option<FileVersion>,
    units: OnceLock<Vec<IrUnit>>,
}

/// Changes when a file is written or replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    modified: (i64, i64),
}

impl FileVersion {
    fn of(path: &Path) -> Option<Self> {
        let file = path.metadata().ok()?;
        let modified = (file.mtime(), file.mtime_nsec());
        Some(Self { device: file.dev(), inode: file.ino(), size: file.len(), modified })
    }
}

impl Object {
    /// The object of a path, as its file is now.
    pub fn new(path: PathBuf) -> Self {
        Self { version: FileVersion::of(&path), path, units: OnceLock::new() }
    }

    /// Whether the file was the same when both were made.
    pub fn is_same_file(&self, other: &Self) -> bool {
        self.version == other.version
    }

    /// Whether its file is still the same and readable.
    pub fn is_unchanged(&self) -> bool {
        self.version.is_some() && self.version == FileVersion::of(&self.path)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The records in its `.mneme.ir` section, read at the first use. Empty if the section is missing or the file has
    /// been replaced.
    fn units(&self) -> &[IrUnit] {
        self.units.get_or_init(|| {
            let Ok(file) = MappedFile::open(&self.path) else { return Vec::new() };
            if !self.is_unchanged() {
                warning!("{} has changed since it was loaded, so its LLVM IR is not used", self.path.display());
                return Vec::new();
            }
            let section = file.section(ir_section::SECTION).unwrap_or_default();
            ir_section::decode(section).into_iter().map(IrUnit::new).collect()
        })
    }
}

/// The object and the image that code was loaded from.
#[derive(Clone, Default)]
pub struct CodeOrigin {
    /// The object that contains the image, or `None` if the application made the image itself.
    pub object: Option<Arc<Object>>,
    /// `None` if its format is unknown.
    pub image: Option<Arc<LoadedImage>>,
}

impl CodeOrigin {
    /// The `mneme-cc` records of the object for this image, or all of the object's if the image's sum is unknown.
    pub fn units_of_object(&self) -> Vec<IrUnit> {
        let Some(object) = &self.object else { return Vec::new() };
        let sum = self.image.as_ref().and_then(|image| image.sum());
        let units = ir_section::of_image(object.units(), sum);
        // Units that list their images identify this one, so the file does not matter.
        let are_known = sum.is_some() && units.iter().all(|unit| !unit.table.images.is_empty());
        if are_known || self.object_if_unchanged().is_some() {
            units.into_iter().cloned().collect()
        } else {
            Vec::new()
        }
    }

    /// The object that contains the image, if its file still does: a new version may have replaced the file.
    pub fn object_if_unchanged(&self) -> Option<&Object> {
        let object = self.object.as_deref().filter(|object| object.is_unchanged())?;
        self.image.as_ref().is_none_or(|image| image.is_in_file(object.path())).then_some(object)
    }
}

/// Chooses the architecture whose IR represents a kernel on a device. For NVIDIA: the device's own, else the newest
/// that is not newer, else the newest. For AMD: the device's own, else its family's.
pub fn choose_arch<'a>(
    units: &[impl Borrow<Unit<'a>>],
    kernel: &str,
    device: Option<&GpuArchitecture>,
) -> Option<String> {
    if let Some(GpuArchitecture::Amd(device)) = device {
        return choose_processor(units, kernel, device);
    }
    let device = device.and_then(|device| match device {
        GpuArchitecture::Nvidia(architecture) => Some(architecture.number),
        GpuArchitecture::Amd(_) => None,
    });
    let number = |arch: &str| {
        arch.trim_start_matches(|c: char| !c.is_ascii_digit())
            .trim_end_matches(|c: char| !c.is_ascii_digit())
            .parse::<u32>()
            .unwrap_or(0)
    };
    let archs = architectures(units, kernel, Vendor::Nvidia);
    let fitting =
        archs.iter().filter(|arch| device.is_none_or(|device| number(arch) <= device)).max_by_key(|arch| number(arch));
    fitting.or_else(|| archs.iter().max_by_key(|arch| number(arch))).map(ToString::to_string)
}

fn choose_processor<'a>(units: &[impl Borrow<Unit<'a>>], kernel: &str, device: &Processor) -> Option<String> {
    let archs = architectures(units, kernel, Vendor::Amd);
    let runs = |arch: &&&str| Processor::parse(arch).is_some_and(|code| code.machine_code_runs_on(device));
    let own = archs.iter().find(|arch| **arch == device.name);
    own.or_else(|| archs.iter().find(runs)).map(ToString::to_string)
}

/// The architectures of a vendor for which IR of a kernel exists.
fn architectures<'u, 'a: 'u, U: Borrow<Unit<'a>>>(units: &'u [U], kernel: &str, vendor: Vendor) -> Vec<&'u str> {
    let defines = |unit: &Unit<'_>| {
        // Units without a vendor are NVIDIA's.
        Vendor::of_triple(&unit.table.triple).unwrap_or(Vendor::Nvidia) == vendor
            && unit
                .table
                .symbols
                .iter()
                .any(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel && symbol.name == kernel)
    };
    let mut found = Vec::new();
    for unit in units {
        let unit: &'u Unit<'a> = unit.borrow();
        if defines(unit) {
            found.push(unit.table.arch.as_str());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_image::ir_section::{IrTable, Symbol, decode, encode};
    use mneme_model::architecture::Architecture;

    fn unit(arch: &str) -> Unit<'static> {
        let symbols = vec![Symbol::exported("k", SymbolKind::Kernel)];
        let table = IrTable { arch: arch.into(), symbols, ..IrTable::default() };
        decode(&encode(&table, b"BC").unwrap()).remove(0).into_owned()
    }

    #[test]
    fn ir_for_amds_gpus_is_the_processors_own() {
        let amd = |arch: &str| IrTable { triple: "amdgcn-amd-amdhsa".into(), ..unit(arch).table };
        let unit = |arch: &str| decode(&encode(&amd(arch), b"BC").unwrap()).remove(0).into_owned();
        let units = [unit("gfx90a"), unit("gfx1030"), unit("gfx10-3-generic")];
        let units: Vec<&Unit<'_>> = units.iter().collect();
        let choose = |device: &str| choose_arch(&units, "k", GpuArchitecture::parse(device).as_ref());
        assert_eq!(choose("gfx90a:sramecc+:xnack-").as_deref(), Some("gfx90a"));
        assert_eq!(choose("gfx1030").as_deref(), Some("gfx1030"));
        assert_eq!(choose("gfx1031").as_deref(), Some("gfx10-3-generic"));
        assert_eq!((choose("gfx942"), choose("sm_90")), (None, None));
    }

    #[test]
    fn the_ir_of_the_nearest_architecture_is_chosen() {
        let units = [unit("sm_70"), unit("sm_90a"), unit("sm_80")];
        let units: Vec<&Unit<'_>> = units.iter().collect();
        let nvidia = |number| GpuArchitecture::Nvidia(Architecture::new(number));
        assert_eq!(choose_arch(&units, "k", Some(&nvidia(90))).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "k", Some(&nvidia(89))).as_deref(), Some("sm_80"));
        assert_eq!(choose_arch(&units, "k", Some(&nvidia(60))).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "k", None).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "other", None), None);
    }
}
