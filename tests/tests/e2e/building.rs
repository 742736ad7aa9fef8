//! Tests of various build systems.
//!
//! They cover CMake with `add_mneme`, CMake with a launcher, compiler wrappers, archives and shared libraries. The
//! tests record and replay the built programs.

use std::fs;
use std::path::{Path, PathBuf};

use mneme_e2e::apps::{arch, compile_flags, link_flags, recordable_clang, sources, toolkit};
use mneme_e2e::command::{Run, run};
use mneme_e2e::hip::have_hip;
use mneme_e2e::installation::{Cudart, TestDevice, checkout, have_compiler, library, program};
use mneme_e2e::platform::{hip_arch, hip_clang, hip_llvm, nvcc, plain_clang};
use mneme_e2e::recording::{TestInstance, is_named, load_kernels};
use mneme_model::tolerance::{DataType, Norm, Threshold, Tolerance};
use mneme_recording::manifest::{Allocation, MemoryState};
use mneme_system::{exit, toolkits};
use tempfile::TempDir;

fn config(key: &str) -> String {
    let outcome = run(program("mneme")).args(["config", key]).succeed();
    outcome.stdout.trim_end_matches('\n').to_owned()
}

/// Records a program, requires this line in its output, and replays all its kernels.
#[track_caller]
fn record_and_verify(executable: &Path, line: &str) {
    let folder = tempfile::tempdir().unwrap();
    let outcome = run(program("mneme"))
        .args(["record".as_ref(), "-rdb".as_ref(), folder.path().as_os_str(), "--".as_ref(), executable.as_os_str()])
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        .succeed();
    assert!(outcome.stdout.contains(line), "{outcome}");
    let kernels = load_kernels(folder.path());
    assert!(!kernels.is_empty(), "nothing was recorded: {outcome}");
    for (database, record) in kernels {
        for id in record.instances.keys() {
            TestInstance::new(&database, id).verify("default<O2>", &[]);
        }
    }
}

fn cmake(source: &Path, build: &Path, settings: &[String]) {
    let path = format!("{}:{}", std::env::var("PATH").unwrap_or_default(), toolkit().join("bin").display());
    run("cmake")
        .args(["-G".as_ref(), "Ninja".as_ref(), "-S".as_ref(), source.as_os_str(), "-B".as_ref(), build.as_os_str()])
        .args(["-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_CUDA_RUNTIME_LIBRARY=Shared"])
        .arg(format!("-DCMAKE_CUDA_ARCHITECTURES={}", arch().trim_start_matches("sm_")))
        .arg(format!("-DCUDAToolkit_ROOT={}", toolkit().display()))
        .arg(format!("-DCMAKE_BUILD_RPATH={}", toolkit().join("lib64").display()))
        .args(settings)
        .env("PATH", &path)
        .succeed();
    run("cmake").args(["--build".as_ref(), build.as_os_str()]).env("PATH", &path).succeed();
}

#[test]
fn cmake_with_add_mneme() {
    if !have_compiler("cmake_with_add_mneme") {
        return;
    }
    let build = tempfile::tempdir().unwrap();
    let settings = [
        format!("-DCMAKE_PREFIX_PATH={}", config("cmakedir")),
        format!("-DCMAKE_C_COMPILER={}", config("cc")),
        format!("-DCMAKE_CXX_COMPILER={}", config("cxx")),
        "-DCMAKE_CUDA_COMPILER=clang++-19".to_owned(),
    ];
    cmake(&sources().join("cmake"), build.path(), &settings);
    record_and_verify(&build.path().join("saxpy"), "saxpy: ok");
}

#[test]
fn cmake_with_a_launcher() {
    if !have_compiler("cmake_with_a_launcher") {
        return;
    }
    let build = tempfile::tempdir().unwrap();
    let settings = [
        "-DEXAMPLE_USES_MNEME=OFF".to_owned(),
        "-DCMAKE_CXX_COMPILER=clang++-19".to_owned(),
        "-DCMAKE_CUDA_COMPILER=clang++-19".to_owned(),
        format!("-DCMAKE_CUDA_COMPILER_LAUNCHER={}", program("mneme-cc").display()),
    ];
    cmake(&sources().join("cmake"), build.path(), &settings);
    record_and_verify(&build.path().join("saxpy"), "saxpy: ok");
}

/// The files below a folder, as relative paths.
fn files(folder: &Path) -> Vec<String> {
    let walk = walkdir(folder);
    let mut names: Vec<String> =
        walk.iter().map(|path| path.strip_prefix(folder).unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn walkdir(folder: &Path) -> Vec<PathBuf> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { walkdir(&path) } else { vec![path] }).collect()
}

/// `mneme-cc` splits a command that compiles and links, and writes the same files as clang.
#[test]
fn files_beside_a_program_are_those_that_clang_writes() {
    if !have_compiler("files_beside_a_program_are_those_that_clang_writes") {
        return;
    }
    for options in [&["-MMD", "-MP"][..], &["-g", "-gsplit-dwarf"], &["-ftest-coverage"], &["-save-temps=obj"]] {
        let [plain, ours] = ["clang", "mneme-cc"].map(|which| {
            let folder = tempfile::tempdir().unwrap();
            fs::create_dir(folder.path().join("out")).unwrap();
            let compiler = if which == "clang" { plain_clang() } else { recordable_clang() };
            compiler
                .args(compile_flags())
                .args(options)
                .arg(sources().join("saxpy.cu"))
                .args(["-o", "out/app"])
                .args(link_flags(Cudart::under_test()))
                .folder(folder.path())
                .succeed();
            folder
        });
        let mut expected = files(plain.path());
        // The object of the host code is a temporary file of `mneme-cc`.
        expected.retain(|name| !name.ends_with(".o") || name.contains("cuda"));
        assert_eq!(files(ours.path()), expected, "{options:?}");
        if options.contains(&"-MMD") {
            let rules = [&plain, &ours].map(|folder| fs::read_to_string(folder.path().join("out/app.d")).unwrap());
            assert_eq!(rules[0], rules[1]);
        }
        let names_other = |folder: &Path| {
            let name = b"out/app-saxpy.dwo";
            fs::read(folder.join("out/app")).unwrap().windows(name.len()).any(|bytes| bytes == name)
        };
        assert_eq!(names_other(ours.path()), names_other(plain.path()), "{options:?}");
    }
}

/// If compiling cannot be separated from linking, `mneme-cc` compiles anyway and reports it.
#[test]
fn a_command_that_cannot_be_taken_apart_runs_as_it_is() {
    if !have_compiler("a_command_that_cannot_be_taken_apart_runs_as_it_is") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // More arguments than a command line can hold. A file of arguments has no such limit.
    let definitions: Vec<String> = (0..30_000).map(|number| format!("-D{}{number}=1", "A".repeat(80))).collect();
    fs::write(folder.path().join("options"), definitions.join("\n")).unwrap();
    let compile = |more: &[&str]| {
        recordable_clang()
            .args(compile_flags())
            .args(more)
            .arg(sources().join("saxpy.cu"))
            .args(["--output", "app"])
            .args(link_flags(Cudart::under_test()))
            .folder(folder.path())
            .succeed()
    };
    let has_ir = || {
        let program = fs::read(folder.path().join("app")).unwrap();
        program.windows(9).any(|bytes| bytes == b".mneme.ir")
    };
    let outcome = compile(&["@options"]);
    assert!(outcome.stderr.contains("compile it with -c first") && !has_ir(), "{outcome}");
    // Options with a separate value, and options only for the link.
    let outcome = compile(&[
        "-Werror", "-static-libgcc", "-z", "now", "--define-macro", "UNUSED", "-fdebug-compilation-dir", ".",
    ]);
    assert!(outcome.stderr.is_empty() && has_ir(), "{outcome}");
}

/// A launcher still does its job. For code from its cache, the compiler prints nothing.
#[test]
fn device_code_behind_a_launcher_gets_ir() {
    if !have_compiler("device_code_behind_a_launcher_gets_ir") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let launcher = folder.path().join("ccache");
    mneme_fixtures::script(&launcher, "#!/bin/sh\necho \"$@\" >>\"$0.log\"\nexec \"$@\"\n");
    fs::write(folder.path().join("host.cpp"), "int main() {}\n").unwrap();
    let compile = |file: &Path| {
        run(program("mneme-cc"))
            .args([launcher.as_os_str(), "clang++-19".as_ref()])
            .args(if file.extension().is_some_and(|extension| extension == "cu") {
                compile_flags()
            } else {
                Vec::new()
            })
            .args(["-c".as_ref(), file.as_os_str()])
            .folder(folder.path())
            .succeed();
    };
    compile(&folder.path().join("host.cpp"));
    compile(&sources().join("saxpy.cu"));
    let log = fs::read_to_string(folder.path().join("ccache.log")).unwrap();
    assert!(log.lines().count() == 1 && log.contains("host.cpp"), "{log}");
    let object = fs::read(folder.path().join("saxpy.o")).unwrap();
    assert!(object.windows(9).any(|bytes| bytes == b".mneme.ir"));
}

/// CMake's HIP language, with `add_mneme` and with a launcher, as Debian 12 needs it.
#[test]
fn cmake_with_hip() {
    if TestDevice::under_test() != TestDevice::Cpu || !have_hip("cmake_with_hip") {
        return;
    }
    let source = sources().join("cmake/hip");
    let libraries =
        toolkits::device_libraries(hip_llvm()).expect("device libraries are installed (scripts/setup --hip)");
    let with_launcher = [
        "-DEXAMPLE_USES_MNEME=OFF".to_owned(),
        format!("-DCMAKE_HIP_COMPILER_LAUNCHER={}", program("mneme-cc").display()),
    ];
    let with_function = [format!("-DCMAKE_PREFIX_PATH={}", config("cmakedir"))];
    for settings in [&with_launcher[..], &with_function] {
        let build = tempfile::tempdir().unwrap();
        run("cmake")
            .args(["-G".as_ref(), "Ninja".as_ref(), "-S".as_ref(), source.as_os_str()])
            .args(["-B".as_ref(), build.path().as_os_str()])
            .args(["-DCMAKE_BUILD_TYPE=Release", &format!("-DCMAKE_HIP_COMPILER={}", hip_clang())])
            // If a CUDA toolkit is installed, newer versions of CMake choose NVIDIA's platform. Older versions have no
            // other.
            .arg("-DCMAKE_HIP_PLATFORM=amd")
            .arg(format!("-DCMAKE_HIP_ARCHITECTURES={}", hip_arch()))
            .arg(format!("-DCMAKE_HIP_COMPILER_ROCM_ROOT={}", source.join("rocm").display()))
            .arg(format!("-DCMAKE_HIP_FLAGS=--rocm-device-lib-path={}", libraries.display()))
            .args(settings)
            .succeed();
        run("cmake").args(["--build".as_ref(), build.path().as_os_str()]).succeed();
        record_and_verify(&build.path().join("shared"), "shared: ok");
    }
}

/// The two kernels of a program with annotations: one uses separate buffers, the other a pool.
struct Annotated {
    instances: [TestInstance; 2],
    allocations: Vec<Allocation>,
    stderr: String,
    _folder: TempDir,
}

impl Annotated {
    /// The program annotates nothing if `silent` is set.
    #[track_caller]
    fn record(command: &[&Path], silent: bool) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let recording = run(program("mneme"))
            .args(["record".as_ref(), "-rdb".as_ref(), folder.path().as_os_str(), "--".as_ref()])
            .args(command)
            .env("MNEME_DEVICE", TestDevice::under_test().name())
            .env("PYTHONPATH", checkout().join("python"));
        let outcome = if silent { recording.env("WOBBLE_SILENT", "1") } else { recording }.succeed();
        assert_eq!(outcome.stdout.matches("wobble: ok").count(), 2, "{outcome}");
        let kernels = load_kernels(folder.path());
        let mut allocations = Vec::new();
        let instances = ["wobble", "wobble_pool"].map(|name| {
            let (database, kernel) = kernels.iter().find(|(_, kernel)| is_named(kernel, name)).expect(name);
            let (id, instance) = kernel.instances.first_key_value().expect("an instance");
            let state =
                MemoryState::load(&folder.path().join(&instance.prologue)).unwrap_or_else(|error| panic!("{error}"));
            allocations = state.header.allocations;
            TestInstance::new(database, id)
        });
        Self { instances, allocations, stderr: outcome.stderr, _folder: folder }
    }
}

/// Records a program that annotates its buffers, and the same without annotations. Returns the former.
#[track_caller]
fn record_annotated(command: &[&Path]) -> Annotated {
    let annotated = Annotated::record(command, false);
    let allocations = &annotated.allocations;
    let tolerance = |tag: &str| {
        // Arrays of Python are ranges.
        let of = |it: &Allocation| match it.parts.as_slice() {
            [part] if part.annotation.tag == tag => Some(part.annotation.tolerance),
            _ => it.tolerance.filter(|_| it.tag == tag),
        };
        allocations.iter().find_map(of).unwrap_or_else(|| panic!("no tolerance for {tag}: {allocations:?}"))
    };
    let values =
        Tolerance { dtype: DataType::F64, threshold: 1e-8, kind: Threshold::Relative, norm: Norm::None, ignore: false };
    assert_eq!(tolerance("values"), values);
    assert!(tolerance("ticks").ignore);
    let pool = allocations.iter().find(|it| it.parts.len() > 1).expect("a pool");
    let fields: Vec<_> = pool.parts.iter().map(|it| (it.offset, it.size, it.annotation.tag.as_str())).collect();
    assert_eq!(fields, [(0, 8000, "values"), (8000, 8000, "ticks"), (16000, 4000, "numbers")]);
    let of = |index: usize| pool.parts[index].annotation.tolerance;
    let numbers = Tolerance { dtype: DataType::U32, ..Tolerance::default() };
    assert_eq!((of(0), of(1).ignore, of(2)), (values, true, numbers));
    annotated.instances.iter().for_each(|instance| _ = instance.verify("default<O3>", &[]));
    let silent = Annotated::record(command, true);
    assert!(
        silent.allocations.iter().all(|it| it.tag.is_empty() && it.tolerance.is_none() && it.parts.is_empty()),
        "{:?}",
        silent.allocations
    );
    silent.instances.iter().for_each(|instance| _ = instance.refute("default<O3>", &[]));
    annotated
}

/// Results, messages, commands and rules name the parts of an allocation.
#[track_caller]
fn parts_are_named(annotated: &Annotated) {
    assert!(annotated.stderr.contains("its allocation ends at 0x"), "{}", annotated.stderr);
    assert!(annotated.stderr.contains("it splits an element of 4 bytes (u32)"), "{}", annotated.stderr);
    let [_, pool] = &annotated.instances;
    let evidence = &pool.verify("default<O3>", &[])["Result"]["evidence"];
    assert!(evidence["ignored"].as_u64() >= Some(8000), "{evidence}");
    let rules = evidence["rules"].as_array().expect("rules");
    let start = annotated.allocations.iter().find(|it| it.parts.len() > 1).expect("a pool").address;
    let ticks = format!("ticks at {:#x}: ignored", start + 8000);
    assert!(rules.iter().any(|rule| *rule == ticks.as_str()), "{evidence}");
    let mismatch = &pool.refute("default<O3>", &["--tolerance", "tag:values=exact"])["Result"]["mismatch"];
    assert_eq!((&mismatch["tag"], &mismatch["size"]), (&"values".into(), &8000.into()), "{mismatch}");
    pool.refute("default<O3>", &["--tolerance", "argument:0@8000+4=exact"]);
    pool.verify("default<O3>", &["--tolerance", "argument:0@0+20000=ignore", "--tolerance", "tag:numbers=exact"]);
    let outcome = pool.replay("default<O3>").args(["--tolerance", "argument:0@0+20001=ignore"]);
    outcome.exit_with(exit::BAD_USAGE).complains("20001 bytes at offset 0 of argument 0");
    let database = pool.database.to_str().unwrap();
    let shown = run(program("mneme")).args(["show", database]).succeed();
    assert!(shown.stdout.contains("+8000") && shown.stdout.contains("ticks (ignored)"), "{shown}");
    let annotate = |options: &[&str]| run(program("mneme")).args(["annotate", database]).args(options);
    annotate(&["--argument", "0", "--offset", "20000", "--bytes", "1", "--ignore"]).exit_with(exit::BAD_USAGE);
    annotate(&["--argument", "0", "--offset", "8", "--ignore"]).exit_with(exit::BAD_USAGE);
    let rule = ["--tag", "ticks", "--offset", "4000", "--bytes", "8"];
    let exact = ["--dtype", "u64", "--absolute", "0"];
    let listed = annotate(&[&rule[..], &exact].concat()).succeed();
    assert!(listed.stdout.contains("8 bytes at offset 4000 of tag ticks: u64 within 0e0"), "{listed}");
    pool.refute("default<O3>", &[]);
    annotate(&[&rule[..], &["--remove"]].concat()).succeed();
    pool.verify("default<O3>", &[]);
}

#[test]
fn annotations_from_every_language() {
    if !have_compiler("annotations_from_every_language") {
        return;
    }
    let build = tempfile::tempdir().unwrap();
    let settings =
        [format!("-DCMAKE_PREFIX_PATH={}", config("cmakedir")), "-DCMAKE_CUDA_COMPILER=clang++-19".to_owned()];
    let source = sources().join("annotations");
    cmake(&source, build.path(), &settings);
    for language in ["cpp", "c", "fortran"] {
        let executable = build.path().join(format!("annotated_{language}"));
        if language == "fortran" && !executable.exists() {
            mneme_fixtures::skip("annotations from Fortran, for which this machine has no compiler");
            continue;
        }
        let plain = run(&executable).env("LD_PRELOAD", library("libmneme_cpu.so"));
        if TestDevice::under_test() == TestDevice::Cpu {
            assert!(plain.succeed().stdout.contains("wobble: ok"), "{language}: without the recorder");
        }
        let annotated = record_annotated(&[&executable]);
        if language == "c" {
            parts_are_named(&annotated);
        }
    }
    record_annotated(&[Path::new("python3"), &source.join("annotated.py"), &build.path().join("libwobble.so")]);
}

#[test]
fn the_compiler_wrapper_compiles_cuda() {
    if !have_compiler("the_compiler_wrapper_compiles_cuda") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let executable = folder.path().join("saxpy");
    run(config("cxx"))
        .args(compile_flags())
        .args(split(&config("cflags")))
        .args([&sources().join("saxpy.cu"), Path::new("-o"), &executable])
        .args(split(&config("ldflags")))
        .args(link_flags(Cudart::under_test()))
        .succeed();
    record_and_verify(&executable, "saxpy: ok");
}

#[test]
fn every_config_key_answers() {
    for key in ["prefix", "libdir", "cmakedir"] {
        let folder = config(key);
        assert!(Path::new(&folder).is_dir(), "mneme config {key} says '{folder}'");
    }
    for key in ["cc", "cxx"] {
        let compiler = config(key);
        assert!(Path::new(&compiler).is_file(), "mneme config {key} says '{compiler}'");
    }
    assert_eq!(Path::new(&config("includedir")), Path::new(&config("prefix")).join("include"));
    for key in ["cflags", "ldflags"] {
        let flags = config(key);
        assert!(split(&flags).iter().all(|flag| flag.starts_with('-')), "mneme config {key} says '{flags}'");
    }
    run(program("mneme")).args(["config", "colour"]).exit_with(mneme_system::exit::BAD_USAGE).complains("colour");
}

fn split(flags: &str) -> Vec<&str> {
    flags.split_whitespace().collect()
}

const LIBRARY: &str = "
__global__ void triple(int *x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        x[i] *= 3;
}
extern \"C\" int tripled() {
    int host[300], *device;
    for (int i = 0; i < 300; ++i)
        host[i] = i;
    if (cudaMalloc(&device, sizeof host) || cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice))
        return -1;
    triple<<<3, 128>>>(device, 300);
    if (cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost))
        return -1;
    for (int i = 0; i < 300; ++i)
        if (host[i] != 3 * i)
            return -1;
    return host[299];
}
";

const MAIN: &str = "
#include <cstdio>
extern \"C\" int tripled();
int main() { std::printf(\"tripled to %d\\n\", tripled()); }
";

/// Builds `main.cpp` against the library source with two commands. The second one links.
fn with_library(library: impl FnOnce(&Path, Run) -> Vec<String>) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("library.cu"), LIBRARY).unwrap();
    fs::write(folder.path().join("main.cpp"), MAIN).unwrap();
    let inputs = library(folder.path(), recordable_clang().args(compile_flags()).folder(folder.path()));
    run("clang++-19")
        .args(["main.cpp", "-o", "main", "-Wl,-rpath,$ORIGIN"])
        .args(inputs)
        .args(link_flags(Cudart::under_test()))
        .folder(folder.path())
        .succeed();
    record_and_verify(&folder.path().join("main"), "tripled to 897");
}

#[test]
fn a_kernel_in_a_static_archive() {
    if !have_compiler("a_kernel_in_a_static_archive") {
        return;
    }
    with_library(|folder, clang| {
        clang.args(["-c", "library.cu", "-o", "library.o"]).succeed();
        run("ar").args(["rcs", "liblibrary.a", "library.o"]).folder(folder).succeed();
        vec!["-L.".into(), "-llibrary".into()]
    });
}

#[test]
fn a_kernel_in_a_shared_library() {
    if !have_compiler("a_kernel_in_a_shared_library") {
        return;
    }
    with_library(|_, clang| {
        clang
            .args(["-fPIC", "-shared", "library.cu", "-o", "liblibrary.so"])
            .args(link_flags(Cudart::under_test()))
            .succeed();
        vec!["-L.".into(), "-llibrary".into()]
    });
}

/// Differences between nvcc and clang: names of private symbols of a unit, and lambdas.
const NVCC: &str = "
#include <cstdio>
static __device__ int state = 100;
__constant__ int table[2] = {10, 20};
static __global__ void first(int *x) { x[threadIdx.x] += atomicAdd(&state, 1) >= 100 ? table[0] : 0; }
namespace {
__global__ void second(int *x) { x[threadIdx.x] += table[1]; }
}
template <class BODY> __global__ void loop(BODY body) { body(threadIdx.x); }
int main() {
    int host[64], *x, last = 0;
    cudaMalloc(&x, sizeof host);
    cudaMemset(x, 0, sizeof host);
    first<<<1, 64>>>(x);
    second<<<1, 64>>>(x);
    loop<<<1, 64>>>([=] __device__(int i) { x[i] += FACTOR * i; });
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&last, state, sizeof last);
    for (int i = 0; i < 64; ++i)
        if (host[i] != 30 + FACTOR * i)
            return 1;
    std::printf(\"private: %d\\n\", last);
}
";

/// `mneme-cc nvcc`, if nvcc is installed.
fn recordable_nvcc(test: &str) -> Option<Run> {
    let nvcc = nvcc(test)?;
    let library_folder = toolkit().with_file_name("nvcc").join("lib");
    let run = run(program("mneme-cc"))
        .arg(nvcc)
        .arg(format!("-arch={}", arch()))
        .args(["-std=c++17", "-O3", "-cudart", "shared"]);
    Some(run.arg("-Xlinker").arg(format!("-rpath={}", library_folder.display())))
}

#[test]
fn programs_of_nvcc_replay_from_ir() {
    let Some(nvcc) = recordable_nvcc("programs_of_nvcc_replay_from_ir") else { return };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("private.cu"), NVCC).unwrap();
    let built =
        nvcc.args(["--extended-lambda", "-DFACTOR=3", "private.cu", "-o", "private"]).folder(folder.path()).succeed();
    assert_eq!(built.stderr, "", "{built}");
    record_and_verify(&folder.path().join("private"), "private: 164");
}

#[test]
fn relocatable_programs_of_nvcc_replay_from_ir() {
    let Some(nvcc) = recordable_nvcc("relocatable_programs_of_nvcc_replay_from_ir") else { return };
    let folder = tempfile::tempdir().unwrap();
    let units = ["main", "log", "forward", "backward"].map(|unit| sources().join(format!("units/{unit}.cu")));
    let compile = nvcc.clone().args(["-dc"]).args(&units).folder(folder.path());
    let built = compile.succeed();
    assert_eq!(built.stderr, "", "{built}");
    nvcc.args(["main.o", "log.o", "forward.o", "backward.o", "-o", "units"]).folder(folder.path()).succeed();
    record_and_verify(&folder.path().join("units"), "units: ok");
}

#[test]
fn what_clang_cannot_compile_stays_nvccs() {
    let Some(nvcc) = recordable_nvcc("what_clang_cannot_compile_stays_nvccs") else { return };
    let folder = tempfile::tempdir().unwrap();
    let source = "#ifdef __clang__\n#error nvcc only\n#endif\n__global__ void k() {}\n";
    fs::write(folder.path().join("odd.cu"), source).unwrap();
    let built = nvcc.args(["-c", "odd.cu", "-o", "odd.o"]).folder(folder.path()).succeed();
    assert!(folder.path().join("odd.o").is_file());
    built.complains("nvcc only");
    assert_eq!(built.stderr.lines().count(), 1, "one warning: {built}");
}
