//! Selects a kernel in a folder of recordings, by its name or by one of its instances.

use std::path::{Path, PathBuf};

use mneme_model::text::closest;

use super::database::{KernelRecord, kernels};
use crate::error::RecordingError;

/// The maximum number of names to suggest in an error.
const FEW: usize = 5;

/// The kernel's file: `path` itself, or the file in that folder that has an instance `id` and the name `name`.
///
/// A name is a kernel's mangled or demangled name, with or without its parameters, or a part of it. A complete match
/// takes precedence over partial ones.
///
/// # Errors
/// [`RecordingError::Choice`] if the name fits several kernels or none; [`RecordingError::NoInstance`] and
/// [`RecordingError::Empty`]; those of [`KernelRecord::load`] if only damaged files are left.
pub fn choose(path: &Path, id: Option<&str>, name: Option<&str>) -> Result<PathBuf, RecordingError> {
    let files = match (path.is_dir(), name) {
        (true, _) => kernels(path)?,
        // The caller looks up the instance when it reads the file.
        (false, None) => return Ok(path.into()),
        (false, Some(_)) => vec![path.to_path_buf()],
    };
    let (mut found, mut damaged) = (Vec::new(), None);
    for file in files {
        match KernelRecord::load(&file) {
            Ok(kernel) => found.push((file, kernel)),
            Err(error) => damaged = Some(error),
        }
    }
    let names = |found: &[(PathBuf, KernelRecord)]| -> Vec<String> {
        found.iter().map(|(_, kernel)| kernel.demangled_name.clone()).collect()
    };
    let all = names(&found);
    let ids: Vec<String> = found.iter().flat_map(|(_, kernel)| kernel.instances.keys().cloned()).collect();
    narrow(&mut found, |(_, kernel)| kernel, id, name);
    match &found[..] {
        [(file, _)] => Ok(file.clone()),
        [] => Err(damaged.unwrap_or_else(|| missing(path, id, name, &all, &ids))),
        several => Err(RecordingError::Choice(format!(
            "{} kernels of {} may be meant; name one with --kernel or -rid, or name its .json file: {}",
            several.len(),
            path.display(),
            closest(name.unwrap_or_default(), names(several))
        ))),
    }
}

/// Keeps the kernels that have an instance `id` and match `name`: only complete matches, if there are any.
pub fn narrow<T>(found: &mut Vec<T>, kernel: impl Fn(&T) -> &KernelRecord, id: Option<&str>, name: Option<&str>) {
    if let Some(id) = id {
        let is_whole = found.iter().any(|it| kernel(it).instances.contains_key(id));
        found.retain(|it| if is_whole { kernel(it).instances.contains_key(id) } else { kernel(it).may_have(id) });
    }
    if let Some(name) = name {
        let is_whole = found.iter().any(|it| is_whole_name(kernel(it), name));
        let fits = if is_whole { is_whole_name } else { is_named };
        found.retain(|it| fits(kernel(it), name));
    }
}

/// Whether a kernel's name equals or contains this one.
fn is_named(kernel: &KernelRecord, name: &str) -> bool {
    kernel.kernel_name.contains(name) || kernel.demangled_name.contains(name)
}

/// Whether this is a kernel's complete name: mangled, demangled, or demangled without its parameters.
fn is_whole_name(kernel: &KernelRecord, name: &str) -> bool {
    let demangled = kernel.demangled_name.as_str();
    kernel.kernel_name == name || demangled == name || demangled.split('(').next() == Some(name)
}

/// The error for a selection that matches no kernel, or several.
pub fn missing(path: &Path, id: Option<&str>, name: Option<&str>, all: &[String], ids: &[String]) -> RecordingError {
    match (name, id) {
        _ if all.is_empty() => RecordingError::Empty { path: path.into() },
        (None, Some(id)) => {
            RecordingError::NoInstance { path: path.into(), instance: id.into(), known: closest(id, ids) }
        }
        (name, id) => {
            let name = name.unwrap_or_default();
            let held = if all.len() > FEW { "the names most like it are" } else { "it holds" };
            let has = id.map_or(String::new(), |id| format!(" and has an instance {id} (mneme show lists them)"));
            let path = path.display();
            RecordingError::Choice(format!("no kernel of {path} is named {name}{has}; {held} {}", closest(name, all)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_system::exit;

    /// A folder with kernels of these demangled names, each with one instance.
    fn folder(kernels: &[(u64, &str, &str)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (hash, name, id) in kernels {
            let unit = serde_json::json!({"x": 1, "y": 1, "z": 1});
            let instance = serde_json::json!({
                "Prologue": "p", "Epilogue": "e", "BlockDims": unit, "GridDims": unit, "SharedMem": 0, "Args": [],
                "Occurrences": 1,
            });
            let record: KernelRecord = serde_json::from_value(serde_json::json!({
                "StaticHash": hash, "VAddr": "0x0", "VASize": 0, "KernelName": "k", "DemangledName": name, "Modules": [],
                "BinaryBlobs": [], "ArgNames": [], "Specializations": [], "instances": {*id: instance},
            }))
            .unwrap();
            record.save(&folder.path().join(record.file_name())).unwrap();
        }
        folder
    }

    #[test]
    fn a_kernel_is_chosen_by_a_name_or_an_instance() {
        let folder =
            folder(&[(1, "scan(int*)", "123456"), (2, "scan_all(int*)", "123789"), (3, "sum(int*)", "900001")]);
        let chosen = |id: Option<&str>, name: Option<&str>| -> Result<String, RecordingError> {
            let path = choose(folder.path(), id, name)?;
            Ok(path.file_stem().unwrap().to_str().unwrap().to_owned())
        };
        for (id, name, expected) in [
            (None, Some("scan"), "1"),
            (None, Some("scan_"), "2"),
            (None, Some("sum(int*)"), "3"),
            (Some("900001"), None, "3"),
            (Some("9"), None, "3"),
            (Some("1237"), Some("scan"), "2"),
        ] {
            assert_eq!(chosen(id, name).map_err(|error| error.to_string()).as_deref(), Ok(expected));
        }
        for (id, name) in
            [(None, None), (None, Some("int")), (None, Some("swap")), (Some("7"), None), (Some("1"), None)]
        {
            assert_eq!(chosen(id, name).map_err(|error| error.exit_status()), Err(exit::BAD_USAGE));
        }
        let missing = choose(&folder.path().join("nowhere"), None, Some("scan"));
        assert_eq!(missing.unwrap_err().exit_status(), exit::NO_INPUT);
        let empty = tempfile::tempdir().unwrap();
        assert!(matches!(choose(empty.path(), None, None), Err(RecordingError::Empty { .. })));
        assert_eq!(choose(Path::new("7.json"), None, None).unwrap(), Path::new("7.json"));
        // An explicitly named file either belongs to the kernel or is refused.
        let file = folder.path().join("3.json");
        assert_eq!(choose(&file, None, Some("sum")).unwrap(), file);
        assert!(choose(&file, None, Some("scan")).unwrap_err().is_usage());
    }
}
