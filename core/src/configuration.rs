//! A replay configuration: how to compile a recorded kernel and how to launch it.
//!
//! The fields, their JSON names and defaults are upstream's (`ExperimentConfiguration`); so is the hash.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::launch::Dim3;

/// One point of a tuning space, and what `mneme-replay` executes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Configuration {
    pub grid: Dim3,
    pub block: Dim3,
    /// Dynamic shared memory, bytes.
    #[serde(default)]
    pub shared_mem: u32,
    /// Fold the recorded values of scalar arguments into the code.
    #[serde(default)]
    pub specialize: bool,
    /// Tell the compiler `max_threads` and `min_blocks_per_sm`.
    #[serde(default)]
    pub set_launch_bounds: bool,
    /// Threads of a block the compiler may rely on; meaningful with `set_launch_bounds`.
    #[serde(default)]
    pub max_threads: Option<u32>,
    /// Blocks that should fit on one multiprocessor; meaningful with `set_launch_bounds`.
    #[serde(default)]
    pub min_blocks_per_sm: u32,
    /// Fold grid and block dimensions into the code.
    #[serde(default)]
    pub specialize_dims: bool,
    /// An LLVM pass pipeline, in the syntax of `opt -passes`.
    #[serde(default = "default_passes")]
    pub passes: String,
    /// Code generation level of the back end, 0 to 3.
    #[serde(default = "default_codegen_opt")]
    pub codegen_opt: u8,
    /// Upstream's code generator (`serial`, `parallel`, `rtc`); printed, not hashed.
    #[serde(default = "default_codegen_method")]
    pub codegen_method: String,
    /// Drop what the kernel does not reach.
    #[serde(default = "yes")]
    pub prune: bool,
    /// Make everything but the kernel internal to the module.
    #[serde(default = "yes")]
    pub internalize: bool,
}

fn default_passes() -> String {
    "default<O3>".into()
}
fn default_codegen_opt() -> u8 {
    3
}
fn default_codegen_method() -> String {
    "serial".into()
}
fn yes() -> bool {
    true
}

impl Configuration {
    /// The configuration that repeats the recorded launch with the default compilation.
    pub fn recorded(grid: Dim3, block: Dim3, shared_mem: u32) -> Self {
        Self {
            grid,
            block,
            shared_mem,
            specialize: false,
            set_launch_bounds: false,
            max_threads: None,
            min_blocks_per_sm: 0,
            specialize_dims: false,
            passes: default_passes(),
            codegen_opt: default_codegen_opt(),
            codegen_method: default_codegen_method(),
            prune: true,
            internalize: true,
        }
    }

    /// The normal form in which equal configurations are equal: parameters that do not apply are zero.
    pub fn grounded(&self) -> Self {
        let mut grounded = self.clone();
        if !grounded.set_launch_bounds {
            grounded.max_threads = Some(0);
            grounded.min_blocks_per_sm = 0;
        }
        grounded
    }

    /// Upstream's configuration hash: SHA-256, in hex, of compact JSON with sorted keys of the grounded configuration
    /// without `codegen_method`.
    pub fn hash(&self) -> String {
        let mut value = serde_json::to_value(self.grounded()).expect("plain data serialises");
        value.as_object_mut().expect("a struct is an object").remove("codegen_method");
        // serde_json's map is ordered by key.
        hex(&Sha256::digest(value.to_string().as_bytes()))
    }

    /// Says in one sentence why this configuration cannot be launched on any device, if so.
    pub fn check(&self) -> Result<(), String> {
        if self.grid.count() == 0 || self.block.count() == 0 {
            return Err(format!("grid {} and block {} must be at least 1 along every axis", self.grid, self.block));
        }
        if self.block.count() > 1024 {
            return Err(format!("a block of {} has {} threads; the limit is 1024", self.block, self.block.count()));
        }
        if self.codegen_opt > 3 {
            return Err(format!("codegen_opt is {}; it goes from 0 to 3", self.codegen_opt));
        }
        Ok(())
    }
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example() -> Configuration {
        Configuration::recorded(Dim3::new(40000, 1, 1), Dim3::new(256, 1, 1), 0)
    }

    #[test]
    fn launch_bounds_that_do_not_apply_do_not_change_the_hash() {
        let mut other = example();
        other.max_threads = Some(512);
        other.min_blocks_per_sm = 4;
        assert_eq!(example().hash(), other.hash());
        other.set_launch_bounds = true;
        assert_ne!(example().hash(), other.hash());
    }

    #[test]
    fn the_code_generator_is_not_hashed_but_passes_are() {
        let mut other = example();
        other.codegen_method = "rtc".into();
        assert_eq!(example().hash(), other.hash());
        other.passes = "default<O1>".into();
        assert_ne!(example().hash(), other.hash());
    }

    #[test]
    fn impossible_blocks_are_named() {
        let mut wrong = example();
        wrong.block = Dim3::new(2048, 1, 1);
        assert!(wrong.check().unwrap_err().contains("2048"));
        wrong.block = Dim3::new(1 << 31, 1 << 31, 4);
        assert!(wrong.check().unwrap_err().contains("1024"), "the product does not wrap around");
        wrong.block.x = 0;
        assert!(wrong.check().is_err());
    }
}
