//! Tests of every application of `tests/apps`.
//!
//! Recording changes nothing that it does, and each of its kernels replays verified under every pipeline.

use mneme_core::recording::database::KernelRecord;
use mneme_e2e::apps::{APPS, Comparison, app};
use mneme_e2e::recording::{Instance, PIPELINES, Recording, is_named, unrecorded};

macro_rules! programs {
    ($($name:ident),* $(,)?) => {
        $(#[test] fn $name() { record_and_replay(stringify!($name)); })*

        #[test]
        fn every_program_has_a_test() {
            let tested = [$(stringify!($name)),*];
            let known: Vec<_> = APPS.iter().map(|app| app.name).collect();
            assert_eq!(tested.as_slice(), known);
        }
    };
}

programs!(
    vecadd,
    variables,
    saxpy,
    stencil,
    reduce,
    floatsum,
    histogram,
    matmul,
    nbody,
    microphysics,
    chemistry,
    globals,
    bigstruct,
    parameters,
    list,
    streams,
    limits,
    inplace,
    math,
    atomics,
    warp,
    waiting,
    spin,
    misshapen,
    memory,
    volumes,
    print,
    assertion,
    rdc,
    units,
    lambda,
    functor,
    steps,
    statics,
    libraries,
    plugins,
);

fn record_and_replay(name: &str) {
    let app = app(name);
    let plain = unrecorded(app).succeed();
    let recording = Recording::of(app, &[]);
    assert_eq!(recording.outcome.stdout, plain.stdout, "what the recorded {name} prints");
    assert!(plain.stdout.contains(&format!("{name}: ok")), "{plain}");

    let mut recorded = recording.kernels();
    assert_eq!(recorded.len(), app.kernels.len(), "kernels recorded of {name}");
    for kernel in app.kernels {
        // Of several kernels of one name each is another library's.
        let found = recorded
            .iter()
            .position(|(_, record)| is_named(record, kernel.name) && launches(record) == kernel.occurrences);
        let found = found.unwrap_or_else(|| {
            panic!("{} launches of kernel {} of {name} were not recorded", kernel.occurrences.len(), kernel.name)
        });
        let (database, record) = &recorded.remove(found);
        // The summary shortens long names.
        recording.outcome.complains(kernel.name.get(..40).unwrap_or(kernel.name));
        let options: &[&str] = match kernel.comparison {
            Comparison::Bitwise => &[],
            Comparison::Tolerance { options, .. } => options,
        };
        for id in record.instances.keys() {
            let instance = Instance::new(database, id);
            for passes in PIPELINES {
                let json = instance.verify(passes, options);
                assert_eq!(json["Replay-config"]["passes"], passes);
            }
            instance.replay("default<O3>").arg("--check").exit_with(mneme_core::exit::VERIFIED);
        }
    }
}

/// Launches for each dynamic hash, in ascending order.
fn launches(record: &KernelRecord) -> Vec<u64> {
    let mut occurrences: Vec<_> = record.instances.values().map(|instance| instance.occurrences).collect();
    occurrences.sort_unstable();
    occurrences
}

#[test]
fn parameters_of_all_kinds_are_folded() {
    let recording = Recording::of(app("parameters"), &[]);
    for (database, record) in recording.kernels() {
        for id in record.instances.keys() {
            Instance::new(&database, id).verify("default<O3>", &["--specialize"]);
        }
    }
}
