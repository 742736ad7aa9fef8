//! The places where CUDA toolkits are installed.

use std::path::PathBuf;

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
