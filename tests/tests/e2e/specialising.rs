//! Tests of `mneme apply --specialize`: code for launches that repeat.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mneme_e2e::apps::{app, compile_flags, executable, link_flags, recordable_clang, sources};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, program};
use mneme_e2e::platform::llvm;
use mneme_e2e::recording::{Recording, TestInstance, unrecorded};
use mneme_system::exit;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::applying::Tuned;

/// A run of `paced`, and its files.
struct Place {
    folder: TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn apply(&self, options: &[&str]) -> Run {
        let run = run(program("mneme")).args(["apply", "--device", TestDevice::under_test().name(), "-v", "info"]);
        run.args(options)
            .env("MNEME_CACHE_DIR", self.at("cache"))
            .env("PROTEUS_TUNED_KERNELS", "")
            .env("MNEME_CPU_THREADS", "2")
    }

    /// Runs the application, which ends shortly after this message. Returns its outcome and the report on its kernel.
    #[track_caller]
    fn until(&self, options: &[&str], tuned: Option<&Path>, said: &str) -> (ProgramOutput, Value) {
        let [report, stop] = ["report.json", "stop"].map(|name| self.at(name));
        let _ = fs::remove_file(&stop);
        let run = self.apply(options).arg("--json").arg(&report);
        let run = tuned.into_iter().fold(run, |run, tuned| run.arg("--tuned").arg(tuned));
        let run = run.arg("--").arg(of("paced")).args(["60000", "1000"]).arg(&stop);
        let end = || {
            std::thread::sleep(Duration::from_millis(300));
            fs::write(&stop, "").unwrap();
        };
        let outcome = run.outcome_with(said, end);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "paced: ok (n=1000)\n"), "{outcome}");
        outcome.complains(said);
        let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
        let kernels = report["kernels"].as_array().unwrap();
        let kernel = kernels.iter().find(|kernel| kernel["kernel"].as_str().unwrap().starts_with("mix")).cloned();
        (outcome, kernel.unwrap())
    }
}

fn of(name: &str) -> PathBuf {
    executable(app(name), Cudart::under_test())
}

/// All launches, replaced launches, and launches with specialised code.
fn counts(kernel: &Value) -> [u64; 3] {
    let applied = &kernel["applied"];
    [&kernel["launches"], &applied["replaced"], &applied["specialised"]].map(|count| count.as_u64().unwrap_or_default())
}

#[test]
fn launches_that_repeat_get_code_of_their_own() {
    let place = Place::new();
    let (outcome, kernel) =
        place.until(&["--specialize"], None, "mix(unsigned int*, int, unsigned int, unsigned int) is specialised");
    let [launches, replaced, specialised] = counts(&kernel);
    assert!(launches > replaced && replaced == specialised && specialised > 0, "{outcome}");
    outcome.complains("no code was made for launches like it yet");
    // Specialised code would count in a copy of the variable.
    outcome.complains("count(int) is not specialised: it uses variables of its module (counted)");
    let entries = || fs::read_dir(place.at("cache/tuned")).unwrap().map(|entry| entry.unwrap().path());
    assert!(entries().all(|path| path.is_file()), "requests are left");

    // The run may have ended before it kept its second code. The description is written last.
    let kept = || entries().filter(|path| path.extension().is_some_and(|it| it == "json")).count();
    for _ in 0..5 {
        if kept() < 2 {
            place.until(&["--specialize"], None, "is specialised");
        }
    }
    // The number of the launch is not folded, so two codes serve all launches.
    let codes: Vec<PathBuf> = entries().filter(|path| path.extension().is_some_and(|it| it == "code")).collect();
    assert_eq!(codes.len(), 2, "{codes:?}");
    let (outcome, kernel) = place.until(&["--specialize=integers"], None, "is specialised");
    assert!(counts(&kernel)[2] > 0, "{outcome}");
    outcome.complains("from the cache, 0 compiled");

    // Damaged code is compiled again.
    codes.iter().for_each(|code| fs::write(code, "damaged").unwrap());
    let (outcome, kernel) = place.until(&["--specialize"], None, "is specialised");
    assert!(counts(&kernel)[2] > 0, "{outcome}");
    assert!(!outcome.stderr.contains(", 0 compiled"), "{outcome}");
}

#[test]
fn without_a_cache_code_is_made_for_the_run() {
    let place = Place::new();
    let options = ["--specialize", "--verify-first", "1", "--cache-dir", "/proc/none"];
    let (outcome, kernel) = place.until(&options, None, "is verified on 1 launches of this run");
    assert!(counts(&kernel)[2] > 0, "{outcome}");
}

#[test]
fn a_winner_is_specialised_while_it_is_used() {
    let recording = Recording::of(app("paced"), &["2"]);
    let (database, record) = recording.kernel("mix");
    let instance = record.instances.iter().find(|(_, it)| it.args[1] == 1000).unwrap();
    let instance = mneme_e2e::recording::TestInstance::new(&database, instance.0);
    let changes = json!({"passes": "default<O2>", "block": {"x": 32}, "grid": {"x": 8}});
    let tuned = Tuned::new().with("mix", &instance, changes, json!({"grid.x": "grid.x"}));
    let place = Place::new();
    let (outcome, kernel) = place.until(&["--specialize", "--any-launch"], Some(&tuned.results()), "is specialised");
    let [launches, replaced, specialised] = counts(&kernel);
    assert!(launches == replaced && specialised > 0 && specialised < replaced, "{outcome}");
    assert!(kernel["applied"]["before"] == json!(2000.0), "{outcome}");
    assert!(kernel["applied"]["reshaped"].as_u64().unwrap() > 0, "{outcome}");
}

/// An argument that varies is not folded, but still determines the grid if the winner's rule uses it.
#[test]
fn code_for_launches_that_repeat_is_for_no_other_grid() {
    if !have_compiler("code_for_launches_that_repeat_is_for_no_other_grid") {
        return;
    }
    let place = Place::new();
    let (source, binary, stop) = (place.at("scaled.cu"), place.at("scaled"), place.at("stop"));
    let text = r#"#include "check.cuh"
        #include <unistd.h>
        __global__ void scale(int *y, int n) {
            int i = blockIdx.x * blockDim.x + threadIdx.x;
            if (i < n) y[i] += n;
        }
        int main(int count, char **arguments) {
            const int capacity = 2048;
            DeviceArray<int> y(capacity);
            long wrong = 0;
            for (int round = 0; round < (count > 1 ? 20000 : 1); ++round) {
                // Eight blocks of 64 threads, sometimes sixteen.
                int n = (round % 8 == 5 ? 1024 : 512) - round % 40;
                y.clear();
                scale<<<capacity / 64, 64>>>(y.get(), n);
                CUDA_OK(cudaDeviceSynchronize());
                auto found = y.download();
                for (int i = 0; i < capacity; ++i) wrong += found[i] != (i < n ? n : 0);
                if (count > 1 && access(arguments[1], F_OK) == 0) break;
                usleep(1000);
            }
            std::printf("wrong %ld\n", wrong);
            return 0;
        }"#;
    fs::write(&source, text).unwrap();
    let headers = sources();
    let arguments = [OsStr::new("-I"), headers.as_os_str(), source.as_os_str(), OsStr::new("-o"), binary.as_os_str()];
    let compile = recordable_clang().args(compile_flags()).args(arguments);
    compile.args(link_flags(Cudart::under_test())).succeed();
    let recording = Recording::of_executable(&binary, &[]);
    let (database, record) = recording.kernel("scale");
    let instance = TestInstance::new(&database, record.instances.keys().next().unwrap());
    let changes = json!({"passes": "default<O2>", "grid": {"x": 8}});
    let tuned = Tuned::new().with("scale", &instance, changes, json!({"grid.x": "ceil(args[1] / block.x)"}));
    let report = place.at("report.json");
    let run = place.apply(&["--specialize", "--any-launch", "--tuned"]).arg(tuned.results()).arg("--json").arg(&report);
    let outcome = run.arg("--").arg(&binary).arg(&stop).outcome_with("is specialised", || {
        std::thread::sleep(Duration::from_millis(500));
        fs::write(&stop, "").unwrap();
    });
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, "wrong 0\n"), "{outcome}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&report).unwrap()).unwrap();
    assert!(counts(&report["kernels"][0])[2] > 0, "{outcome}");
}

/// Both processes are the first in their PID namespace, as in containers that share a cache.
#[test]
fn processes_with_one_number_get_their_own_code() {
    // NVIDIA's driver does not start in a PID namespace if /proc belongs to another one.
    if TestDevice::under_test() == TestDevice::Cuda {
        eprintln!("processes_with_one_number_get_their_own_code: for the CPU device");
        return;
    }
    // Users other than root can create PID namespaces only inside a user namespace.
    let works = |options: &&str| run("unshare").args([*options, "true"]).outcome().status == 0;
    let Some(options) = ["-pf", "-rpf"].into_iter().find(|options| works(options)) else {
        eprintln!("processes_with_one_number_get_their_own_code: no PID namespaces here");
        return;
    };
    let (place, twins) = (Place::new(), of("twins"));
    let stop = place.at("stop");
    let script = r#"
        unshare "$2" "$0" add "$1" & one=$!
        unshare "$2" "$0" multiply "$1" & other=$!
        wait $one; status=$?; wait $other && exit $status"#;
    let run = place.apply(&["--specialize", "--", "sh", "-c", script]).arg(&twins).arg(&stop).arg(options);
    let outcome = run.outcome_with("multiply(unsigned int*, int, int) is specialised", || {
        // Enough time for the other process's code.
        std::thread::sleep(Duration::from_secs(3));
        fs::write(&stop, "").unwrap();
    });
    let mut lines: Vec<&str> = outcome.stdout.lines().collect();
    lines.sort_unstable();
    assert_eq!((outcome.status, &lines[..]), (0, &["add: ok (n=1000)", "multiply: ok (n=1000)"][..]), "{outcome}");
}

#[test]
fn code_for_launches_that_repeat_is_verified_where_that_is_asked_for() {
    let place = Place::new();
    let options = ["--specialize", "--verify-first", "1"];
    let (outcome, kernel) = place.until(&options, None, "is verified on 1 launches of this run");
    let [launches, replaced, specialised] = counts(&kernel);
    assert!(launches > replaced && replaced == specialised && specialised > 0, "{outcome}");
}

#[test]
fn a_helper_that_dies_leaves_the_application_its_own_code() {
    let place = Place::new();
    let home = place.at("home");
    fs::create_dir(&home).unwrap();
    let name_of_builder = format!("mneme-build-{}", llvm());
    for entry in fs::read_dir(program("mneme").parent().unwrap()).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_owned();
        if path.is_file() && name != *name_of_builder {
            symlink(&path, home.join(name)).unwrap();
        }
    }
    let builder = home.join(&name_of_builder);
    let plain = unrecorded(app("paced")).args(["400", "500"]).succeed();
    let real = program(&name_of_builder);
    // For the CPU device, mneme-cc compiles the program with this builder as well.
    let with = |dies: &str| {
        let name = real.display();
        let script =
            format!("#!/bin/bash\n[ $(</proc/$PPID/comm) != mneme-cc ] && {dies} && kill -9 $$\nexec {name} \"$@\"\n");
        mneme_fixtures::script(&builder, &script);
        let run = place.apply(&["--specialize"]).env("MNEME_HOME", &home).arg("--json").arg(place.at("report.json"));
        let outcome = run.arg("--").arg(of("paced")).args(["400", "500"]).succeed();
        assert_eq!(outcome.stdout, plain.stdout, "{outcome}");
        let report: Value = serde_json::from_str(&fs::read_to_string(place.at("report.json")).unwrap()).unwrap();
        let kernels = report["kernels"].as_array().unwrap();
        assert!(kernels.iter().all(|kernel| kernel["launches"] == 400), "{outcome}");
        outcome
    };
    // It dies at random.
    for _ in 0..3 {
        with("[ $((RANDOM % 2)) = 0 ]");
    }
    fs::remove_dir_all(place.at("cache")).unwrap();
    let outcome = with("true");
    let said = |line: &&str| line.contains("mix(") && line.contains("is not specialised");
    let lines: Vec<&str> = outcome.stderr.lines().filter(said).collect();
    assert!(!lines.is_empty() && lines.iter().all(|line| line.contains("SIGKILL")), "{outcome}");
}

#[test]
fn specialisation_needs_an_application_and_a_kind() {
    let place = Place::new();
    let folder = place.at("m");
    let run = place.apply(&["--specialize", "--manifest"]).arg(&folder).exit_with(exit::BAD_USAGE);
    run.complains("--specialize needs an application");
    place.apply(&["--specialize=all", "--", "true"]).exit_with(exit::BAD_USAGE).complains("integers, scalars");
}
