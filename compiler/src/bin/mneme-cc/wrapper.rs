//! The compiler wrappers `mneme-clang` and `mneme-clang++`: this program under another name.

use std::path::{Path, PathBuf};

use mneme_core::files::trust;
use mneme_core::install;

/// The compiler that a wrapper stands for; `None` if the program was not called by a wrapper's name.
pub fn compiler_of(own_name: &Path) -> Option<anyhow::Result<PathBuf>> {
    let plus = match own_name.file_name()?.to_str()? {
        "mneme-clang" => "",
        "mneme-clang++" => "++",
        _ => return None,
    };
    Some(find(plus).ok_or_else(|| {
        anyhow::anyhow!(
            "no clang{plus} is on this machine; install one of version {OLDEST_CLANG} or later, or set MNEME_CLANG to one"
        )
    }))
}

/// The oldest clang that is taken.
pub const OLDEST_CLANG: u32 = 17;

/// `$MNEME_CLANG` (a clang, or a folder with one); else clang 19, clang or, the newest first, another version whose IR
/// a builder can be there for, on the search path; else LLVM 19's folder.
pub fn find(plus: &str) -> Option<PathBuf> {
    let mut names = vec![format!("clang{plus}-19"), format!("clang{plus}")];
    names.extend((OLDEST_CLANG..=*install::LLVM_VERSIONS.end()).rev().map(|version| format!("clang{plus}-{version}")));
    let within = |folder: &Path| names.iter().map(|name| folder.join(name)).find(|path| path.is_file());
    if let Some(chosen) = std::env::var_os("MNEME_CLANG").filter(|value| !value.is_empty()).map(PathBuf::from) {
        if let Err(error) = trust::check_program(&chosen)
            && trust::is_refusal(&error)
        {
            mneme_core::remark!("mneme-cc: MNEME_CLANG is not used: {error}");
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

/// The C or C++ driver that belongs to `chosen`: clang-19 and clang++-19 are one installation.
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
