//! Tests of each part of the driver's interface, each in a separate program.
//!
//! Recording does not change the program's behaviour. The recording contains the memory that the kernels saw, and
//! replays verified. docs/reference/hooks.md lists which program covers which function.

use mneme_e2e::apps::app;
use mneme_e2e::command::{ProgramOutput, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::recording::{TestInstance, is_named, load_kernels, record_into, unrecorded};
use mneme_model::launch::Dim3;
use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::{AllocationKind, MemoryState};
use tempfile::TempDir;

/// A recorded run of a program under certain settings.
struct Recorded {
    folder: TempDir,
    outcome: ProgramOutput,
    kernels: Vec<(std::path::PathBuf, KernelRecord)>,
}

/// Records, compares the program's output, and replays every instance.
#[track_caller]
fn recorded(name: &str, settings: &[(&str, &str)]) -> Recorded {
    let app = app(name);
    let with =
        |run: mneme_e2e::command::Run| settings.iter().fold(run, |run, (variable, value)| run.env(variable, value));
    let plain = with(unrecorded(app)).succeed();
    assert!(plain.stdout.contains(&format!("{name}: ok")), "{plain}");
    let folder = tempfile::tempdir().unwrap();
    let outcome = with(record_into(folder.path(), app, &[])).outcome();
    assert_eq!(outcome.stdout, plain.stdout, "what the recorded {name} prints: {outcome}");
    let kernels = load_kernels(folder.path());
    for (database, kernel) in &kernels {
        for id in kernel.instances.keys() {
            TestInstance::new(database, id).verify("default<O3>", &[]);
        }
    }
    // Kernels refused by name do not make the recording fail.
    assert_eq!(outcome.status, 0, "{outcome}");
    Recorded { folder, outcome, kernels }
}

impl Recorded {
    #[track_caller]
    fn kernel(&self, name: &str) -> &KernelRecord {
        let found = self.kernels.iter().find(|(_, kernel)| is_named(kernel, name));
        &found.unwrap_or_else(|| panic!("kernel {name} was not recorded: {}", self.outcome)).1
    }

    /// The reason for omitting a kernel.
    #[track_caller]
    fn refusal(&self, name: &str) -> &str {
        assert!(
            !self.kernels.iter().any(|(_, kernel)| is_named(kernel, name)),
            "kernel {name} was recorded: {}",
            self.outcome
        );
        let lines = self.outcome.stderr.lines();
        let mut reasons = lines.filter(|line| {
            line.strip_prefix(name).is_some_and(|rest| rest.starts_with('(')) && line.contains("not recorded")
        });
        reasons.next().unwrap_or_else(|| panic!("nothing is said of {name}: {}", self.outcome))
    }

    /// The number of launches per recorded instance, ascending.
    #[track_caller]
    fn occurrences(&self, name: &str) -> Vec<u64> {
        let mut occurrences: Vec<_> =
            self.kernel(name).instances.values().map(|instance| instance.occurrences).collect();
        occurrences.sort_unstable();
        occurrences
    }

    /// Sizes of the recorded allocations of a kind, per instance.
    fn allocations(&self, name: &str, kind: AllocationKind) -> Vec<Vec<u64>> {
        let sizes = |prologue: &String| {
            let state = MemoryState::load(&self.folder.path().join(prologue)).unwrap_or_else(|error| panic!("{error}"));
            let of_kind = state.header.allocations.iter().filter(|allocation| allocation.kind == kind);
            of_kind.map(|allocation| allocation.size).collect()
        };
        self.kernel(name).instances.values().map(|instance| sizes(&instance.prologue)).collect()
    }
}

#[test]
fn pools() {
    let recorded = recorded("pools", &[]);
    assert_eq!(recorded.occurrences("blend"), [1]);
    assert_eq!(recorded.allocations("blend", AllocationKind::Vendor), [[20_000; 3]]);
}

#[test]
fn managed() {
    let recorded = recorded("managed", &[]);
    assert_eq!(recorded.occurrences("increment"), [2]);
    assert_eq!(recorded.allocations("increment", AllocationKind::Vendor), [[500 * 16]]);
}

/// The recorder hashes chunks before it copies them. If a chunk changes in between, the recorder must not use the old
/// hash, and must not stop other recordings.
#[test]
fn managed_memory_that_the_host_writes_to_is_not_recorded_wrong() {
    let app = app("shared_pages");
    let folder = tempfile::tempdir().unwrap();
    let outcome = record_into(folder.path(), app, &[]).outcome();
    assert_eq!(outcome.stdout, unrecorded(app).succeed().stdout);
    let report = mneme_recording::integrity::check(folder.path()).unwrap();
    assert!(report.problems.is_empty(), "{:#?}", report.problems);
    if TestDevice::under_test() == TestDevice::Cpu {
        assert_eq!((outcome.status, report.instances), (mneme_system::exit::NOT_RECORDED, 0), "{outcome}");
        outcome.complains("memory changed while it was recorded");
    }
}

#[test]
fn mapped() {
    let recorded = recorded("mapped", &[]);
    assert_eq!(recorded.occurrences("tally"), [1]);
    // The kernel knows one of the three only through a pointer in device memory.
    assert_eq!(recorded.allocations("tally", AllocationKind::Host), [[12_000; 3]]);
}

/// A kernel can access all page-locked memory, but only memory reachable by addresses is recorded.
#[test]
fn page_locked_memory_is_found_by_its_address() {
    let recorded = recorded("pinned", &[]);
    assert_eq!(recorded.occurrences("follow"), [1]);
    let mut sizes = recorded.allocations("follow", AllocationKind::Host);
    sizes.iter_mut().for_each(|sizes| sizes.sort_unstable());
    // NVIDIA's runtime may map all of it.
    if TestDevice::under_test() == TestDevice::Cpu {
        assert_eq!(sizes, [[16, 8000]], "without the staging buffer");
    } else {
        assert!(sizes[0].starts_with(&[16, 8000]), "{sizes:?}");
    }
}

/// The recorder reads memory that a kernel can reach, and the program may have returned it to the system.
#[test]
fn page_locked_memory_that_is_gone_is_refused() {
    let recorded = recorded("released", &[]);
    assert_eq!(recorded.occurrences("add<0>"), [1]);
    assert_eq!(recorded.kernels.len(), 1, "{}", recorded.outcome);
    for kernel in ["add<1>", "add<2>", "add<3>"] {
        let refusal = recorded.refusal(kernel);
        assert!(refusal.contains("the application has unmapped or protected 65536 bytes at 0x"), "{kernel}: {refusal}");
    }
}

#[test]
fn addresses_beside_page_locked_memory_lead_there() {
    let recorded = recorded("offsets", &[]);
    for kernel in ["from_one", "downward", "matrix"] {
        assert_eq!(recorded.occurrences(kernel), [1]);
    }
    if TestDevice::under_test() == TestDevice::Cpu {
        let host = |kernel| recorded.allocations(kernel, AllocationKind::Host).concat();
        assert_eq!((host("downward"), host("matrix")), (vec![8192], vec![8192]), "nothing further away");
    }
}

/// A replay has separate memory for each address.
#[test]
fn memory_that_is_mapped_at_two_addresses_is_refused() {
    let recorded = recorded("aliased", &[]);
    for way in 0..=2 {
        let refusal = recorded.refusal(&format!("forward<{way}>"));
        assert!(refusal.contains("it reaches memory that is mapped at two addresses (cuMemMap)"), "{way}: {refusal}");
    }
    // A GPU's driver cannot map a part of a handle.
    for way in if TestDevice::under_test() == TestDevice::Cpu { 3..=6 } else { 4..=6 } {
        assert_eq!(recorded.occurrences(&format!("forward<{way}>")), [1]);
    }
}

/// Recording a launch that the driver refuses copies all memory for nothing.
#[test]
fn launches_that_are_refused_again_and_again_cost_little() {
    let recorded = recorded("refused", &[]);
    assert_eq!((recorded.occurrences("advance<1>"), recorded.occurrences("advance<2>")), (vec![1], vec![2]));
    assert!(recorded.kernels.iter().all(|(_, kernel)| !is_named(kernel, "advance<0>")));
    let kernels = recorded.outcome.stderr.as_str();
    // NVIDIA's runtime refuses blocks that no device supports, so they never reach the driver.
    let by_driver = if TestDevice::under_test() == TestDevice::Cpu { 0 } else { 1 };
    for (kernel, count) in [("advance<0>", 20), ("advance<1>", 1), ("advance<2>", 10)].into_iter().skip(by_driver) {
        let text = format!("{count} launch{} refused by the driver", if count > 1 { "es" } else { "" });
        assert!(
            kernels.lines().any(|line| line.starts_with(kernel) && line.ends_with(&text)),
            "{kernel}: {}",
            recorded.outcome
        );
    }
    recorded.outcome.complains("1 launch not recorded: succeeded after the driver had refused similar launches");
    let packs = std::fs::read_dir(recorded.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .sum::<u64>();
    // Two states of each of the two recorded instances, and the memory at two refused launches of each kernel.
    assert!(packs < 12 << 20, "{packs} bytes");
}

/// A host thread that writes every millisecond, and so between any two checks that are far enough apart.
#[test]
fn a_host_thread_that_writes_now_and_then_is_noticed() {
    let app = app("ticking");
    let rounds = if TestDevice::under_test() == TestDevice::Cuda { "20000000" } else { "20000" };
    for _ in 0..3 {
        let folder = tempfile::tempdir().unwrap();
        let outcome = record_into(folder.path(), app, &["100000", rounds]).outcome();
        assert_eq!(outcome.stdout, "ticking: ok (n=100000)\n", "{outcome}");
        assert!(load_kernels(folder.path()).is_empty(), "{outcome}");
        outcome.complains("memory changed while it was recorded: host threads write");
    }
}

/// All devices have arenas before the first code is loaded.
#[test]
fn as_many_devices_as_there_can_be() {
    let recorded = recorded("every_device", &[("MNEME_CPU_DEVICES", "16")]);
    let found = recorded.occurrences("fill");
    assert!(!found.is_empty() && found.iter().all(|launches| *launches == 1), "each device has a buffer of its own");
}

#[test]
fn a_forked_child_leaves_its_parent_s_memory_alone() {
    let recorded = recorded("forked", &[]);
    assert_eq!(recorded.occurrences("add"), [2]);
}

/// A kernel that waits for a host thread must not block that thread at the gate. A later kernel is recorded.
#[test]
fn a_kernel_that_waits_for_a_host_thread_is_let_finish() {
    let recorded = recorded("answering", &[("MNEME_KERNEL_LIMIT", "1")]);
    assert_eq!(recorded.kernels.len(), 1, "{}", recorded.outcome);
    assert_eq!(recorded.occurrences("advance"), [1]);
    recorded.outcome.complains("did not finish within 1 s");
}

#[test]
fn a_capture_that_ends_with_its_stream_is_over() {
    let recorded = recorded("abandoned", &[]);
    for kernel in ["twice<1>", "twice<2>"] {
        assert_eq!(recorded.occurrences(kernel), [1], "{}", recorded.outcome);
    }
}

/// Memory that the kernel's device cannot access does not belong to it, and must not be read.
#[test]
fn access() {
    let recorded = recorded("access", &[("MNEME_CPU_DEVICES", "2")]);
    let sizes = |kernel: &str, kind| recorded.allocations(kernel, kind).concat();
    let (page, far) = (2 << 20, 24_000);
    for (kernel, mapped) in [("bump<1>", 0), ("bump<2>", 1), ("bump<3>", 0), ("through", 1)] {
        assert_eq!(recorded.occurrences(kernel), [1]);
        assert_eq!(sizes(kernel, AllocationKind::Vendor), vec![page; mapped], "{kernel}");
        assert!(!sizes(kernel, AllocationKind::Arena).contains(&far), "{kernel}");
    }
    if TestDevice::under_test() == TestDevice::Cpu
        || recorded.kernels.iter().any(|(_, kernel)| is_named(kernel, "across"))
    {
        for (kernel, reaches_far) in [("across", false), ("bump<4>", true), ("bump<5>", false)] {
            assert_eq!(
                sizes(kernel, AllocationKind::Vendor),
                [page; 2],
                "{kernel}: one range over memory of both devices"
            );
            assert_eq!(
                sizes(kernel, AllocationKind::Arena).contains(&far),
                reaches_far,
                "{kernel}: peer access comes and goes"
            );
        }
    }
}

#[test]
fn vmm() {
    let recorded = recorded("vmm", &[]);
    assert_eq!(recorded.occurrences("extend"), [1, 1]);
    let mut mapped: Vec<_> = recorded.allocations("extend", AllocationKind::Vendor).iter().map(Vec::len).collect();
    mapped.sort_unstable();
    assert_eq!(mapped, [2, 3], "pages mapped at each launch");
}

#[test]
fn sharing_between_processes() {
    let recorded = recorded("sharing", &[]);
    assert!(!recorded.outcome.stderr.contains("MNEME_ARENA"), "{}", recorded.outcome);
    assert_eq!(recorded.occurrences("fill"), [1, 1, 1]);
    assert_eq!(recorded.occurrences("mix"), [1]);
    let large = 80 << 20;
    assert_eq!(
        recorded.allocations("fill", AllocationKind::Arena),
        [[12_000, 12_000, large]; 3],
        "what is shared stays the arena's"
    );
    assert_eq!(
        recorded.allocations("mix", AllocationKind::Vendor),
        [[12_000, 12_000, large]],
        "what is opened, and nothing around it"
    );
}

/// Concurrent writes of another process are not the kernel's: it has no address of that memory.
#[test]
fn memory_that_another_process_writes_to() {
    let recorded = recorded("mailbox", &[]);
    assert_eq!(recorded.occurrences("churn"), [1]);
    let (database, kernel) = &recorded.kernels[0];
    let (id, instance) = kernel.instances.iter().next().unwrap();
    for state in [&instance.prologue, &instance.epilogue] {
        let state = MemoryState::load(&recorded.folder.path().join(state)).unwrap();
        let shared = |shared| -> Vec<u64> {
            state.header.allocations.iter().filter(|it| it.shared == shared).map(|it| it.size).collect()
        };
        assert_eq!((shared(true), shared(false)), (vec![40_000], vec![400_000]));
    }
    let outcome = TestInstance::new(database, id).replay("default<O2>").succeed();
    outcome.complains("40000 bytes at 0x");
    outcome.complains("are not compared: other processes or devices could write to them");
    // A configuration that writes other values there would otherwise pass as right.
    let state = MemoryState::load(&recorded.folder.path().join(&instance.prologue)).unwrap();
    let mail = state.header.allocations.iter().find(|it| it.shared).unwrap().address;
    let (results, meant) = (tempfile::tempdir().unwrap(), format!("address:{mail:#x}=ignore"));
    let search = |program_name: &str, arguments: &[&str]| {
        let named = ["-rdb".as_ref(), database.as_os_str(), "-rid".as_ref(), id.as_ref()];
        run(program(program_name)).args(arguments).args(named).args(["--device", TestDevice::under_test().name()])
    };
    let tune = [
        "--space-preset",
        "launch",
        "--trials",
        "1",
        "--finalists",
        "0",
        "--results-dir",
        results.path().to_str().unwrap(),
    ];
    let searches = [
        (search("mneme-replay", &["sweep", "/dev/null"]), mneme_system::exit::BAD_USAGE),
        (search("mneme-replay", &["serve"]), mneme_system::exit::BAD_USAGE),
        (search("mneme-tune", &tune), mneme_system::exit::BAD_USAGE),
        (search("mneme-bisect", &["default<O3>"]), mneme_system::exit::BAD_USAGE),
    ];
    for (search, status) in searches {
        let refused = search.clone().exit_with(status);
        refused.complains("are not compared: other processes or devices could write to them");
        refused.complains("--tolerance BUFFER=ignore");
        let accepted = search.args(["--tolerance", &meant]).outcome();
        assert!(!accepted.stderr.contains("are not compared") && accepted.status != status, "{accepted}");
    }
}

#[test]
fn several_devices() {
    let recorded = recorded("devices", &[("MNEME_CPU_DEVICES", "2")]);
    assert_eq!(recorded.occurrences("fill"), [1, 1]);
    assert_eq!(recorded.occurrences("combine"), [1]);
    let arena = recorded.allocations("combine", AllocationKind::Arena);
    assert_eq!(arena, [[24_000; 3]], "with the peer's");
    if TestDevice::under_test() == TestDevice::Cpu {
        let mut own: Vec<_> = recorded.allocations("fill", AllocationKind::Arena).iter().map(Vec::len).collect();
        own.sort_unstable();
        assert_eq!(own, [1, 2], "without what the device does not reach");
    }
}

#[test]
fn many_threads() {
    let recorded = recorded("threads", &[]);
    assert_eq!(recorded.occurrences("step<0>"), [4; 4]);
    for name in ["step<1>", "step<2>"] {
        assert_eq!(recorded.occurrences(name), [3; 4]);
    }
}

#[test]
fn contexts() {
    let recorded = recorded("contexts", &[]);
    assert_eq!(recorded.occurrences("shift"), [1, 1, 1]);
}

#[test]
fn launch_forms() {
    let recorded = recorded("launches", &[("MNEME_MAX_RECORDINGS", "10")]);
    assert_eq!(recorded.occurrences("mark"), [1; 6]);
    let cooperative =
        recorded.kernel("mark").instances.values().filter(|instance| instance.ours.attributes.cooperative).count();
    assert_eq!(cooperative, 1);
}

#[test]
fn pageable_host_memory_is_refused() {
    let recorded = recorded("pageable", &[]);
    if TestDevice::under_test() == TestDevice::Cpu {
        assert!(recorded.kernels.is_empty());
        recorded.outcome.complains("its argument 1 (in) points to pageable host memory");
        recorded.outcome.complains("register that memory");
    } else if recorded.kernels.is_empty() {
        recorded.outcome.complains("points to pageable host memory");
    }
}

#[test]
fn pageable_host_memory_in_structures_is_refused() {
    let recorded = recorded("pageable_parts", &[]);
    assert_eq!(recorded.occurrences("tagged"), [1], "what is a number to the kernel is none of its memory");
    if TestDevice::under_test() == TestDevice::Cpu {
        assert!(recorded.refusal("through").contains("its argument 1 (view, byte 8) points to pageable host memory"));
        // The recorder may also report an address that no kernel follows. The next launch has another address.
        assert_eq!(recorded.occurrences("partly"), [1]);
        recorded.outcome.complains("its argument 1 (views, byte 8) points to pageable host memory");
    }
}

#[test]
fn addresses_of_code_are_refused() {
    let recorded = recorded("pointers", &[]);
    assert!(recorded.kernels.is_empty(), "{}", recorded.outcome);
    recorded.outcome.complains("calls through pointers in memory");
    recorded.outcome.complains("uses addresses of code");
}

#[test]
fn virtual_functions_are_relocated() {
    let recorded = recorded("virtual", &[]);
    for name in ["build", "measure"] {
        assert_eq!(recorded.occurrences(name), [1]);
    }
    // Other optimisation moves the functions.
    for (database, kernel) in &recorded.kernels {
        for id in kernel.instances.keys() {
            let instance = TestInstance::new(database, id);
            instance.verify("default<O0>", &[]);
            instance.replay("default<O3>").arg("--check").exit_with(mneme_system::exit::VERIFIED);
        }
    }
}

#[test]
fn variables_that_only_arguments_lead_to() {
    let recorded = recorded("symbol", &[]);
    assert_eq!(recorded.occurrences("add"), [1]);
}

#[test]
fn clusters() {
    let recorded = recorded("clusters", &[]);
    let mut shapes: Vec<_> =
        recorded.kernel("exchange").instances.values().map(|instance| instance.ours.attributes.cluster).collect();
    shapes.sort_unstable_by_key(|shape| shape.map(|shape| shape.x));
    assert_eq!(shapes, [2, 4].map(|size| Some(Dim3::new(size, 1, 1))));
}

/// Barriers in memory, with which threads wait for copies and for one another.
#[test]
fn barriers_in_memory() {
    let recorded = recorded("mbarriers", &[]);
    assert_eq!((recorded.occurrences("pipeline"), recorded.occurrences("leaving")), (vec![1], vec![1]));
}

#[test]
fn graph_memory() {
    let recorded = recorded("graphmemory", &[]);
    assert_eq!(recorded.occurrences("twice"), [1]);
    let sizes = recorded.allocations("twice", AllocationKind::Vendor);
    assert_eq!(sizes.len(), 1);
    if TestDevice::under_test() == TestDevice::Cpu {
        assert_eq!(sizes, [[12_000]]);
    }
}

/// The addresses belong to the graph, so only the graph can allocate there.
#[test]
fn a_graph_that_allocates_memory_is_not_expanded() {
    for settings in [&[][..], &[("MNEME_GRAPHS", "expand")]] {
        let recorded = recorded("graphmemory", settings);
        assert_eq!(recorded.occurrences("twice"), [1]);
        recorded.outcome.complains("1 graph launch not recorded: it has nodes that allocate or free memory");
    }
}
