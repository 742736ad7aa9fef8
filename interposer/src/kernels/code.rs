//! Finds a kernel's code for a recording: its source, closure, identity, argument layout and files.
//!
//! The sources in order: Proteus's IR in the image, `mneme-cc`'s IR in the image or the object, files beside the
//! program, clang's IR in the image or the object, and the image's own PTX or machine code.

use std::collections::HashMap;
use std::ffi::c_char;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mneme_abi::cuda::sys::CUdevice_attribute;
use mneme_image::ir_section::{self, IrArgument, Symbol, SymbolKind, VariableInfo};
use mneme_image::{embedded, ir_path};
use mneme_model::architecture::{Architecture, GpuArchitecture};
use mneme_model::compile_options::CompileOptions;
use mneme_model::hash::Hash64;
use mneme_model::launch::Launch;
use mneme_recording::CodeKind;
use mneme_recording::database::{ArgumentLayout, KernelDetails, KernelRecord, VERSION};
use mneme_recording::manifest::RecordedArgument;

use super::files::{Contents, KernelFiles};
use super::ir_unit::{CONSTANT_SPACE, GLOBAL_SPACE, IrUnit};
use super::key::{ArgumentValue, Key, Known, LaunchShape};
use super::native::{NativeCode, NativeVariable};
use super::origin::{CodeOrigin, choose_arch};
use super::original::OriginalCode;
use super::parameters::Parameters;
use super::refusal::CodeRefusal;
use crate::driver::{self, CUdevice, CUfunction, hip};
use crate::memory::arena::vmm;
use crate::process::settings::settings;
use crate::process::{linker, recorded_family};

const COMPUTE_CAPABILITY: [CUdevice_attribute; 2] = [
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
    CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
];

/// Names that mark unreplayable code: functions of the device-side runtime, which IR does not define, and markers for
/// features that a recording cannot hold.
const REFUSED: [(&str, CodeRefusal); 8] = [
    (ir_section::INDIRECT_CALL, CodeRefusal::CallsPointers),
    (ir_section::CODE_ADDRESS, CodeRefusal::CodeAddresses),
    (ir_section::DEVICE_HEAP, CodeRefusal::DeviceHeap("allocates or frees")),
    ("malloc", CodeRefusal::DeviceHeap("allocates")),
    ("free", CodeRefusal::DeviceHeap("frees")),
    ("cudaLaunchDevice", CodeRefusal::LaunchesKernels),
    ("cudaGetParameterBuffer", CodeRefusal::LaunchesKernels),
    ("__cudaCDP", CodeRefusal::LaunchesKernels),
];

/// Describes the device of a recording.
pub struct DeviceDescription {
    pub name: String,
    /// `None` if the driver does not report it. The CPU device reports the GPU that it emulates.
    pub architecture: Option<GpuArchitecture>,
}

impl DeviceDescription {
    pub fn of(device: CUdevice) -> Self {
        let mut name = [0u8; 128];
        // SAFETY: the buffer has the length that is passed.
        unsafe { driver::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as i32 - 1, device) };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        let architecture = if recorded_family::is_hip() {
            hip::processor(device).and_then(|processor| GpuArchitecture::parse(&processor))
        } else {
            let [major, minor] = COMPUTE_CAPABILITY.map(|attribute| driver::device_attribute(attribute, device));
            let capability = major.zip(minor).and_then(|(major, minor)| u32::try_from(major * 10 + minor).ok());
            capability.map(|capability| GpuArchitecture::Nvidia(Architecture::new(capability)))
        };
        Self { name: String::from_utf8_lossy(&name[..end]).into_owned(), architecture }
    }

    /// The name in recordings: "sm_90", or "cpu".
    pub fn arch(&self) -> String {
        if linker::cpu_device().is_some() {
            return "cpu".into();
        }
        self.architecture.as_ref().map_or_else(String::new, ToString::to_string)
    }
}

/// The code of a kernel.
pub struct KernelCode {
    pub static_hash: u64,
    arch: String,
    triple: String,
    /// The mangled name.
    name: String,
    pub parameters: Parameters,
    variables: Vec<Symbol>,
    /// Offsets of the words of variables, by name, whose initial values are addresses of functions.
    functions: HashMap<String, Vec<u64>>,
    /// Present until its files are made.
    modules: Vec<Module>,
    source: Source,
    /// `None` after its last module was unloaded.
    files: Mutex<Option<Arc<KernelFiles>>>,
    /// It calls through pointers that may be invalid in a replay, as far as can be determined.
    calls_pointers: bool,
    /// It prints, as far as can be determined.
    pub prints: bool,
    uses_images: bool,
    /// The [`image_key`] of the image that contains the PTX or machine code.
    pub image: Option<u64>,
    /// How the application's own code was compiled, if the IR includes that.
    pub compiled: Option<CompileOptions>,
}

/// The source of the code (docs/how-it-works/code-sources.md).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Source {
    Proteus,
    Section,
    File,
    Embedded,
    Ptx,
    MachineCode,
}

/// The kind of a device variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKind {
    Global,
    Constant,
    /// A constant table of function addresses.
    Code,
}

/// A file of the recording.
struct Module {
    /// The start of its name, and its extension.
    name: (&'static str, &'static str),
    contents: Contents,
}

impl Module {
    fn bitcode(bytes: Vec<u8>) -> Self {
        Self { name: ("RecordedIR", "bc"), contents: Contents::Bytes(bytes.into()) }
    }
}

impl KernelCode {
    /// Finds a kernel's code.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub fn of(
        kernel: &str,
        origin: &CodeOrigin,
        function: CUfunction,
        device: &DeviceDescription,
    ) -> Result<Arc<Self>, CodeRefusal> {
        let image = origin.image.as_ref().and_then(|image| image.bytes());
        let mut native = image.and_then(|image| NativeCode::of(&image, kernel, device.architecture.as_ref()));
        let loaded = native.as_mut().map(|native| std::mem::take(&mut native.original)).unwrap_or_default();
        let mut code = Self::found(kernel, origin, native, device)?;
        code.image = (!code.has_ir()).then(|| image_key(kernel, origin, device)).flatten();
        if settings().records_nothing {
            return Ok(Arc::new(code.with_files(Vec::new())));
        }
        let is_cpu = linker::cpu_device().is_some();
        let of_program = loaded
            .into_iter()
            // The CPU device ran none of these, but exports and replays on a GPU can use the PTX.
            .filter(|(kind, _)| !is_cpu || (*kind == CodeKind::Ptx && code.source != Source::Ptx))
            .map(|(kind, bytes)| OriginalCode::new(kind, bytes));
        let original = match OriginalCode::of_cpu_device(function) {
            // The module already is the application's own code.
            None if is_cpu || code.source == Source::MachineCode => Vec::new(),
            compiled => compiled.into_iter().chain(of_program).collect(),
        };
        Ok(Arc::new(code.with_files(original)))
    }

    /// Makes files from the modules and the application's own code.
    fn with_files(mut self, original: Vec<OriginalCode>) -> Self {
        let modules = std::mem::take(&mut self.modules).into_iter().enumerate().map(|(index, module)| {
            let (start, extension) = module.name;
            let number = if index == 0 { String::new() } else { format!(".{index}") };
            (format!("{start}_{}{number}.{extension}", self.static_hash), module.contents)
        });
        let files = KernelFiles::new(modules.collect(), self.source == Source::MachineCode, original);
        Self { files: Mutex::new(Some(Arc::new(files))), ..self }
    }

    fn known_files(&self) -> MutexGuard<'_, Option<Arc<KernelFiles>>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its files, unless it has been unloaded.
    pub fn files(&self) -> Option<Arc<KernelFiles>> {
        self.known_files().clone()
    }

    /// Its files. If it was unloaded and loaded again, takes them from the code that `find` returns. `None` if that is
    /// different code.
    pub fn files_or(&self, find: impl FnOnce() -> Result<Arc<Self>, CodeRefusal>) -> Option<Arc<KernelFiles>> {
        if let Some(files) = self.files() {
            return Some(files);
        }
        let found = find().ok().filter(|found| found.static_hash == self.static_hash)?;
        let files = found.files();
        self.known_files().clone_from(&files);
        files
    }

    /// Drops its files after its last module was unloaded. Threads that write them hold references.
    pub fn forget_files(&self) {
        let files = self.known_files().take();
        drop(files);
    }

    /// Takes the first source that has the kernel.
    fn found(
        kernel: &str,
        origin: &CodeOrigin,
        native: Option<NativeCode>,
        device: &DeviceDescription,
    ) -> Result<Self, CodeRefusal> {
        if let Some(native) = &native
            && let Some((embedded::IrProducer::Proteus, modules)) = &native.bitcode
        {
            let modules = modules.iter().cloned().map(Module::bitcode).collect();
            return Self::with_layout_of(native, kernel, modules, Source::Proteus);
        }
        if let Some(found) = Self::of_units(kernel, origin, device) {
            return found;
        }
        let Some(native) = native else {
            return Err(without_ir(origin, "no LLVM IR, and no PTX or machine code of it was seen being loaded"));
        };
        if let Some((extension, bytes)) = ir_path::find(kernel) {
            let module = Module { name: ("RecordedIR", extension), contents: Contents::Bytes(bytes.into()) };
            let code = Self::with_layout_of(&native, kernel, vec![module], Source::File);
            return code.map(|code| code.of_image(origin));
        }
        if let Some((_, modules)) = &native.bitcode {
            let modules = modules.iter().cloned().map(Module::bitcode).collect();
            return Self::with_layout_of(&native, kernel, modules, Source::Embedded);
        }
        let in_object = origin.object_if_unchanged().and_then(|object| ir_path::of_object(object.path(), kernel));
        if let Some(module) = in_object {
            let code = Self::with_layout_of(&native, kernel, vec![Module::bitcode(module)], Source::Embedded);
            return code.map(|code| code.of_image(origin));
        }
        let native = match linker::cpu_device() {
            None => native,
            // The CPU device does not run machine code of GPUs, so PTX is needed.
            Some(_) => {
                let image = origin.image.as_ref().and_then(|image| image.bytes());
                let text = image.and_then(|image| NativeCode::of_text(&image, kernel, device.architecture.as_ref()));
                text.ok_or_else(|| without_ir(origin, "no LLVM IR or PTX, one of which the CPU device needs"))?
            }
        };
        if let Some(refusal) = &native.refusal {
            return Err(refusal.clone());
        }
        let (name, source, bytes) = match native.code {
            Some((CodeKind::Ptx, text)) => (("RecordedPTX", "ptx"), Source::Ptx, text),
            Some((CodeKind::CodeObject, image)) => (("RecordedCodeObject", "hsaco"), Source::MachineCode, image),
            Some((_, image)) => (("RecordedCubin", "cubin"), Source::MachineCode, image),
            None => return Err(CodeRefusal::NoIr { lacks: "no LLVM IR", changed: None }),
        };
        let (module, native) = (Module { name, contents: Contents::Bytes(bytes) }, NativeCode { code: None, ..native });
        Self::with_layout_of(&native, kernel, vec![module], source).map(|code| Self { triple: String::new(), ..code })
    }

    /// Finds the kernel in the section `.mneme.ir` of its image, or of the object that contains the image. `None` if
    /// neither has it.
    fn of_units(kernel: &str, origin: &CodeOrigin, device: &DeviceDescription) -> Option<Result<Self, CodeRefusal>> {
        let inside = origin.image.as_ref().map_or(&[][..], |image| image.units());
        let units: Vec<IrUnit> = if inside.is_empty() { origin.units_of_object() } else { inside.to_vec() };
        let arch = choose_arch(&units, kernel, device.architecture.as_ref())?;
        let closure = ir_section::closure(&units, kernel, &arch)?;
        if let Err(refusal) = refuse(&closure.unresolved) {
            return Some(Err(refusal));
        }
        if let Some(name) = closure.ambiguous.first() {
            return Some(Err(CodeRefusal::Ambiguous(name.clone())));
        }
        let own = &units[*closure.units.first()?];
        let symbol = own.symbol(kernel)?;
        let module =
            |index: &usize| Module { name: ("RecordedIR", "bc"), contents: Contents::Unit(units[*index].clone()) };
        Some(Ok(Self {
            static_hash: closure.static_hash,
            triple: own.table.triple.clone(),
            arch,
            name: symbol.name.clone(),
            parameters: Parameters::typed(symbol.arguments.clone()),
            variables: closure.variables.into_iter().map(|(_, symbol)| symbol).collect(),
            functions: HashMap::new(),
            modules: closure.units.iter().map(module).collect(),
            source: Source::Section,
            calls_pointers: false,
            prints: prints(&closure.unresolved),
            uses_images: uses_images(&closure.unresolved),
            image: None,
            compiled: own.table.compiled.clone(),
            files: Mutex::default(),
        }))
    }

    /// Builds the code from these modules, with parameters and variables from the loaded image.
    fn with_layout_of(
        native: &NativeCode,
        name: &str,
        modules: Vec<Module>,
        source: Source,
    ) -> Result<Self, CodeRefusal> {
        refuse(&native.undefined)?;
        let hash = modules
            .iter()
            .filter_map(|module| module.contents.bytes().ok())
            .fold(Hash64::new().part(name.as_bytes()), |hash, bytes| hash.part(&bytes));
        let variable = |variable: &NativeVariable| Symbol {
            variable: Some(VariableInfo {
                space: if variable.constant { CONSTANT_SPACE } else { GLOBAL_SPACE },
                size: 0,
                align: 0,
                code: false,
            }),
            ..Symbol::exported(&variable.name, SymbolKind::Variable)
        };
        let functions = native.variables.iter().filter(|variable| !variable.functions.is_empty());
        Ok(Self {
            static_hash: hash.finish(),
            arch: native.arch.clone(),
            triple: native.triple.into(),
            name: name.to_owned(),
            parameters: Parameters::untyped(native.parameters.iter().copied()),
            variables: native.variables.iter().map(variable).collect(),
            functions: functions.map(|variable| (variable.name.clone(), variable.functions.clone())).collect(),
            modules,
            source,
            calls_pointers: native.calls_pointers && matches!(source, Source::Ptx | Source::MachineCode),
            prints: prints(&native.undefined),
            uses_images: uses_images(&native.undefined),
            image: None,
            compiled: None,
            files: Mutex::default(),
        })
    }

    /// Includes the image in the identity if the IR comes from elsewhere: after a rebuild the image may differ although
    /// the IR is the same.
    fn of_image(self, origin: &CodeOrigin) -> Self {
        let image = origin.image.as_ref().map_or(0, |image| image.identity());
        let hash = Hash64::new().part(&self.static_hash.to_le_bytes()).part(&image.to_le_bytes());
        Self { static_hash: hash.finish(), ..self }
    }

    /// Whether replays place variables at their recorded addresses, which needs IR.
    pub fn has_ir(&self) -> bool {
        !matches!(self.source, Source::Ptx | Source::MachineCode)
    }

    /// Whether it accesses textures or surfaces, as far as can be determined.
    pub fn uses_images(&self) -> bool {
        self.uses_images
    }

    /// The source, as messages name it.
    pub fn source(&self) -> &'static str {
        match self.source {
            Source::Proteus => "IR (Proteus)",
            Source::Section => "IR",
            Source::File => "IR (file)",
            Source::Embedded => "IR (embedded)",
            Source::Ptx => "PTX",
            Source::MachineCode => "machine code",
        }
    }

    /// The names and kinds of the closure's device variables.
    pub fn variables(&self) -> impl Iterator<Item = (&str, VariableKind)> {
        self.variables.iter().map(|symbol| {
            let kind = match &symbol.variable {
                Some(VariableInfo { space: CONSTANT_SPACE, .. }) => VariableKind::Constant,
                Some(VariableInfo { code: true, .. }) => VariableKind::Code,
                _ => VariableKind::Global,
            };
            (symbol.name.as_str(), kind)
        })
    }

    /// Offsets of the words of a variable whose initial values are addresses of functions.
    pub fn functions_in(&self, variable: &str) -> &[u64] {
        self.functions.get(variable).map_or(&[], Vec::as_slice)
    }

    /// Whether other files may use a variable of the closure.
    pub fn exports_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|symbol| symbol.name == name && symbol.external)
    }

    /// The identity of a launch within its kernel: dimensions, shared memory and scalar arguments. Pointers, and
    /// structures, which may hold pointers, are left out because they differ between equal runs.
    pub fn dynamic_hash(&self, launch: &Launch, arguments: &[RecordedArgument]) -> u64 {
        let scalars =
            arguments.iter().enumerate().filter(|(index, argument)| self.parameters.is_scalar(*index, &argument.bytes));
        let mut hash = Hash64::new();
        LaunchShape::of(launch).numbers().for_each(|number| hash.add(&u64::from(number).to_le_bytes()));
        scalars.for_each(|(_, argument)| hash.add(&argument.bytes));
        hash.finish()
    }

    /// The values that determine [`dynamic_hash`](Self::dynamic_hash).
    pub fn key(&self, launch: &Launch, arguments: &[RecordedArgument]) -> Key {
        let known = arguments.iter().enumerate().filter_map(|(index, argument)| {
            let value = if self.parameters.is_scalar(index, &argument.bytes) {
                ArgumentValue::of(&argument.bytes)
            } else if self.parameters.is_untyped(index) {
                ArgumentValue::Address
            } else {
                return None;
            };
            Some(Known { index: index as u32, offset: argument.offset, value })
        });
        Key { shape: LaunchShape::of(launch), arguments: known.collect() }
    }

    /// The kernel's entry in the recording, without instances.
    pub fn record(&self, files: &KernelFiles, demangled: &str, device: CUdevice) -> KernelRecord {
        let description = DeviceDescription::of(device);
        let arena = vmm::of_device(device).map(|device| &device.arena);
        KernelRecord {
            static_hash: self.static_hash,
            arena_address: format!("{:#018x}", arena.map_or(0, |arena| arena.base())),
            arena_size: arena.map_or(0, |arena| arena.size()),
            kernel_name: self.name.clone(),
            demangled_name: demangled.to_owned(),
            modules: files.names(),
            binary_blobs: Vec::new(),
            arg_names: self.parameters.iter().map(|argument| argument.name.clone()).collect(),
            specializations: self.parameters.iter().map(IrArgument::specialisable).collect(),
            instances: Default::default(),
            ours: KernelDetails {
                format: VERSION,
                device_arch: description.arch(),
                device: description.name,
                ir_arch: self.arch.clone(),
                triple: self.triple.clone(),
                arguments: self
                    .parameters
                    .iter()
                    .map(|argument| ArgumentLayout {
                        offset: argument.offset,
                        size: argument.size,
                        kind: argument.kind.clone(),
                    })
                    .collect(),
                module_checksums: files.checksums().to_vec(),
                calls_pointers: self.calls_pointers,
                version: env!("CARGO_PKG_VERSION").into(),
                checksum: String::new(),
            },
        }
    }
}

#[cfg(test)]
impl KernelCode {
    /// The code of a kernel with one argument of 8 bytes for each kind.
    pub fn with_kinds(kinds: &[&str]) -> Self {
        Self {
            static_hash: 1,
            arch: String::new(),
            triple: String::new(),
            name: "k".into(),
            parameters: Parameters::of_kinds(kinds),
            variables: vec![],
            functions: HashMap::new(),
            modules: vec![],
            source: Source::Section,
            calls_pointers: false,
            prints: false,
            uses_images: false,
            image: None,
            compiled: None,
            files: Mutex::default(),
        }
    }
}

/// A key that is equal for equal images loaded for equal architectures, in which a kernel has the same PTX and machine
/// code. `None` if the driver links the image or it cannot be read, and if the CPU device runs IR of the kernel instead
/// of the image.
pub fn image_key(kernel: &str, origin: &CodeOrigin, device: &DeviceDescription) -> Option<u64> {
    let image = origin.image.as_ref()?;
    let runs_ir =
        || ir_path::find(kernel).is_some() || !image.units().is_empty() || !origin.units_of_object().is_empty();
    if linker::cpu_device().is_some() && runs_ir() {
        return None;
    }
    let image = image.checksum()?;
    let architecture = device.architecture.as_ref()?.to_string();
    Some(Hash64::new().part(&image.to_le_bytes()).part(architecture.as_bytes()).finish())
}

fn without_ir(origin: &CodeOrigin, lacks: &'static str) -> CodeRefusal {
    let changed = origin.object.as_ref().filter(|_| origin.object_if_unchanged().is_none());
    CodeRefusal::NoIr { lacks, changed: changed.map(|object| object.path().to_owned()) }
}

/// Whether code that calls these undefined functions prints. HIP's `printf` calls a function of its device library.
fn prints(undefined: &[String]) -> bool {
    undefined.iter().any(|name| name == "vprintf" || name.starts_with("__ockl_printf"))
}

fn uses_images(undefined: &[String]) -> bool {
    undefined.iter().any(|name| name == ir_section::TEXTURE)
}

/// Refuses code that calls undefined functions with which it cannot be replayed.
fn refuse(undefined: &[String]) -> Result<(), CodeRefusal> {
    if recorded_family::is_hip() && uses_images(undefined) {
        return Err(CodeRefusal::Textures);
    }
    let found = REFUSED.into_iter().find(|(name, _)| undefined.iter().any(|undefined| is_function(undefined, name)));
    found.map_or(Ok(()), |(_, refusal)| Err(refusal))
}

/// Whether an undefined name is this function; CUDA's functions count in every version (`cudaLaunchDeviceV2`).
fn is_function(unresolved: &str, name: &str) -> bool {
    if name.contains("cuda") { unresolved.starts_with(name) } else { unresolved == name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::request::LaunchArguments;
    use mneme_model::launch::{Dim3, LaunchAttributes};

    fn code(kinds: &[&str]) -> KernelCode {
        KernelCode::with_kinds(kinds)
    }

    fn launch(grid: u32) -> Launch {
        Launch {
            grid: Dim3::new(grid, 1, 1),
            block: Dim3::new(64, 1, 1),
            shared_mem: 0,
            attributes: LaunchAttributes::default(),
        }
    }

    fn arguments(values: &[u64]) -> Vec<RecordedArgument> {
        values
            .iter()
            .enumerate()
            .map(|(index, value)| RecordedArgument { offset: 8 * index as u32, bytes: value.to_le_bytes().to_vec() })
            .collect()
    }

    #[test]
    fn scalars_and_dimensions_make_an_instance_and_addresses_do_not() {
        let code = code(&["ptr", "i64", "byval"]);
        let hash = |grid, values: &[u64]| code.dynamic_hash(&launch(grid), &arguments(values));
        let base = hash(4, &[0x1000, 7, 1]);
        assert_eq!(base, hash(4, &[0x2000, 7, 2]));
        assert_ne!(base, hash(4, &[0x1000, 8, 1]));
        assert_ne!(base, hash(5, &[0x1000, 7, 1]));
    }

    #[test]
    fn clusters_of_different_shapes_are_different_instances() {
        let code = code(&["ptr"]);
        let clustered = |blocks: Option<u32>| {
            let cluster = blocks.map(|blocks| Dim3::new(blocks, 1, 1));
            Launch { attributes: LaunchAttributes { cluster, ..LaunchAttributes::default() }, ..launch(16) }
        };
        let hash = |blocks| code.dynamic_hash(&clustered(blocks), &arguments(&[0x1000]));
        let [none, two, four] = [None, Some(2), Some(4)].map(hash);
        assert!(none != two && two != four && none != four);
        assert_eq!(none, code.dynamic_hash(&launch(16), &arguments(&[0x1000])));
        let key = code.key(&clustered(Some(2)), &arguments(&[0x1000]));
        let repeats = |blocks| {
            let mut value = 0x2000u64;
            let mut pointers = [(&raw mut value).cast()];
            // SAFETY: one value of the kernel's layout.
            unsafe { key.is_of(&clustered(blocks), &LaunchArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut())) }
        };
        assert!(repeats(Some(2)) && !repeats(Some(4)) && !repeats(None));
    }

    #[test]
    fn a_launch_is_compared_as_it_is_hashed() {
        let code = code(&["ptr", "i64", ""]);
        let key = code.key(&launch(4), &arguments(&[0x1000, 7, 0x7f00_0000_0000]));
        let repeats = |grid, mut values: [u64; 3]| {
            let mut pointers = values.each_mut().map(|value| std::ptr::from_mut(value).cast());
            // SAFETY: three values of the kernel's layout.
            unsafe { key.is_of(&launch(grid), &LaunchArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut())) }
        };
        assert!(repeats(4, [0x2000, 7, 0x7f00_0000_1000]));
        assert!(
            !repeats(5, [0x1000, 7, 0x7f00_0000_0000])
                && !repeats(4, [0x1000, 8, 0x7f00_0000_0000])
                && !repeats(4, [0x1000, 7, 1])
        );
    }

    #[test]
    fn arguments_of_unknown_type_are_told_by_their_values() {
        let code = code(&["", ""]);
        let hash = |values: &[u64]| code.dynamic_hash(&launch(1), &arguments(values));
        assert_eq!(hash(&[0x7f00_0000_0000, 1]), hash(&[0x1000_0000_0000, 1]));
        assert_ne!(hash(&[1.5f64.to_bits(), 1]), hash(&[2.5f64.to_bits(), 1]));
        assert_ne!(hash(&[7, 1]), hash(&[8, 1]));
    }

    #[test]
    fn refused_functions_are_known_in_every_version() {
        assert!(is_function("cudaLaunchDeviceV2_ptsz", "cudaLaunchDevice"));
        assert!(is_function("malloc", "malloc") && !is_function("malloc_usable", "malloc"));
    }
}
