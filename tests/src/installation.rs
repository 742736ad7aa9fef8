//! The paths of the programs under test, and the device to test them on.

use std::path::{Path, PathBuf};

/// The device that the suite records and replays on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestDevice {
    Cpu,
    Cuda,
}

impl TestDevice {
    /// The device of this run, from `MNEME_TEST_DEVICE`.
    pub fn under_test() -> Self {
        match std::env::var("MNEME_TEST_DEVICE").as_deref() {
            Ok("cuda") => Self::Cuda,
            Ok("cpu" | "") | Err(_) => Self::Cpu,
            Ok(other) => panic!("MNEME_TEST_DEVICE is cpu or cuda, not '{other}'"),
        }
    }

    /// The name for `--device NAME` and `MNEME_DEVICE=NAME`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Cuda => "cuda",
        }
    }
}

/// The number in an environment variable.
pub fn number(variable: &str, otherwise: u64) -> u64 {
    std::env::var(variable).ok().map_or(otherwise, |text| text.parse().unwrap_or_else(|_| panic!("{variable}={text}")))
}

/// How the applications are linked to the CUDA runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cudart {
    Shared,
    Static,
}

impl Cudart {
    /// The linkage of this run, from `MNEME_TEST_CUDART`.
    pub fn under_test() -> Self {
        match std::env::var("MNEME_TEST_CUDART").as_deref() {
            Ok("static") => Self::Static,
            Ok("shared" | "") | Err(_) => Self::Shared,
            Ok(other) => panic!("MNEME_TEST_CUDART is shared or static, not '{other}'"),
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Shared => "shared",
            Self::Static => "static",
        }
    }
}

/// The checkout with the sources of the test programs: `MNEME_TEST_CHECKOUT`, or else the one in which this suite was
/// compiled. It may be missing on the machine that runs the suite.
pub fn checkout() -> PathBuf {
    if let Some(folder) = std::env::var_os("MNEME_TEST_CHECKOUT") {
        return folder.into();
    }
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate is in a folder of the workspace").to_path_buf()
}

/// Cargo's folder for builds.
pub fn target_folder() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| checkout().join("target"), PathBuf::from)
}

/// A program under test, from `MNEME_HOME` or else from the folder of development builds.
pub fn program(name: &str) -> PathBuf {
    part("bin", name)
}

/// A library under test.
pub fn library(name: &str) -> PathBuf {
    part("lib", name)
}

fn part(kind: &str, name: &str) -> PathBuf {
    let path = match std::env::var_os("MNEME_HOME") {
        Some(home) => Path::new(&home).join(kind).join(name),
        None => target_folder().join("debug").join(name),
    };
    assert!(path.is_file(), "{} is missing: run 'cargo build --workspace' first, or set MNEME_HOME", path.display());
    path
}

/// Whether applications can be compiled here. Otherwise prints that the calling test is skipped.
pub fn have_compiler(test: &str) -> bool {
    let prebuilt = std::env::var_os("MNEME_TEST_APPS").is_some();
    if prebuilt {
        mneme_fixtures::skip(format_args!("{test} needs a compiler, and MNEME_TEST_APPS says that there is none"));
    }
    !prebuilt
}
