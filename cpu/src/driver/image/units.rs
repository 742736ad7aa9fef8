//! Finds the embedded IR that belongs to an image.

use std::borrow::Cow;
use std::sync::Arc;

use goblin::elf::Elf;
use goblin::elf::header::EM_AMDGPU;
use goblin::elf::sym::STT_OBJECT;
use mneme_image::cubin::Cubin;
use mneme_image::fatbin::{self, FatbinKind};
use mneme_image::ir_section::{self, SymbolKind, Unit};
use mneme_image::{bitcode, bundle, cpu_object, cubin, elf, embedded, ir_inside, ir_path, sum};
use mneme_model::architecture::Vendor;
use mneme_model::compile_options::CompileOptions;
use thiserror::Error;

use super::processor;
use super::sections::units_of;
use super::text::{self, FoundPtx};

/// Why no code of an image can run.
#[derive(Debug, Error)]
pub enum NoCode {
    #[error(
        "the program has neither LLVM IR nor PTX for its device code, and the CPU device cannot run the machine code of GPUs; build it with mneme-cc in front of the compiler, or have nvcc add PTX (-gencode arch=compute_90,code=compute_90)"
    )]
    NoIr,
    #[error(
        "the program's PTX is for {0} and newer GPUs, and the CPU device stands in for sm_90; build it with mneme-cc in front of the compiler, or add -gencode arch=compute_90,code=compute_90"
    )]
    NewerPtx(String),
    #[error(
        "the program's LLVM IR is for {0}, and the CPU device stands in for {device}; choose another processor with MNEME_CPU_GFX",
        device = processor::name()
    )]
    OtherProcessor(String),
}

/// IR that is compiled and loaded as one.
pub struct Group {
    /// The architecture that the IR was made for, e.g. "sm_90" or "gfx90a".
    pub arch: String,
    code: Code,
}

enum Code {
    /// Embedded by `mneme-cc`.
    Units(Vec<Arc<Unit<'static>>>),
    /// Another compiler's IR, found in the machine code made from it; or PTX as the only module.
    Image { kernels: Vec<NamedKernel>, variables: Vec<String>, modules: Vec<Vec<u8>> },
}

/// A kernel as the image describes it: its name, and the offset and size of each parameter.
struct NamedKernel {
    name: String,
    parameters: Vec<(u32, u32)>,
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

    /// The options of the compilation. Units that are linked together have one pipeline, so the first unit decides.
    pub fn compiled(&self) -> Option<&CompileOptions> {
        match &self.code {
            Code::Units(units) => units.iter().find_map(|unit| unit.table.compiled.as_ref()),
            Code::Image { .. } => None,
        }
    }

    /// The row of a kernel without code: its name and parameters.
    pub fn row_without_code(&self, name: &str) -> Option<cpu_object::CpuKernel> {
        let layout: Vec<(u32, u32)> = match &self.code {
            Code::Units(units) => {
                let symbol = units.iter().find_map(|unit| unit.symbol(name).filter(|symbol| symbol.defined))?;
                symbol.arguments.iter().map(|argument| (argument.offset, argument.size)).collect()
            }
            Code::Image { kernels, .. } => kernels.iter().find(|kernel| kernel.name == name)?.parameters.clone(),
        };
        let parameters: Vec<_> =
            layout.into_iter().map(|(offset, size)| cpu_object::CpuParameter { offset, size }).collect();
        let parameter_bytes = parameters.iter().map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0);
        Some(cpu_object::CpuKernel { parameters, parameter_bytes, ..bare_row(name) })
    }
}

/// The row of a kernel of which only the name is known.
pub fn bare_row(name: &str) -> cpu_object::CpuKernel {
    cpu_object::CpuKernel {
        name: name.to_owned(),
        entry: String::new(),
        parameters: Vec::new(),
        parameter_bytes: 0,
        dynamic_shared_offset: 0,
        static_shared: 0,
        collective: false,
        max_threads: 0,
        warp_size: 32,
        cluster: [0; 3],
    }
}

fn definitions<'a>(unit: &'a Unit<'_>, kinds: &'a [SymbolKind]) -> impl Iterator<Item = &'a str> {
    unit.table
        .symbols
        .iter()
        .filter(|symbol| symbol.defined && kinds.contains(&symbol.kind))
        .map(|symbol| symbol.name.as_str())
}

/// The vendor whose code an image contains.
fn vendor_of(image: &[u8]) -> Vendor {
    let is_bundle = image.starts_with(bundle::MAGIC) || image.starts_with(bundle::COMPRESSED_MAGIC);
    if is_bundle || is_code_object(image) { Vendor::Amd } else { Vendor::Nvidia }
}

/// The groups of units that an image was made from, for the architecture that the device reports to the vendor's
/// programs.
fn fitting(vendor: Vendor, units: &[Arc<Unit<'static>>], image: &[u8], sum: u64) -> Result<Vec<Group>, NoCode> {
    let units: Vec<_> = ir_section::of_image(units, Some(sum)).into_iter().cloned().collect();
    if units.is_empty() {
        return Err(NoCode::NoIr);
    }
    if vendor == Vendor::Nvidia {
        return Ok(choose(units, image));
    }
    let (fitting, others): (Vec<_>, Vec<_>) = units.into_iter().partition(|unit| unit.table.arch == processor::name());
    if fitting.is_empty() {
        return Err(NoCode::OtherProcessor(list(others.iter().map(|unit| unit.table.arch.clone()))));
    }
    Ok(choose(fitting, image))
}

/// Distinct names, separated by commas.
fn list(names: impl Iterator<Item = String>) -> String {
    let names: std::collections::BTreeSet<String> = names.collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Whether an image is machine code for an AMD GPU.
fn is_code_object(image: &[u8]) -> bool {
    image.starts_with(b"\x7fELF\x02\x01") && image.get(18..20) == Some(&EM_AMDGPU.to_le_bytes()[..])
}

/// Finds the groups of an image. The first of these that exists is used: `mneme-cc`'s IR in the image itself; that in
/// the ELF object that contains the address; other compilers' IR in the image; IR in a file of `MNEME_IR_PATH`; the
/// image's PTX. If the image lies elsewhere (read from a file, copied to the heap), every object of the process is
/// searched, and only IR that names the image precedes PTX.
pub fn groups_for(address: usize, image: &[u8]) -> Result<Vec<Group>, NoCode> {
    let vendor = vendor_of(image);
    let sum = sum::of_image(image);
    let plain = bundle::plain(image);
    let image = plain.as_deref().unwrap_or(image);
    let units: Vec<_> = ir_inside::units(image).into_iter().map(Arc::new).collect();
    if !units.is_empty() {
        return fitting(vendor, &units, image, sum);
    }
    let own = elf::object_at(address).map(|object| units_of(&object, vendor)).unwrap_or_default();
    let of_object = fitting(vendor, &own, image, sum);
    if !matches!(of_object, Err(NoCode::NoIr)) {
        return of_object;
    }
    let inside = match vendor {
        Vendor::Nvidia => in_cubins(image, in_cubin).into_iter().collect(),
        Vendor::Amd => in_code_objects(image)?,
    };
    if !inside.is_empty() {
        return Ok(inside);
    }
    let beside: Vec<_> = match vendor {
        Vendor::Nvidia => in_cubins(image, beside_cubin).into_iter().collect(),
        Vendor::Amd => code_objects(image).iter().filter_map(|(_, object)| beside_code_object(object)).collect(),
    };
    if !beside.is_empty() {
        return Ok(beside);
    }
    let text = if vendor == Vendor::Nvidia { text::of(image) } else { FoundPtx::None };
    let all: Vec<_> = match own.is_empty() {
        true => elf::loaded_objects().iter().flat_map(|object| units_of(object, vendor)).collect(),
        false => Vec::new(),
    };
    match text {
        FoundPtx::Fitting(code) if !all.iter().any(|unit| unit.table.images.contains(&sum)) => Ok(vec![of_text(code)]),
        FoundPtx::Newer(oldest) if all.is_empty() => Err(NoCode::NewerPtx(oldest.to_string())),
        _ if own.is_empty() => fitting(vendor, &all, image, sum),
        _ => of_object,
    }
}

/// A group for PTX, or for IR of its kernels in a file that the user names.
fn of_text(code: text::PtxCode) -> Group {
    let named = in_files(code.kernels.iter().map(|(name, _)| name.as_str()));
    let module = named.unwrap_or_else(|| code.text.into_bytes());
    let kernels = code.kernels.into_iter().map(|(name, parameters)| NamedKernel { name, parameters }).collect();
    let code_of_image = Code::Image { kernels, variables: code.variables, modules: vec![module] };
    Group { arch: code.arch, code: code_of_image }
}

/// Searches the machine code of an image for NVIDIA GPUs, beginning with the newest architecture.
fn in_cubins(image: &[u8], find: fn(&[u8]) -> Option<Group>) -> Option<Group> {
    if image.starts_with(b"\x7fELF") {
        return find(image);
    }
    let mut entries = fatbin::entries(image);
    entries.retain(|entry| entry.kind == FatbinKind::Cubin);
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.architecture));
    entries.iter().find_map(|entry| find(&entry.contents()?))
}

/// IR inside the machine code.
fn in_cubin(image: &[u8]) -> Option<Group> {
    let cubin = cubin::parse(image)?;
    let (_, modules) = embedded::in_cubin(image, &cubin)?;
    of_cubin(cubin, modules.into_iter().map(<[u8]>::to_vec).collect())
}

/// IR in a file that the user names.
fn beside_cubin(image: &[u8]) -> Option<Group> {
    let cubin = cubin::parse(image)?;
    let module = in_files(cubin.kernels.iter().map(|kernel| kernel.name.as_str()))?;
    of_cubin(cubin, vec![module])
}

fn of_cubin(cubin: Cubin, modules: Vec<Vec<u8>>) -> Option<Group> {
    let variables = cubin.variables.into_iter().map(|variable| variable.name).collect();
    let kernels = cubin.kernels.into_iter();
    let kernels = kernels.map(|kernel| NamedKernel { name: kernel.name, parameters: kernel.parameters }).collect();
    Some(Group { arch: cubin.architecture?.to_string(), code: Code::Image { kernels, variables, modules } })
}

/// The code objects of an image for AMD GPUs, with their processors.
fn code_objects(image: &[u8]) -> Vec<(&str, &[u8])> {
    let alone = is_code_object(image).then_some((processor::name(), image));
    let entries = bundle::entries(image).into_iter();
    let entries = entries.map(|entry| (entry.processor().split(':').next().unwrap_or_default(), entry.bytes));
    entries.filter(|(name, _)| !name.is_empty()).chain(alone).collect()
}

/// Proteus's IR in code objects for AMD GPUs. Each section holds the module of one kernel.
fn in_code_objects(image: &[u8]) -> Result<Vec<Group>, NoCode> {
    let objects = code_objects(image);
    let with_ir = objects.into_iter().filter(|(_, object)| !embedded::in_code_object(object).is_empty());
    let (own, others): (Vec<_>, Vec<_>) = with_ir.partition(|(name, _)| *name == processor::name());
    if own.is_empty() && !others.is_empty() {
        return Err(NoCode::OtherProcessor(list(others.iter().map(|(name, _)| (*name).to_owned()))));
    }
    Ok(own.into_iter().flat_map(|(_, object)| of_proteus(object)).collect())
}

/// The symbols that a code object defines.
struct Defined {
    kernels: Vec<String>,
    variables: Vec<String>,
}

impl Defined {
    fn by(object: &[u8]) -> Option<Self> {
        let parsed = Elf::parse(object).ok()?;
        let defined = || parsed.syms.iter().filter(|symbol| symbol.st_shndx != 0);
        let name = |symbol: &goblin::elf::Sym| parsed.strtab.get_at(symbol.st_name);
        // The symbol of a kernel's descriptor is the kernel's name with an ending.
        let kernels = defined().filter_map(|symbol| Some(name(&symbol)?.strip_suffix(".kd")?.to_owned())).collect();
        let objects = defined().filter(|symbol| symbol.st_type() == STT_OBJECT);
        let variables = objects.filter_map(|symbol| name(&symbol)).filter(|name| !name.ends_with(".kd"));
        Some(Self { kernels, variables: variables.map(str::to_owned).collect() })
    }

    /// A group for the module of these kernels.
    fn group(&self, kernels: Vec<String>, module: Vec<u8>) -> Group {
        let named = |name| NamedKernel { name, parameters: Vec::new() };
        Group {
            arch: processor::name().to_owned(),
            code: Code::Image {
                kernels: kernels.into_iter().map(named).collect(),
                variables: self.variables.clone(),
                modules: vec![module],
            },
        }
    }
}

/// A group for each of Proteus's modules. It defines the kernel that its section is named after, or any kernel if the
/// section names none.
fn of_proteus(object: &[u8]) -> Vec<Group> {
    let Some(defined) = Defined::by(object) else { return Vec::new() };
    let modules = embedded::in_code_object(object).into_iter();
    modules
        .map(|(section, module)| {
            let own = defined.kernels.iter().filter(|kernel| section.contains(kernel.as_str()));
            // One kernel's name may be a prefix of another's.
            let longest = own.max_by_key(|kernel| kernel.len());
            let meant = longest.map_or_else(|| defined.kernels.clone(), |kernel| vec![kernel.clone()]);
            defined.group(meant, module.to_vec())
        })
        .collect()
}

fn beside_code_object(object: &[u8]) -> Option<Group> {
    let defined = Defined::by(object)?;
    let module = in_files(defined.kernels.iter().map(String::as_str))?;
    Some(defined.group(defined.kernels.clone(), module))
}

/// Finds the IR of machine code in the files of `MNEME_IR_PATH`. The file has to contain all its kernels.
fn in_files<'a>(mut kernels: impl Iterator<Item = &'a str>) -> Option<Vec<u8>> {
    let (_, module) = ir_path::find(kernels.next()?)?;
    kernels.all(|kernel| bitcode::mentions(&module, kernel)).then_some(module)
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
    // The image was made from the largest unit whose names it contains.
    let exact = alone.iter().filter(|unit| named(unit)).max_by_key(|unit| unit.table.symbols.len()).cloned();
    if let Some(unit) = exact {
        return vec![Group { arch, code: Code::Units(vec![unit]) }];
    }
    // Relocatable device code is linked into one image. A compressed image shows no names, so any unit may be the right
    // one.
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
    use crate::driver::image::sections::decoded;
    use mneme_image::ir_section::{IrTable, Symbol};

    fn unit(arch: &str, rdc: bool, kernels: &[&str]) -> Arc<Unit<'static>> {
        let symbols = kernels.iter().map(|name| Symbol::exported(*name, SymbolKind::Kernel)).collect();
        let table =
            IrTable { arch: arch.into(), triple: "nvptx64-nvidia-cuda".into(), rdc, symbols, ..IrTable::default() };
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
    fn of_amd_s_ir_that_of_the_device_s_processor_is_run() {
        let amd = |arch: &str, kernels: &[&str]| {
            let table = IrTable { triple: "amdgcn-amd-amdhsa".into(), ..unit(arch, false, kernels).table.clone() };
            let record = ir_section::encode(&table, b"BC").unwrap();
            decoded(&record, Vendor::Amd).remove(0)
        };
        assert!(decoded(&ir_section::encode(&unit("sm_90", false, &[]).table, b"BC").unwrap(), Vendor::Amd).is_empty());
        // The tests' own program has no IR.
        assert_eq!((processor::name(), processor::wave_size()), ("gfx90a", 64));
        let groups =
            fitting(Vendor::Amd, &[amd("gfx942", &["one"]), amd("gfx90a", &["one", "two"])], b"..one..two..", 0);
        let groups = groups.unwrap();
        assert_eq!((groups[0].arch.as_str(), names(&groups)), ("gfx90a", vec![vec!["one", "two"]]));
        let reason =
            fitting(Vendor::Amd, &[amd("gfx942", &["one"]), amd("gfx1100", &["one"])], b"one", 0).err().unwrap();
        assert_eq!(
            reason.to_string(),
            "the program's LLVM IR is for gfx1100, gfx942, and the CPU device stands in for gfx90a; choose another processor with MNEME_CPU_GFX"
        );
        assert!(matches!(groups_for(0, bundle::MAGIC), Err(NoCode::NoIr)));
        let image = std::fs::read("/proc/self/exe").unwrap();
        assert_eq!((vendor_of(&image), vendor_of(b"CCOB")), (Vendor::Nvidia, Vendor::Amd));
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
