//! Fuzzing of everything that reads untrusted bytes.
//!
//! No input may make a reader panic, hang or allocate much.
//!
//! Two drivers share the targets. libFuzzer is guided by coverage (with `RUSTC_BOOTSTRAP=1` on a stable toolchain):
//! `cargo fuzz run libfuzzer --features libfuzzer -- --target=manifest`. The loop `mneme-fuzz` needs no other tool and
//! is part of the tests.

pub mod allocation;
pub mod mutation;
pub mod targets;

use std::sync::LazyLock;

use targets::{FuzzTarget, TARGETS};

/// Runs a target for libFuzzer: on the input as it is, and with its checksums corrected. The target is named by the
/// argument `--target=NAME`; libFuzzer ignores arguments with two dashes.
pub fn libfuzzer(input: &[u8]) {
    static TARGET: LazyLock<&'static FuzzTarget> = LazyLock::new(|| {
        let name = std::env::args().find_map(|word| Some(word.strip_prefix("--target=")?.to_owned()));
        name.and_then(|name| targets::target(&name)).unwrap_or_else(|| {
            let names: Vec<_> = TARGETS.iter().map(|target| target.name).collect();
            eprintln!("pass --target=NAME, one of {}", names.join(", "));
            std::process::exit(mneme_system::exit::BAD_USAGE);
        })
    });
    let target = *TARGET;
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
