//! Tests that the recorded level's pipeline gives the same PTX as clang gave the application.
//!
//! They compile the test applications in many ways.
//!
//! clang 19 is LLVM 19, so the texts are equal or, if numbered names have another order, registers and code size are.
//! The tests check a few programs, or all with `MNEME_TEST_FIDELITY=all`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_builds::progress::Stage;
use mneme_builds::{ImageKind, Keep, Target};
use mneme_compiler::assembler::{Assembler, AssemblerOptions};
use mneme_compiler::unit::{UnitOrigin, describe};
use mneme_compiler::{Artifact, BuildRequest, InputCode, build};
use mneme_image::cubin;
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_model::launch::Dim3;
use mneme_recording::manifest::RecordedVariable;

/// Options besides the level.
const WAYS: [&[&str]; 6] = [
    &[],
    &["-ffast-math"],
    &["-ffp-contract=off"],
    &["-ffp-contract=on"],
    &["-ffp-contract=fast"],
    &["-fgpu-flush-denormals-to-zero"],
];
const LEVELS: [u8; 4] = [0, 1, 2, 3];
/// Programs that are always checked: various floating-point code, helper functions, structures.
const SPREAD: [&str; 4] = ["microphysics", "math", "stencil", "bigstruct"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

fn clang(source: &Path, words: &[&str]) -> Vec<u8> {
    let output = Command::new(concat!("clang++-", env!("MNEME_LLVM_MAJOR")))
        .args(["-x", "cuda", "--cuda-gpu-arch=sm_90", "-std=c++17", "-w", "--cuda-device-only", "-o", "-"])
        .arg(format!("--cuda-path={}", root().join(".deps/cuda").display()))
        .args(words)
        .arg(source)
        .output()
        .unwrap();
    assert!(output.status.success(), "{} {words:?}: {}", source.display(), String::from_utf8_lossy(&output.stderr));
    output.stdout
}

/// The entry of a kernel, from its parameters to its last line, without comments and alignment directives, and with
/// labels renumbered.
fn entry(ptx: &str, kernel: &str) -> Vec<String> {
    let start = ptx.find(&format!(".entry {kernel}(")).unwrap_or_else(|| panic!("there is no {kernel}"));
    let end = ptx[start..].find("\n}").map_or(ptx.len(), |length| start + length);
    let mut labels = BTreeMap::new();
    let (mut names, mut prototypes, mut depots) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    ptx[start..end]
        .lines()
        .map(|line| line.split("//").next().unwrap_or("").trim())
        .filter(|line| !line.is_empty())
        .map(|line| {
            let line = renamed(line, "$L__BB", &mut labels);
            // Strings and copies of constants are numbered across the module.
            let line = renamed(&line, "__unnamed_", &mut names);
            // So are calls through pointers. (How such a call is assembled depends on which functions of the module
            // have their address taken, and the closure of one kernel lacks some of them.)
            let line = renamed(&line, "prototype_", &mut prototypes);
            // Stacks are numbered by function.
            renamed(&line, "__local_depot", &mut depots)
        })
        .collect()
}

/// Renumbers names that begin with `prefix`.
fn renamed(line: &str, prefix: &str, seen: &mut BTreeMap<String, usize>) -> String {
    let mut text = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(prefix) {
        let end = rest[at..]
            .find(|c: char| !(c.is_ascii_alphanumeric() || "_$.%".contains(c)))
            .map_or(rest.len(), |length| at + length);
        let next = seen.len();
        let number = *seen.entry(rest[at..end].to_owned()).or_insert(next);
        text += &format!("{}{prefix}{number}", &rest[..at]);
        rest = &rest[end..];
    }
    text + rest
}

/// Registers and code size of a kernel; `None` if it cannot be assembled alone because it calls missing functions.
fn size(ptx: &str, kernel: &str, level: u8) -> Option<(u32, u64)> {
    let options = AssemblerOptions { level, ..AssemblerOptions::default() };
    let assembled = Assembler::find().assemble(ptx, kernel, "sm_90", options).ok()?;
    if assembled.kind != ImageKind::Cubin {
        return None;
    }
    let found = cubin::parse(&assembled.image)?.kernels.into_iter().find(|found| found.name == kernel)?;
    Some((found.registers?, mneme_image::elf::section(&assembled.image, &format!(".text.{kernel}"))?.len() as u64))
}

/// The PTX of a replay that compiles like the application.
fn ptx(bitcode: &[u8], kernel: &str, application: &CompileOptions) -> String {
    let configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0).compiled_as(application);
    let target = Target::Nvptx { arch: "sm_90".into() };
    let modules: [&[u8]; 1] = [bitcode];
    let mut request = BuildRequest::new(InputCode::Ir(&modules), kernel, &target, &configuration);
    request.recorded.compiled = Some(application);
    request.keep = Keep { until: Some(Stage::CodeGeneration), ..Keep::default() };
    build(&request).unwrap_or_else(|error| panic!("{kernel}: {error}")).ptx.unwrap()
}

#[test]
fn the_recorded_level_gives_the_applications_code() {
    mneme_compiler::warm_up();
    // "all", or the name of one program.
    let wanted = std::env::var("MNEME_TEST_FIDELITY").unwrap_or_default();
    let sources = std::fs::read_dir(root().join("tests/apps")).unwrap().map(|entry| entry.unwrap().path());
    let mut sources: Vec<PathBuf> =
        sources.filter(|path| path.extension().is_some_and(|extension| extension == "cu")).collect();
    sources.sort();
    let (mut equal, mut same_code, mut front_end, mut different) = (0, 0, 0, Vec::new());
    for source in sources {
        let name = source.file_stem().unwrap().to_string_lossy().into_owned();
        let all = wanted == "all" || wanted == name;
        if !all && (!wanted.is_empty() || !SPREAD.contains(&&*name)) {
            continue;
        }
        for way in WAYS {
            // The large program takes seconds.
            let is_usual = |level: u8| level == 3 && way.is_empty();
            let is_small = |level: u8| name != "microphysics" && (level == 3 || way.is_empty());
            let levels: Vec<u8> =
                LEVELS.into_iter().filter(|level| all || is_usual(*level) || is_small(*level)).collect();
            if levels.is_empty() {
                continue;
            }
            let recorded = [&["-O3", "-Xclang", "-disable-llvm-passes", "-emit-llvm", "-c"], way].concat();
            let bitcode = clang(&source, &recorded);
            let without_lifetimes = std::cell::LazyCell::new(|| {
                clang(&source, &[&recorded[..], &["-Xclang", "-disable-lifetime-markers"]].concat())
            });
            for level in levels {
                let theirs =
                    String::from_utf8(clang(&source, &[&[&*format!("-O{level}"), "-S"], way].concat())).unwrap();
                let kernels: Vec<&str> =
                    theirs.split(".visible .entry ").skip(1).filter_map(|rest| rest.split('(').next()).collect();
                let words: Vec<String> = way.iter().map(ToString::to_string).chain([format!("-O{level}")]).collect();
                let application = CompileOptions { ptx_opt: level, ..CompileOptions::of_clang(&words) };
                for kernel in kernels {
                    // mneme-cc records IR without lifetime markers for a program compiled with -O0.
                    let ours = ptx(if level == 0 { &without_lifetimes } else { &bitcode }, kernel, &application);
                    if entry(&ours, kernel) == entry(&theirs, kernel) {
                        equal += 1;
                        continue;
                    }
                    let (ours_size, theirs_size) = (size(&ours, kernel, level), size(&theirs, kernel, level));
                    if ours_size.is_some() && ours_size == theirs_size {
                        same_code += 1;
                        continue;
                    }
                    // The recorded IR comes from -O3's front end. The IR of -O0's front end shows that nothing else
                    // differs.
                    let own = ["-O0", "-Xclang", "-disable-O0-optnone", "-emit-llvm", "-c"];
                    if level == 0
                        && entry(&ptx(&clang(&source, &[&own, way].concat()), kernel, &application), kernel)
                            == entry(&theirs, kernel)
                    {
                        front_end += 1;
                        continue;
                    }
                    different
                        .push(format!("{name} {kernel} -O{level} {way:?}: {ours_size:?}, clang's {theirs_size:?}"));
                }
            }
        }
    }
    println!(
        "{equal} texts are equal, {same_code} others have the same registers and bytes, {front_end} differ by the front end of -O0"
    );
    assert!(different.is_empty(), "{}", different.join("\n"));
    assert!(equal > 0, "{equal}");
}

/// The variables of a program as in a recording: those that remain in clang's own code.
fn recorded(bitcode: &[u8], theirs: &str) -> Vec<RecordedVariable> {
    let origin = UnitOrigin { arch: "sm_90".into(), ..UnitOrigin::default() };
    let symbols = describe(bitcode, &origin).unwrap().symbols.into_iter();
    let kept = symbols.filter(|symbol| theirs.contains(&format!("\n@{} = ", symbol.name)));
    kept.filter_map(|symbol| Some((symbol.variable?, symbol.name)))
        .zip(1..)
        .map(|((info, name), place)| RecordedVariable {
            address: 0x7000_0000_0000 + place * 0x10_0000,
            name,
            size: info.size,
            constant: info.space == 4,
            code: info.code,
            functions: Vec::new(),
        })
        .collect()
}

/// The definition of a kernel in a module's text, without metadata and attribute numbers, with values renumbered.
fn definition(ir: &str, kernel: &str) -> Vec<String> {
    let start = ir.find(&format!("@{kernel}(")).unwrap_or_else(|| panic!("there is no {kernel}"));
    let mut values = BTreeMap::new();
    ir[start..]
        .split("\n}")
        .next()
        .unwrap()
        .lines()
        .map(|line| {
            let code = line.split([';', '#']).next().unwrap_or("");
            let text: String = code.split(',').filter(|part| !part.trim().starts_with('!')).collect();
            let label = !text.starts_with([' ', '@']);
            renamed(&format!("{}{text}", if label { "%" } else { "" }), "%", &mut values)
        })
        .collect()
}

/// A build of a kernel for a launch with these variables, with the application's options.
fn with_variables(
    bitcode: &[u8],
    kernel: &str,
    variables: &[RecordedVariable],
    application: &CompileOptions,
    keep: Keep,
) -> Artifact {
    let configuration = Configuration::recorded(Dim3::new(8, 1, 1), Dim3::new(128, 1, 1), 0).compiled_as(application);
    let target = Target::Nvptx { arch: "sm_90".into() };
    let modules: [&[u8]; 1] = [bitcode];
    let mut request = BuildRequest::new(InputCode::Ir(&modules), kernel, &target, &configuration);
    request.recorded.compiled = Some(application);
    request.recorded.variables = variables;
    request.keep = keep;
    build(&request).unwrap_or_else(|error| panic!("{kernel}: {error}"))
}

/// The IR after a replay's pipeline, with names instead of the addresses of variables.
fn optimised(bitcode: &[u8], kernel: &str, variables: &[RecordedVariable], application: &CompileOptions) -> String {
    let keep = Keep { until: Some(Stage::Pipeline), after: true, ..Keep::default() };
    let ir = with_variables(bitcode, kernel, variables, application, keep).ir.unwrap();
    variables.iter().filter(|variable| !variable.constant).fold(ir, |ir, variable| {
        let address = format!("inttoptr (i64 {} to ptr addrspace(1))", variable.address);
        ir.replace(&address, &format!("@{}", variable.name))
    })
}

/// The entry of a kernel with names instead of the registers that contain the addresses of variables.
fn entry_with_names(ptx: &str, kernel: &str, variables: &[RecordedVariable]) -> Vec<String> {
    let mut lines = entry(ptx, kernel);
    for variable in variables {
        let address = format!(", {};", variable.address);
        let Some(at) = lines.iter().position(|line| line.starts_with("mov.u64 %mneme_") && line.ends_with(&address))
        else {
            continue;
        };
        let register = lines[at]["mov.u64 ".len()..].split(',').next().unwrap().to_owned();
        // Its declaration is on the line before.
        lines.drain(at - 1..=at);
        lines.iter_mut().for_each(|line| *line = line.replace(&register, &variable.name));
    }
    lines
}

/// Passes and the back end see variables as the application's compiler saw them, although a replay's code contains
/// their addresses.
#[test]
fn code_with_variables_is_the_applications() {
    mneme_compiler::warm_up();
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/suite/variables.cu");
    let apps = ["variables", "globals", "statics"].map(|name| root().join(format!("tests/apps/{name}.cu")));
    let (mut compared, mut private, mut same_text) = (0, 0, 0);
    for source in [&own].into_iter().chain(&apps) {
        let named = ["-emit-llvm", "-fno-discard-value-names"];
        let bitcode = clang(source, &[&named[..], &["-O3", "-Xclang", "-disable-llvm-passes", "-c"]].concat());
        for level in if source == &own { &[1, 2, 3][..] } else { &[3] }.iter().copied() {
            let words = [format!("-O{level}")];
            let theirs = String::from_utf8(clang(source, &[&named[..], &[&words[0], "-S"]].concat())).unwrap();
            let their_ptx = String::from_utf8(clang(source, &[&words[0], "-S"])).unwrap();
            let variables = recorded(&bitcode, &theirs);
            assert!(variables.len() > 3, "{variables:?}");
            private += variables.iter().filter(|variable| variable.name.starts_with("_ZL")).count();
            let application = CompileOptions { ptx_opt: level, ..CompileOptions::of_clang(&words) };
            // Kernels are marked in metadata or by their calling convention.
            let kernels = theirs.lines().filter(|line| {
                (line.starts_with('!') && line.contains("\"kernel\""))
                    || line.starts_with("define") && line.contains(" ptx_kernel ")
            });
            for kernel in kernels.filter_map(|line| line.split(['@', ',', '(']).nth(1)) {
                let ours = optimised(&bitcode, kernel, &variables, &application);
                let what = format!("{} {kernel} -O{level}", source.display());
                assert_eq!(definition(&ours, kernel), definition(&theirs, kernel), "{what}");
                compared += 1;
                let keep = Keep { until: Some(Stage::CodeGeneration), ..Keep::default() };
                let ptx = with_variables(&bitcode, kernel, &variables, &application, keep).ptx.unwrap();
                for variable in variables.iter().filter(|variable| !variable.constant) {
                    let is_there = ptx.lines().any(|line| line.starts_with(".") && line.contains(&variable.name));
                    assert!(!is_there, "{what}: {} is in the code: {ptx}", variable.name);
                }
                // LLVM also numbers the variables to which a table in the code points.
                if source == &own {
                    assert_eq!(entry_with_names(&ptx, kernel, &variables), entry(&their_ptx, kernel), "{what}");
                    let (ours, theirs) = (size(&ptx, kernel, level), size(&their_ptx, kernel, level));
                    let registers = |size: Option<(u32, u64)>| size.map(|(registers, _)| registers);
                    assert_eq!(registers(ours), registers(theirs), "{what}");
                    // An assembler that optimises little needs more instructions to add a number than a name.
                    assert!(level == 1 || ours == theirs, "{what}: {ours:?}, clang's {theirs:?}");
                    same_text += 1;
                }
            }
        }
    }
    assert!(compared == 19 && private >= 9 && same_text == 15, "{compared} kernels, {private} variables, {same_text}");
}

#[test]
fn machine_code_is_what_ptxas_makes_of_whole_programs() {
    let ptxas = root().join(".deps/nvcc/bin/ptxas");
    let Assembler::NvPtxCompiler(_) = Assembler::find() else { panic!("scripts/setup makes the assembler's library") };
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for name in ["microphysics", "chemistry", "nbody", "math", "atomics"] {
        let ptx = String::from_utf8(clang(&root().join(format!("tests/apps/{name}.cu")), &["-O3", "-S"])).unwrap();
        let (source, object) = (folder.path().join("k.ptx"), folder.path().join("k.cubin"));
        std::fs::write(&source, &ptx).unwrap();
        let status =
            Command::new(&ptxas).args(["-arch=sm_90", "-O3", "-o"]).arg(&object).arg(&source).status().unwrap();
        assert!(status.success());
        let theirs = std::fs::read(&object).unwrap();
        for kernel in cubin::parse(&theirs).unwrap().kernels {
            let ours = Assembler::find().assemble(&ptx, &kernel.name, "sm_90", AssemblerOptions::default()).unwrap();
            assert!(
                ours.assembler.starts_with("nvPTXCompiler 13.") && ours.assembler.ends_with("whole programs"),
                "{}",
                ours.assembler
            );
            let found =
                cubin::parse(&ours.image).unwrap().kernels.into_iter().find(|found| found.name == kernel.name).unwrap();
            assert_eq!(found.registers, kernel.registers, "{name} {}", kernel.name);
            let code =
                |image: &[u8]| mneme_image::elf::section(image, &format!(".text.{}", kernel.name)).unwrap().to_vec();
            assert!(code(&ours.image) == code(&theirs), "{name} {}", kernel.name);
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared}");
}
