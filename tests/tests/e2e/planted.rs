//! Generated faults: `--check` finds those of kernels, and `mneme bisect` names the culprit.
//!
//! The suite runs a fixed sample. `MNEME_TEST_PLANTED=40` runs 40, and `MNEME_TEST_PLANTED_SEED` chooses others. At
//! most two of 40 may be missed, and a sound kernel must never be reported.

use std::collections::BTreeMap;
use std::path::Path;

use mneme_e2e::command::{ProgramOutput, run};
use mneme_e2e::failing::{self, Blame, Failure};
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, number, program as program_file};
use mneme_e2e::planting::{FAULTY_GRID, KINDS, Planted, program};
use mneme_e2e::platform::{compile_flags, link_flags, recordable_clang, sources};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_model::observation::Finding;

use crate::nvcc;

/// Records a program. `compile` gets the source and the binary.
fn record(text: &str, compile: impl FnOnce(&Path, &Path)) -> BTreeMap<String, TestInstance> {
    let folder = tempfile::tempdir().unwrap();
    let (source, binary) = (folder.path().join("planted.cu"), folder.path().join("planted"));
    std::fs::write(&source, text).unwrap();
    compile(&source, &binary);
    let recording = Recording::of_executable(&binary, &[]);
    let kept = mneme_e2e::recording::copy_of(recording.folder()).keep();
    let kernels = mneme_e2e::recording::load_kernels(&kept);
    let named = kernels.into_iter().map(|(path, kernel)| {
        let name = kernel.demangled_name.split('(').next().unwrap_or_default().to_owned();
        (name, TestInstance::new(&path, kernel.instances.keys().next().expect("a launch")))
    });
    named.collect()
}

fn by_clang(more: &[&str], source: &Path, binary: &Path) {
    let command =
        recordable_clang().args(compile_flags()).args(more).arg("-gline-tables-only").arg("-I").arg(sources());
    command.arg(source).arg("-o").arg(binary).args(link_flags(Cudart::under_test())).succeed();
}

/// The result of checking one kernel, with a report on errors.
enum Judged {
    Found,
    Missed(String),
    /// A fault that it does not have was reported.
    Accused(String),
}

fn judge(planted: &Planted, instance: &TestInstance) -> Judged {
    let check = |options: &[&str]| {
        let outcome = instance.replay("default<O3>").arg("--check").args(options).outcome();
        let findings = outcome.json()["Result"]["faults"]["findings"].clone();
        let findings: Vec<Finding> =
            serde_json::from_value(findings).unwrap_or_else(|error| panic!("{error}: {outcome}"));
        (findings, outcome)
    };
    let (sound, outcome) = check(&[]);
    if !sound.is_empty() {
        return Judged::Accused(format!("{} ({:?}) is accused: {outcome}", planted.name, planted.kind));
    }
    let (found, outcome) = check(&["--grid-dim-x", &FAULTY_GRID.to_string()]);
    let is_it = |finding: &Finding| {
        finding.fault == planted.kind.fault()
            && finding.site.source.iter().any(|line| planted.lines.contains(&line.line))
    };
    if found.iter().any(is_it) {
        return Judged::Found;
    }
    Judged::Missed(format!("{} ({:?}, lines {:?}) is missed: {outcome}", planted.name, planted.kind, planted.lines))
}

/// In each `2 * KINDS.len()` kernels, clang compiles the first half and nvcc the second.
fn is_nvccs(number: usize) -> bool {
    number / KINDS.len() % 2 == 1
}

#[test]
fn generated_faults_are_found_and_sound_kernels_are_not_accused() {
    if !have_compiler("generated faults") {
        return;
    }
    let count = number("MNEME_TEST_PLANTED", 20) as usize;
    let seed = number("MNEME_TEST_PLANTED_SEED", 44);
    let nvcc =
        if TestDevice::under_test() == TestDevice::Cpu { mneme_e2e::platform::nvcc("generated faults") } else { None };
    let mut judged = Vec::new();
    for by_nvcc in [false, true] {
        let program = program(seed, (0..count).filter(|number| is_nvccs(*number) == by_nvcc));
        let recorded = match (&nvcc, by_nvcc) {
            (_, false) => record(&program.text, |source, binary| by_clang(&[], source, binary)),
            (Some(nvcc), true) => record(&program.text, |source, binary| {
                nvcc::build(nvcc, source, &[&nvcc::PTX_90[..], &["-lineinfo"]].concat(), binary);
            }),
            (None, true) => continue,
        };
        let judge_all = |kernels: &[Planted]| -> Vec<_> {
            kernels.iter().map(|planted| judge(planted, &recorded[&planted.name])).collect()
        };
        let (one, other) = program.planted.split_at(program.planted.len() / 2);
        std::thread::scope(|scope| {
            let half = scope.spawn(|| judge_all(one));
            judged.extend(judge_all(other));
            judged.extend(half.join().expect("a half is judged"));
        });
        let folder = recorded.values().next().and_then(|instance| instance.database.parent());
        std::fs::remove_dir_all(folder.expect("a recording")).unwrap();
        if judged.iter().any(|judged| !matches!(judged, Judged::Found)) {
            println!("{}", program.text);
        }
    }
    let (mut accused, mut missed) = (0, 0);
    for judged in &judged {
        match judged {
            Judged::Found => continue,
            Judged::Missed(report) => (missed += 1, println!("{report}")),
            Judged::Accused(report) => (accused += 1, println!("{report}")),
        };
    }
    println!("{} of {} planted faults are found", judged.len() - missed - accused, judged.len());
    assert!(accused == 0 && missed * 20 <= judged.len(), "{accused} accused, {missed} missed");
}

/// The result of a bisection.
#[derive(Debug, PartialEq)]
enum Bisected {
    Right,
    /// It reports that it cannot decide.
    Open,
    /// It blames the wrong part with certainty.
    Wrong,
}

fn bisect(failure: &Failure, instance: &TestInstance) -> (Bisected, ProgramOutput) {
    let output = tempfile::tempdir().unwrap();
    let outcome = run(program_file("mneme-bisect"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--json", "--reduce", "0", "--device", TestDevice::under_test().name(), &failure.pipeline, "-o"])
        .arg(output.path())
        .outcome();
    let json = outcome.json();
    let is = |field: &str, name: &str| json[field]["pass"] == name;
    let bisected = match (json["verdict"].as_str(), failure.blame) {
        (Some("ir_pass"), Blame::Pass) if is("pass", "mneme-fault") => Bisected::Right,
        (Some("back_end"), Blame::BackEnd) if is("codegen_pass", "Mneme's planted fault") => Bisected::Right,
        (Some("kernel"), Blame::Kernel) => Bisected::Right,
        (Some("unclear" | "good"), _) => Bisected::Open,
        _ => Bisected::Wrong,
    };
    (bisected, outcome)
}

#[test]
fn those_to_blame_for_generated_failures_are_named() {
    if !have_compiler("generated failures") {
        return;
    }
    let count = number("MNEME_TEST_PLANTED", 8) as usize;
    let program = failing::program(number("MNEME_TEST_PLANTED_SEED", 44), 0..count);
    let recorded = record(&program.text, |source, binary| by_clang(&["-O0"], source, binary));
    let bisect_all = |failures: &[Failure]| -> Vec<_> {
        failures.iter().map(|failure| bisect(failure, &recorded[&failure.name])).collect()
    };
    let (one, other) = program.failures.split_at(count / 2);
    let mut bisected = Vec::new();
    std::thread::scope(|scope| {
        let half = scope.spawn(|| bisect_all(one));
        let rest = bisect_all(other);
        bisected.extend(half.join().expect("a half is bisected"));
        bisected.extend(rest);
    });
    std::fs::remove_dir_all(recorded.values().next().unwrap().database.parent().unwrap()).unwrap();
    let of = |what: Bisected| bisected.iter().filter(|(bisected, _)| *bisected == what).count();
    for (failure, (found, outcome)) in program.failures.iter().zip(&bisected) {
        if *found != Bisected::Right {
            println!("{found:?}: {failure:?}: {outcome}");
        }
    }
    let (right, wrong) = (of(Bisected::Right), of(Bisected::Wrong));
    if right < count {
        println!("{}", program.text);
    }
    println!("{right} of {count} are named, {wrong} others are blamed");
    assert!(wrong == 0 && (count - right) * 20 <= count, "{right} of {count} are named, {wrong} others are blamed");
}

#[test]
fn equal_seeds_give_equal_programs_whose_faults_are_marked() {
    let (one, other) = (program(1, 0..40), program(1, 0..40));
    assert_eq!(one.text, other.text);
    assert_ne!(one.text, program(2, 0..40).text);
    assert!(!one.text.contains('$'), "{}", one.text);
    assert!(one.planted.iter().all(|planted| !planted.lines.is_empty()));
    let (one, other) = (failing::program(1, 0..40), failing::program(1, 0..40));
    assert_eq!(one.text, other.text);
    assert!(!one.text.contains('$'), "{}", one.text);
}
