//! Tests of `mneme apply --learn` and `mneme learn`: time, record, tune and use kernels in steps.

use std::fs;

use mneme_core::exit;
use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, program};
use mneme_e2e::recording::unrecorded;

#[test]
fn an_application_is_learnt_in_steps() {
    let folder = tempfile::tempdir().unwrap();
    let learnt = folder.path().join("learnt");
    let plain = unrecorded(app("vecadd")).args(["1", "int"]).succeed();
    let apply = || {
        let run =
            run(program("mneme")).args(["apply", "--device", TestDevice::under_test().name(), "--learn"]).arg(&learnt);
        let run = run.env("MNEME_CACHE_DIR", folder.path().join("cache")).env("PROTEUS_TUNED_KERNELS", "").arg("--");
        let outcome = run.arg(executable(app("vecadd"), Cudart::under_test())).args(["1", "int"]).succeed();
        assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
        outcome
    };
    let learn = || -> Run { run(program("mneme")).arg("learn").arg(&learnt) };

    learn().exit_with(exit::BAD_USAGE).complains("has nothing yet; run mneme apply --learn");
    apply().complains("the kernels are timed in this run, and recorded in the next one");
    assert!(learnt.join("profile.json").is_file());
    learn().exit_with(exit::BAD_USAGE).complains("has the times of kernels alone");
    apply().complains("1 kernel to be recorded in this run");
    apply().complains("has no results yet; run mneme learn");

    let quick = ["--space-preset", "launch", "--trials", "2", "--iterations", "1", "--warmup", "0", "--seed", "1"];
    let outcome = learn().arg("--").args(quick).succeed();
    outcome.complains("1 kernel tuned, 0 before");
    let sessions: Vec<_> = fs::read_dir(learnt.join("results")).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(sessions.len() == 1 && sessions[0].join("best.json").is_file(), "{outcome}");
    learn().succeed().complains("0 kernels tuned, 1 before");
    // Whether anything was found to be faster is a matter of chance here.
    let outcome = apply();
    assert!(outcome.stderr.contains("vecadd<int>") || outcome.stderr.contains("nothing is applied"), "{outcome}");
}
