//! The names of a configuration's fields.

use mneme_model::configuration::FIELDS;

/// Whether this is a field of a configuration, or an axis of the grid or the block (`grid.x`).
pub fn is_field(name: &str) -> bool {
    match name.split_once('.') {
        Some((dimensions, axis)) => ["grid", "block"].contains(&dimensions) && ["x", "y", "z"].contains(&axis),
        None => FIELDS.iter().any(|field| field.name == name),
    }
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
