//! Tests of `mneme-cc` on HIP sources, which read the section of the objects.
//!
//! They need clang 19 and Debian's HIP (`scripts/setup --hip`). Without HIP they are reported as skipped, or fail if
//! `MNEME_TEST_HIP` is set, as in continuous integration.

use std::path::Path;
use std::process::{Command, Output};

use goblin::elf::Elf;
use mneme_image::ir_section::{
    self, CODE_ADDRESS, DEVICE_HEAP, INDIRECT_CALL, SECTION, TEXTURE, Unit, VIRTUAL_CALL, closure,
};
use mneme_image::{bundle, code_object, ir_inside};
use mneme_system::toolkits;

/// The newest clang that accepts Debian 12's HIP. Every supported LLVM reads its IR.
const CLANG: &str = "clang++-19";
const LLVM: u32 = 19;

const SOURCE: &str = r#"
#include <hip/hip_runtime.h>
struct Plain { int a; double b; };
struct Buffers { double *first; long size; double *second; };
__constant__ float weights[4];
__device__ int counter = 5;
__global__ void scale(float *values, Plain plain, Buffers buffers, char small, double factor, int n) {
    extern __shared__ float dynamic[];
    __shared__ int fixed[8];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        dynamic[threadIdx.x] = values[i];
        fixed[threadIdx.x % 8] = small;
        values[i] = dynamic[threadIdx.x] * factor * weights[i % 4] + fixed[0] + plain.a + sinf(buffers.first[i]);
        counter++;
    }
}
__global__ void untouched(int *out) { out[threadIdx.x] = __ballot(threadIdx.x % 3); }
__global__ void allocates(int **out) { *out = static_cast<int *>(malloc(4)); }
__global__ void samples(hipTextureObject_t texture, float *out) { *out = tex2D<float>(texture, 0.f, 1.f); }
typedef int (*Function)(int);
__global__ void calls(Function function, int *out) { *out = function(1); }
__device__ int next(int x) { return x + 1; }
__global__ void points(Function *out) { *out = next; }
struct Shape { __device__ virtual int area() const = 0; };
struct Square : Shape { int side; __device__ int area() const override { return side * side; } };
__global__ void measures(const Shape *shape, int *out) { *out = shape->area(); }
__global__ void builds(void *out) { new (out) Square; }
int main() {}
"#;

fn have_hip() -> bool {
    let found = Path::new("/usr/include/hip/hip_runtime.h").is_file() || Path::new("/opt/rocm/include/hip").is_dir();
    let found = found && toolkits::device_libraries(LLVM).is_some();
    let missing = "HIP with device libraries that clang 19 reads is not installed (scripts/setup --hip)";
    assert!(found || std::env::var_os("MNEME_TEST_HIP").is_none(), "{missing}");
    if !found {
        mneme_fixtures::skip(format_args!("{missing}"));
    }
    found
}

/// Runs `mneme-cc` with a compiler and its arguments, which has to succeed.
#[track_caller]
fn compile(folder: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mneme-cc"));
    let output = run_without_settings(command.args(arguments).current_dir(folder));
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

/// Removes the user's settings, which would override those of the test.
fn run_without_settings(command: &mut Command) -> Output {
    for name in ["HIP_CLANG_PATH", "HIP_DEVICE_LIB_PATH", "HIP_PLATFORM", "ROCM_PATH"] {
        command.env_remove(name);
    }
    command.output().unwrap()
}

/// The records of the section of an ELF file.
fn units(path: &Path) -> Vec<Unit<'static>> {
    let bytes = std::fs::read(path).unwrap();
    let elf = Elf::parse(&bytes).unwrap();
    let row = elf.section_headers.iter().find(|row| elf.shdr_strtab.get_at(row.sh_name) == Some(SECTION));
    let range = row.map(|row| row.file_range().unwrap());
    ir_section::decode(range.map_or(&[], |range| &bytes[range])).into_iter().map(Unit::into_owned).collect()
}

/// The kernels of each record, with the record's architecture.
fn kernels(path: &Path) -> Vec<(String, Vec<String>)> {
    let names = |unit: &Unit<'_>| {
        let kernels = unit.table.symbols.iter().filter(|symbol| symbol.kind == ir_section::SymbolKind::Kernel);
        kernels.map(|symbol| symbol.name.clone()).collect()
    };
    units(path).iter().map(|unit| (unit.table.arch.clone(), names(unit))).collect()
}

fn folder_with(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

#[test]
fn an_object_has_a_record_for_each_architecture() {
    if !have_hip() {
        return;
    }
    let folder = folder_with(&[("a.hip", SOURCE)]);
    let targets = ["--offload-arch=gfx90a:xnack-", "--offload-arch=gfx1030"];
    let options = ["-O2", "-munsafe-fp-atomics", "-mcode-object-version=5", "-mllvm", "-amdgpu-early-inline-all=true"];
    compile(
        folder.path(),
        &[&[CLANG], &targets[..], &options[..], &["-save-temps", "-c", "a.hip", "-o", "a.o"]].concat(),
    );
    let units = units(&folder.path().join("a.o"));
    let mut archs: Vec<_> = units.iter().map(|unit| unit.table.arch.as_str()).collect();
    archs.sort_unstable();
    assert_eq!(archs, ["gfx1030", "gfx90a"]);
    for unit in &units {
        let table = &unit.table;
        assert_eq!((table.triple.as_str(), table.rdc), ("amdgcn-amd-amdhsa", false));
        let compiled = table.compiled.as_ref().unwrap();
        assert_eq!((compiled.level.as_str(), compiled.contract.as_str()), ("2", "fast-honor-pragmas"));
        assert_eq!(compiled.llvm_options, ["-amdgpu-early-inline-all=true"]);
        let scale = unit.symbol("_Z5scalePf5Plain7Bufferscdi").unwrap();
        let arguments: Vec<_> = scale
            .arguments
            .iter()
            .map(|argument| (argument.kind.as_str(), argument.offset, argument.size, argument.pointers.clone()))
            .collect();
        assert_eq!(
            arguments,
            [
                ("ptr", 0, 8, None),
                ("byval", 8, 16, Some(vec![])),
                ("byval", 24, 24, Some(vec![0, 16])),
                ("i8", 48, 1, None),
                ("double", 56, 8, None),
                ("i32", 64, 4, None),
            ]
        );
    }
    // The IR itself contains everything else on which the code depends.
    let unit = units.iter().find(|unit| unit.table.arch == "gfx90a").unwrap();
    let bitcode = unit.bitcode().unwrap();
    let context = inkwell::context::Context::create();
    let buffer = inkwell::memory_buffer::MemoryBuffer::create_from_memory_range_copy(&bitcode, "test");
    let module = inkwell::module::Module::parse_bitcode_from_buffer(&buffer, &context).unwrap();
    let text = mneme_compiler::ir::text(&module);
    for part in ["\"amdhsa_code_object_version\", i32 500", "-xnack", "@__ocml_sin_f32("] {
        assert!(text.contains(part), "{part}");
    }
    // Later versions mark atomic operations individually.
    if mneme_compiler::LLVM_MAJOR <= 19 {
        assert!(text.contains("\"amdgpu-unsafe-fp-atomics\"=\"true\""), "unsafe atomics");
    }
    assert!(!text.contains("declare float @__ocml_"), "the device libraries are linked in");
}

#[test]
fn closures_have_the_programs_variables_and_name_what_cannot_be_recorded() {
    if !have_hip() {
        return;
    }
    let folder = folder_with(&[("a.hip", SOURCE)]);
    compile(folder.path(), &[CLANG, "--offload-arch=gfx90a", "-c", "a.hip"]);
    let units = units(&folder.path().join("a.o"));
    let of = |kernel: &str| closure(&units, kernel, "gfx90a").unwrap();
    let scale = of("_Z5scalePf5Plain7Bufferscdi");
    let mut variables: Vec<_> = scale
        .variables
        .iter()
        .map(|(_, symbol)| {
            (symbol.name.as_str(), symbol.variable.as_ref().map(|variable| (variable.space, variable.size)))
        })
        .collect();
    variables.sort_unstable();
    assert_eq!(variables, [("counter", Some((1, 4))), ("weights", Some((4, 16)))]);
    for (kernel, unresolved) in [
        ("_Z5scalePf5Plain7Bufferscdi", &[][..]),
        ("_Z9untouchedPi", &[]),
        ("_Z9allocatesPPi", &[DEVICE_HEAP]),
        ("_Z7samplesP13__hip_texturePf", &[TEXTURE]),
        ("_Z5callsPFiiEPi", &[INDIRECT_CALL]),
        ("_Z6pointsPPFiiE", &[CODE_ADDRESS]),
    ] {
        let mut found = of(kernel).unresolved;
        found.retain(|name| name.starts_with("mneme."));
        assert_eq!(found, unresolved, "{kernel}");
    }
    // A virtual call leads to every table of the program, and a table can be at its recorded address.
    for kernel in ["_Z8measuresPK5ShapePi", "_Z6buildsPv"] {
        let closure = of(kernel);
        assert!(closure.unresolved.is_empty(), "{kernel}: {:?}", closure.unresolved);
        assert!(closure.variables.iter().any(|(_, symbol)| symbol.name == "_ZTV6Square"), "{kernel}");
    }
    let marked = units[0].table.symbols.iter().any(|symbol| symbol.name == VIRTUAL_CALL);
    assert!(marked);
}

#[test]
fn static_hashes_are_the_kernels_own() {
    if !have_hip() {
        return;
    }
    let hash = |source: &str, kernel: &str| {
        let folder = folder_with(&[("a.hip", source)]);
        compile(folder.path(), &[CLANG, "--offload-arch=gfx90a", "-c", "a.hip"]);
        closure(&units(&folder.path().join("a.o")), kernel, "gfx90a").unwrap().static_hash
    };
    let more =
        format!("#include <hip/hip_runtime.h>\n__global__ void before(double *x) {{ *x = pow(*x, 3); }}\n{SOURCE}");
    for kernel in ["_Z5scalePf5Plain7Bufferscdi", "_Z9allocatesPPi"] {
        assert_eq!(hash(SOURCE, kernel), hash(&more, kernel), "{kernel}");
    }
    let other = SOURCE.replace("% 3", "% 4");
    assert_ne!(hash(SOURCE, "_Z9untouchedPi"), hash(&other, "_Z9untouchedPi"));
}

/// Two units of a program. The second has a function that the first one's kernels call.
const MAIN: &str = "#include <hip/hip_runtime.h>\nextern __device__ int twice(int);\n\
    __global__ void k(int *p) { p[threadIdx.x] = twice(threadIdx.x); }\n\
    int main() { k<<<1, 64>>>(nullptr); return hipDeviceSynchronize(); }\n";
const HELPER: &str = "#include <hip/hip_runtime.h>\n__device__ int twice(int x) { return 2 * x; }\n";

#[test]
fn relocatable_units_are_linked_by_either_driver() {
    if !have_hip() {
        return;
    }
    for driver in ["--no-offload-new-driver", "--offload-new-driver"] {
        let folder =
            folder_with(&[("main.hip", MAIN), ("helper.hip", HELPER), ("plain.cpp", "int plain() { return 1; }")]);
        let options = [CLANG, "-fgpu-rdc", driver, "--offload-arch=gfx90a"];
        let run = |more: &[&str]| compile(folder.path(), &[&options[..], more].concat());
        run(&["-c", "main.hip", "helper.hip"]);
        run(&["--hip-link", "main.o", "helper.o", "-o", "apart"]);
        run(&["main.hip", "plain.cpp", "helper.hip", "-o", "at-once"]);
        for program in ["apart", "at-once"] {
            let units = units(&folder.path().join(program));
            assert!(units.len() == 2 && units.iter().all(|unit| unit.table.rdc), "{driver} {program}");
            let closure = closure(&units, "_Z1kPi", "gfx90a").unwrap();
            assert_eq!((closure.units.len(), closure.unresolved.len()), (2, 0), "{driver} {program}");
            let elf = std::fs::read(folder.path().join(program)).unwrap();
            let libraries = Elf::parse(&elf).unwrap().libraries.join(" ");
            assert!(libraries.contains("libamdhip64"), "{driver} {program}: {libraries}");
        }
    }
}

#[test]
fn one_command_compiles_and_links_and_leaves_host_files_alone() {
    if !have_hip() {
        return;
    }
    let helper =
        HELPER.replace("__device__", "__global__").replace("int twice(int x) { return 2 * x; }", "void t() {}");
    let folder = folder_with(&[
        (
            "main.hip",
            &MAIN.replace("extern __device__ int twice(int);", "static __device__ int twice(int x) { return x; }"),
        ),
        ("helper.cpp", &helper),
        ("plain.cpp", "int plain() { return 1; }"),
    ]);
    compile(
        folder.path(),
        &[CLANG, "--offload-arch=gfx90a", "main.hip", "plain.cpp", "-x", "hip", "helper.cpp", "-o", "app"],
    );
    let mut found = kernels(&folder.path().join("app"));
    found.sort();
    let expected = |name: &str| ("gfx90a".to_owned(), vec![name.to_owned()]);
    assert_eq!(found, [expected("_Z1kPi"), expected("_Z1tv")]);
    compile(folder.path(), &[CLANG, "-c", "plain.cpp"]);
    assert!(units(&folder.path().join("plain.o")).is_empty());
    // The same command line gives the same bytes.
    let first = std::fs::read(folder.path().join("app")).unwrap();
    compile(
        folder.path(),
        &[CLANG, "--offload-arch=gfx90a", "main.hip", "plain.cpp", "-x", "hip", "helper.cpp", "-o", "app"],
    );
    assert!(first == std::fs::read(folder.path().join("app")).unwrap(), "a build is not reproducible");
}

/// The newest clang whose IR LLVM 19 can read.
const NEWEST_CLANG: u32 = 19;

/// The version of hipcc's clang, if hipcc is installed.
fn hipcc_clang() -> Option<u32> {
    let output = Command::new("hipcc").arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_once("clang version ")?.1.split('.').next()?.parse().ok()
}

/// A program of one unit.
fn single() -> String {
    MAIN.replace("extern __device__ int twice(int);", "static __device__ int twice(int x) { return x; }")
}

/// mneme-cc's own messages on standard error.
fn said(output: &Output) -> Vec<String> {
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    text.lines().filter(|line| line.starts_with("mneme-cc")).map(str::to_owned).collect()
}

/// The code objects of an image, by processor.
fn code_objects(image: &[u8]) -> Vec<(String, Vec<u8>)> {
    if code_object::is_code_object(image) {
        return vec![(String::new(), image.to_vec())];
    }
    let plain = bundle::plain(image).unwrap();
    let entries = bundle::entries(&plain).into_iter().filter(|entry| !entry.processor().is_empty());
    entries.map(|entry| (entry.processor().to_owned(), entry.bytes.to_vec())).collect()
}

/// Code that programs load from files has its IR, and otherwise equals clang's.
#[test]
fn code_for_the_device_alone_has_its_ir() {
    if !have_hip() {
        return;
    }
    let folder = folder_with(&[("a.hip", SOURCE), ("a.cpp", SOURCE)]);
    let read = |name: &str| std::fs::read(folder.path().join(name)).unwrap();
    let (one, two) = (&["--offload-arch=gfx90a"][..], &["--offload-arch=gfx90a:xnack-", "--offload-arch=gfx1030"][..]);
    let hipcc = hipcc_clang().is_some_and(|version| version <= NEWEST_CLANG);
    for (compiler, targets, options) in [
        (CLANG, two, &["--offload-device-only"][..]),
        (CLANG, one, &["--cuda-device-only", "-c", "-g"]),
        (CLANG, two, &["--offload-device-only", "--offload-compress", "-save-temps"]),
        (CLANG, two, &["--offload-device-only", "--offload-new-driver"]),
        (CLANG, one, &["--offload-device-only", "--no-gpu-bundle-output"]),
        (CLANG, one, &["--offload-device-only", "--no-gpu-bundle-output", "-save-temps"]),
        ("hipcc", two, &["--genco"]),
    ] {
        if compiler == "hipcc" && !hipcc {
            continue;
        }
        let name = format!("{compiler} {options:?}");
        let source = if compiler == "hipcc" { "a.cpp" } else { "a.hip" };
        let line = [&[compiler], targets, options, &[source, "-o", "a.co"]].concat();
        assert_eq!(said(&compile(folder.path(), &line)), [""; 0], "{name}");
        let (ours, processors) = (read("a.co"), targets.iter().map(|target| &target["--offload-arch=".len()..]));
        let units = ir_inside::units(&ours);
        let mut found: Vec<_> = units.iter().map(|unit| unit.table.arch.clone()).collect();
        let mut expected: Vec<_> = processors.map(|name| name.split(':').next().unwrap().to_owned()).collect();
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "{name}");
        for unit in &units {
            assert!(unit.bitcode().is_ok() && unit.table.images.is_empty(), "{name}");
            let kernel = closure(&units, "_Z5scalePf5Plain7Bufferscdi", &unit.table.arch).unwrap();
            assert_eq!((kernel.variables.len(), kernel.ambiguous.len()), (2, 0), "{name}");
        }
        if compiler == "hipcc" {
            // Without mneme-cc, it would run another clang.
            continue;
        }
        // The same command, because clang derives an id from it. clang does not find Debian's libraries by itself.
        let mut plain = Command::new(compiler);
        plain.args(&line[1..]).env_remove("ROCM_PATH").current_dir(folder.path());
        plain.envs(toolkits::device_libraries(LLVM).map(|folder| ("HIP_DEVICE_LIB_PATH", folder)));
        assert!(plain.status().unwrap().success());
        let plain = read("a.co");
        assert_eq!(ours[..4], plain[..4], "{name}: the kind of file");
        let (ours, plain) = (code_objects(&ours), code_objects(&plain));
        assert_eq!(ours.len(), plain.len(), "{name}");
        for ((processor, ours), (other, plain)) in ours.iter().zip(&plain) {
            assert_eq!(processor, other, "{name}");
            assert!(code_object::parse(ours) == code_object::parse(plain), "{name}: {processor}");
            // The sections that are not loaded come after everything that is.
            let ends = |image: &[u8]| {
                Elf::parse(image).unwrap().program_headers.iter().map(|it| it.p_offset + it.p_filesz).max()
            };
            let end = ends(plain).unwrap() as usize;
            // The ELF header has the offset of the section headers, so it differs.
            assert!(ends(ours) == ends(plain) && ours[64..end] == plain[64..end], "{name}: what is loaded differs");
        }
    }
}

#[test]
fn code_for_the_device_alone_that_gets_no_ir_is_named() {
    if !have_hip() {
        return;
    }
    let cuda = "__attribute__((global)) void k(int *p) { *p = 1; }\n";
    let folder = folder_with(&[("a.hip", &single()), ("a.cu", cuda)]);
    let of_cuda = [CLANG, "--cuda-device-only", "-nocudainc", "-nocudalib", "--offload-arch=sm_70", "-S", "a.cu"];
    let relocatable = [CLANG, "-fgpu-rdc", "--offload-device-only", "--offload-arch=gfx90a", "-c", "a.hip"];
    let remedy = "to record its kernels from IR, name a file with the IR in MNEME_IR_PATH";
    for (arguments, file, reason) in [
        (&of_cuda[..], "a.cu", "it is code for NVIDIA GPUs only; clang's -fembed-bitcode=all puts IR into it"),
        (&relocatable, "a.hip", "it is relocatable code for the device only"),
    ] {
        let said = said(&compile(folder.path(), arguments));
        assert_eq!(said, [format!("mneme-cc: warning: {file} gets no LLVM IR: {reason}; {remedy}")]);
    }
    assert_eq!(said(&compile(folder.path(), &[&of_cuda[..], &["-fembed-bitcode=all"]].concat())), [""; 0]);
}

/// The program is built as without `mneme-cc`, with one warning that it gets no IR.
#[test]
fn programs_of_a_newer_clang_are_built_without_ir() {
    let Some(version) = hipcc_clang().filter(|version| have_hip() && *version > NEWEST_CLANG) else {
        mneme_fixtures::skip(format_args!("there is no hipcc with a newer clang than {NEWEST_CLANG}"));
        return;
    };
    let folder = folder_with(&[("a.cpp", &single())]);
    let targets = ["hipcc", "--offload-arch=gfx942", "--offload-arch=gfx1100"];
    for rest in [&["-c", "a.cpp"][..], &["a.cpp", "-o", "program"], &["-fgpu-rdc", "a.cpp", "-o", "relocatable"]] {
        let output = compile(folder.path(), &[&targets, rest].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        let ours: Vec<&str> = said.lines().filter(|line| line.starts_with("mneme-cc")).collect();
        let [line] = ours[..] else { panic!("{said}") };
        let start = "mneme-cc: warning: a.cpp gets no LLVM IR for gfx1100, gfx942: ";
        let reason = format!("the IR was written by LLVM {version}.");
        assert!(
            line.replace("gfx942, gfx1100", "gfx1100, gfx942").starts_with(&(start.to_owned() + &reason)),
            "{line}"
        );
    }
    for file in ["a.o", "program", "relocatable"] {
        assert!(units(&folder.path().join(file)).is_empty(), "{file}");
    }
    // The user may choose a clang other than hipcc's.
    let mut command = Command::new(env!("CARGO_BIN_EXE_mneme-cc"));
    command.args(["hipcc", "--offload-arch=gfx942", "-c", "a.cpp"]).current_dir(folder.path());
    if Path::new("/usr/lib/llvm-19/lib/clang/19/amdgcn/bitcode/ocml.bc").is_file() {
        assert!(command.env("HIP_CLANG_PATH", "/usr/lib/llvm-19/bin").status().unwrap().success());
        assert_eq!(kernels(&folder.path().join("a.o")), [("gfx942".to_owned(), vec!["_Z1kPi".to_owned()])]);
    }
}

/// A stand-in for hipcc that reports a clang newer than LLVM 19.
#[test]
fn a_newer_clang_is_left_to_hipcc() {
    if !have_hip() {
        return;
    }
    let script = "#!/bin/sh\nprintf '%s\\n' \"${HIP_CLANG_PATH-none}\" >> seen\n\
        case \"$*\" in *'-###'*) echo 'clang version 99.1.8, cannot find ROCm device library' >&2 ;;\n\
        *) exec clang++-19 \"$@\" ;; esac\n";
    let folder = folder_with(&[("a.hip", &single())]);
    let hipcc = folder.path().join("hipcc");
    mneme_fixtures::script(&hipcc, script);
    compile(folder.path(), &[hipcc.to_str().unwrap(), "--offload-arch=gfx90a", "-c", "a.hip"]);
    let seen = std::fs::read_to_string(folder.path().join("seen")).unwrap();
    assert!(seen.lines().count() >= 2 && seen.lines().all(|line| line == "none"), "{seen}");
}

#[test]
fn hipcc_runs_a_clang_that_will_do() {
    let Some(version) = hipcc_clang().filter(|_| have_hip()) else {
        return mneme_fixtures::skip("there is no hipcc");
    };
    if version > NEWEST_CLANG {
        mneme_fixtures::skip(format_args!("hipcc runs clang {version}, which mneme-cc leaves to it"));
        return;
    }
    let folder = folder_with(&[("a.cpp", &single()), ("plain.cpp", "int plain() { return 1; }")]);
    compile(folder.path(), &["hipcc", "--offload-arch=gfx90a", "-c", "a.cpp"]);
    compile(folder.path(), &["hipcc", "--offload-arch=gfx90a", "-c", "plain.cpp"]);
    compile(folder.path(), &["hipcc", "--offload-arch=gfx90a", "a.o", "plain.o", "-o", "linked"]);
    compile(folder.path(), &["hipcc", "--offload-arch=gfx90a", "-fgpu-rdc", "a.cpp", "plain.cpp", "-o", "at-once"]);
    for (file, rdc) in [("a.o", false), ("linked", false), ("at-once", true)] {
        let found = units(&folder.path().join(file));
        assert_eq!(found.len(), 1, "{file}");
        let table = &found[0].table;
        let level = table.compiled.as_ref().map(|compiled| compiled.level.as_str());
        assert_eq!(
            (table.arch.as_str(), &table.llvm[..3], table.rdc, level),
            ("gfx90a", "19.", rdc, Some("3")),
            "{file}"
        );
    }
    assert!(units(&folder.path().join("plain.o")).is_empty());
    let output = run_without_settings(
        Command::new(env!("CARGO_BIN_EXE_mneme-cc"))
            .args(["hipcc", "--offload-arch=gfx90a", "-c", "missing.cpp"])
            .current_dir(folder.path()),
    );
    assert!(!output.status.success());
}
