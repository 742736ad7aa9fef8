//! Tests of HIP programs on what is an AMD GPU for all that recorder and replayer can see.
//!
//! A library that checks every call stands in for AMD's (`tests/stand-in`). The first wrong call ends its process.

use std::path::{Path, PathBuf};

use mneme_e2e::command::{Run, run};
use mneme_e2e::hip::{app, executable, have_hip};
use mneme_e2e::installation::{Device, library, program};
use mneme_e2e::recording::load_kernels;

/// Names that programs know AMD's library by.
const NAMES: [&str; 3] = ["libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"];

/// The library in a folder of its own, under the vendor's names.
struct StandIn {
    folder: tempfile::TempDir,
    library: PathBuf,
}

impl StandIn {
    /// `None`, said on standard output, on a GPU, or where there is no HIP.
    fn find(test: &str) -> Option<Self> {
        if Device::under_test() != Device::Cpu || !have_hip(test) {
            println!("skipped: {test} needs the stand-in for libamdhip64, on the CPU device");
            return None;
        }
        let library = library("libmneme_stand_in.so");
        let folder = tempfile::tempdir().unwrap();
        for name in NAMES {
            std::os::unix::fs::symlink(&library, folder.path().join(name)).unwrap();
        }
        Some(Self { folder, library })
    }

    /// Lets a program find it.
    fn before(&self, run: Run) -> Run {
        let home = self.library.parent().unwrap();
        let home = if home.ends_with("lib") { home.parent().unwrap() } else { home };
        run.env("LD_LIBRARY_PATH", self.folder.path())
            .env("MNEME_HIP_LIBRARY", &self.library)
            .env("MNEME_STAND_IN", "1")
            .env("MNEME_HOME", home)
            .env("MNEME_DEVICE", "hip")
    }

    fn record(&self, folder: &Path, name: &str) -> Run {
        let record =
            run(program("mneme")).args(["record".as_ref(), "-rdb".as_ref(), folder.as_os_str(), "--".as_ref()]);
        self.before(record.arg(executable(app(name))))
    }
}

/// Records a program and replays every instance of every kernel.
fn record_and_replay(name: &str) {
    let Some(stand_in) = StandIn::find(name) else { return };
    let folder = tempfile::tempdir().unwrap();
    let outcome = stand_in.record(folder.path(), name).succeed();
    assert!(!outcome.stderr.contains("stand-in for"), "{}", outcome.stderr);
    let mut replayed = 0;
    for (file, kernel) in load_kernels(folder.path()) {
        assert_eq!(kernel.ours.device_arch, "gfx90a:sramecc+:xnack-");
        for id in kernel.instances.keys() {
            let replay =
                run(program("mneme-replay")).arg("-rdb").arg(&file).args(["-rid", id, "--isolation", "process"]);
            let result = stand_in.before(replay).succeed().json();
            assert_eq!(result["Result"]["verified"], true, "{name}: {result}");
            replayed += 1;
        }
    }
    assert!(replayed > 0, "{name} recorded nothing: {}", outcome.stderr);
}

macro_rules! programs {
    ($($name:ident),* $(,)?) => { $(#[test] fn $name() { record_and_replay(stringify!($name)); })* };
}

programs!(
    vecadd, variables, saxpy, stencil, reduce, histogram, matmul, nbody, globals, bigstruct, list, streams, inplace,
    atomics, lambda, functor, steps, waves, reconverge, shared, dims,
);
