//! The places where CUDA toolkits and parts of ROCm are installed.

use std::path::PathBuf;

/// Folders of ROCm's device libraries: of Debian 12, of Fedora, of ROCm's own packages.
const DEVICE_LIBRARIES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "/usr/amdgcn/bitcode", "/opt/rocm/amdgcn/bitcode"];

/// The oldest clang in whose folder a distribution has them (Debian 13).
const OLDEST_WITH_LIBRARIES: u32 = 17;

/// The folder of ROCm's device libraries for a clang of this version. Debian 13 and Ubuntu have those of one clang in a
/// folder of its own: older ones do not read them.
pub fn device_libraries(clang: u32) -> Option<PathBuf> {
    let of_one = |version| format!("/usr/lib/llvm-{version}/lib/clang/{version}/amdgcn/bitcode").into();
    let folders = DEVICE_LIBRARIES.iter().map(PathBuf::from);
    let mut folders = folders.chain((OLDEST_WITH_LIBRARIES..=clang).rev().map(of_one));
    // One that is among them in every version.
    folders.find(|folder| folder.join("ocml.bc").is_file())
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
