//! The device variables of launched code, which kernels can reach by addresses in memory.

use std::collections::BTreeMap;
use std::ffi::c_void;

use super::handles;
use super::kernel::{CodeOwner, Kernel};
use super::registered;

/// A variable at its address in the current context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedVariable {
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// Managed memory, which the host accesses at the same address.
    pub is_managed: bool,
}

/// The variables of all code with a launched kernel, by address. Leaves out variables that the vendor does not find by
/// name (those private to a file).
pub fn all() -> Vec<LoadedVariable> {
    let mut found = BTreeMap::new();
    let of_kernel = |kernel: &Kernel| {
        let code = kernel.progress.code.get().and_then(|code| code.as_ref().ok());
        code.into_iter().flat_map(|code| code.variables()).map(|(name, _)| name.to_owned()).collect::<Vec<String>>()
    };
    for (home, of_kernels) in handles::launched(of_kernel) {
        let mut add = |variable: LoadedVariable| _ = found.insert(variable.address, variable);
        if let CodeOwner::Binary(binary) = home {
            registered::managed(binary).into_iter().filter_map(managed).for_each(&mut add);
        }
        for name in names(home, of_kernels).iter().filter(|name| !home.is_managed(name)) {
            if let Some((address, size)) = home.variable(name)
                && size > 0
            {
                add(LoadedVariable { address, size, is_managed: false });
            }
        }
    }
    found.into_values().collect()
}

/// Managed memory of HIP, to which the program's own pointer leads.
fn managed((pointer, size): (usize, u64)) -> Option<LoadedVariable> {
    // SAFETY: a registered variable of the loaded program.
    let address = unsafe { (pointer as *const *const c_void).read_volatile() } as u64;
    (address != 0 && size > 0).then_some(LoadedVariable { address, size, is_managed: true })
}

/// The names on the device: those in the IR that comes with the code, and those that its kernels use.
fn names(home: CodeOwner, of_kernels: Vec<String>) -> Vec<String> {
    let mut names = of_kernels;
    if let CodeOwner::Binary(binary) = home {
        names.extend(registered::names(binary));
    }
    for unit in handles::origin(home).units_of_object() {
        names.extend(unit.variables().iter().cloned());
    }
    names.sort_unstable();
    names.dedup();
    names
}
