//! The places where CUDA toolkits and parts of ROCm are installed.

use std::path::{Path, PathBuf};

/// Folders of ROCm's device libraries: of Debian 12, of Fedora, of ROCm's own packages, and of those that are built
/// for one version of LLVM (Debian 13, Ubuntu).
const DEVICE_LIBRARIES: [&str; 6] = [
    "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode",
    "/usr/amdgcn/bitcode",
    "/opt/rocm/amdgcn/bitcode",
    "/usr/lib/llvm-19/lib/clang/19/amdgcn/bitcode",
    "/usr/lib/llvm-18/lib/clang/18/amdgcn/bitcode",
    "/usr/lib/llvm-17/lib/clang/17/amdgcn/bitcode",
];

/// The folder of ROCm's device libraries.
pub fn device_libraries() -> Option<&'static Path> {
    // One that is among them in every version.
    DEVICE_LIBRARIES.iter().map(Path::new).find(|folder| folder.join("ocml.bc").is_file())
}

/// Roots of CUDA toolkits, the most particular first: the environment's, the one that `scripts/setup` assembled, the
/// system's.
pub fn toolkits() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["CUDA_PATH", "CUDA_HOME"]
        .into_iter()
        .filter_map(std::env::var_os)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect();
    if let Some(here) = mneme_core::install::own_folder() {
        // From target/debug/deps and bin/ up to the folder that holds .deps/.
        roots.extend(here.ancestors().take(5).map(|folder| folder.join(".deps/cuda")));
    }
    roots.extend(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from));
    roots.retain(|root| root.is_dir());
    roots
}
