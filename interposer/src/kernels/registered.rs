//! Device variables that HIP programs register before `main`.
//!
//! HIP finds them by the addresses of their host variables.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// A registered variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredVariable {
    /// The address of the host variable of the same name.
    pub host: usize,
    /// For managed memory: its size in bytes. The device has a pointer of this name to it.
    pub managed: Option<u64>,
}

/// By the handle of the code, then by the name on the device.
type Variables = HashMap<usize, HashMap<String, RegisteredVariable>>;

static VARIABLES: LazyLock<RwLock<Variables>> = LazyLock::new(RwLock::default);

/// Notes a variable of registered code.
pub fn note(binary: usize, name: String, variable: RegisteredVariable) {
    let mut variables = VARIABLES.write().unwrap_or_else(PoisonError::into_inner);
    variables.entry(binary).or_default().insert(name, variable);
}

/// Forgets the variables of code that is no longer registered.
pub fn forget(binary: usize) {
    VARIABLES.write().unwrap_or_else(PoisonError::into_inner).remove(&binary);
}

/// A variable of registered code.
pub fn variable(binary: usize, name: &str) -> Option<RegisteredVariable> {
    VARIABLES.read().unwrap_or_else(PoisonError::into_inner).get(&binary)?.get(name).copied()
}

/// The names of all variables of registered code.
pub fn names(binary: usize) -> Vec<String> {
    let variables = VARIABLES.read().unwrap_or_else(PoisonError::into_inner);
    variables.get(&binary).into_iter().flat_map(|variables| variables.keys().cloned()).collect()
}

/// The managed variables of registered code: the address of the program's pointer to each, and its size in bytes.
pub fn managed(binary: usize) -> Vec<(usize, u64)> {
    let variables = VARIABLES.read().unwrap_or_else(PoisonError::into_inner);
    let variables = variables.get(&binary).into_iter().flat_map(HashMap::values);
    variables.filter_map(|variable| Some((variable.host, variable.managed?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_their_code() {
        let variable = |host, managed| RegisteredVariable { host, managed };
        note(0x10, "a".into(), variable(1, None));
        note(0x20, "a".into(), variable(2, Some(4)));
        assert_eq!(super::variable(0x10, "a"), Some(variable(1, None)));
        assert_eq!(super::variable(0x20, "a"), Some(variable(2, Some(4))));
        assert_eq!(super::variable(0x20, "b"), None);
        forget(0x20);
        assert_eq!(super::variable(0x20, "a"), None);
        forget(0x10);
    }
}
