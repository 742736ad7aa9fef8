//! The installation folders of CUDA toolkits and parts of ROCm.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

use crate::console;
use crate::files::trust;

/// Folders of ROCm's device libraries: in Debian 12, in Fedora, and in ROCm's own packages.
const DEVICE_LIBRARIES: [&str; 3] =
    ["/usr/lib/x86_64-linux-gnu/amdgcn/bitcode", "/usr/amdgcn/bitcode", "/opt/rocm/amdgcn/bitcode"];

/// The oldest clang whose folder contains them in a distribution (Debian 13).
const OLDEST_WITH_LIBRARIES: u32 = 17;

/// The major version in clang's output: 15 for "Debian clang version 15.0.6".
pub fn clang_version(text: &str) -> Option<u32> {
    let (_, version) = text.split_once("clang version ")?;
    version.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// The variable with the folder in which clang looks for the device libraries first.
pub const LIBRARIES_VARIABLE: &str = "HIP_DEVICE_LIB_PATH";

/// The folder of ROCm's device libraries for this version of clang. Debian 13 and Ubuntu have a folder for each clang,
/// because older versions cannot read newer libraries.
pub fn device_libraries(clang: u32) -> Option<PathBuf> {
    let of_one = |version| format!("/usr/lib/llvm-{version}/lib/clang/{version}/amdgcn/bitcode").into();
    let folders = DEVICE_LIBRARIES.iter().map(PathBuf::from);
    let mut folders = folders.chain((OLDEST_WITH_LIBRARIES..=clang).rev().map(of_one));
    // A library that every version contains.
    folders.find(|folder| folder.join("ocml.bc").is_file())
}

/// Roots of CUDA toolkits, the most specific first: from the environment, from `scripts/setup`, and from the system.
pub fn toolkits() -> Vec<PathBuf> {
    let mut roots: Vec<PathBuf> = ["CUDA_PATH", "CUDA_HOME"].into_iter().filter_map(named).collect();
    if let Some(here) = crate::install::own_folder() {
        // From target/debug/deps and bin/ up to the folder that holds .deps/.
        let near = here.ancestors().take(5).map(|folder| folder.join(".deps/cuda"));
        roots.extend(near.filter(|root| belongs_to(root, &here)));
    }
    roots.extend(["/usr/local/cuda", "/opt/cuda"].map(PathBuf::from));
    roots.retain(|root| root.is_dir());
    roots
}

/// Whether a folder near an installation is safe from strangers: a folder above it may belong to anyone, like `/tmp`.
fn belongs_to(root: &Path, installation: &Path) -> bool {
    let owner = |path: &Path| path.metadata().map(|of| (of.uid(), of.mode() & 0o022 == 0)).ok();
    trust::check(root).is_ok()
        || owner(root).zip(owner(installation)).is_some_and(|((of, is_closed), (ours, _))| of == ours && is_closed)
}

/// The toolkit that a variable names, unless a stranger can change it: Mneme executes its programs and libraries.
fn named(variable: &str) -> Option<PathBuf> {
    static IS_SAID: Once = Once::new();
    let root = std::env::var_os(variable).filter(|path| !path.is_empty()).map(PathBuf::from)?;
    match trust::check(&root) {
        Ok(resolved) => Some(resolved),
        Err(error) => {
            if trust::is_refusal(&error) {
                IS_SAID.call_once(|| console::remark(format_args!("mneme: {variable} is not used: {error}")));
            }
            None
        }
    }
}
