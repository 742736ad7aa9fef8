//! Renames definitions in clang's IR to nvcc's names.
//!
//! Two front ends make one object, and name some things differently.
//!
//! The names differ for definitions that are private to a unit. nvcc leaves the `L` of internal linkage out of device
//! names, mangles `_GLOBAL__N__<hash>_<unit>` for clang's `_GLOBAL__N_1` (an unnamed namespace), and under `-rdc`
//! prefixes `__nv_static_<n>__<hash>_<unit>_` where clang appends `__intern__<id>` or `__static__<id>`. Demangled, the
//! names are equal.

use std::collections::HashMap;

use inkwell::context::Context;
use mneme_image::symbol::without_unit;

use crate::error::BuildError;
use crate::ir::diagnostics::Diagnostics;
use crate::ir::{self, Value, annotations, read};

/// A module with the other compiler's names.
#[derive(Debug)]
pub struct RenamedModule {
    pub bitcode: Vec<u8>,
    /// Kernels that the other compiler's object lacks, demangled.
    pub missing: Vec<String>,
}

/// Renames kernels and variables of `bitcode` to those of `names` that demangle to the same.
pub fn rename<'a>(bitcode: &[u8], names: impl IntoIterator<Item = &'a str>) -> Result<RenamedModule, BuildError> {
    let mut theirs: HashMap<String, Option<&str>> = HashMap::new();
    let mut exact = std::collections::HashSet::new();
    for name in names {
        exact.insert(name);
        // If two names demangle to the same, neither is certain.
        theirs
            .entry(plain(name))
            .and_modify(|known| *known = known.filter(|known| *known == name))
            .or_insert(Some(name));
    }
    let context = Context::create();
    let diagnostics = Diagnostics::collect(&context);
    let module = read::parse(&context, &diagnostics, bitcode)?;
    let kernels = annotations::kernels(&module);
    let mut missing = Vec::new();
    let is_own = |value: &Value<'_>| !value.is_declaration();
    for value in kernels.iter().copied().chain(ir::variables(&module).into_iter().filter(is_own)) {
        let name = value.name();
        if exact.contains(name.as_str()) {
            continue;
        }
        match theirs.get(&plain(&name)).copied().flatten() {
            Some(other) => value.set_name(other),
            None if kernels.contains(&value) => missing.push(plain(&name)),
            None => {}
        }
    }
    Ok(RenamedModule { bitcode: module.write_bitcode_to_memory().as_slice().to_vec(), missing })
}

/// The common form of either compiler's name.
fn plain(name: &str) -> String {
    let name = without_unit(name);
    let demangled = cpp_demangle::Symbol::new(name).ok().and_then(|symbol| symbol.demangle().ok());
    demangled.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_both_compilers_read_the_same() {
        for (clang, nvcc) in [
            ("_ZL2skPi", "_Z2skPi"),
            ("_ZL5state", "state"),
            ("_ZN2nsL5stateE", "_ZN2ns5stateE"),
            ("_ZN12_GLOBAL__N_11kEPi", "_ZN33_GLOBAL__N__7cac4fce_4_t_cu_table1kEPi"),
            ("_ZL2skPi__intern__12ab", "__nv_static_22__7cac4fce_4_t_cu_table__Z2skPi"),
            ("_ZL5state__static__12ab", "__nv_static_22__7cac4fce_4_t_cu_table_state"),
            (
                "_ZN12_GLOBAL__N_11kEPi__intern__12ab",
                "__nv_static_22__7cac4fce_4_t_cu_table__ZN33_GLOBAL__N__7cac4fce_4_t_cu_table1kEPi",
            ),
        ] {
            assert_eq!(plain(clang), plain(nvcc), "{clang} {nvcc}");
        }
        assert_ne!(plain("_ZL2skPi"), plain("_Z2skPf"));
    }
}
