//! Names of device code.

/// A mangled name without what a compiler adds to it to tell translation units apart: clang appends `__intern__<id>` or
/// `__static__<id>`, nvcc prefixes `__nv_static_<n>_<n characters>_`, each to private names of relocatable code.
pub fn without_unit(name: &str) -> &str {
    let after_prefix = || {
        let (length, rest) = name.strip_prefix("__nv_static_")?.split_once('_')?;
        rest.get(length.parse::<usize>().ok()?..)?.strip_prefix('_')
    };
    let name = after_prefix().unwrap_or(name);
    ["__intern__", "__static__"].iter().find_map(|mark| Some(name.rsplit_once(mark)?.0)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::without_unit;

    #[test]
    fn private_names_of_both_compilers() {
        for (name, plain) in [
            ("_ZL2skPi__intern__12ab", "_ZL2skPi"),
            ("_ZL5state__static__12ab", "_ZL5state"),
            ("__nv_static_22__7cac4fce_4_t_cu_table__Z2skPi", "_Z2skPi"),
            ("__nv_static_22__7cac4fce_4_t_cu_table_state", "state"),
            ("__nv_static_99_x", "__nv_static_99_x"),
            ("_Z1kv", "_Z1kv"),
        ] {
            assert_eq!(without_unit(name), plain, "{name}");
        }
    }
}
