//! Device variables that HIP programs register before `main`.
//!
//! HIP finds them by the addresses of their hosts'.

use std::collections::HashMap;
use std::sync::{LazyLock, PoisonError, RwLock};

/// A registered variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisteredVariable {
    /// Address of the host's variable of the same name.
    pub host: usize,
    /// It is managed memory, behind a pointer of this name on the device.
    pub is_managed: bool,
}

/// By the handle of the code, and the name on the device.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_those_of_their_code() {
        let variable = |host, is_managed| RegisteredVariable { host, is_managed };
        note(0x10, "a".into(), variable(1, false));
        note(0x20, "a".into(), variable(2, true));
        assert_eq!(super::variable(0x10, "a"), Some(variable(1, false)));
        assert_eq!(super::variable(0x20, "a"), Some(variable(2, true)));
        assert_eq!(super::variable(0x20, "b"), None);
        forget(0x20);
        assert_eq!(super::variable(0x20, "a"), None);
        forget(0x10);
    }
}
