//! The names of a configuration's fields.

use mneme_model::configuration::FIELDS;

const AXES: [&str; 6] = ["grid.x", "grid.y", "grid.z", "block.x", "block.y", "block.z"];

/// The names of all fields and axes.
pub fn names() -> impl Iterator<Item = &'static str> {
    let whole = FIELDS.iter().map(|field| field.name).filter(|name| !["grid", "block"].contains(name));
    AXES.into_iter().chain(whole)
}

/// Whether this is a field of a configuration, or an axis of the grid or the block (`grid.x`).
pub fn is_field(name: &str) -> bool {
    AXES.contains(&name) || FIELDS.iter().any(|field| field.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_known() {
        for name in ["grid.x", "block.z", "passes", "min_blocks_per_sm", "maxnreg", "llvm_options", "tolerance"] {
            assert!(is_field(name), "{name}");
        }
        for name in ["n", "grid.w", "threads", "passes.x"] {
            assert!(!is_field(name), "{name}");
        }
    }
}
