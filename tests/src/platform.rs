//! Compilers and flags of test programs for NVIDIA's and AMD's GPUs.

use std::path::{Path, PathBuf};

use crate::command::{Run, run};
use crate::installation::{Cudart, checkout, have_compiler, program};

/// The folder of the sources.
pub fn sources() -> PathBuf {
    checkout().join("tests/apps")
}

/// The toolkit that `scripts/setup` assembles.
pub fn toolkit() -> PathBuf {
    checkout().join(".deps/cuda")
}

/// GPU architecture that applications are compiled for.
pub fn arch() -> String {
    std::env::var("MNEME_TEST_ARCH").unwrap_or_else(|_| "sm_90".into())
}

/// The switches of a CUDA compilation with clang.
pub fn compile_flags() -> Vec<String> {
    vec![
        "-x".into(),
        "cuda".into(),
        format!("--cuda-path={}", toolkit().display()),
        format!("--cuda-gpu-arch={}", arch()),
        "-O3".into(),
        "-std=c++17".into(),
        "-Wno-unknown-cuda-version".into(),
    ]
}

/// The switches that link the CUDA runtime, and those of `MNEME_TEST_LDFLAGS`. A compiled application finds the shared
/// runtime in its own folder, so you can move both.
pub fn link_flags(cudart: Cudart) -> Vec<String> {
    let library_folder = toolkit().join("lib64");
    let mut flags = vec![format!("-L{}", library_folder.display())];
    match cudart {
        Cudart::Shared => flags.extend([format!("-Wl,-rpath,$ORIGIN:{}", library_folder.display()), "-lcudart".into()]),
        Cudart::Static => flags.extend(["-lcudart_static", "-ldl", "-lrt", "-lpthread"].map(String::from)),
    }
    let more = std::env::var("MNEME_TEST_LDFLAGS").unwrap_or_default();
    flags.extend(more.split_whitespace().map(String::from));
    flags
}

/// The clang that compiles the applications: `MNEME_TEST_CLANG`, or else clang 19.
pub fn clang() -> String {
    std::env::var("MNEME_TEST_CLANG").unwrap_or_else(|_| "clang++-19".into())
}

/// The version of its LLVM, from its name.
pub fn llvm() -> u32 {
    version_of(&clang())
}

fn version_of(clang: &str) -> u32 {
    let version = clang.rsplit('-').next().and_then(|version| version.parse().ok());
    version.unwrap_or_else(|| panic!("'{clang}' does not end with a version, as clang++-19 does"))
}

/// `mneme-cc clang++-19`, with the toolkit's programs on PATH, which clang's linker wrapper needs.
pub fn recordable_clang() -> Run {
    recordable_by(&clang())
}

/// The clang that compiles HIP programs: `MNEME_TEST_HIP_CLANG`, or else clang 19, the newest one that supports the HIP
/// of Debian 12.
pub fn hip_clang() -> String {
    std::env::var("MNEME_TEST_HIP_CLANG").unwrap_or_else(|_| "clang++-19".into())
}

/// The version of its LLVM.
pub fn hip_llvm() -> u32 {
    version_of(&hip_clang())
}

/// The same with another clang.
pub fn recordable_by(clang: &str) -> Run {
    with_toolkit(run(program("mneme-cc")).arg(clang))
}

/// clang without `mneme-cc`.
pub fn plain_clang() -> Run {
    with_toolkit(run(clang()))
}

fn with_toolkit(run: Run) -> Run {
    let path = std::env::var("PATH").unwrap_or_default();
    run.env("PATH", format!("{path}:{}", toolkit().join("bin").display()))
}

/// nvcc and its toolkit, as installed by `scripts/setup`. `None` if they are missing, as on machines without network.
/// Also `None` if `MNEME_TEST_NVCC` is `none`, for systems whose C library is too new for CUDA's headers.
pub fn nvcc(test: &str) -> Option<PathBuf> {
    let nvcc = checkout().join(".deps/nvcc/bin/nvcc");
    let is_wanted = std::env::var("MNEME_TEST_NVCC").as_deref() != Ok("none");
    let is_there = have_compiler(test) && is_wanted && nvcc.is_file();
    if !is_there {
        mneme_fixtures::skip(format_args!("{test} needs {}", nvcc.display()));
    }
    is_there.then_some(nvcc)
}

/// The platform that an application is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    Cuda(Cudart),
    /// A HIP program for an AMD GPU.
    Hip,
}

impl Platform {
    /// The folder for its applications.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Cuda(cudart) => cudart.name(),
            Self::Hip => "hip",
        }
    }

    /// `mneme-cc` with the clang for its programs.
    pub fn recordable_clang(self) -> Run {
        match self {
            Self::Cuda(_) => recordable_clang(),
            Self::Hip => recordable_by(&hip_clang()),
        }
    }

    /// The same clang without `mneme-cc`.
    pub fn plain_clang(self) -> Run {
        match self {
            Self::Cuda(_) => plain_clang(),
            Self::Hip => with_toolkit(run(hip_clang())),
        }
    }

    pub fn compile_flags(self) -> Vec<String> {
        match self {
            Self::Cuda(_) => compile_flags(),
            Self::Hip => hip_compile_flags(),
        }
    }

    /// Flags for an application of several units: relocatable device code.
    pub fn relocatable_flags(self) -> &'static [&'static str] {
        match self {
            Self::Cuda(_) => &["-fgpu-rdc", "--offload-new-driver"],
            Self::Hip => &["-fgpu-rdc"],
        }
    }

    pub fn link_flags(self) -> Vec<String> {
        match self {
            Self::Cuda(cudart) => link_flags(cudart),
            // clang links HIP's runtime automatically.
            Self::Hip => Vec::new(),
        }
    }
}

/// The AMD processor that applications are compiled for.
pub fn hip_arch() -> String {
    std::env::var("MNEME_TEST_HIP_ARCH").unwrap_or_else(|_| "gfx90a".into())
}

/// The header that defines CUDA's names for HIP's functions.
pub fn hip_header() -> PathBuf {
    sources().join("hip/cuda_runtime.h")
}

/// The switches of a HIP compilation with clang. `mneme-cc` finds the device libraries.
fn hip_compile_flags() -> Vec<String> {
    vec![
        "-x".into(),
        "hip".into(),
        format!("--offload-arch={}", hip_arch()),
        "-O3".into(),
        "-std=c++17".into(),
        // Destructors ignore whether freeing succeeds.
        "-Wno-unused-result".into(),
        "-include".into(),
        hip_header().to_string_lossy().into_owned(),
    ]
}

/// Compiles the code object that a program loads. It has the program's name and folder.
pub fn compile_code_object(own_sources: &[&str], path: &Path) {
    Platform::Hip
        .recordable_clang()
        .args(hip_compile_flags())
        .args(["--cuda-device-only", "-c"])
        .args(own_sources.iter().map(|source| sources().join(source)))
        .args([Path::new("-o"), &path.with_extension("co")])
        .succeed();
}
