//! The embedded IR that belongs to an image.

use std::borrow::Cow;
use std::sync::Arc;

use mneme_core::image::fatbin::{self, FatbinKind};
use mneme_core::image::ir_section::{self, SymbolKind, Unit};
use mneme_core::image::{cpu_object, cubin, elf, embedded};

/// IR that is compiled and loaded as one.
pub struct Group {
    /// The architecture that it was made for, e.g. "sm_90".
    pub arch: String,
    code: Code,
}

enum Code {
    /// Of `mneme-cc`.
    Units(Vec<Arc<Unit<'static>>>),
    /// Of other compilers, in the machine code that was made from it.
    Image { kernels: Vec<cubin::CubinKernel>, variables: Vec<String>, modules: Vec<Vec<u8>> },
}

impl Group {
    pub fn defines(&self, name: &str) -> bool {
        match &self.code {
            Code::Units(units) => units.iter().any(|unit| unit.symbol(name).is_some_and(|symbol| symbol.defined)),
            Code::Image { kernels, variables, .. } => {
                kernels.iter().any(|kernel| kernel.name == name) || variables.iter().any(|known| known == name)
            }
        }
    }

    pub fn kernels(&self) -> Vec<&str> {
        match &self.code {
            Code::Units(units) => units.iter().flat_map(|unit| definitions(unit, &[SymbolKind::Kernel])).collect(),
            Code::Image { kernels, .. } => kernels.iter().map(|kernel| kernel.name.as_str()).collect(),
        }
    }

    /// The bitcode of each module.
    pub fn modules(&self) -> std::io::Result<Vec<Cow<'_, [u8]>>> {
        match &self.code {
            Code::Units(units) => units.iter().map(|unit| unit.bitcode().map(Cow::Owned)).collect(),
            Code::Image { modules, .. } => Ok(modules.iter().map(|module| Cow::Borrowed(&module[..])).collect()),
        }
    }

    /// What is known of a kernel that has no code: its parameters.
    pub fn row_without_code(&self, name: &str) -> Option<cpu_object::Kernel> {
        let layout: Vec<(u32, u32)> = match &self.code {
            Code::Units(units) => {
                let symbol = units.iter().find_map(|unit| unit.symbol(name).filter(|symbol| symbol.defined))?;
                symbol.arguments.iter().map(|argument| (argument.offset, argument.size)).collect()
            }
            Code::Image { kernels, .. } => kernels.iter().find(|kernel| kernel.name == name)?.parameters.clone(),
        };
        let parameters: Vec<_> =
            layout.into_iter().map(|(offset, size)| cpu_object::Parameter { offset, size }).collect();
        let parameter_bytes = parameters.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0);
        Some(cpu_object::Kernel { parameters, parameter_bytes, ..bare_row(name) })
    }
}

/// A kernel of which only the name is known.
pub fn bare_row(name: &str) -> cpu_object::Kernel {
    cpu_object::Kernel {
        name: name.to_owned(),
        entry: String::new(),
        parameters: Vec::new(),
        parameter_bytes: 0,
        dynamic_shared_offset: 0,
        static_shared: 0,
        collective: false,
        max_threads: 0,
        warp_size: 32,
    }
}

fn definitions<'a>(unit: &'a Unit<'_>, kinds: &'a [SymbolKind]) -> impl Iterator<Item = &'a str> {
    unit.table
        .symbols
        .iter()
        .filter(|symbol| symbol.defined && kinds.contains(&symbol.kind))
        .map(|symbol| symbol.name.as_str())
}

/// The groups for an image: those of the ELF object that its address lies in, else what other compilers have put into
/// the image itself. For an image elsewhere (read from a file, copied to the heap) those of every object of the
/// process.
pub fn groups_for(address: usize, image: &[u8]) -> Vec<Group> {
    let own = elf::object_at(address).map(|object| units_of(&object)).unwrap_or_default();
    if !own.is_empty() {
        return choose(own, image);
    }
    match in_image(image) {
        Some(group) => vec![group],
        None => choose(elf::loaded_objects().iter().flat_map(units_of).collect(), image),
    }
}

/// The IR in the machine code of an image, of the newest architecture where there are several.
fn in_image(image: &[u8]) -> Option<Group> {
    if image.starts_with(b"\x7fELF") {
        return in_cubin(image);
    }
    let mut entries = fatbin::entries(image);
    entries.retain(|entry| entry.kind == FatbinKind::Cubin);
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.architecture));
    entries.iter().find_map(|entry| in_cubin(&entry.contents()?))
}

fn in_cubin(image: &[u8]) -> Option<Group> {
    let cubin = cubin::parse(image)?;
    let (_, modules) = embedded::in_cubin(image, &cubin)?;
    let modules = modules.into_iter().map(<[u8]>::to_vec).collect();
    let variables = cubin.variables.into_iter().map(|variable| variable.name).collect();
    Some(Group {
        arch: cubin.architecture?.to_string(),
        code: Code::Image { kernels: cubin.kernels, variables, modules },
    })
}

fn units_of(object: &elf::LoadedObject) -> Vec<Arc<Unit<'static>>> {
    let Ok(file) = elf::MappedFile::open(&object.path) else { return Vec::new() };
    let Some(section) = file.section(ir_section::SECTION) else { return Vec::new() };
    let units = ir_section::decode(section);
    units
        .into_iter()
        .filter(|unit| unit.table.triple.starts_with("nvptx"))
        .map(|unit| Arc::new(unit.into_owned()))
        .collect()
}

/// "sm_90a" → 90
fn version(arch: &str) -> u32 {
    let digits: String = arch.chars().filter(char::is_ascii_digit).collect();
    digits.parse().unwrap_or(0)
}

fn choose(mut units: Vec<Arc<Unit<'static>>>, image: &[u8]) -> Vec<Group> {
    let Some(arch) = units.iter().map(|unit| unit.table.arch.clone()).max_by_key(|arch| version(arch)) else {
        return Vec::new();
    };
    units.retain(|unit| unit.table.arch == arch);
    let (linked, alone): (Vec<_>, Vec<_>) = units.into_iter().partition(|unit| unit.table.rdc);
    let named = |unit: &Unit<'_>| {
        let mut names = definitions(unit, &[SymbolKind::Kernel, SymbolKind::Variable]).peekable();
        names.peek().is_some() && names.all(|name| contains(image, name.as_bytes()))
    };
    // The unit that the image was made from is the largest of those whose names are all in it.
    let exact = alone.iter().filter(|unit| named(unit)).max_by_key(|unit| unit.table.symbols.len()).cloned();
    if let Some(unit) = exact {
        return vec![Group { arch, code: Code::Units(vec![unit]) }];
    }
    // Relocatable device code is linked into one image. A compressed image shows no names: then any unit may be meant.
    let mut groups = Vec::new();
    if !linked.is_empty() {
        groups.push(Group { arch: arch.clone(), code: Code::Units(linked) });
    }
    groups.extend(alone.into_iter().map(|unit| Group { arch: arch.clone(), code: Code::Units(vec![unit]) }));
    groups
}

fn contains(image: &[u8], name: &[u8]) -> bool {
    // SAFETY: both ranges are valid for their lengths.
    !unsafe { libc::memmem(image.as_ptr().cast(), image.len(), name.as_ptr().cast(), name.len()) }.is_null()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::image::ir_section::{Symbol, Table};

    fn unit(arch: &str, rdc: bool, kernels: &[&str]) -> Arc<Unit<'static>> {
        let symbols = kernels
            .iter()
            .map(|name| Symbol {
                name: (*name).into(),
                kind: SymbolKind::Kernel,
                defined: true,
                external: true,
                hash: 1,
                refs: vec![],
                arguments: vec![],
                variable: None,
            })
            .collect();
        let table = Table { arch: arch.into(), triple: "nvptx64-nvidia-cuda".into(), rdc, symbols, ..Table::default() };
        let record = ir_section::encode(&table, b"BC").unwrap();
        Arc::new(ir_section::decode(&record).remove(0).into_owned())
    }

    fn names(groups: &[Group]) -> Vec<Vec<&str>> {
        groups.iter().map(Group::kernels).collect()
    }

    #[test]
    fn an_image_gets_the_unit_it_was_made_from() {
        let units = vec![
            unit("sm_90", false, &["one"]),
            unit("sm_90", false, &["one", "two"]),
            unit("sm_90", false, &["three"]),
        ];
        assert_eq!(names(&choose(units.clone(), b"..one..two..")), [vec!["one", "two"]]);
        assert_eq!(names(&choose(units.clone(), b"..one..")), [vec!["one"]]);
        assert_eq!(choose(units, b"compressed").len(), 3);
    }

    #[test]
    fn the_highest_architecture_wins_and_linked_units_stay_together() {
        let units = vec![
            unit("sm_80", true, &["one"]),
            unit("sm_100", true, &["one"]),
            unit("sm_100", true, &["two"]),
            unit("sm_90", true, &["one"]),
        ];
        let groups = choose(units, b"");
        assert_eq!(names(&groups), [vec!["one", "two"]]);
        assert_eq!(groups[0].arch, "sm_100");
        assert!(groups[0].defines("two") && !groups[0].defines("three"));
    }
}
