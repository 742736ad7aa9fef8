//! Compiles every application of `tests/apps` into a folder, for machines that have a GPU and no compiler:
//! `build-apps FOLDER` makes `FOLDER/shared/NAME` and `FOLDER/static/NAME`, and `FOLDER/bench/NAME` of what
//! `scripts/bench-record` runs.

use std::path::PathBuf;

use mneme_e2e::apps::{App, all, build};
use mneme_e2e::installation::Cudart;

/// What the recorder is measured with, statically linked.
const BENCHES: [App; 5] = [
    App { name: "launches", sources: &["../bench/launches.cu"], kernels: &[] },
    App { name: "allocations", sources: &["../bench/allocations.cu"], kernels: &[] },
    App { name: "live", sources: &["../bench/live.cu"], kernels: &[] },
    App { name: "timesteps", sources: &["../bench/timesteps.cu"], kernels: &[] },
    App { name: "vecadd", sources: &["vecadd.cu"], kernels: &[] },
];

fn main() {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: build-apps FOLDER");
        std::process::exit(mneme_core::exit::BAD_USAGE);
    };
    for cudart in [Cudart::Shared, Cudart::Static] {
        for app in all() {
            build(app, cudart, &folder.join(cudart.name()).join(app.name));
        }
    }
    for bench in &BENCHES {
        build(bench, Cudart::Static, &folder.join("bench").join(bench.name));
    }
}
