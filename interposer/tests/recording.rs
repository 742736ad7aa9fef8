//! Tests of the recorder with a stand-in driver behind it.
//!
//! A program that finds the driver in any of the three ways is recorded, and runs as it does without the recorder.

#[path = "recording/images.rs"]
mod images;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use mneme_image::ir_section::{IrArgument, IrTable, Symbol, SymbolKind, VariableInfo, encode};
use mneme_model::compile_options::CompileOptions;
use mneme_recording::database::{KernelRecord, kernels};
use mneme_recording::manifest::{AllocationKind, MemoryState};
use mneme_recording::store::Store;

const ELEMENTS: usize = 50_000;

struct Programs {
    folder: tempfile::TempDir,
}

impl Programs {
    fn application(&self) -> PathBuf {
        self.folder.path().join("application")
    }
}

fn table() -> IrTable {
    let arguments = vec![IrArgument::new("data", "ptr", 0, 8), IrArgument::new("count", "i32", 8, 4)];
    let kernel =
        |name| Symbol { refs: vec![1], arguments: arguments.clone(), ..Symbol::exported(name, SymbolKind::Kernel) };
    let counter = Symbol {
        variable: Some(VariableInfo { space: 1, size: 4, align: 4, code: false }),
        ..Symbol::exported("counter", SymbolKind::Variable)
    };
    let kernels = ["crash", "spin", "spin1", "spin2", "late"].map(kernel);
    let symbols = [kernel("_Z3addPii"), counter].into_iter().chain(kernels).collect();
    IrTable {
        arch: "sm_90".into(),
        triple: "nvptx64-nvidia-cuda".into(),
        unit: "u".into(),
        symbols,
        compiled: Some(compiled()),
        ..IrTable::default()
    }
}

/// How the application's own code was compiled, for the section.
fn compiled() -> CompileOptions {
    CompileOptions {
        level: "2".into(),
        ptx_opt: 2,
        ptxas_options: vec!["-maxrregcount=32".into()],
        ..CompileOptions::default()
    }
}

fn programs() -> &'static Programs {
    static PROGRAMS: OnceLock<Programs> = OnceLock::new();
    PROGRAMS.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs");
        std::fs::write(path("ir"), encode(&table(), b"BC\xc0\xdebitcode").unwrap()).unwrap();
        let compile = |arguments: &[&str]| {
            let status = Command::new("cc")
                .current_dir(&folder)
                .args(["-g", "-O1", "-w"])
                .args(arguments)
                .status()
                .expect("a C compiler");
            assert!(status.success(), "cc {arguments:?}");
        };
        let (driver, application) = (sources.join("driver.c"), sources.join("application.c"));
        compile(&["-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", driver.to_str().unwrap(), "-o", "libcuda.so.1"]);
        compile(&["-O2", "-shared", "-fPIC", sources.join("tool.c").to_str().unwrap(), "-o", "tool.so"]);
        let definition = format!("-DIR_FILE=\"{}\"", path("ir").display());
        for (name, shares) in [("application", "-USHARES"), ("sharing", "-DSHARES")] {
            compile(&[
                &definition,
                shares,
                application.to_str().unwrap(),
                "-o",
                name,
                "./libcuda.so.1",
                "-Wl,-rpath,$ORIGIN",
            ]);
        }
        Programs { folder }
    })
}

/// The library under test, built beside this test by cargo.
fn recorder() -> PathBuf {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_path_buf();
    [folder.join("libmneme_rec.so"), folder.parent().unwrap().join("libmneme_rec.so")]
        .into_iter()
        .find(|path| path.exists())
        .expect("libmneme_rec.so")
}

struct Run {
    folder: tempfile::TempDir,
    output: Output,
}

impl Run {
    fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }
    fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }
    fn data(&self) -> PathBuf {
        self.folder.path().join("recording")
    }
    fn kernels(&self) -> Vec<KernelRecord> {
        kernels(&self.data()).unwrap_or_default().iter().map(|path| KernelRecord::load(path).unwrap()).collect()
    }
}

fn record(arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    record_program(&programs().application(), arguments, environment)
}

fn record_program(program: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(program)
        .args(arguments)
        .env("LD_PRELOAD", recorder())
        .env("MNEME_DATA_DIR", folder.path().join("recording"))
        .env("MNEME_SUMMARY", folder.path().join("summary"))
        .env("MNEME_DEVICE", "cuda")
        .envs(environment.iter().copied())
        .output()
        .unwrap();
    Run { folder, output }
}

fn plain(arguments: &[&str]) -> Output {
    Command::new(programs().application()).args(arguments).output().unwrap()
}

fn integers(store: &Store, state: &MemoryState, region: usize) -> Vec<i32> {
    let region = state.regions().nth(region).unwrap();
    let mut bytes = vec![0; region.size as usize];
    store.read_region(&region, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| i32::from_le_bytes(word.try_into().unwrap())).collect()
}

#[test]
fn every_way_to_the_driver_is_hooked_and_recorded() {
    for way in ["linked", "dlsym", "proc"] {
        let run = record(&[way, "return"], &[]);
        assert_eq!(run.output.status.code(), Some(4), "{way}: {}", run.stderr());
        assert!(run.stdout().contains("result 303 201"), "{way}: {}", run.stdout());
        assert!(run.stdout().contains("address 0x100000000000 range 0x100000000000+200000"), "{way}: {}", run.stdout());
        assert!(run.stdout().contains("free 0\nagain 1"), "{way}: {}", run.stdout());
        assert!(run.stderr().contains("add: 3 launches, 2 recorded"), "{way}: {}", run.stderr());

        let [kernel] = &run.kernels()[..] else { panic!("{way}: one kernel") };
        assert_eq!((kernel.kernel_name.as_str(), kernel.demangled_name.as_str()), ("_Z3addPii", "add(int*, int)"));
        assert_eq!(
            (kernel.arg_names.as_slice(), kernel.specializations.as_slice()),
            (&["data".into(), "count".into()][..], &[false, true][..])
        );
        assert_eq!(kernel.arena_address, "0x0000100000000000");
        assert_eq!(std::fs::read(run.data().join(&kernel.modules[0])).unwrap(), b"BC\xc0\xdebitcode");
        let store = Store::open(&run.data()).unwrap();
        let mut seen = BTreeSet::new();
        for instance in kernel.instances.values() {
            let count = instance.args[1] as usize;
            let (before, step) = if count == ELEMENTS { (0, 100) } else { (201, 102) };
            assert_eq!(instance.occurrences, if count == ELEMENTS { 2 } else { 1 });
            assert_eq!(instance.args[0], 0x1000_0000_0000);
            let prologue = MemoryState::load(&run.data().join(&instance.prologue)).unwrap();
            let epilogue = MemoryState::load(&run.data().join(&instance.epilogue)).unwrap();
            assert_eq!(prologue.header.variables[0].name, "counter");
            assert_eq!((integers(&store, &prologue, 0), integers(&store, &epilogue, 0)), (vec![step], vec![step + 1]));
            assert_eq!(integers(&store, &prologue, 1), vec![before; ELEMENTS]);
            let after = integers(&store, &epilogue, 1);
            assert!(
                after
                    .iter()
                    .enumerate()
                    .all(|(index, value)| *value == if index < count { before + step } else { before })
            );
            let sizes: Vec<_> =
                prologue.header.allocations.iter().map(|allocation| (allocation.size, allocation.kind)).collect();
            assert_eq!(sizes, [(200_000, AllocationKind::Arena), (300_000, AllocationKind::Arena)]);
            assert_eq!(prologue.parameter_buffer().len(), 12);
            seen.insert(count);
        }
        assert_eq!(seen, BTreeSet::from([10, ELEMENTS]));
    }
}

#[test]
fn a_driver_with_addresses_of_its_own_for_proc_address_is_recorded_too() {
    let run = record(&["proc", "return"], &[("FAKE_THUNKS", "1")]);
    assert!(run.stdout().contains("address 0x100000000000 "), "{}", run.stdout());
    assert_eq!(run.kernels()[0].instances.len(), 2);
}

#[test]
fn a_variant_that_the_recorder_does_not_know_is_not_mistaken_for_one_that_it_knows() {
    let run = record(&["proc", "return"], &[("FAKE_FUTURE", "1")]);
    assert_eq!(run.output.status.code(), Some(13), "the launch that the driver gave out was called: {}", run.stderr());
    assert!(run.kernels().is_empty());
}

#[test]
fn a_program_that_leaves_without_handlers_still_gets_its_summary() {
    let run = record(&["proc", "leave"], &[]);
    assert_eq!(run.output.status.code(), Some(3));
    assert!(run.stderr().contains("2 recorded"), "{}", run.stderr());
}

#[test]
fn a_forked_child_neither_reports_nor_writes() {
    let run = record(&["proc", "fork"], &[]);
    assert_eq!(run.output.status.code(), Some(4));
    assert_eq!(run.stderr().matches("3 launches").count(), 1, "{}", run.stderr());
}

#[test]
fn a_forked_child_waits_for_no_thread_of_its_parent() {
    let run = record(&["proc", "children"], &[("MNEME_RR_KERNELS", "none")]);
    assert!(run.stdout().contains("children lost 0\n"), "{}{}", run.stdout(), run.stderr());
}

#[test]
fn a_second_run_records_what_is_new() {
    let first = record(&["proc", "return"], &[("MNEME_MAX_RECORDINGS", "1")]);
    let data = first.data();
    let known = first.kernels()[0].clone();
    let again = record(&["proc", "return"], &[("MNEME_DATA_DIR", data.to_str().unwrap())]);
    assert!(again.stderr().contains("3 launches, 1 recorded (1 recorded before)"), "{}", again.stderr());
    let both = first.kernels()[0].clone();
    assert_eq!(both.instances.len(), 2);
    assert!(
        known.instances.iter().all(|(id, instance)| both.instances[id] == *instance),
        "what was there is untouched"
    );
}

#[test]
fn without_an_arena_the_vendors_addresses_are_recorded() {
    for variable in [("FAKE_NO_VMM", "1"), ("MNEME_ARENA", "off")] {
        let run = record(&["dlsym", "return"], &[variable]);
        assert_eq!(run.output.status.code(), Some(4));
        let kernel = &run.kernels()[0];
        let instance = kernel.instances.values().next().unwrap();
        let state = MemoryState::load(&run.data().join(&instance.prologue)).unwrap();
        assert!(state.header.allocations.iter().all(|allocation| allocation.kind == AllocationKind::Vendor));
        assert_eq!(state.header.allocations.len(), 2);
    }
}

#[test]
fn memory_that_cannot_be_page_locked_is_copied_all_the_same() {
    let chunks = |environment: &[(&str, &str)]| {
        let run = record(&["dlsym", "return"], environment);
        let [kernel] = &run.kernels()[..] else { panic!("one kernel: {}", run.stderr()) };
        let load = |file: &String| MemoryState::load(&run.data().join(file)).unwrap().chunks;
        kernel
            .instances
            .values()
            .map(|instance| [load(&instance.prologue), load(&instance.epilogue)])
            .collect::<Vec<_>>()
    };
    let ordinary = chunks(&[]);
    assert_eq!((ordinary.len(), chunks(&[("FAKE_NO_PINNING", "1")])), (2, ordinary));
}

#[test]
fn a_captured_launch_is_counted_and_left_alone() {
    let run = record(&["proc", "return"], &[("FAKE_CAPTURING", "1"), ("MNEME_GRAPHS", "whole")]);
    assert!(run.stdout().contains("result 303 201"));
    assert!(
        run.stderr().contains("3 launches, 0 recorded; 3 not recorded: inside a stream capture"),
        "{}",
        run.stderr()
    );
    assert!(run.kernels().is_empty());
}

#[test]
fn nothing_waits_while_another_stream_is_captured() {
    for how in ["capture", "capture-again", "capture-graphics"] {
        let arguments = ["proc", how];
        let run = record(&arguments, &[("MNEME_GRAPHS", "whole")]);
        for output in [run.stdout(), String::from_utf8_lossy(&plain(&arguments).stdout).into()] {
            assert!(output.contains("capture 0 launch 0 free 0 end 0\nlaunch 0 free 0\n"), "{how}: {output}");
        }
        let summary = run.stderr();
        assert!(summary.contains("5 launches, 3 recorded"), "the next launch is recorded again: {how}: {summary}");
        assert!(summary.contains("1 not recorded: another stream is being captured"), "{how}: {summary}");
    }
}

#[test]
fn memory_of_other_interfaces_is_recorded_while_it_is_mapped() {
    let run = record(&["proc", "external"], &[("MNEME_MAX_RECORDINGS", "9")]);
    assert!(run.stdout().contains("external 0\n"), "{}", run.stdout());
    let vendors = |count: u64| -> Vec<u64> {
        let [kernel] = &run.kernels()[..] else { panic!("one kernel: {}", run.stderr()) };
        let instance = kernel.instances.values().find(|instance| instance.args[1] == count).unwrap();
        let state = MemoryState::load(&run.data().join(&instance.prologue)).unwrap();
        let of_vendor = |kind| kind == AllocationKind::Vendor;
        state
            .header
            .allocations
            .iter()
            .filter(|allocation| of_vendor(allocation.kind))
            .map(|allocation| allocation.size)
            .collect()
    };
    assert_eq!((vendors(40), vendors(50), vendors(60)), (vec![4000], vec![8000], vec![]));
}

/// `mneme record` preloads the recorder before other tools. Whichever functions a tool calls, the tool and the recorder
/// each see every launch once.
#[test]
fn another_tool_before_the_driver_loses_nothing_and_nothing_is_lost_to_it() {
    let preload =
        [recorder(), programs().folder.path().join("tool.so")].map(|path| path.to_str().unwrap().to_owned()).join(":");
    for asks in [&[][..], &[("TOOL_ASKS", "1")][..]] {
        let environment: Vec<_> = asks.iter().copied().chain([("LD_PRELOAD", preload.as_str())]).collect();
        let run = record(&["proc", "return"], &environment);
        assert_eq!(run.output.status.code(), Some(4), "{environment:?}: {}{}", run.stdout(), run.stderr());
        assert!(run.stdout().contains("the tool saw 3 launches\n"), "{environment:?}: {}", run.stdout());
        assert!(run.stderr().contains("add: 3 launches, 2 recorded"), "{environment:?}: {}", run.stderr());
    }
}

#[test]
fn memory_for_other_processes_is_the_vendors() {
    let run = record(&["proc", "share"], &[]);
    assert!(run.stdout().contains("share 1, later 0"), "what follows can be shared: {}", run.stdout());
    assert!(run.stderr().contains("MNEME_ARENA=off"), "{}", run.stderr());
    let run = record(&["proc", "share"], &[("MNEME_ARENA", "on")]);
    assert!(run.stdout().contains("share 1, later 1"), "{}", run.stdout());
    let sharing = programs().folder.path().join("sharing");
    let run = record_program(&sharing, &["linked", "share"], &[]);
    assert!(run.stdout().contains("share 0, later 0"), "known by what it is linked with: {}", run.stdout());
    assert_eq!(run.kernels().len(), 1);
    let run = record_program(&sharing, &["linked", "share"], &[("MNEME_ARENA", "on")]);
    assert!(run.stdout().contains("share 1, later 1"), "{}", run.stdout());
    for variable in [("MNEME_ARENA", "off"), ("LOCAL_WORLD_SIZE", "2"), ("SLURM_STEP_TASKS_PER_NODE", "4(x2),3")] {
        let run = record(&["proc", "share"], &[variable]);
        assert!(run.stdout().contains("share 0, later 0"), "{variable:?}: {}", run.stdout());
        assert_eq!(run.kernels().len(), 1);
    }
}

#[test]
fn a_kernel_that_fails_is_not_recorded_and_fails_as_without_us() {
    let arguments = ["proc", "return", "crash"];
    let run = record(&arguments, &[]);
    let alone = plain(&arguments);
    let tail = |text: &str| text.split_once("crash:").unwrap().1.split_once("free").unwrap().0.to_owned();
    assert_eq!(tail(&run.stdout()), tail(&String::from_utf8_lossy(&alone.stdout)));
    assert!(
        run.stderr().contains("crash: 1 launch, 0 recorded; 1 not recorded: the kernel failed: CUDA error 700"),
        "{}",
        run.stderr()
    );
    assert_eq!(run.kernels().len(), 1, "only the other kernel");
}

#[test]
fn what_the_driver_refuses_is_passed_back_and_the_next_launch_is_recorded() {
    let arguments = ["proc", "refused"];
    let run = record(&arguments, &[]);
    assert!(run.stdout().contains("launch 1\nlaunch 1\nlaunch 1\nlaunch 1\nlaunch 0\n"), "{}", run.stdout());
    assert!(run.stderr().contains("8 launches, 3 recorded"), "{}", run.stderr());
    assert!(run.stderr().contains("; 4 refused by the driver\n"), "{}", run.stderr());
    assert_eq!(run.kernels()[0].instances.len(), 3);
}

fn summary_of(run: &Run, kernel: &str) -> serde_json::Value {
    let summary = std::fs::read_to_string(run.folder.path().join("summary")).unwrap();
    let summary: serde_json::Value = serde_json::from_str(summary.lines().next().unwrap()).unwrap();
    let found = summary["kernels"].as_array().unwrap().iter().find(|known| known["mangled"] == kernel).cloned();
    found.unwrap_or_else(|| panic!("{kernel} in {summary}"))
}

/// The output of the program without its addresses.
fn results(output: &str) -> String {
    output.split_once("result").unwrap().1.to_owned()
}

/// The summary of a kernel: launches, instances, and launches whose recording failed.
fn outcome(run: &Run, kernel: &str) -> (u64, u64, u64) {
    let found = summary_of(run, kernel);
    let failed =
        found["failures"].as_array().unwrap().iter().map(|failure| failure["launches"].as_u64().unwrap()).sum();
    (found["launches"].as_u64().unwrap(), found["instances"].as_u64().unwrap(), failed)
}

/// Runs with a driver that records an event behind all work, and with an older one.
#[test]
fn a_kernel_that_waits_for_the_host_is_given_up_and_the_next_is_recorded() {
    for driver in ["FAKE_NEW", "FAKE_OLD"] {
        let arguments = ["proc", "leave", "spin", "late", "spin", "late", "host", "late", "late"];
        let start = std::time::Instant::now();
        let run = record(&arguments, &[("MNEME_KERNEL_LIMIT", "1"), (driver, "1")]);
        assert_eq!(results(&run.stdout()), results(&String::from_utf8(plain(&arguments).stdout).unwrap()));
        assert_eq!(outcome(&run, "spin"), (2, 0, 2), "{driver}: {}", run.stderr());
        assert_eq!(outcome(&run, "late"), (4, 1, 2), "{driver}: {}", run.stderr());
        assert!(start.elapsed().as_secs() < 20, "{driver}: one wait, up to the limit");
    }
}

#[test]
fn a_device_that_never_becomes_idle_is_waited_for_once() {
    for driver in ["FAKE_NEW", "FAKE_OLD"] {
        let settings = [("MNEME_IDLE_TIMEOUT", "1"), ("MNEME_RR_KERNELS", "late|crash|add"), (driver, "1")];
        let start = std::time::Instant::now();
        let run = record(&["proc", "leave", "spin", "late", "crash"], &settings);
        assert_eq!(outcome(&run, "late"), (1, 0, 1), "{driver}: {}", run.stderr());
        assert_eq!(outcome(&run, "crash"), (1, 0, 1), "{driver}: {}", run.stderr());
        assert!(start.elapsed().as_secs() < 20, "{driver}");
    }
}

#[test]
fn a_lock_on_the_packs_that_somebody_keeps_ends_recording_and_not_the_program() {
    let arguments = ["proc", "leave", "late"];
    let folder = tempfile::tempdir().unwrap();
    let packs = folder.path().join("packs");
    std::fs::create_dir(&packs).unwrap();
    let held = std::fs::File::open(&packs).unwrap();
    held.lock().unwrap();
    let start = std::time::Instant::now();
    let run = record(&arguments, &[("MNEME_DATA_DIR", folder.path().to_str().unwrap())]);
    assert!(start.elapsed().as_secs() < 60, "waited for once");
    let alone = plain(&arguments);
    assert_eq!(results(&run.stdout()), results(&String::from_utf8(alone.stdout).unwrap()));
    assert_eq!(run.output.status, alone.status);
    for (kernel, launches) in [("_Z3addPii", 3), ("late", 1)] {
        assert_eq!(outcome(&run, kernel), (launches, 0, launches), "{}", run.stderr());
        assert!(
            summary_of(&run, kernel)["failures"].as_array().unwrap().iter().any(|failure| failure["broken"] == true)
        );
    }
}

/// With a limit of 0, only work that finishes at once is recorded.
#[test]
fn after_three_waits_in_vain_only_kernels_are_recorded_that_were_seen_to_finish() {
    let settings = [("MNEME_KERNEL_LIMIT", "0")];
    let waits = ["proc", "leave", "spin", "host", "spin1", "host", "spin2", "host"];
    let run = record(&[&waits[..6], &["late", "late"]].concat(), &settings);
    assert_eq!(outcome(&run, "late"), (2, 1, 0), "{}", run.stderr());
    let run = record(&[&waits[..], &["late", "late", "_Z3addPii"]].concat(), &settings);
    assert_eq!(outcome(&run, "late"), (2, 1, 1), "{}", run.stderr());
    assert_eq!(outcome(&run, "_Z3addPii").1, 3, "recorded before: {}", run.stderr());
}

#[test]
fn handlers_of_the_application_find_the_action_that_they_would_find_without_us() {
    use std::os::unix::process::ExitStatusExt;
    for how in ["signal-chain", "signal-old", "signal-system", "signal-lives", "signal-restored"] {
        let arguments = ["proc", how];
        let (run, alone) = (record(&arguments, &[]), plain(&arguments));
        let tail = |text: &str| text.split_once("result 303 201\n").unwrap().1.to_owned();
        let expected = tail(&String::from_utf8_lossy(&alone.stdout)).replace("of the system 1", "of the system 0");
        assert_eq!((tail(&run.stdout()), run.output.status), (expected, alone.status), "{how}: {}", run.stderr());
        let ends = how != "signal-lives";
        assert_eq!(run.output.status.signal(), ends.then_some(libc::SIGTERM), "{how}: {}", run.stdout());
        assert_eq!(run.kernels().len(), 1, "what was recorded before is there: {how}");
    }
}

#[test]
fn selection_and_limits() {
    let run = record(&["proc", "return"], &[("MNEME_MAX_RECORDINGS", "1")]);
    assert!(run.stderr().contains("3 launches, 1 recorded"), "{}", run.stderr());
    let run = record(&["proc", "return"], &[("MNEME_SKIP_RECORDINGS", "2")]);
    assert!(run.stderr().contains("3 launches, 1 recorded"), "{}", run.stderr());
    assert_eq!(run.kernels()[0].instances.values().next().unwrap().args[1], 10);
    let run = record(&["proc", "return"], &[("MNEME_RR_KERNELS", "^something else$")]);
    assert!(run.stderr().contains("3 launches, 0 recorded"), "{}", run.stderr());
    assert!(!run.data().exists(), "nothing recorded, nothing created");
    let run = record(&["proc", "return"], &[("MNEME_LOG_LEVEL", "error")]);
    assert_eq!(run.stderr(), "");
}

#[test]
fn a_folder_that_cannot_be_written_costs_the_program_nothing() {
    let run = record(&["proc", "return"], &[("MNEME_DATA_DIR", "/proc/nowhere")]);
    assert_eq!(run.output.status.code(), Some(4));
    assert!(run.stdout().contains("result 303 201"));
    assert!(run.stderr().contains("0 recorded; 1 not recorded: /proc/nowhere"), "{}", run.stderr());
}

#[test]
fn what_is_recorded_is_private() {
    use std::os::unix::fs::PermissionsExt;
    let run = record(&["proc", "return"], &[]);
    assert_eq!(run.data().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    for entry in std::fs::read_dir(run.data()).unwrap() {
        let entry = entry.unwrap();
        assert_eq!(entry.metadata().unwrap().permissions().mode() & 0o077, 0, "{}", entry.path().display());
    }
}

/// The lines of both that follow the first launches.
fn tails(run: &Run, alone: &Output) -> [String; 2] {
    let tail = |text: &str| text.split_once("result 303 201\n").unwrap_or_default().1.to_owned();
    [tail(&run.stdout()), tail(&String::from_utf8_lossy(&alone.stdout))]
}

fn instances(run: &Run) -> usize {
    run.kernels().iter().map(|kernel| kernel.instances.len()).sum()
}

#[test]
fn threads_that_are_cancelled_end_as_without_us() {
    // With cancellation points in the vendor's library, and without.
    for interruption in ["none", "cancellation"] {
        let arguments = ["proc", "cancel"];
        let environment = [("FAKE_INTERRUPTION", interruption), ("MNEME_MAX_RECORDINGS", "9")];
        let run = record(&arguments, &environment);
        let alone = Command::new(programs().application()).args(arguments).envs(environment).output().unwrap();
        let [ours, theirs] = tails(&run, &alone);
        assert_eq!((&ours, run.output.status), (&theirs, alone.status), "{interruption}: {}", run.stderr());
        assert_eq!(ours.matches(": cancelled\n").count(), 5, "{interruption}: {ours}");
        assert_eq!(instances(&run), 4, "{interruption}: {}", run.stderr());
    }
}

#[test]
fn a_jump_out_of_a_call_ends_neither_the_recording_nor_the_program() {
    let arguments = ["proc", "jump"];
    let environment = [("JUMP", "signal"), ("MNEME_MAX_RECORDINGS", "99")];
    let run = record(&arguments, &environment);
    let alone = Command::new(programs().application()).args(arguments).envs(environment).output().unwrap();
    let [ours, theirs] = tails(&run, &alone);
    assert_eq!((&ours, run.output.status), (&theirs, alone.status), "{}", run.stderr());
    assert_eq!(ours.matches("left 1, blocked 0, launch 0\n").count(), 6, "{ours}");
    // The first two, those abandoned during their recording, and those after each jump.
    assert_eq!(instances(&run), 2 + 2 + 6, "{}", run.stderr());
}

#[test]
fn a_jump_out_of_a_fault_in_a_recorded_launch_ends_the_recording_by_name() {
    let arguments = ["proc", "jump"];
    let environment = [("JUMP", "fault"), ("MNEME_MAX_RECORDINGS", "99")];
    let run = record(&arguments, &environment);
    let alone = Command::new(programs().application()).args(arguments).envs(environment).output().unwrap();
    let [ours, theirs] = tails(&run, &alone);
    assert_eq!((&ours, run.output.status), (&theirs, alone.status), "{}", run.stderr());
    // The first two, and those after the jumps out of a counted launch and out of a copy.
    assert_eq!(instances(&run), 2 + 2, "{}", run.stderr());
    assert!(run.stderr().contains("recording stops: "), "{}", run.stderr());
}

#[test]
fn descriptors_that_the_application_closes_and_uses_are_its_own() {
    for how in ["descriptors", "descriptors-few"] {
        let folder = tempfile::tempdir().unwrap();
        let arguments = ["proc", how, folder.path().to_str().unwrap()];
        let run = record(&arguments, &[("MNEME_MAX_RECORDINGS", "99")]);
        assert!(run.stdout().contains("40 files are right\n"), "{how}: {}{}", run.stdout(), run.stderr());
        assert_eq!(run.output.status.code(), Some(4), "{how}: {}", run.stderr());
        assert_eq!(instances(&run), 2 + 4, "{how}: {}", run.stderr());
        let report = mneme_recording::integrity::check(&run.data()).unwrap();
        assert!(report.problems.is_empty(), "{how}: {report:?}");
    }
}

/// The program's signal handler has interrupted the heap, so no code can allocate or free any more.
#[test]
fn who_leaves_from_within_the_heap_leaves() {
    for how in ["heap-exit", "heap-exec"] {
        let run = record(&["proc", how], &[("MNEME_MAX_RECORDINGS", "9")]);
        assert_eq!(run.output.status.code(), Some(7), "{how}: {}", run.stderr());
    }
}

/// Linux prefers the main thread for signals, and the recorder's threads block them.
#[test]
fn handlers_run_on_the_threads_on_which_they_run_without_us() {
    for how in ["take-alone", "take-thread", "take-others"] {
        let arguments = ["proc", how];
        for mode in ["record", "profile"] {
            let run = record(&arguments, &[("MNEME_MAX_RECORDINGS", "99"), ("MNEME_MODE", mode)]);
            let [ours, theirs] = tails(&run, &plain(&arguments));
            assert_eq!(ours, theirs, "{how}, {mode}: {}", run.stderr());
            assert!(mode != "record" || instances(&run) >= 2 + 4, "{how}: {}", run.stderr());
        }
    }
}

#[test]
fn a_limit_on_the_address_space_ends_the_recording_by_name_and_not_the_program() {
    let arguments = ["proc", "limit"];
    for mode in ["record", "profile", "dry-run"] {
        let run = record(&arguments, &[("MNEME_MAX_RECORDINGS", "99"), ("MNEME_MODE", mode)]);
        let alone = plain(&arguments);
        let [ours, theirs] = tails(&run, &alone);
        assert_eq!((ours, run.output.status), (theirs, alone.status), "{mode}: {}", run.stderr());
        assert_eq!(summary_of(&run, "_Z3addPii")["launches"], 12, "{mode}: {}", run.stderr());
        if mode == "record" {
            assert_eq!(instances(&run), 2, "{}", run.stderr());
            assert!(run.stderr().contains("RLIMIT_AS"), "{}", run.stderr());
        }
    }
}

#[test]
fn the_error_number_of_the_application_stays() {
    let run = record(&["proc", "errors"], &[("MNEME_MAX_RECORDINGS", "9")]);
    assert!(run.stdout().contains("after a launch 77\n"), "{}{}", run.stdout(), run.stderr());
    assert_eq!(instances(&run), 3);
}

#[test]
fn a_profile_is_told_of_before_the_program_becomes_another() {
    let run = record(&["proc", "exec"], &[("MNEME_MODE", "profile")]);
    assert!(run.stdout().ends_with("another program\n"), "{}{}", run.stdout(), run.stderr());
    assert_eq!(summary_of(&run, "_Z3addPii")["launches"], 4, "{}", run.stderr());
}

#[test]
fn a_program_that_becomes_another_has_left_its_recording() {
    let run = record(&["proc", "exec"], &[("MNEME_MAX_RECORDINGS", "9")]);
    assert!(run.stdout().ends_with("another program\n"), "{}{}", run.stdout(), run.stderr());
    assert_eq!(instances(&run), 3, "{}", run.stderr());
    assert!(run.stderr().contains("4 launches, 3 recorded"), "{}", run.stderr());
    // If the program cannot be executed, the process continues.
    let run = record(&["proc", "exec-fails"], &[("MNEME_MAX_RECORDINGS", "9")]);
    assert!(run.stdout().contains("exec -1\n"), "{}{}", run.stdout(), run.stderr());
    assert_eq!(instances(&run), 4, "{}", run.stderr());
}

#[test]
fn a_daemon_has_left_the_recording_of_its_parent() {
    let run = record(&["proc", "daemon"], &[("MNEME_MAX_RECORDINGS", "9")]);
    assert_eq!(run.output.status.code(), Some(0), "{}", run.stderr());
    assert_eq!(instances(&run), 3, "{}", run.stderr());
    assert_eq!(run.stderr().matches("4 launches, 3 recorded").count(), 1, "{}", run.stderr());
}
