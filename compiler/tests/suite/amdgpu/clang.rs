//! HIP programs compiled by clang: to IR as it is recorded, and to code objects.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use mneme_builds::Target;
use mneme_compiler::{Artifact, BuildError, BuildRequest, InputCode, build};
use mneme_image::code_object::{self, AmdKernel, CodeObject};
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;

/// The folders of device libraries that this clang can read: Debian 12's, those of ROCm's own packages, and those built
/// for this clang or for clang 17.
const LIBRARIES: [&str; 4] = [
    "lib/x86_64-linux-gnu/amdgcn/bitcode",
    "amdgcn/bitcode",
    concat!("lib/llvm-", env!("MNEME_LLVM_MAJOR"), "/lib/clang/", env!("MNEME_LLVM_MAJOR"), "/amdgcn/bitcode"),
    "lib/llvm-17/lib/clang/17/amdgcn/bitcode",
];

/// The ROCm with which programs are compiled.
fn rocm() -> PathBuf {
    std::env::var_os("MNEME_TEST_ROCM").map_or("/usr".into(), PathBuf::from)
}

/// A device library, if there is one of this name.
fn library(name: &str) -> Option<PathBuf> {
    LIBRARIES.iter().map(|folder| rocm().join(folder).join(name)).find(|path| path.is_file())
}

/// Whether device libraries are installed. If not, it reports the calling test as skipped, or fails if `MNEME_TEST_HIP`
/// is set.
pub fn have_rocm() -> bool {
    let found = library("ocml.bc").is_some();
    assert!(found || std::env::var_os("MNEME_TEST_HIP").is_none(), "HIP is not installed: scripts/setup --hip");
    if !found {
        mneme_fixtures::skip("HIP is not installed (scripts/setup --hip)");
    }
    found
}

/// clang's options for the headers and the device libraries.
pub fn rocm_options() -> [String; 2] {
    let ocml = library("ocml.bc").expect("device libraries are installed (scripts/setup --hip)");
    let folder = ocml.parent().unwrap();
    [format!("--rocm-path={}", rocm().display()), format!("--rocm-device-lib-path={}", folder.display())]
}

/// clang's options for HIP's older headers, which use a macro that clang 22 no longer defines.
fn wavefront() -> [String; 2] {
    ["-include".into(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/suite/amdgpu/wavefront.h").into()]
}

/// clang's options that link what the device libraries of HIP 5.2 need and clang 22 leaves out: fences, and whether
/// denormals are flushed. With older clangs, which link both, they have no effect.
fn older_libraries() -> Vec<String> {
    let libraries = ["hip.bc", "oclc_daz_opt_off.bc"].into_iter().filter_map(library);
    let words = libraries.map(|path| ["-mlink-builtin-bitcode".to_owned(), path.to_string_lossy().into_owned()]);
    words.flatten().flat_map(|word| ["-Xclang".to_owned(), word]).collect()
}

/// Whether the device libraries know a processor. If not, it reports the calling test as skipped.
pub fn is_known(arch: &str) -> bool {
    let name = format!("oclc_isa_version_{}.bc", arch.trim_start_matches("gfx"));
    let known = library(&name).is_some();
    if !known {
        mneme_fixtures::skip(format_args!("for {arch}: the device libraries of {} do not know it", rocm().display()));
    }
    known
}

/// The versions of code objects that the device libraries support.
pub fn versions() -> impl Iterator<Item = u32> {
    [4, 5, 6].into_iter().filter(|version| library(&format!("oclc_abi_version_{version}00.bc")).is_some())
}

/// A program, its architecture, and its options.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    pub file: &'a str,
    pub arch: &'a str,
    pub version: u32,
    pub flags: &'a [&'a str],
}

impl Program<'_> {
    /// The IR that the front end writes.
    pub fn ir(self) -> Vec<u8> {
        self.compile("bc", &["-emit-llvm", "-Xclang", "-disable-llvm-passes", "-fno-discard-value-names"])
    }

    /// The same without names of values. Code objects built from recorded IR contain the names of arguments.
    pub fn nameless_ir(self) -> Vec<u8> {
        self.compile("bc", &["-emit-llvm", "-Xclang", "-disable-llvm-passes"])
    }

    /// The IR after clang's own passes, as text.
    pub fn optimised_ir(self) -> String {
        String::from_utf8(self.compile("ll", &["-emit-llvm", "-S", "-fno-discard-value-names"])).unwrap()
    }

    /// clang's own code object.
    pub fn code_object(self) -> Vec<u8> {
        self.compile("co", &["--no-gpu-bundle-output"])
    }

    fn compile(self, extension: &str, words: &[&str]) -> Vec<u8> {
        // Unique names, because two tests may compile the same program.
        static ONE: Mutex<u32> = Mutex::new(0);
        let number = {
            let mut number = ONE.lock().unwrap();
            *number += 1;
            *number
        };
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/amdgpu").join(self.file);
        let to: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("amdgpu-{number}.{extension}"));
        let output = Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
            .args(["-x", "hip", "--cuda-device-only", "-c", "-O3", "-std=c++17", "-fuse-cuid=none"])
            .args(if self.file == "bare.hip" {
                vec!["-nogpuinc".to_owned(), "-nogpulib".into()]
            } else {
                [&rocm_options()[..], &wavefront()[..], &older_libraries()[..]].concat()
            })
            .arg(format!("--offload-arch={}", self.arch))
            .arg(format!("-mcode-object-version={}", self.version))
            .args(self.flags)
            .args(words)
            .arg(source)
            .arg("-o")
            .arg(&to)
            .output()
            .expect("clang is installed");
        assert!(output.status.success(), "{self:?}: {}", String::from_utf8_lossy(&output.stderr));
        let bytes = std::fs::read(&to).unwrap();
        std::fs::remove_file(to).unwrap();
        bytes
    }
}

/// `mneme-cc`, which another package of the workspace builds, beside our builders.
fn wrapper() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.ancestors().nth(2).unwrap().join("mneme-cc");
    assert!(path.is_file(), "{} is missing: run 'cargo build -p mneme-cc' first", path.display());
    path
}

/// The object that `mneme-cc clang++-NN` makes from a program of `tests/apps`.
pub fn compiled(application: &str, archs: &[&str]) -> Vec<u8> {
    let apps = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/apps");
    let folder = tempfile::tempdir().unwrap();
    let object = folder.path().join("object.o");
    let output = Command::new(wrapper())
        .args([
            concat!("clang++-", env!("MNEME_LLVM_MAJOR")),
            "-x",
            "hip",
            "-c",
            "-O3",
            "-std=c++17",
            "-Wno-unused-result",
        ])
        .args(rocm_options())
        .args(wavefront())
        .args(older_libraries())
        // The newest version that Debian 12's device libraries know.
        .arg("-mcode-object-version=5")
        .args(archs.iter().map(|arch| format!("--offload-arch={arch}")))
        .arg("-include")
        .arg(apps.join("hip/cuda_runtime.h"))
        .arg(apps.join(application))
        .arg("-o")
        .arg(&object)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !said.contains("mneme-cc: warning"), "{application}: {said}");
    std::fs::read(object).unwrap()
}

/// A launch of one block of 256, compiled with `default<O3>`.
pub fn usual() -> Configuration {
    Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(256, 1, 1), 0)
}

/// One kernel's build for a device.
pub fn build_for(
    ir: &[&[u8]],
    kernel: &str,
    device: &str,
    configuration: &Configuration,
) -> Result<Artifact, BuildError> {
    let target = Target::gpu(device);
    build(&BuildRequest::new(InputCode::Ir(ir), kernel, &target, configuration))
}

/// The metadata of a kernel in a code object.
pub fn kernel_of(image: &[u8], kernel: &str) -> (CodeObject, AmdKernel) {
    let object = code_object::parse(image).expect("it is a code object");
    let found = object.kernels.iter().find(|found| found.name == kernel).expect("it has the kernel").clone();
    (object, found)
}
