//! Tests of the recorder with a HIP stand-in behind it.
//!
//! A program that links or loads the library is recorded, and runs as it does without the recorder.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use mneme_image::ir_section::{IrArgument, IrTable, Symbol, SymbolKind, VariableInfo, encode};
use mneme_recording::database::{KernelRecord, kernels};
use mneme_recording::manifest::{AllocationKind, MemoryState};
use mneme_recording::store::Store;

const ELEMENTS: usize = 50_000;

/// The IR of the kernel for a processor. `external` tells whether other files can use its variable.
fn table(processor: &str, external: bool) -> IrTable {
    let arguments = vec![IrArgument::new("data", "ptr", 0, 8), IrArgument::new("count", "i32", 8, 4)];
    let kernel = Symbol { refs: vec![1], arguments, ..Symbol::exported("_Z3addPii", SymbolKind::Kernel) };
    let counter = Symbol {
        variable: Some(VariableInfo { space: 1, size: 4, align: 4, code: false }),
        external,
        ..Symbol::exported("counter", SymbolKind::Variable)
    };
    IrTable {
        arch: processor.into(),
        triple: "amdgcn-amd-amdhsa".into(),
        unit: "u".into(),
        symbols: vec![kernel, counter],
        ..IrTable::default()
    }
}

/// The folder with the programs: `linked`, `dlsym`, and `private`, which is `linked` with a file-private variable.
fn programs() -> &'static Path {
    static PROGRAMS: OnceLock<tempfile::TempDir> = OnceLock::new();
    let folder = PROGRAMS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        for (file, external) in [("ir", true), ("ir-private", false)] {
            let units = ["gfx1030", "gfx90a"].map(|processor| {
                encode(&table(processor, external), &[b"BC\xc0\xde", processor.as_bytes()].concat()).unwrap()
            });
            std::fs::write(path(file), units.concat()).unwrap();
        }
        let compile = |arguments: &[&str]| {
            let compiler = Command::new("cc").current_dir(&folder).args(["-g", "-O1", "-w"]).args(arguments).status();
            assert!(compiler.expect("a C compiler").success(), "cc {arguments:?}");
        };
        let (runtime, application) = (sources.join("hip_runtime.c"), sources.join("hip_application.c"));
        let (runtime, application) = (runtime.to_str().unwrap(), application.to_str().unwrap());
        std::fs::write(path("version"), "hip_4.2 { global: *; };\n").unwrap();
        compile(&[
            "-shared", "-fPIC", "-Wl,-soname,libamdhip64.so.7", "-Wl,--version-script=version", runtime, "-o",
            "libamdhip64.so.7",
        ]);
        let definition = format!("-DIR_FILE=\"{}\"", path("ir").display());
        let private = format!("-DIR_FILE=\"{}\"", path("ir-private").display());
        for (definition, program) in [(&definition, "linked"), (&private, "private")] {
            compile(&[definition, "-DLINKED", application, "-o", program, "./libamdhip64.so.7", "-Wl,-rpath,$ORIGIN"]);
        }
        compile(&[&definition, application, "-o", "dlsym"]);
        folder
    });
    folder.path()
}

/// The library under test, built beside this test by cargo.
fn recorder() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    [folder.join("libmneme_rec.so"), folder.parent().unwrap().join("libmneme_rec.so")]
        .into_iter()
        .find(|path| path.exists())
        .expect("libmneme_rec.so")
}

fn plain(program: &str, environment: &[(&str, &str)]) -> Output {
    let programs = programs();
    let mut command = Command::new(programs.join(program));
    command.current_dir(programs).arg(program).envs(environment.iter().copied()).output().unwrap()
}

struct Run {
    folder: tempfile::TempDir,
    output: Output,
}

impl Run {
    fn data(&self) -> PathBuf {
        self.folder.path().join("recording")
    }
    fn kernels(&self) -> Vec<KernelRecord> {
        kernels(&self.data()).unwrap_or_default().iter().map(|path| KernelRecord::load(path).unwrap()).collect()
    }
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
}

fn record(program: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let (folder, programs) = (tempfile::tempdir().unwrap(), programs());
    let output = Command::new(programs.join(program))
        .current_dir(programs)
        .arg(program)
        .args(arguments)
        .env("LD_PRELOAD", recorder())
        .env("MNEME_DATA_DIR", folder.path().join("recording"))
        .env("MNEME_DEVICE", "hip")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    Run { folder, output }
}

fn integers(store: &Store, state: &MemoryState, region: usize) -> Vec<i32> {
    let region = state.regions().nth(region).unwrap();
    let mut bytes = vec![0; region.size as usize];
    store.read_region(&region, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn a_program_of_hip_is_recorded() {
    for program in ["linked", "dlsym"] {
        let run = record(program, &[], &[]);
        assert_eq!(run.output.status.code(), Some(4), "{program}: {}", run.stderr());
        let (stdout, stderr) = (run.stdout(), run.stderr());
        assert!(stdout.contains("malloc 0\nrange 0 0x100000000000+200000\n"), "{program}: {stdout}");
        assert!(stdout.contains("launch 0 last 0 bad 1 peek 1 last 1 then 0\n"), "{program}: {stdout}");
        assert!(stdout.contains("module 0\nconfigured 0\nresult 303 202 100\n"), "{program}: {stdout}");
        assert!(stdout.contains("volume 0 512\nfree 0\n"), "{program}: {stdout}");
        assert!(stderr.contains("add: 10 launches, 2 recorded"), "{program}: {stderr}");
        assert!(stderr.contains("hipLaunchByPtr"), "{program}: {stderr}");

        let [kernel] = &run.kernels()[..] else { panic!("{program}: one kernel") };
        assert_eq!((kernel.kernel_name.as_str(), kernel.demangled_name.as_str()), ("_Z3addPii", "add(int*, int)"));
        assert_eq!(kernel.ours.device_arch, "gfx90a:sramecc+:xnack-");
        assert_eq!((kernel.ours.ir_arch.as_str(), kernel.ours.triple.as_str()), ("gfx90a", "amdgcn-amd-amdhsa"));
        assert_eq!(std::fs::read(run.data().join(&kernel.modules[0])).unwrap(), b"BC\xc0\xdegfx90a");
        let store = Store::open(&run.data()).unwrap();
        assert_eq!(kernel.instances.len(), 2);
        for instance in kernel.instances.values() {
            let count = instance.args[1] as usize;
            let prologue = MemoryState::load(&run.data().join(&instance.prologue)).unwrap();
            let epilogue = MemoryState::load(&run.data().join(&instance.epilogue)).unwrap();
            assert_eq!(prologue.header.variables[0].name, "counter");
            let step = integers(&store, &prologue, 0)[0];
            assert_eq!(step, if count == ELEMENTS { 100 } else { 101 });
            assert_eq!(integers(&store, &epilogue, 0), [step + 1]);
            let (before, after) = (integers(&store, &prologue, 1), integers(&store, &epilogue, 1));
            let adds = |(index, (before, after)): (usize, (&i32, &i32))| {
                after - before == if index < count { step } else { 0 }
            };
            assert!(before.iter().zip(&after).enumerate().all(adds), "{count}");
            assert_eq!(prologue.header.allocations[0].kind, AllocationKind::Arena);
            assert_eq!(prologue.parameter_buffer().len(), 12);
            assert!(instance.ours.attributes.max_dynamic_shared.is_none());
        }
    }
}

/// The output is the same as without the recorder, except for addresses and row pitches.
#[test]
fn the_recorders_own_calls_are_not_seen() {
    for environment in [&[][..], &[("FAKE_HIP_7", "1")]] {
        let seen = |output: &[u8]| -> Vec<String> {
            let lines = String::from_utf8_lossy(output).into_owned();
            let is_told = |line: &&str| !line.starts_with("range") && !line.starts_with("volume");
            lines.lines().filter(is_told).map(str::to_owned).collect()
        };
        let (plain, recorded) = (plain("linked", environment), record("linked", &[], environment));
        assert_eq!(seen(&plain.stdout), seen(&recorded.output.stdout));
        assert_eq!(plain.status.code(), recorded.output.status.code());
    }
}

#[test]
fn without_virtual_memory_management_memory_is_the_vendors() {
    let run = record("linked", &[], &[("FAKE_NO_VMM", "1")]);
    assert!(run.stdout().contains("result 303 202 100"), "{}", run.stdout());
    let [kernel] = &run.kernels()[..] else { panic!("{}", run.stderr()) };
    let instance = kernel.instances.values().next().unwrap();
    let prologue = MemoryState::load(&run.data().join(&instance.prologue)).unwrap();
    assert_eq!(prologue.header.allocations[0].kind, AllocationKind::Vendor);
}

#[test]
fn variables_whose_place_is_not_told_are_refused_by_name() {
    for (program, variable, reason) in [
        ("linked", "managed", "is managed"),
        ("linked", "hidden", "is inline or of a template"),
        ("private", "hidden", "is private to its file"),
    ] {
        let run = record(program, &[variable], &[]);
        let reason = format!("its variable counter {reason}");
        assert!(run.stderr().contains(&reason), "{program} {variable}: {}", run.stderr());
        assert!(run.stdout().contains("result 303 202 100"), "{program} {variable}: {}", run.stdout());
    }
}

#[test]
fn settings_are_those_of_the_start_where_the_program_clears_its_environment() {
    let run = record("linked", &["cleared"], &[("MNEME_MAX_RECORDINGS", "2")]);
    assert!(run.stderr().contains("add: 10 launches, 2 recorded"), "{}", run.stderr());
    let [kernel] = &run.kernels()[..] else { panic!("{}", run.stderr()) };
    assert_eq!(kernel.instances.len(), 2);
}
