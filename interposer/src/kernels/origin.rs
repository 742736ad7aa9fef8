//! The origin of a kernel: the object that its IR is in, and the image that it was loaded from.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use mneme_core::image::elf::MappedFile;
use mneme_core::image::ir_section::{self, SymbolKind, Unit};

use super::images::LoadedImage;

/// A loaded ELF object with device code in it.
pub struct Object {
    path: PathBuf,
    units: OnceLock<Vec<Unit<'static>>>,
}

impl Object {
    pub fn new(path: PathBuf) -> Self {
        Self { path, units: OnceLock::new() }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The records of its `.mneme.ir` section; empty where it has none. Read at the first use.
    pub fn units(&self) -> &[Unit<'static>] {
        self.units.get_or_init(|| {
            let Ok(file) = MappedFile::open(&self.path) else { return Vec::new() };
            let section = file.section(ir_section::SECTION).unwrap_or_default();
            ir_section::decode(section).into_iter().map(Unit::into_owned).collect()
        })
    }
}

/// Where code was loaded from.
#[derive(Clone, Default)]
pub struct CodeOrigin {
    /// The object that the image is in; `None` for one that the application made itself.
    pub object: Option<Arc<Object>>,
    /// `None` where it is no image that we know.
    pub image: Option<Arc<LoadedImage>>,
}

/// The architecture whose IR stands for a kernel on a device: its own, else the newest that is not newer, else the
/// newest. `device` is the compute capability times ten, e.g. 90.
pub fn choose_arch(units: &[Unit<'_>], kernel: &str, device: Option<u32>) -> Option<String> {
    let number = |arch: &str| {
        arch.trim_start_matches(|c: char| !c.is_ascii_digit())
            .trim_end_matches(|c: char| !c.is_ascii_digit())
            .parse::<u32>()
            .unwrap_or(0)
    };
    let defines = |unit: &&Unit<'_>| {
        unit.table
            .symbols
            .iter()
            .any(|symbol| symbol.defined && symbol.kind == SymbolKind::Kernel && symbol.name == kernel)
    };
    let archs: Vec<&str> = units.iter().filter(defines).map(|unit| unit.table.arch.as_str()).collect();
    let fitting =
        archs.iter().filter(|arch| device.is_none_or(|device| number(arch) <= device)).max_by_key(|arch| number(arch));
    fitting.or_else(|| archs.iter().max_by_key(|arch| number(arch))).map(ToString::to_string)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::image::ir_section::{Symbol, Table, decode, encode};

    fn unit(arch: &str) -> Unit<'static> {
        let symbol = Symbol {
            name: "k".into(),
            kind: SymbolKind::Kernel,
            defined: true,
            external: true,
            hash: 1,
            refs: vec![],
            arguments: vec![],
            variable: None,
        };
        let table = Table { arch: arch.into(), symbols: vec![symbol], ..Table::default() };
        decode(&encode(&table, b"BC").unwrap()).remove(0).into_owned()
    }

    #[test]
    fn the_ir_of_the_nearest_architecture_is_chosen() {
        let units = [unit("sm_70"), unit("sm_90a"), unit("sm_80")];
        assert_eq!(choose_arch(&units, "k", Some(90)).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "k", Some(89)).as_deref(), Some("sm_80"));
        assert_eq!(choose_arch(&units, "k", Some(60)).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "k", None).as_deref(), Some("sm_90a"));
        assert_eq!(choose_arch(&units, "other", None), None);
    }
}
