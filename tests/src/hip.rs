//! The applications built as HIP programs.
//!
//! They are the CUDA applications without features specific to CUDA, and some HIP applications.

use std::path::{Path, PathBuf};

use mneme_system::toolkits;

use crate::apps::{App, Platform, all, bitwise, executable_for};
use crate::installation::TestDevice;
use crate::platform::{hip_clang, hip_llvm};

/// The CUDA applications that are also HIP programs: `tests/apps/hip/cuda_runtime.h` defines CUDA's names.
///
/// The others need CUDA's driver, thread block clusters, lanes of a warp that wait for one another, an assertion that
/// the program survives, or functions missing from HIP 5.2. `libraries` has kernels with the same name in two
/// libraries; clang always makes their handles visible for HIP. Some ([`PRIVATE`]) cannot be recorded.
pub const SHARED: &[&str] = &[
    "vecadd", "variables", "saxpy", "stencil", "reduce", "floatsum", "histogram", "matmul", "nbody", "microphysics",
    "chemistry", "convolution", "globals", "heads", "bigstruct", "parameters", "list", "streams", "inplace", "math",
    "atomics", "misshapen", "memory", "volumes", "print", "rdc", "lambda", "functor", "steps", "plugins",
];

/// CUDA applications that run as HIP programs but are not recorded: HIP does not report the addresses of variables that
/// are private to a file or a function.
pub const PRIVATE: &[&str] = &["units", "statics"];

/// Programs that use features which CUDA lacks, or which differ from CUDA's.
pub const OWN: &[App] = &[
    App { name: "waves", sources: &["hip/waves.hip"], kernels: &[bitwise("waves", &[1])] },
    App { name: "reconverge", sources: &["hip/reconverge.hip"], kernels: &[bitwise("reconverge", &[1])] },
    App { name: "shared", sources: &["hip/shared.hip"], kernels: &[bitwise("sums", &[1]), bitwise("columns", &[1])] },
    App { name: "modules", sources: &["hip/modules.hip"], kernels: &[bitwise("scale", &[3])] },
    App { name: "dims", sources: &["hip/dims.hip"], kernels: &[bitwise("dims", &[1])] },
    App { name: "atomic_kinds", sources: &["hip/atomic_kinds.hip"], kernels: &[bitwise("atomic_kinds", &[1])] },
    App { name: "printing", sources: &["hip/printing.hip"], kernels: &[bitwise("printing", &[1])] },
    App { name: "mappings", sources: &["hip/mappings.hip"], kernels: &[bitwise("doubled", &[1])] },
    App { name: "cooperating", sources: &["hip/cooperating.hip"], kernels: &[bitwise("cooperating", &[1])] },
];

/// Its kernels are in graphs, which the recorder records on request.
pub const GRAPHS: App = App {
    name: "graphs",
    sources: &["hip/graphs.hip"],
    kernels: &[bitwise("scale", &[1, 1, 2, 2]), bitwise("merge", &[2])],
};

/// Every application that the suite records as a HIP program.
pub fn apps() -> impl Iterator<Item = &'static App> {
    all().filter(|app| SHARED.contains(&app.name) || PRIVATE.contains(&app.name)).chain(OWN)
}

pub fn app(name: &str) -> &'static App {
    apps().find(|app| app.name == name).unwrap_or_else(|| panic!("there is no HIP program '{name}' in tests/apps"))
}

/// Whether HIP programs can be compiled here. Otherwise prints that the calling test is skipped, and panics if
/// `MNEME_TEST_HIP` is set.
pub fn have_hip(test: &str) -> bool {
    if std::env::var_os("MNEME_TEST_APPS").is_some() {
        mneme_fixtures::skip(format_args!("{test} needs a compiler, and MNEME_TEST_APPS says that there is none"));
        return false;
    }
    let headers = ["/usr/include/hip/hip_runtime.h", "/opt/rocm/include/hip/hip_runtime.h"];
    let found =
        headers.iter().any(|path| Path::new(path).is_file()) && toolkits::device_libraries(hip_llvm()).is_some();
    let missing = format!("HIP with device libraries that {} reads (scripts/setup --hip)", hip_clang());
    assert!(found || std::env::var_os("MNEME_TEST_HIP").is_none(), "{missing} is not installed");
    if !found {
        mneme_fixtures::skip(format_args!("{test} needs {missing}"));
    }
    found
}

/// Whether HIP programs can be compiled and run here, on the CPU device. Otherwise prints the reason.
pub fn can_run(test: &str) -> bool {
    let on_cpu = TestDevice::under_test() == TestDevice::Cpu;
    if !on_cpu {
        mneme_fixtures::skip(format_args!("{test} is for the CPU device"));
    }
    on_cpu && have_hip(test)
}

/// The executable of an application as a HIP program.
pub fn executable(app: &App) -> PathBuf {
    executable_for(app, Platform::Hip)
}
