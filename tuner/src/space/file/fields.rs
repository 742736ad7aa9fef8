//! The names of a configuration's fields.

use mneme_model::configuration::Configuration;
use serde::Deserialize;
use serde::de::value::Error;
use serde::de::{Deserializer, Error as _, Visitor};

/// Whether this is a field of a configuration, or an axis of the grid or the block (`grid.x`).
pub fn is_field(name: &str) -> bool {
    match name.split_once('.') {
        Some((dimensions, axis)) => ["grid", "block"].contains(&dimensions) && ["x", "y", "z"].contains(&axis),
        None => names().contains(&name),
    }
}

/// All fields, taken from the derived deserializer of configurations.
pub fn names() -> &'static [&'static str] {
    let mut names = Names(&[]);
    // Always fails, because there are no values.
    let _ = Configuration::deserialize(&mut names);
    names.0
}

struct Names(&'static [&'static str]);

impl<'de> Deserializer<'de> for &mut Names {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, _visitor: V) -> Result<V::Value, Error> {
        Err(Error::custom("only the names are wanted"))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.0 = fields;
        self.deserialize_any(visitor)
    }

    serde::forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple
        tuple_struct map enum identifier ignored_any
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
