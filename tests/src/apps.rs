//! The applications of `tests/apps`: facts about each, and how to compile it.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::installation::{Cudart, program, target_folder};
pub use crate::platform::{Platform, arch, compile_flags, link_flags, plain_clang, recordable_clang, sources, toolkit};
use crate::platform::{compile_code_object, hip_header};

/// An application and the expected contents of its recording.
#[derive(Clone, Copy, Debug)]
pub struct App {
    pub name: &'static str,
    /// Source files, relative to `tests/apps`.
    pub sources: &'static [&'static str],
    pub kernels: &'static [AppKernel],
}

/// A kernel of an application.
#[derive(Clone, Copy, Debug)]
pub struct AppKernel {
    /// The beginning of the demangled name, after a template's return type.
    pub name: &'static str,
    /// The number of launches per dynamic hash, ascending.
    pub occurrences: &'static [u64],
    pub comparison: PipelineComparison,
}

/// How to compare a replay under another pipeline with the recording.
#[derive(Clone, Copy, Debug)]
pub enum PipelineComparison {
    /// Every pipeline gives the same bits.
    Bitwise,
    /// Pipelines may legitimately differ in rounding.
    Tolerance { options: &'static [&'static str], reason: &'static str },
}

impl PipelineComparison {
    /// Arguments of `mneme-replay`.
    pub fn options(&self) -> &'static [&'static str] {
        match self {
            Self::Bitwise => &[],
            Self::Tolerance { options, .. } => options,
        }
    }
}

pub(crate) const fn bitwise(name: &'static str, occurrences: &'static [u64]) -> AppKernel {
    AppKernel { name, occurrences, comparison: PipelineComparison::Bitwise }
}

const fn tolerant(
    name: &'static str,
    occurrences: &'static [u64],
    options: &'static [&'static str],
    reason: &'static str,
) -> AppKernel {
    AppKernel { name, occurrences, comparison: PipelineComparison::Tolerance { options, reason } }
}

/// A shared library of an application: `libAPP-NAME.so` in the executable's folder.
struct Library {
    app: &'static str,
    name: &'static str,
    /// Relative to `tests/apps`.
    source: &'static str,
    /// Whether the executable links against it. Otherwise it uses `dlopen`.
    linked: bool,
}

const LIBRARIES: &[Library] = &[
    Library { app: "libraries", name: "double", source: "libraries/double.cu", linked: true },
    Library { app: "libraries", name: "triple", source: "libraries/triple.cu", linked: true },
    Library { app: "plugins", name: "add", source: "plugins/add.cu", linked: false },
    Library { app: "plugins", name: "multiply", source: "plugins/multiply.cu", linked: false },
];

/// Every application that the suite records.
pub const APPS: &[App] = &[
    App { name: "vecadd", sources: &["vecadd.cu"], kernels: &[bitwise("vecadd<long>", &[1])] },
    App { name: "variables", sources: &["variables.cu"], kernels: &[bitwise("count", &[1]), bitwise("weigh", &[1])] },
    App {
        name: "steady",
        sources: &["steady.cu"],
        kernels: &[bitwise("refill", &[3]), bitwise("settle", &[3]), bitwise("scatter", &[3]), bitwise("late", &[3])],
    },
    App {
        name: "zoo",
        sources: &["zoo.cu"],
        kernels: &[bitwise("mixed", &[1]), bitwise("generated", &[1]), bitwise("total", &[1]), bitwise("tuned", &[1])],
    },
    App { name: "saxpy", sources: &["saxpy.cu"], kernels: &[bitwise("saxpy", &[1])] },
    App {
        name: "stencil",
        sources: &["stencil.cu"],
        kernels: &[tolerant(
            "stencil",
            &[1, 1],
            &["--rtol", "1e-5", "--atol", "1e-6"],
            "centre + rate * (...) is fused into one rounding or not, as the pipeline leaves the two operations side by side",
        )],
    },
    App { name: "reduce", sources: &["reduce.cu"], kernels: &[bitwise("reduce", &[1])] },
    App { name: "partial_sums", sources: &["partial_sums.cu"], kernels: &[bitwise("partial_sums", &[1])] },
    App {
        name: "floatsum",
        sources: &["floatsum.cu"],
        kernels: &[tolerant(
            "floatsum",
            &[1],
            &["--rtol", "1e-4", "--atol", "0"],
            "float atomics add up in the order in which threads arrive; a bin has 512 summands of about one half, so that reordering costs a few units of 2^-24 * 512",
        )],
    },
    App { name: "histogram", sources: &["histogram.cu"], kernels: &[bitwise("histogram", &[1])] },
    App { name: "matmul", sources: &["matmul.cu"], kernels: &[bitwise("matmul<16>", &[1])] },
    App {
        name: "nbody",
        sources: &["nbody.cu"],
        kernels: &[tolerant(
            "nbody",
            &[1],
            &["--rtol", "1e-4", "--atol", "1e-6", "--dtype", "f32"],
            "sums of products are fused or not as the pipeline orders them; velocities change by a sum of 300 terms of either sign",
        )],
    },
    App {
        name: "microphysics",
        sources: &["microphysics.cu"],
        kernels: &[tolerant(
            "microphysics",
            &[1],
            &["--rtol", "1e-4", "--atol", "1e-6", "--dtype", "f32"],
            "products are fused into sums or not as the pipeline orders them, and differences of nearly equal amounts of water keep few digits of it",
        )],
    },
    App {
        name: "chemistry",
        sources: &["chemistry.cu"],
        kernels: &[tolerant(
            "chemistry",
            &[1],
            &["--rtol", "1e-9", "--atol", "0", "--dtype", "f64"],
            "products are fused into sums or not as the pipeline orders them, in the equations of the solver too",
        )],
    },
    App { name: "heads", sources: &["heads.cu"], kernels: &[bitwise("total", &[2]), bitwise("advance", &[1])] },
    App {
        name: "convolution",
        sources: &["convolution.cu"],
        kernels: &[tolerant(
            "convolution",
            &[1],
            &["--rtol", "1e-4", "--atol", "1e-2", "--dtype", "f32"],
            "products are fused into sums or not as the pipeline orders them, and terms of either sign cancel",
        )],
    },
    App { name: "globals", sources: &["globals.cu"], kernels: &[bitwise("globals", &[1])] },
    App { name: "bigstruct", sources: &["bigstruct.cu"], kernels: &[bitwise("bigstruct", &[1])] },
    App {
        name: "parameters",
        sources: &["parameters.cu"],
        kernels: &[
            bitwise("scalars", &[1]),
            bitwise("vectors", &[1]),
            bitwise("pointers", &[1]),
            bitwise("single", &[1]),
            bitwise("solver", &[1]),
            bitwise("natural", &[1]),
            bitwise("aligned16", &[1]),
            bitwise("aligned32", &[1]),
            bitwise("aligned64", &[1]),
            bitwise("nested", &[1]),
            bitwise("large", &[1]),
            bitwise("full", &[1]),
            bitwise("changed", &[1]),
        ],
    },
    App { name: "part", sources: &["part.cu"], kernels: &[bitwise("part", &[1])] },
    App { name: "list", sources: &["list.cu"], kernels: &[bitwise("reverse", &[1])] },
    App {
        name: "streams",
        sources: &["streams.cu"],
        kernels: &[bitwise("squares", &[1]), bitwise("triangles", &[1]), bitwise("combine", &[1])],
    },
    App { name: "limits", sources: &["limits.cu"], kernels: &[bitwise("limits", &[1])] },
    App { name: "inplace", sources: &["inplace.cu"], kernels: &[bitwise("inplace", &[3])] },
    App { name: "arena", sources: &["arena.cu"], kernels: &[bitwise("renumber", &[1])] },
    App {
        name: "math",
        sources: &["math.cu"],
        kernels: &[
            tolerant(
                "single_math",
                &[1],
                &["--rtol", "1e-5", "--atol", "1e-6"],
                "a product in libdevice is fused into a sum outside of it only where a pipeline inlines the call",
            ),
            tolerant(
                "double_math",
                &[1],
                &["--rtol", "1e-13", "--atol", "1e-13", "--dtype", "f64"],
                "as for single_math",
            ),
        ],
    },
    App { name: "atomics", sources: &["atomics.cu"], kernels: &[bitwise("atomics", &[1])] },
    App { name: "warp", sources: &["warp.cu"], kernels: &[bitwise("warp", &[1])] },
    App {
        name: "waiting",
        sources: &["waiting.cu"],
        kernels: &[bitwise("locked", &[1]), bitwise("exchanged", &[1]), bitwise("folded", &[1])],
    },
    App { name: "spin", sources: &["spin.cu"], kernels: &[bitwise("spin", &[1])] },
    App { name: "misshapen", sources: &["misshapen.cu"], kernels: &[bitwise("update", &[1])] },
    App { name: "memory", sources: &["memory.cu"], kernels: &[bitwise("gather", &[2])] },
    App { name: "volumes", sources: &["volumes.cu"], kernels: &[bitwise("scale", &[1])] },
    App { name: "print", sources: &["print.cu"], kernels: &[bitwise("print", &[1])] },
    App { name: "assertion", sources: &["assertion.cu"], kernels: &[bitwise("assertion", &[1])] },
    App { name: "rdc", sources: &["rdc/main.cu", "rdc/device.cu"], kernels: &[bitwise("rdc", &[1])] },
    App {
        name: "units",
        sources: &["units/main.cu", "units/log.cu", "units/forward.cu", "units/backward.cu"],
        kernels: &[bitwise("(anonymous namespace)::sweep", &[1]), bitwise("(anonymous namespace)::sweep", &[1])],
    },
    App {
        name: "lambda",
        sources: &["lambda.cu"],
        kernels: &[
            bitwise("forall_kernel<Policy<128>, main::{lambda(long)#1}>", &[1]),
            bitwise("forall_kernel<Policy<64>, main::{lambda(long)#2}>", &[1]),
            bitwise(
                "forall_kernel<Policy<256>, void forall_2d<Policy<256>, main::{lambda(long, long)#1}>(long, long, main::{lambda(long, long)#1})::{lambda(long)#1}>",
                &[1],
            ),
            bitwise("forall_kernel<Policy<128>, main::{lambda(long)#3}>", &[1]),
        ],
    },
    App {
        name: "functor",
        sources: &["functor.cu"],
        kernels: &[
            bitwise("run_local<ParallelFor<Polynomial<4> > >", &[1]),
            bitwise("run_constant<ParallelFor<Polynomial<100> > >", &[1]),
            bitwise("run_global<ParallelFor<Polynomial<1200> > >", &[1]),
        ],
    },
    App { name: "steps", sources: &["steps.cu"], kernels: &[bitwise("step", &[1, 1, 1])] },
    App { name: "statics", sources: &["statics.cu"], kernels: &[bitwise("statics", &[1, 1])] },
    App {
        name: "libraries",
        sources: &["libraries/main.cu"],
        kernels: &[bitwise("fill", &[1]), bitwise("scale", &[1]), bitwise("scale", &[1])],
    },
    App { name: "plugins", sources: &["plugins/main.cu"], kernels: &[bitwise("apply", &[3]), bitwise("apply", &[2])] },
    App { name: "surfaces", sources: &["surfaces.cu"], kernels: &[bitwise("blur", &[1]), bitwise("gather", &[1])] },
];

/// Applications that each use one part of the driver's interface. `tests/tests/e2e/coverage.rs` defines the expected
/// contents of their recordings.
pub const COVERAGE: &[App] = &[
    App { name: "pools", sources: &["pools.cu"], kernels: &[] },
    App { name: "managed", sources: &["managed.cu"], kernels: &[] },
    App { name: "shared_pages", sources: &["shared_pages.cu"], kernels: &[] },
    App { name: "mapped", sources: &["mapped.cu"], kernels: &[] },
    App { name: "pinned", sources: &["pinned.cu"], kernels: &[] },
    App { name: "released", sources: &["released.cu"], kernels: &[] },
    App { name: "aliased", sources: &["aliased.cu"], kernels: &[] },
    App { name: "offsets", sources: &["offsets.cu"], kernels: &[] },
    App { name: "refused", sources: &["refused.cu"], kernels: &[] },
    App { name: "pageable_parts", sources: &["pageable_parts.cu"], kernels: &[] },
    App { name: "dying", sources: &["dying.cu"], kernels: &[] },
    App { name: "descriptors", sources: &["descriptors.cu"], kernels: &[] },
    App { name: "ticking", sources: &["ticking.cu"], kernels: &[] },
    App { name: "answering", sources: &["answering.cu"], kernels: &[] },
    App { name: "abandoned", sources: &["abandoned.cu"], kernels: &[] },
    App { name: "mailbox", sources: &["mailbox.cu"], kernels: &[] },
    App { name: "access", sources: &["access.cu"], kernels: &[] },
    App { name: "vmm", sources: &["vmm.cu"], kernels: &[] },
    App { name: "sharing", sources: &["sharing.cu"], kernels: &[] },
    App { name: "graphs", sources: &["graphs.cu"], kernels: &[] },
    App { name: "nodes", sources: &["nodes.cu"], kernels: &[] },
    App { name: "decoding", sources: &["decoding.cu"], kernels: &[] },
    App { name: "interleaved", sources: &["interleaved.cu"], kernels: &[] },
    App { name: "branching", sources: &["branching.cu"], kernels: &[] },
    App { name: "changed", sources: &["changed.cu"], kernels: &[] },
    App { name: "instantiated", sources: &["instantiated.cu"], kernels: &[] },
    App { name: "devices", sources: &["devices.cu"], kernels: &[] },
    App { name: "threads", sources: &["threads.cu"], kernels: &[] },
    App { name: "contexts", sources: &["contexts.cu"], kernels: &[] },
    App { name: "pageable", sources: &["pageable.cu"], kernels: &[] },
    App { name: "pointers", sources: &["pointers.cu"], kernels: &[] },
    App { name: "virtual", sources: &["virtual.cu"], kernels: &[] },
    App { name: "launches", sources: &["launches.cu"], kernels: &[] },
    App { name: "symbol", sources: &["symbol.cu"], kernels: &[] },
    App { name: "clusters", sources: &["clusters.cu"], kernels: &[] },
    App { name: "mbarriers", sources: &["mbarriers.cu"], kernels: &[] },
    App { name: "textures", sources: &["textures.cu"], kernels: &[] },
    App { name: "repeated", sources: &["repeated.cu"], kernels: &[] },
    App { name: "paced", sources: &["paced.cu"], kernels: &[] },
    App { name: "slices", sources: &["slices.cu"], kernels: &[] },
    App { name: "twins", sources: &["twins.cu"], kernels: &[] },
    App { name: "updated", sources: &["updated.cu"], kernels: &[] },
    App { name: "graphmemory", sources: &["graphmemory.cu"], kernels: &[] },
    App { name: "faulty", sources: &["faulty.cu"], kernels: &[] },
    App { name: "fragile", sources: &["fragile.cu"], kernels: &[] },
    App { name: "aligned", sources: &["aligned.cu"], kernels: &[] },
    App { name: "unseen", sources: &["unseen.cu"], kernels: &[] },
    App { name: "confined", sources: &["confined.cu"], kernels: &[] },
    App { name: "binned", sources: &["binned.cu"], kernels: &[] },
    App { name: "bounded", sources: &["bounded.cu"], kernels: &[] },
    App { name: "own_contexts", sources: &["own_contexts.cu"], kernels: &[] },
    App { name: "unguarded", sources: &["unguarded.cu"], kernels: &[] },
    App { name: "rendezvous", sources: &["rendezvous.cu"], kernels: &[] },
    App { name: "forked", sources: &["forked.cu"], kernels: &[] },
    App { name: "every_device", sources: &["every_device.cu"], kernels: &[] },
];

/// An application whose results may differ between any two configurations, for the tests of
/// `tests/tests/e2e/bisecting.rs`.
pub const DELICATE: App = App { name: "delicate", sources: &["delicate.cu"], kernels: &[] };

/// Random sequences of driver calls, for [`differential`](crate::differential).
const SEQUENCES: App = App { name: "sequences", sources: &["sequences/main.cu"], kernels: &[] };

/// HIP programs that load a code object from a file. The file is compiled from their own source.
const WITH_CODE_OBJECT: &[&str] = &["modules"];

/// Applications compiled with line information.
const WITH_LINES: &[&str] = &["faulty"];

/// Every application, to build all of them.
pub fn all() -> impl Iterator<Item = &'static App> {
    APPS.iter().chain(COVERAGE).chain([&DELICATE, &SEQUENCES])
}

pub fn app(name: &str) -> &'static App {
    all().find(|app| app.name == name).unwrap_or_else(|| panic!("there is no application '{name}' in tests/apps"))
}

/// The executable of a CUDA application: a prebuilt one, or else one compiled if it is missing or older than its
/// sources.
pub fn executable(app: &App, cudart: Cudart) -> PathBuf {
    executable_for(app, Platform::Cuda(cudart))
}

/// The same for a platform.
pub fn executable_for(app: &App, platform: Platform) -> PathBuf {
    if let Some(folder) = std::env::var_os("MNEME_TEST_APPS") {
        let path = Path::new(&folder).join(platform.folder()).join(app.name);
        assert!(path.is_file(), "{} is missing from the prebuilt applications", path.display());
        return path;
    }
    let clang = crate::platform::clang();
    let own = if clang == "clang++-19" { "e2e/apps".to_owned() } else { format!("e2e/apps-{clang}") };
    let folder = target_folder().join(own).join(platform.folder());
    let path = folder.join(app.name);
    // Several tests, threads and processes may want the same application at once.
    let failed = |error: std::io::Error| -> ! { panic!("{}: {error}", folder.display()) };
    std::fs::create_dir_all(&folder).unwrap_or_else(|error| failed(error));
    let turn = std::fs::File::create(path.with_extension("lock")).unwrap_or_else(|error| failed(error));
    turn.lock().unwrap_or_else(|error| failed(error));
    if !is_current(app, &path) {
        build_for(app, platform, &path);
    }
    path
}

/// Compiles a CUDA application through `mneme-cc`.
pub fn build(app: &App, cudart: Cudart, path: &Path) {
    build_for(app, Platform::Cuda(cudart), path);
}

/// The same for a platform.
pub fn build_for(app: &App, platform: Platform, path: &Path) {
    let folder = path.parent().expect("an executable is in a folder");
    std::fs::create_dir_all(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let relocatable = if app.sources.len() > 1 { platform.relocatable_flags() } else { &[] };
    let mut linked = Vec::new();
    for library in LIBRARIES.iter().filter(|library| library.app == app.name) {
        // The libraries define functions with the same names, which must be hidden to stay separate when both are
        // loaded.
        platform
            .recordable_clang()
            .args(platform.compile_flags())
            .args(["-fPIC", "-fvisibility=hidden", "-shared"])
            .arg(sources().join(library.source))
            .args([Path::new("-o"), &folder.join(format!("lib{}-{}.so", app.name, library.name))])
            .args(platform.link_flags())
            .succeed();
        if library.linked {
            linked.extend([format!("-l{}-{}", app.name, library.name), "-Wl,-rpath,$ORIGIN".to_owned()]);
        }
    }
    // Rename the complete program, so an interrupted build leaves nothing that looks up to date.
    let unfinished = path.with_extension("partial");
    platform
        .recordable_clang()
        .args(platform.compile_flags())
        .args(relocatable)
        .args(WITH_LINES.contains(&app.name).then_some("-gline-tables-only"))
        .args(app.sources.iter().map(|source| sources().join(source)))
        .args([Path::new("-o"), &unfinished])
        .arg(format!("-L{}", folder.display()))
        .args(linked)
        .args(platform.link_flags())
        .succeed();
    if platform == Platform::Hip && WITH_CODE_OBJECT.contains(&app.name) {
        compile_code_object(app.sources, path);
    }
    std::fs::rename(&unfinished, path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

fn is_current(app: &App, path: &Path) -> bool {
    let changed =
        |path: &Path| std::fs::metadata(path).and_then(|metadata| metadata.modified()).unwrap_or(SystemTime::now());
    let Ok(built) = std::fs::metadata(path).and_then(|metadata| metadata.modified()) else {
        return false;
    };
    let libraries = LIBRARIES.iter().filter(|library| library.app == app.name).map(|library| library.source);
    let written = app.sources.iter().copied().chain(libraries).map(|source| sources().join(source));
    let inputs = written.chain(headers()).chain([program("mneme-cc"), toolkit().join(".recipe"), hip_header()]);
    inputs.into_iter().all(|input| changed(&input) < built)
}

/// Headers that applications include.
fn headers() -> impl Iterator<Item = PathBuf> {
    let own = [
        "driver.cuh", "rdc/device.cuh", "units/shared.cuh", "namesakes/shared.cuh", "libraries/library.cuh",
        "plugins/plugin.cuh",
    ];
    let sequences = ["world", "kernels", "memory", "mappings", "lifetimes", "waits", "interruptions", "processes"];
    let sequences = sequences.map(|name| format!("sequences/{name}.cuh"));
    ["check.cuh"].into_iter().chain(own).map(str::to_owned).chain(sequences).map(|header| sources().join(header))
}
