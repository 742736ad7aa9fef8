//! The compiler wrappers `mneme-clang` and `mneme-clang++`, which are this program under other names.

use std::path::{Path, PathBuf};

use mneme_system::files::trust;
use mneme_system::install;

/// The compiler that a wrapper replaces; `None` if the program was not called by a wrapper's name.
pub fn compiler_of(own_name: &Path) -> Option<anyhow::Result<PathBuf>> {
    let plus = match own_name.file_name()?.to_str()? {
        "mneme-clang" => "",
        "mneme-clang++" => "++",
        _ => return None,
    };
    Some(find(plus).ok_or_else(|| {
        anyhow::anyhow!(
            "clang{plus} was not found; install version {OLDEST_CLANG} or later, or set MNEME_CLANG to a clang"
        )
    }))
}

/// The oldest supported clang.
pub const OLDEST_CLANG: u32 = 17;

/// Finds a clang: `$MNEME_CLANG` (a clang, or a folder with one); else on the search path clang 19, clang, or the
/// newest other version for which a builder can exist; else LLVM 19's folder.
pub fn find(plus: &str) -> Option<PathBuf> {
    let mut names = vec![format!("clang{plus}-19"), format!("clang{plus}")];
    names.extend((OLDEST_CLANG..=*install::LLVM_VERSIONS.end()).rev().map(|version| format!("clang{plus}-{version}")));
    let within = |folder: &Path| names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    if let Some(chosen) = std::env::var_os("MNEME_CLANG").filter(|value| !value.is_empty()).map(PathBuf::from) {
        if let Err(error) = trust::check_program(&chosen)
            && trust::is_refusal(&error)
        {
            mneme_system::remark!("mneme-cc: MNEME_CLANG is ignored: {error}");
            return None;
        }
        return if chosen.is_dir() { within(&chosen) } else { Some(counterpart(&chosen, plus)) };
    }
    let folders = install::search_path();
    names
        .iter()
        .find_map(|name| folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file()))
        .or_else(|| within(Path::new("/usr/lib/llvm-19/bin")))
}

/// The C or C++ driver of the same installation as `chosen`, such as clang++-19 for clang-19.
fn counterpart(chosen: &Path, plus: &str) -> PathBuf {
    let name = chosen.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let other = name.replacen("clang++", "clang", 1).replacen("clang", &format!("clang{plus}"), 1);
    chosen.with_file_name(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_driver_leads_to_the_other() {
        for (chosen, plus, expected) in [
            ("/x/clang-19", "++", "/x/clang++-19"),
            ("/x/clang++-19", "++", "/x/clang++-19"),
            ("/x/clang++", "", "/x/clang"),
            ("/x/clang", "", "/x/clang"),
        ] {
            assert_eq!(counterpart(Path::new(chosen), plus), Path::new(expected));
        }
    }

    #[test]
    fn only_the_wrappers_names_are_wrappers() {
        assert!(compiler_of(Path::new("/prefix/bin/mneme-cc")).is_none());
        assert!(compiler_of(Path::new("mneme-clang++")).is_some());
    }
}
