//! The program `build-apps`, which compiles all applications of `tests/apps` into a folder.
//!
//! Use it for machines with a GPU but without a compiler. `build-apps FOLDER` writes `FOLDER/shared/NAME` and
//! `FOLDER/static/NAME`, and `FOLDER/bench/NAME` for the programs of `benches/record` and `benches/apply`. `build-apps
//! FOLDER NAME...` builds only these applications.

use std::path::PathBuf;

use mneme_e2e::apps::{App, all, build};
use mneme_e2e::installation::Cudart;

/// Programs that measure the recorder, statically linked.
const BENCHES: [App; 8] = [
    App { name: "launch_cost", sources: &["../bench/launch_cost.cu"], kernels: &[] },
    App { name: "launches", sources: &["../bench/launches.cu"], kernels: &[] },
    App { name: "allocations", sources: &["../bench/allocations.cu"], kernels: &[] },
    App { name: "live", sources: &["../bench/live.cu"], kernels: &[] },
    App { name: "timesteps", sources: &["../bench/timesteps.cu"], kernels: &[] },
    App { name: "vecadd", sources: &["vecadd.cu"], kernels: &[] },
    App { name: "apply_cost", sources: &["../bench/apply_cost.cu"], kernels: &[] },
    App { name: "paced", sources: &["paced.cu"], kernels: &[] },
];

fn main() {
    let Some(folder) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: build-apps FOLDER [NAME...]");
        std::process::exit(mneme_system::exit::BAD_USAGE);
    };
    let names: Vec<String> = std::env::args().skip(2).collect();
    let wanted = |app: &&App| names.is_empty() || names.iter().any(|name| name == app.name);
    for cudart in [Cudart::Shared, Cudart::Static] {
        for app in all().filter(wanted) {
            build(app, cudart, &folder.join(cudart.name()).join(app.name));
        }
    }
    for bench in BENCHES.iter().filter(wanted) {
        build(bench, Cudart::Static, &folder.join("bench").join(bench.name));
    }
}
