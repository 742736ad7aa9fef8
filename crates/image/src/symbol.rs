//! Mangled names: demangled, or without the compiler's additions for each translation unit.

/// A mangled name without the suffix or prefix that distinguishes translation units. For private names of relocatable
/// code, clang appends `__intern__<id>` or `__static__<id>` (for AMD with dots), and nvcc prefixes `__nv_static_<n>_<n
/// characters>_`.
pub fn without_unit(name: &str) -> &str {
    let after_prefix = || {
        let (length, rest) = name.strip_prefix("__nv_static_")?.split_once('_')?;
        rest.get(length.parse::<usize>().ok()?..)?.strip_prefix('_')
    };
    let name = after_prefix().unwrap_or(name);
    ["__intern__", "__static__", ".intern.", ".static."]
        .iter()
        .find_map(|mark| Some(name.rsplit_once(mark)?.0))
        .unwrap_or(name)
}

/// The demangled name of a kernel, or the name itself if it is not a C++ name.
pub fn readable(name: &str) -> String {
    let demangled = cpp_demangle::Symbol::new(without_unit(name)).ok().and_then(|symbol| symbol.demangle().ok());
    demangled.unwrap_or_else(|| name.to_owned())
}

/// The suffix that clang appends to a private name of relocatable code for AMD; empty for other names.
pub fn unit_of_amd(name: &str) -> &str {
    [".intern.", ".static."].iter().find_map(|mark| name.get(name.rfind(mark)?..)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{readable, unit_of_amd, without_unit};

    #[test]
    fn private_names_of_both_compilers() {
        for (name, plain) in [
            ("_ZL2skPi__intern__12ab", "_ZL2skPi"),
            ("_ZL5state__static__12ab", "_ZL5state"),
            ("__nv_static_22__7cac4fce_4_t_cu_table__Z2skPi", "_Z2skPi"),
            ("__nv_static_22__7cac4fce_4_t_cu_table_state", "state"),
            ("__nv_static_99_x", "__nv_static_99_x"),
            ("_ZL4samePf.intern.9be1a5fe00_059a4aa7", "_ZL4samePf"),
            ("_ZL5state.static.9be1a5fe00_059a4aa7", "_ZL5state"),
            ("_Z1kv", "_Z1kv"),
        ] {
            assert_eq!(without_unit(name), plain, "{name}");
        }
        assert_eq!([readable("_ZL2skPi__intern__12ab"), readable("main")], ["sk(int*)", "main"]);
        assert_eq!(unit_of_amd("_ZL4samePf.intern.9be1"), ".intern.9be1");
        assert_eq!(unit_of_amd("_ZL2skPi__intern__12ab"), "");
    }
}
