//! The choice of a kernel in a recording.

use std::path::{Path, PathBuf};

use mneme_core::exit;
use mneme_core::recording::database::{KernelRecord, kernels};
use mneme_core::text::closest;

use crate::error::Fatal;

/// The kernel's file: as named, or the one of a folder that is meant.
pub fn choose(path: &Path, id: Option<&str>, name: Option<&str>) -> Result<PathBuf, Fatal> {
    if !path.is_dir() {
        return Ok(path.into());
    }
    let mut found = Vec::new();
    let mut all = Vec::new();
    let mut damaged = None;
    for file in kernels(path)? {
        match KernelRecord::load(&file) {
            Ok(kernel) => {
                let named =
                    name.is_none_or(|name| kernel.kernel_name.contains(name) || kernel.demangled_name.contains(name));
                if named && id.is_none_or(|id| kernel.instances.contains_key(id)) {
                    let exactly = name.is_some_and(|name| is_name(name, &kernel));
                    found.push((exactly, file, kernel.demangled_name.clone()));
                }
                all.push(kernel.demangled_name);
            }
            Err(error) => damaged = Some(error),
        }
    }
    if found.iter().any(|(exactly, ..)| *exactly) {
        found.retain(|(exactly, ..)| *exactly);
    }
    let names: Vec<String> = found.iter().map(|(_, _, name)| name.clone()).collect();
    match (found.pop(), found.len()) {
        (Some((_, only, _)), 0) => Ok(only),
        (None, _) => match damaged {
            Some(error) => Err(error.into()),
            None if all.is_empty() => {
                Err(Fatal::new(exit::BAD_RECORDING, format!("{} holds no recorded kernel", path.display())))
            }
            None => Err(Fatal::new(
                if name.is_some() { exit::BAD_USAGE } else { exit::BAD_RECORDING },
                format!("no kernel of {} {}; {}", path.display(), described(name, id), offered(name, &all)),
            )),
        },
        (Some(_), others) => Err(Fatal::new(
            exit::BAD_USAGE,
            format!(
                "{} kernels of {} may be meant; name one with --kernel or -rid, or name its .json file: {}",
                others + 1,
                path.display(),
                closest(name.unwrap_or_default(), &names)
            ),
        )),
    }
}

/// Whether a kernel's whole name is meant, rather than a part of it: mangled, demangled, or demangled without its
/// parameters.
fn is_name(name: &str, kernel: &KernelRecord) -> bool {
    let demangled = kernel.demangled_name.as_str();
    kernel.kernel_name == name || demangled == name || demangled.split('(').next() == Some(name)
}

/// The kernels that may have been meant, of those that are there.
fn offered(name: Option<&str>, all: &[String]) -> String {
    const FEW: usize = 5;
    let held = if all.len() > FEW && name.is_some() { "the names most like it are" } else { "it holds" };
    format!("{held} {}", closest(name.unwrap_or_default(), all))
}

/// What a kernel was to be, of those that the command line may mean.
fn described(name: Option<&str>, id: Option<&str>) -> String {
    let named = name.map(|name| format!("is named {name}"));
    let has = id.map(|id| format!("has an instance {id} (mneme show lists them)"));
    named.into_iter().chain(has).collect::<Vec<_>>().join(" and ")
}
