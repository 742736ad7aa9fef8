//! A kernel's IR as the recording needs it: closure, identity, argument layout, bitcode files.

use std::ffi::c_char;
use std::path::Path;

use cudarc::driver::sys::{CUdevice_attribute, CUfunction_attribute};
use mneme_core::hash::{Hash64, checksum};
use mneme_core::image::ir_section::{self, Symbol, Unit};
use mneme_core::launch::{Launch, LaunchAttributes};
use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{self, ArgumentLayout, KernelDetails, KernelRecord, VERSION};
use mneme_core::recording::manifest::Argument;

use crate::arena::vmm;
use crate::code::{Function, Kernel, choose_arch};
use crate::launches::Request;
use crate::linker;
use crate::vendor::{self, CUdevice, CUkernel, SUCCESS};

const COMPUTE_CAPABILITY: [CUdevice_attribute; 2] =
    [CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, CUdevice_attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR];
const MAX_DYNAMIC_SHARED: u32 = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES as u32;
/// What a kernel may use without raising that attribute, bytes.
const DEFAULT_DYNAMIC_SHARED: i32 = 48 << 10;
/// Address space of constant memory in NVPTX.
const CONSTANT_SPACE: u32 = 4;

/// Functions of the device-side runtime that no IR defines, and what a replay would lack.
const REFUSED: [(&str, &str); 5] = [
    ("malloc", "it allocates memory on the device (malloc)"),
    ("free", "it frees memory on the device (free)"),
    ("cudaLaunchDevice", "it launches kernels itself (dynamic parallelism)"),
    ("cudaGetParameterBuffer", "it launches kernels itself (dynamic parallelism)"),
    ("__cudaCDP", "it launches kernels itself (dynamic parallelism)"),
];

/// The device of a recording, for its description.
pub struct Device {
    pub name: String,
    /// Compute capability times ten; `None` where the driver does not say.
    pub capability: Option<u32>,
}

impl Device {
    pub fn of(device: CUdevice) -> Self {
        let mut name = [0u8; 128];
        // SAFETY: the buffer has the length that is passed.
        unsafe { vendor::cuDeviceGetName(name.as_mut_ptr().cast::<c_char>(), name.len() as i32 - 1, device) };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(0);
        let [major, minor] = COMPUTE_CAPABILITY.map(|attribute| vendor::device_attribute(attribute, device));
        let capability = major.zip(minor).and_then(|(major, minor)| u32::try_from(major * 10 + minor).ok());
        Self { name: String::from_utf8_lossy(&name[..end]).into_owned(), capability }
    }

    fn arch(&self) -> String {
        match self.capability {
            _ if linker::cpu_device().is_some() => "cpu".into(),
            Some(capability) => format!("sm_{capability}"),
            None => String::new(),
        }
    }
}

/// The code of a kernel.
pub struct KernelCode {
    pub static_hash: u64,
    arch: String,
    triple: String,
    kernel: Symbol,
    variables: Vec<Symbol>,
    modules: Vec<Unit<'static>>,
}

impl KernelCode {
    /// Finds a kernel's IR; the error says why there is none that could be recorded.
    pub fn of(kernel: &Kernel, device: &Device) -> Result<std::sync::Arc<Self>, String> {
        let missing = || "no LLVM IR: build with mneme-cc".to_owned();
        let units = kernel.object.as_ref().ok_or_else(missing)?.units();
        let arch = choose_arch(units, &kernel.name, device.capability).ok_or_else(missing)?;
        let closure = ir_section::closure(units, &kernel.name, &arch).ok_or_else(missing)?;
        if let Some((_, reason)) =
            REFUSED.iter().find(|(name, _)| closure.unresolved.iter().any(|unresolved| is_function(unresolved, name)))
        {
            return Err((*reason).to_owned());
        }
        if let Some(name) = closure.ambiguous.first() {
            return Err(format!("several translation units have a {name} of their own, and the driver does not tell which is meant"));
        }
        let modules: Vec<_> = closure.units.iter().map(|index| units[*index].clone()).collect();
        let own = modules.first().ok_or_else(missing)?;
        let symbol = own.symbol(&kernel.name).ok_or_else(missing)?.clone();
        Ok(std::sync::Arc::new(Self {
            static_hash: closure.static_hash,
            triple: own.table.triple.clone(),
            arch,
            kernel: symbol,
            variables: closure.variables.into_iter().map(|(_, symbol)| symbol).collect(),
            modules,
        }))
    }

    /// Offset and size of each argument in the parameter buffer, bytes.
    pub fn layout(&self) -> impl Iterator<Item = (u32, u32)> {
        self.kernel.arguments.iter().map(|argument| (argument.offset, argument.size))
    }

    /// Names of the closure's device variables, and whether each is constant.
    pub fn variables(&self) -> impl Iterator<Item = (&str, bool)> {
        self.variables
            .iter()
            .map(|symbol| (symbol.name.as_str(), symbol.variable.as_ref().is_some_and(|variable| variable.space == CONSTANT_SPACE)))
    }

    /// Identity of a launch among those of the kernel: dimensions, shared memory and scalar arguments. Pointers and
    /// structures (which may hold pointers) differ between runs that do the same.
    pub fn dynamic_hash(&self, launch: &Launch, arguments: &[Argument]) -> u64 {
        let dimensions = launch.grid.as_array().into_iter().chain(launch.block.as_array()).chain([launch.shared_mem]);
        let hash = dimensions.fold(Hash64::new(), |hash, number| hash.number(number.into()));
        let scalars = self.kernel.arguments.iter().zip(arguments).filter(|(layout, _)| !layout.is_pointer() && layout.kind != "byval");
        scalars.fold(hash, |hash, (_, argument)| hash.part(&argument.bytes)).finish()
    }

    /// Launch attributes with what belongs to the function.
    pub fn attributes(&self, request: &Request, function: &Function, device: CUdevice) -> LaunchAttributes {
        let mut limit = 0;
        // SAFETY: a valid place, and each kind of handle goes to its own function.
        let known = unsafe {
            if function.context_free {
                vendor::cuKernelGetAttribute(&mut limit, MAX_DYNAMIC_SHARED, request.function as CUkernel, device)
            } else {
                vendor::cuFuncGetAttribute(&mut limit, MAX_DYNAMIC_SHARED, request.function)
            }
        } == SUCCESS;
        let raised = (known && limit > DEFAULT_DYNAMIC_SHARED).then_some(limit as u32);
        LaunchAttributes { max_dynamic_shared: raised, ..request.launch.attributes }
    }

    fn module_names(&self) -> Vec<String> {
        (0..self.modules.len())
            .map(|index| {
                if index == 0 {
                    format!("RecordedIR_{}.bc", self.static_hash)
                } else {
                    format!("RecordedIR_{}.{index}.bc", self.static_hash)
                }
            })
            .collect()
    }

    /// Writes the bitcode files that the folder does not have yet; returns the bytes written.
    pub fn write_modules(&self, folder: &Path) -> Result<u64, RecordingError> {
        let mut bytes = 0;
        for (name, unit) in self.module_names().iter().zip(&self.modules) {
            let path = folder.join(name);
            let is_recorded = folder.join(format!("{}.json", self.static_hash)).exists();
            if is_recorded && path.exists() {
                continue;
            }
            let bitcode = unit.bitcode().map_err(|source| RecordingError::Io { path: path.clone(), source })?;
            database::write_atomically(&path, &bitcode)?;
            bytes += bitcode.len() as u64;
        }
        Ok(bytes)
    }

    /// The kernel's entry in the recording, without instances.
    pub fn record(&self, kernel: &Kernel, device: CUdevice) -> KernelRecord {
        let description = Device::of(device);
        let arena = vmm::of_device(device).map(|device| &device.arena);
        KernelRecord {
            static_hash: self.static_hash,
            arena_address: format!("{:#018x}", arena.map_or(0, |arena| arena.base())),
            arena_size: arena.map_or(0, |arena| arena.size()),
            kernel_name: kernel.name.clone(),
            demangled_name: kernel.demangled.clone(),
            modules: self.module_names(),
            binary_blobs: Vec::new(),
            arg_names: self.kernel.arguments.iter().map(|argument| argument.name.clone()).collect(),
            specializations: self.kernel.arguments.iter().map(ir_section::Argument::specialisable).collect(),
            instances: Default::default(),
            ours: KernelDetails {
                format: VERSION,
                device_arch: description.arch(),
                device: description.name,
                ir_arch: self.arch.clone(),
                triple: self.triple.clone(),
                arguments: self
                    .kernel
                    .arguments
                    .iter()
                    .map(|argument| ArgumentLayout { offset: argument.offset, size: argument.size, kind: argument.kind.clone() })
                    .collect(),
                module_checksums: self.modules.iter().filter_map(|unit| unit.bitcode().ok()).map(|bitcode| checksum(&bitcode)).collect(),
                version: env!("CARGO_PKG_VERSION").into(),
            },
        }
    }
}

/// Whether an undefined name is this function, in any version of it (`cudaLaunchDeviceV2`) where it is CUDA's.
fn is_function(unresolved: &str, name: &str) -> bool {
    if name.contains("cuda") { unresolved.starts_with(name) } else { unresolved == name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::image::ir_section::SymbolKind;
    use mneme_core::launch::Dim3;

    fn code(kinds: &[&str]) -> KernelCode {
        let arguments = kinds
            .iter()
            .enumerate()
            .map(|(index, kind)| ir_section::Argument { name: String::new(), kind: (*kind).to_owned(), offset: 8 * index as u32, size: 8 })
            .collect();
        let kernel = Symbol {
            name: "k".into(),
            kind: SymbolKind::Kernel,
            defined: true,
            external: true,
            hash: 0,
            refs: vec![],
            arguments,
            variable: None,
        };
        KernelCode { static_hash: 1, arch: String::new(), triple: String::new(), kernel, variables: vec![], modules: vec![] }
    }

    fn launch(grid: u32) -> Launch {
        Launch { grid: Dim3::new(grid, 1, 1), block: Dim3::new(64, 1, 1), shared_mem: 0, attributes: LaunchAttributes::default() }
    }

    fn arguments(values: &[u64]) -> Vec<Argument> {
        values.iter().enumerate().map(|(index, value)| Argument { offset: 8 * index as u32, bytes: value.to_le_bytes().to_vec() }).collect()
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
    fn refused_functions_are_known_in_every_version() {
        assert!(is_function("cudaLaunchDeviceV2_ptsz", "cudaLaunchDevice"));
        assert!(is_function("malloc", "malloc") && !is_function("malloc_usable", "malloc"));
    }
}
