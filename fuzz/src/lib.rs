//! Fuzzing of everything that reads untrusted bytes.
//!
//! No input may make a reader panic, hang or allocate much.
//!
//! Two drivers share the targets: libFuzzer, guided by coverage (`cargo fuzz run fuzz-manifest --features libfuzzer`,
//! with `RUSTC_BOOTSTRAP=1` on a stable toolchain), and a loop of our own (`mneme-fuzz`), which needs nothing and is
//! part of the tests.

pub mod allocation;
pub mod mutation;
pub mod targets;

use std::cell::RefCell;

use targets::{FuzzTarget, TARGETS};

/// For libFuzzer: the input as it is, and with checksums put right.
pub fn libfuzzer(name: &str, input: &[u8]) {
    thread_local! {
        static TARGET: RefCell<Option<&'static FuzzTarget>> = const { RefCell::new(None) };
    }
    let target =
        TARGET.with_borrow_mut(|known| *known.get_or_insert_with(|| targets::target(name).expect("the target exists")));
    (target.run)(input);
    let mut sealed = input.to_vec();
    (target.seal)(&mut sealed);
    (target.run)(&sealed);
}

/// Gives every target its share of `runs` mutated inputs; the panic of a target names the input's file.
pub fn run_all(runs: u64, seed: u64) {
    for target in TARGETS {
        mutation::run(target, runs / TARGETS.len() as u64, seed, &[]);
    }
}
