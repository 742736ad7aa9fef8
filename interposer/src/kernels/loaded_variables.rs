//! Device variables of the code that has been launched, which kernels can reach by addresses in memory.

use std::collections::BTreeMap;
use std::ffi::c_void;

use mneme_core::image::ir_section::SymbolKind;

use super::code::{CONSTANT_SPACE, GLOBAL_SPACE};
use super::handles;
use super::kernel::{CodeOwner, Kernel};
use super::registered;

/// A variable where it lies for the current context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedVariable {
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Managed memory, which the host reads and writes at the same address.
    pub is_managed: bool,
}

/// The variables of all code of which a kernel has been launched, by address. Variables that the vendor does not tell
/// by name (those that are private to a file) are not among them.
pub fn all() -> Vec<LoadedVariable> {
    let mut found = BTreeMap::new();
    for (home, kernels) in handles::launched() {
        let mut add = |variable: LoadedVariable| _ = found.insert(variable.address, variable);
        if let CodeOwner::Binary(binary) = home {
            registered::managed(binary).into_iter().filter_map(managed).for_each(&mut add);
        }
        for name in names(home, &kernels).iter().filter(|name| !home.is_managed(name)) {
            if let Some((address, size)) = home.variable(name)
                && size > 0
            {
                add(LoadedVariable { address, size, is_managed: false });
            }
        }
    }
    found.into_values().collect()
}

/// Managed memory of HIP's: where the program's own pointer leads.
fn managed((pointer, size): (usize, u64)) -> Option<LoadedVariable> {
    // SAFETY: a variable of the program, which has registered it and is loaded.
    let address = unsafe { (pointer as *const *const c_void).read_volatile() } as u64;
    (address != 0 && size > 0).then_some(LoadedVariable { address, size, is_managed: true })
}

/// Names on the device: of the IR that comes with the code, and of what its kernels are known to use.
fn names(home: CodeOwner, kernels: &[std::sync::Arc<Kernel>]) -> Vec<String> {
    let mut names = Vec::new();
    if let CodeOwner::Binary(binary) = home {
        names.extend(registered::names(binary));
    }
    for kernel in kernels {
        let of_code = kernel.progress.code.get().and_then(|code| code.as_ref().ok());
        names.extend(of_code.into_iter().flat_map(|code| code.variables()).map(|(name, _)| name.to_owned()));
    }
    // All are of one image.
    if let Some(kernel) = kernels.first() {
        let symbols = kernel.origin.units_of_object().into_iter().flat_map(|unit| &unit.table.symbols);
        let variables = symbols.filter(|symbol| {
            let info = symbol.variable.as_ref();
            symbol.kind == SymbolKind::Variable
                && symbol.defined
                && info.is_some_and(|info| matches!(info.space, GLOBAL_SPACE | CONSTANT_SPACE))
        });
        names.extend(variables.map(|symbol| symbol.name.clone()));
    }
    names.sort_unstable();
    names.dedup();
    names
}
