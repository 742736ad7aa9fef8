//! Extracts code from the loaded image: IR of other compilers, PTX, machine code.

use std::sync::Arc;

use mneme_image::cubin::CubinVariable;
use mneme_image::fatbin::{self, FatbinEntry, FatbinKind};
use mneme_image::ptx::PtxVariable;
use mneme_image::{bundle, code_object, embedded, ir_section, ptx, triton_cache};
use mneme_model::architecture::{GpuArchitecture, Processor};
use mneme_recording::CodeKind;

use super::last_read::{self, CodeImage};
use super::refusal::CodeRefusal;

/// A kernel as its image describes it.
#[derive(Debug, Default)]
pub struct NativeCode {
    /// Offset in the parameter buffer and size, bytes.
    pub parameters: Vec<(u32, u32)>,
    /// Device variables that the kernel may use.
    pub variables: Vec<NativeVariable>,
    /// Functions that the image does not define, and [`ir_section::TEXTURE`] if it uses textures or surfaces.
    pub undefined: Vec<String>,
    /// Why the code cannot be replayed from the image (its IR may be replayable).
    pub refusal: Option<CodeRefusal>,
    /// It calls through pointers. In a replay, pointers that the kernel computes are right and those that it reads from
    /// memory are wrong. The code does not show which kind it uses; a replay does.
    pub calls_pointers: bool,
    /// LLVM modules that a compiler has embedded.
    pub bitcode: Option<(embedded::IrProducer, Vec<Vec<u8>>)>,
    /// The PTX that the code was made from, else the machine code.
    pub code: Option<(CodeKind, Arc<Vec<u8>>)>,
    /// The code that the driver received: machine code if the image has some for the device, then PTX, which may be for
    /// another architecture.
    pub original: Vec<(CodeKind, Arc<Vec<u8>>)>,
    /// For example "sm_90" or "gfx90a".
    pub arch: String,
    /// The triple of IR for it.
    pub triple: &'static str,
}

/// A device variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NativeVariable {
    pub name: String,
    pub constant: bool,
    /// Offsets of the words whose initial values are addresses of functions.
    pub functions: Vec<u64>,
}

/// The triples of IR for NVIDIA's and AMD's GPUs.
const NVIDIA: &str = "nvptx64-nvidia-cuda";
const AMD: &str = "amdgcn-amd-amdhsa";
/// The hidden argument of kernels that allocate memory, as the metadata of code objects names it.
const DEVICE_HEAP: &str = "hidden_heap_v1";
/// The prefix of variables that clang adds to every HIP program.
const UNIT_NAME: &str = "__hip_cuid_";

impl NativeCode {
    /// Looks for a kernel in an image loaded on a device. `None` if the image does not define it for that device.
    pub fn of(image: &[u8], kernel: &str, device: Option<&GpuArchitecture>) -> Option<Self> {
        if code_object::is_code_object(image) {
            return Self::of_code_object(image, kernel);
        }
        if let Some(bundle) = bundle::plain(image) {
            return Self::of_bundle(&bundle, kernel, device);
        }
        let device = device.and_then(|device| match device {
            GpuArchitecture::Nvidia(architecture) => Some(architecture.number),
            GpuArchitecture::Amd(_) => None,
        });
        if ptx::is_ptx(image) {
            return Self::of_ptx(&last_read::image(image), kernel);
        }
        if image.starts_with(b"\x7fELF") {
            let image = last_read::image(image);
            return Self::of_cubin(&image, kernel).map(|found| found.with_stages_of_triton(&image.bytes, kernel));
        }
        let entries = fatbin::entries(image);
        let device = device.unwrap_or(u32::MAX);
        let mut machine: Vec<&FatbinEntry<'_>> = fitting(&entries, FatbinKind::Cubin, device);
        machine.sort_by_key(|entry| std::cmp::Reverse(entry.architecture));
        for entry in machine {
            let Some(mut found) = last_read::entry(entry).and_then(|image| Self::of_cubin(&image, kernel)) else {
                continue;
            };
            let mut texts = fitting(&entries, FatbinKind::Ptx, device);
            texts.sort_by_key(|entry| std::cmp::Reverse(entry.architecture));
            let of_text = |entry: &&FatbinEntry<'_>| {
                let source = Self::of_ptx(&*last_read::entry(entry)?, kernel)?;
                (source.parameters == found.parameters).then_some(source)
            };
            // PTX for another architecture may be different code, because `__CUDA_ARCH__` differs. It is kept in
            // addition to the machine code.
            let (own, others): (Vec<_>, Vec<_>) =
                texts.into_iter().partition(|text| text.architecture == entry.architecture);
            let source = own.iter().find_map(of_text);
            if source.is_none()
                && let Some(other) = others.iter().find_map(of_text)
            {
                // The assembler leaves no trace of functions in variables, if it sees the whole program.
                for variable in &mut found.variables {
                    let same = other.variables.iter().find(|other| other.name == variable.name);
                    variable.functions = same.map_or_else(Vec::new, |same| same.functions.clone());
                }
                found.original.extend(other.original);
            }
            return Some(match source {
                Some(source) => found.made_from(source),
                None => found,
            });
        }
        Self::in_text(&entries, kernel, device)
    }

    /// Adds the PTX from which the machine code was made. The recording then contains the PTX.
    fn made_from(mut self, source: Self) -> Self {
        // Variables that the assembler has dropped are left out.
        let kept = |variable: &NativeVariable| self.variables.iter().any(|known| known.name == variable.name);
        self.variables = source.variables.into_iter().filter(kept).collect();
        (self.undefined, self.refusal, self.code) = (source.undefined, source.refusal, source.code);
        self.calls_pointers = source.calls_pointers;
        self.original.extend(source.original);
        self
    }

    /// Adds the stages from Triton's cache, if Triton has made the machine code.
    fn with_stages_of_triton(self, image: &[u8], kernel: &str) -> Self {
        let Some(stages) = triton_cache::stages(image, kernel) else { return self };
        let source = Self::of_ptx(&last_read::image(&stages.ptx), kernel);
        let Some(source) = source.filter(|source| source.parameters == self.parameters) else { return self };
        // The cubin's architecture lacks the suffix of "sm_90a", which its PTX may need.
        let arch = source.arch.clone();
        let mut found = Self { arch, ..self.made_from(source) };
        found.original.extend(stages.llir.map(|text| (CodeKind::Llir, Arc::new(text))));
        found
    }

    /// The PTX of an image, for a device that does not run machine code of GPUs.
    pub fn of_text(image: &[u8], kernel: &str, device: Option<&GpuArchitecture>) -> Option<Self> {
        if ptx::is_ptx(image) {
            return Self::of_ptx(&last_read::image(image), kernel);
        }
        match device {
            Some(GpuArchitecture::Nvidia(device)) => Self::in_text(&fatbin::entries(image), kernel, device.number),
            _ => None,
        }
    }

    /// The newest PTX that compiles for a device.
    fn in_text(entries: &[FatbinEntry<'_>], kernel: &str, device: u32) -> Option<Self> {
        let mut text = fitting(entries, FatbinKind::Ptx, device);
        text.sort_by_key(|entry| std::cmp::Reverse(entry.architecture));
        text.into_iter().filter_map(last_read::entry).find_map(|text| Self::of_ptx(&text, kernel))
    }

    /// The code object of a bundle for the device: one for its processor comes before one for its family.
    fn of_bundle(bundle: &[u8], kernel: &str, device: Option<&GpuArchitecture>) -> Option<Self> {
        let Some(GpuArchitecture::Amd(device)) = device else { return None };
        let entries = bundle::entries(bundle);
        let mut fitting: Vec<_> = entries
            .iter()
            .filter_map(|entry| Some((Processor::parse(entry.processor())?, entry.bytes)))
            .filter(|(processor, _)| processor.machine_code_runs_on(device))
            .collect();
        fitting.sort_by_key(|(processor, _)| processor.name != device.name);
        fitting.into_iter().find_map(|(_, image)| Self::of_code_object(image, kernel))
    }

    fn of_code_object(image: &[u8], kernel: &str) -> Option<Self> {
        let object = code_object::parse(image)?;
        let found = object.kernels.iter().find(|found| found.name == kernel)?;
        let modules = modules_of_proteus(image, kernel, |name| object.kernels.iter().any(|known| known.name == name));
        // The code does not show which of the object's variables a kernel uses.
        let holding = code_object::holding_addresses(image);
        let is_own = |name: &str| !name.starts_with(UNIT_NAME) && !embedded::is_foreign(name);
        let own = || object.variables.iter().filter(|variable| is_own(&variable.name));
        let moved = own().find(|variable| !variable.constant && holding.contains(&variable.name));
        let private = code_object::private_variables(image);
        let allocates = found.arguments.iter().any(|argument| argument.kind == DEVICE_HEAP);
        let refusal = match (moved, private.first()) {
            (Some(variable), _) => Some(CodeRefusal::HoldsAddresses(variable.name.clone())),
            (None, Some(name)) => Some(CodeRefusal::PrivateVariable(name.clone())),
            (None, None) => allocates.then_some(CodeRefusal::DeviceHeap("may allocate")),
        };
        Some(Self {
            parameters: found.explicit().map(|argument| (argument.offset, argument.size)).collect(),
            variables: own()
                .filter(|variable| !(variable.constant && holding.contains(&variable.name)))
                .map(|variable| NativeVariable {
                    name: variable.name.clone(),
                    constant: variable.constant,
                    functions: Vec::new(),
                })
                .collect(),
            undefined: Vec::new(),
            refusal,
            calls_pointers: found.dynamic_stack,
            bitcode: (!modules.is_empty()).then_some((embedded::IrProducer::Proteus, modules)),
            code: Some((CodeKind::CodeObject, Arc::new(image.to_vec()))),
            original: vec![(CodeKind::CodeObject, Arc::new(image.to_vec()))],
            arch: object.processor.name,
            triple: AMD,
        })
    }

    fn of_ptx(image: &CodeImage, kernel: &str) -> Option<Self> {
        let mut closure = image.ptx()?.closure(kernel)?;
        closure.variables.retain(|variable| !embedded::is_foreign(&variable.name));
        let opaque = closure.variables.iter().find(|variable| variable.opaque);
        let refusal = opaque.map(|variable| CodeRefusal::TextureReference(variable.name.clone()));
        let variable = |PtxVariable { name, constant, functions, .. }| NativeVariable { name, constant, functions };
        Some(Self {
            parameters: closure.parameters,
            variables: closure.variables.into_iter().map(variable).collect(),
            undefined: with_textures(closure.undefined, closure.uses_textures),
            refusal,
            calls_pointers: closure.calls_pointers,
            bitcode: None,
            original: vec![(CodeKind::Ptx, image.bytes.clone())],
            arch: closure.target.unwrap_or_default(),
            triple: NVIDIA,
            code: Some((CodeKind::Ptx, Arc::new(ptx::with_visible_variables(&closure.text).into_owned().into_bytes()))),
        })
    }

    fn of_cubin(image: &CodeImage, kernel: &str) -> Option<Self> {
        let cubin = image.cubin()?;
        let found = cubin.kernels.iter().find(|found| found.name == kernel)?;
        let mut variables = cubin.variables_of(found);
        variables.retain(|variable| !embedded::is_foreign(&variable.name));
        let features = cubin.features(found);
        let refusal = cubin.references.first().map(|name| CodeRefusal::TextureReference(name.clone()));
        let variable = |CubinVariable { name, constant, functions, .. }: CubinVariable| NativeVariable {
            name,
            constant,
            functions,
        };
        Some(Self {
            parameters: found.parameters.clone(),
            variables: variables.into_iter().cloned().map(variable).collect(),
            undefined: with_textures(cubin.services(found), features.textures),
            refusal,
            calls_pointers: features.calls_pointers,
            bitcode: embedded::in_cubin(&image.bytes, cubin)
                .map(|(origin, modules)| (origin, modules.into_iter().map(<[u8]>::to_vec).collect())),
            arch: cubin.architecture.map_or_else(String::new, |architecture| architecture.to_string()),
            triple: NVIDIA,
            original: vec![(CodeKind::Cubin, image.bytes.clone())],
            code: Some((CodeKind::Cubin, image.bytes.clone())),
        })
    }
}

/// Proteus's modules for a kernel in a code object. Relocatable code has one for each kernel, in a section with the
/// kernel's name; other code has one for the whole translation unit.
fn modules_of_proteus(image: &[u8], kernel: &str, is_kernel: impl Fn(&str) -> bool) -> Vec<Vec<u8>> {
    let (named, others): (Vec<_>, Vec<_>) =
        embedded::in_code_object(image).into_iter().partition(|(section, _)| section.split('.').any(&is_kernel));
    let own: Vec<_> = named.into_iter().filter(|(section, _)| section.split('.').any(|part| part == kernel)).collect();
    let modules = if own.is_empty() { others } else { own };
    modules.into_iter().map(|(_, module)| module.to_vec()).collect()
}

/// Undefined functions, with a marker if the code accesses textures.
fn with_textures(mut undefined: Vec<String>, uses_textures: bool) -> Vec<String> {
    undefined.extend(uses_textures.then(|| ir_section::TEXTURE.to_owned()));
    undefined
}

fn fitting<'e, 'a>(entries: &'e [FatbinEntry<'a>], kind: FatbinKind, device: u32) -> Vec<&'e FatbinEntry<'a>> {
    let runs = |entry: &&FatbinEntry<'_>| match kind {
        _ if device == u32::MAX => true,
        FatbinKind::Cubin => entry.architecture.machine_code_runs_on(device),
        FatbinKind::Ptx => entry.architecture.ptx_compiles_for(device),
    };
    entries.iter().filter(|entry| entry.kind == kind).filter(runs).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = ".version 8.0\n.target sm_90\n.address_size 64\n.global .align 4 .u32 n = 1;\n.global .align 8 .u64 p = n;\n\
        .global .align 4 .b8 __cudart_i2opi_f[4] = {1, 2, 3, 4};\n\
        .visible .entry k(.param .u64 a, .param .u32 b) { ld.global.u32 %r1, [n]; ld.global.u32 %r1, [__cudart_i2opi_f]; ret; }\n\
        .visible .entry moved() { ld.global.u64 %rd1, [p]; ret; }\n\
        .visible .entry textures(.param .u64 t) { tex.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}]; ret; }\n\
        .visible .entry indirect() { f: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %rd3, (a), f; ret; }\n";

    fn names(variables: &[NativeVariable]) -> Vec<&str> {
        variables.iter().map(|variable| variable.name.as_str()).collect()
    }

    fn nvidia() -> GpuArchitecture {
        GpuArchitecture::parse("sm_90").unwrap()
    }

    #[test]
    fn a_kernel_in_ptx_is_described_and_refused_by_name() {
        let k = NativeCode::of(PTX.as_bytes(), "k", Some(&nvidia())).unwrap();
        assert_eq!((k.parameters.as_slice(), k.arch.as_str()), (&[(0, 8), (8, 4)][..], "sm_90"));
        assert_eq!((names(&k.variables), k.refusal), (vec!["n"], None));
        let (kind, text) = k.code.unwrap();
        assert!(kind == CodeKind::Ptx && !String::from_utf8_lossy(&text).contains("moved"));
        let [indirect, direct] =
            ["indirect", "k"].map(|kernel| NativeCode::of(PTX.as_bytes(), kernel, Some(&nvidia())).unwrap());
        assert!(indirect.calls_pointers && indirect.refusal.is_none() && !direct.calls_pointers);
        let refusal = |kernel| NativeCode::of(PTX.as_bytes(), kernel, Some(&nvidia())).unwrap().refusal;
        assert_eq!([refusal("moved"), refusal("textures")], [None, None]);
        let moved = NativeCode::of(PTX.as_bytes(), "moved", Some(&nvidia())).unwrap();
        assert_eq!(names(&moved.variables), ["n", "p"]);
        let undefined = |kernel| NativeCode::of(PTX.as_bytes(), kernel, Some(&nvidia())).unwrap().undefined;
        assert_eq!((undefined("textures"), undefined("k")), (vec![ir_section::TEXTURE.to_owned()], vec![]));
        assert!(NativeCode::of(PTX.as_bytes(), "none", Some(&nvidia())).is_none());
        assert!(NativeCode::of(b"\x7fELF", "k", None).is_none() && NativeCode::of(b"", "k", None).is_none());
    }

    #[test]
    fn a_device_without_machine_code_takes_the_text_alone() {
        let k = NativeCode::of_text(PTX.as_bytes(), "k", Some(&nvidia())).unwrap();
        assert!(matches!(k.code, Some((CodeKind::Ptx, _))) && k.parameters.len() == 2);
        assert!(NativeCode::of_text(b"\x7fELF", "k", Some(&nvidia())).is_none());
        assert!(NativeCode::of_text(b"", "k", None).is_none());
    }

    /// The output of nvcc for options like `-gencode arch=compute_80,code=[compute_80] -gencode
    /// arch=compute_90,code=sm_90`.
    #[test]
    fn text_for_another_architecture_is_kept_beside_machine_code() {
        let folder = tempfile::tempdir().unwrap();
        let tools = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../.deps/cuda/bin");
        let at = |name: &str| folder.path().join(name);
        let text = |arch: u32, kernel: &str| {
            let text =
                format!(".version 8.0\n.target sm_{arch}\n.address_size 64\n.visible .entry {kernel} {{ ret; }}\n");
            std::fs::write(at(&format!("{arch}.ptx")), &text).unwrap();
            text
        };
        let own = text(90, "k(.param .u64 a)");
        let mut ptxas = std::process::Command::new(tools.join("ptxas"));
        match ptxas.args(["-arch=sm_90", "-o"]).arg(at("90.cubin")).arg(at("90.ptx")).status() {
            Ok(status) if status.success() => {}
            _ => return mneme_fixtures::skip("no ptxas in .deps on this machine"),
        }
        let container = |texts: &[u32]| {
            let mut fatbinary = std::process::Command::new(tools.join("fatbinary"));
            let image = |kind: &str, arch: u32, file: &str| {
                format!("--image3=kind={kind},sm={arch},file={}", at(file).display())
            };
            fatbinary.arg("-64").arg(format!("--create={}", at("fat").display())).arg(image("elf", 90, "90.cubin"));
            fatbinary.args(texts.iter().map(|arch| image("ptx", *arch, &format!("{arch}.ptx"))));
            assert!(fatbinary.status().unwrap().success());
            NativeCode::of(&std::fs::read(at("fat")).unwrap(), "k", Some(&nvidia())).unwrap()
        };
        let older = text(80, "k(.param .u64 a)");
        // One with other parameters, one of another kernel, and one that is too new.
        text(86, "k(.param .u32 a)");
        text(89, "other(.param .u64 a)");
        text(100, "k(.param .u64 a)");
        let kinds = |code: &NativeCode| code.original.iter().map(|(kind, _)| *kind).collect::<Vec<_>>();
        let found = container(&[80, 86, 89, 100]);
        assert_eq!(kinds(&found), [CodeKind::Cubin, CodeKind::Ptx]);
        assert_eq!(*found.original[1].1, *older.trim_end_matches('\0').as_bytes());
        assert!(matches!(found.code, Some((CodeKind::Cubin, _))) && found.arch == "sm_90");
        // PTX for the architecture of the machine code is its source.
        let found = container(&[80, 90]);
        assert_eq!(*found.original[1].1, *own.as_bytes());
        assert!(matches!(found.code, Some((CodeKind::Ptx, _))) && found.original.len() == 2);
        assert_eq!(kinds(&container(&[100])), [CodeKind::Cubin]);
    }

    /// A section with the kernel's name comes before one of the whole unit.
    #[test]
    fn ir_of_proteus_is_the_kernel_s_or_the_unit_s() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let module = |number: u8| [b'B', b'C', 0xc0, 0xde, number];
        let variable = |name: &str, section: &str, bytes: [u8; 5]| {
            let attributes = format!("__attribute__((device, used, section(\".jit.bitcode.{section}.5eed.7\")))");
            format!(
                "extern \"C\" {attributes} const unsigned char {name}[] = {{{}}};\n",
                bytes.map(|it| it.to_string()).join(",")
            )
        };
        let kernels = "__attribute__((global)) void a() {}\n__attribute__((global)) void b() {}\n";
        let source =
            [variable("_jit_bitcode_tu_5eed", "tu", module(1)), variable("one", "_Z1av", module(2)), kernels.into()]
                .concat();
        std::fs::write(at("k.hip"), source).unwrap();
        let mut clang = std::process::Command::new("clang-19");
        clang.args(["-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only", "-O2", "--offload-arch=gfx90a"]);
        match clang.arg("-o").arg(at("k.co")).arg(at("k.hip")).status() {
            Ok(status) if status.success() => {}
            _ => return mneme_fixtures::skip("no clang-19 with AMD's GPUs on this machine"),
        }
        let image = std::fs::read(at("k.co")).unwrap();
        for (kernel, expected) in [("_Z1av", 2), ("_Z1bv", 1)] {
            let found = NativeCode::of(&image, kernel, GpuArchitecture::parse("gfx90a").as_ref()).unwrap();
            let modules = vec![module(expected).to_vec()];
            assert_eq!(found.bitcode, Some((embedded::IrProducer::Proteus, modules)), "{kernel}");
            assert!(names(&found.variables) == ["one"] && found.variables[0].constant);
        }
    }

    /// The code object of a bundle that fits the device, made by clang.
    #[test]
    fn a_kernel_in_a_bundle_is_that_of_the_processor() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let source = "__attribute__((device)) int shown = 3, *points = &shown;\n\
            __attribute__((global)) void k(int *p, int n) { p[0] = shown + n + *points; }\n";
        std::fs::write(at("k.hip"), source).unwrap();
        let mut clang = std::process::Command::new("clang-19");
        clang.args(["-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only", "-O2"]);
        clang.args(["--offload-arch=gfx90a", "--offload-arch=gfx1030", "-o"]).arg(at("k.hipfb")).arg(at("k.hip"));
        match clang.status() {
            Ok(status) if status.success() => {}
            _ => return mneme_fixtures::skip("no clang-19 with AMD's GPUs on this machine"),
        }
        let bundle = std::fs::read(at("k.hipfb")).unwrap();
        let find = |device: &str| NativeCode::of(&bundle, "_Z1kPii", GpuArchitecture::parse(device).as_ref());
        let found = find("gfx90a:sramecc+:xnack-").unwrap();
        assert_eq!((found.parameters.as_slice(), found.arch.as_str()), (&[(0, 8), (8, 4)][..], "gfx90a"));
        assert_eq!(found.refusal, Some(CodeRefusal::HoldsAddresses("points".into())));
        assert!(names(&found.variables) == ["points", "shown"] && found.variables.iter().all(|it| !it.constant));
        assert_eq!((find("gfx1030").unwrap().arch.as_str(), found.triple), ("gfx1030", AMD));
        assert!(find("gfx942").is_none() && find("sm_90").is_none());
        let (kind, image) = found.code.unwrap();
        assert!(kind == CodeKind::CodeObject && NativeCode::of(&image, "_Z1kPii", None).is_some());
    }
}
