//! Tests that a result states its evidence, and that results without evidence are not called verified.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use mneme_e2e::apps::{app, executable};
use mneme_e2e::command::{Run, run};
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, program};
use mneme_e2e::recording::{Recording, TestInstance};
use mneme_system::exit;

/// The second launch of each kernel, which finds its own results in memory.
fn repeated() -> Recording {
    second_launches("steady")
}

fn second_launches(name: &str) -> Recording {
    let device = TestDevice::under_test().name();
    let executable = executable(app(name), Cudart::under_test());
    Recording::by(|folder| {
        run(program("mneme"))
            .args(["record".as_ref(), "-rdb".as_ref(), folder.as_os_str()])
            .args(["--skip", "1", "--"])
            .arg(executable)
            .env("MNEME_DEVICE", device)
    })
}

fn instance(recording: &Recording, kernel: &str) -> TestInstance {
    let (database, record) = recording.kernel(kernel);
    TestInstance::new(&database, record.instances.keys().next().unwrap())
}

fn maps(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".poison")).collect()
}

/// `mneme tune` over a few block sizes.
fn tune(instance: &TestInstance, results: &Path) -> Run {
    run(program("mneme-tune"))
        .args(["-rdb".as_ref(), instance.database.as_os_str(), "-rid".as_ref(), instance.id.as_ref()])
        .args(["--device", TestDevice::under_test().name(), "--space-preset", "quick", "--sampler", "exhaustive"])
        .args(["--passes", "default<O3>", "--finalists", "0", "--results-dir"])
        .arg(results)
}

#[test]
fn a_launch_that_changes_nothing_is_verified_by_what_it_only_writes() {
    if !have_compiler("a_launch_that_changes_nothing_is_verified_by_what_it_only_writes") {
        return;
    }
    let recording = repeated();
    let refill = instance(&recording, "refill");
    let json = refill.verify("default<O3>", &[]);
    let evidence = &json["Result"]["evidence"];
    assert_eq!((&evidence["changed"], &evidence["poisoned"]), (&0.into(), &20000.into()), "{json:#}");
    assert_eq!((&evidence["written"], &evidence["shown"]), (&20000.into(), &20000.into()), "{json:#}");
    // A quarter of the grid is a quarter of the work.
    refill.refute("default<O3>", &["--grid-dim-x", "10"]);
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("empty.cu");
    fs::write(&source, "__global__ void refill(float *out, const float *in, size_t n) {}").unwrap();
    refill.refute("default<O3>", &["--source", source.to_str().unwrap()]);
    // A rule that cannot fail proves nothing.
    let outcome = refill.replay("default<O3>").args(["--tolerance", "argument:0=ignore"]).exit_with(exit::UNPROVEN);
    assert_eq!(outcome.json()["Result"]["evidence"]["ignored"], 20000, "{outcome}");
    let outcome = refill.replay("default<O3>").args(["--tolerance", "argument:0=f32:1e38"]).exit_with(exit::UNPROVEN);
    assert_eq!(outcome.json()["Result"]["status"], "unproven", "{outcome}");
}

#[test]
fn padding_and_pointers_stay_as_recorded() {
    let recording = repeated();
    let scatter = instance(&recording, "scatter");
    let json = scatter.verify("default<O3>", &[]);
    let evidence = &json["Result"]["evidence"];
    // Six of the eight bytes in each cell.
    assert_eq!((&evidence["changed"], &evidence["poisoned"]), (&0.into(), &30000.into()), "{json:#}");
    scatter.refute("default<O3>", &["--grid-dim-x", "10"]);
}

#[test]
fn a_launch_that_shows_nothing_is_unproven_and_not_tuned() {
    let recording = repeated();
    let settle = instance(&recording, "settle");
    let outcome = settle.replay("default<O3>").exit_with(exit::UNPROVEN);
    let json = outcome.json();
    let result = &json["Result"];
    assert_eq!(
        (&result["status"], &result["verified"], &result["failed"]),
        (&"unproven".into(), &false.into(), &false.into())
    );
    assert_eq!(result["evidence"]["shown"], 0, "{result:#}");
    recording.outcome.complains("changes no memory");

    let results = tempfile::tempdir().unwrap();
    tune(&settle, &results.path().join("refused")).exit_with(exit::UNPROVEN).complains("--accept-unproven");
    tune(&settle, &results.path().join("accepted")).arg("--accept-unproven").succeed();
    let test =
        run(program("mneme")).arg("test").arg(&settle.database).args(["--device", TestDevice::under_test().name()]);
    test.exit_with(exit::UNPROVEN);
}

#[test]
fn a_launch_that_changes_nothing_gives_way_to_a_later_one() {
    let recording = Recording::of(app("steady"), &[]);
    let late = instance(&recording, "late");
    let json = late.verify("default<O3>", &[]);
    assert_eq!(json["Result"]["evidence"]["changed"], 20000, "{json:#}");
    run(program("mneme")).args(["fsck".as_ref(), "-rdb".as_ref(), recording.folder().as_os_str()]).succeed();
    let names =
        fs::read_dir(recording.folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert_eq!(names.filter(|name| name.ends_with(".mneme")).count(), 8, "two files for each of four kernels");
    // The second launch replaces the first.
    let (_, record) = repeated().kernel("late");
    assert_eq!(record.instances.values().map(|instance| instance.occurrences).collect::<Vec<_>>(), [2]);
}

#[test]
fn what_is_only_written_is_looked_for_once() {
    let recording = repeated();
    let refill = instance(&recording, "refill");
    assert!(maps(recording.folder()).is_empty());
    refill.verify("default<O3>", &[]);
    let [map] = &maps(recording.folder())[..] else { panic!("one map beside the recording") };
    let path = recording.folder().join(map);
    let first = fs::metadata(&path).unwrap().modified().unwrap();
    refill.verify("default<O3>", &[]);
    assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), first, "it is read");
    // A damaged file is rewritten.
    fs::write(&path, "nothing").unwrap();
    let json = refill.verify("default<O3>", &[]);
    assert_eq!(json["Result"]["evidence"]["poisoned"], 20000, "{json:#}");
    assert!(fs::metadata(&path).unwrap().len() > 8);
}

#[test]
fn a_recording_that_cannot_be_written_to_has_its_map_in_the_cache() {
    let recording = repeated();
    let refill = instance(&recording, "refill");
    let cache = tempfile::tempdir().unwrap();
    // Root can write everywhere.
    let beside = recording.folder().to_path_buf();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o555)).unwrap();
    let can_write = fs::write(beside.join("probe"), "").is_ok();
    let outcome = refill.replay("default<O3>").env("MNEME_CACHE_DIR", cache.path()).succeed();
    fs::set_permissions(&beside, fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!(outcome.json()["Result"]["evidence"]["poisoned"], 20000, "{outcome}");
    if !can_write {
        assert_eq!(maps(&cache.path().join("poison")).len(), 1);
    }
}

#[test]
fn a_kernel_that_ends_on_few_inputs_is_proven_by_gentle_ones() {
    let recording = second_launches("fragile");
    let json = instance(&recording, "rounding").verify("default<O3>", &[]);
    let evidence = &json["Result"]["evidence"];
    assert_eq!(evidence["changed"], 0, "{json:#}");
    assert!(evidence["fresh_inputs"]["agreed"].as_u64() > Some(0), "{json:#}");
}

#[test]
fn few_contexts_are_lost_to_inputs() {
    let recording = second_launches("fragile");
    let picky = instance(&recording, "picky");
    let replay = picky.replay("default<O3>").args(["--fresh", "3", "--fresh-seed", "0"]).succeed();
    let json = replay.json();
    let fresh = &json["Result"]["evidence"]["fresh_inputs"];
    // After the first loss, numbers only change in their last bits.
    assert_eq!((&fresh["agreed"], &fresh["discarded"]), (&3.into(), &1.into()), "{json:#}");
}

#[test]
fn code_that_only_rounds_otherwise_agrees() {
    if !have_compiler("code_that_only_rounds_otherwise_agrees") {
        return;
    }
    let recording = second_launches("fragile");
    let square = instance(&recording, "square");
    let folder = tempfile::tempdir().unwrap();
    let with = |result: &str| {
        let body = format!(
            "__global__ void square(float *out, const float *in, size_t n) {{
                size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
                if (i < n) out[i] = {result};
            }}"
        );
        with_source(&square, folder.path(), &body)
    };
    let rounded = with("__fadd_rn(__fmul_rn(in[i], in[i]), in[i])");
    let fresh = &rounded["evidence"]["fresh_inputs"];
    assert_eq!((&rounded["status"], &fresh["agreed"]), (&"verified".into(), &3.into()), "{rounded:#}");
    assert!(fresh["rounded"].as_u64() > Some(0), "{rounded:#}");
    // The result is right for numbers without a fractional part.
    let wrong = with("float(int(in[i]) * (int(in[i]) + 1))");
    assert_eq!(wrong["status"], "failed_verification", "{wrong:#}");
}

/// Replays with a source instead of the kernel, and returns the result.
fn with_source(instance: &TestInstance, folder: &Path, body: &str) -> serde_json::Value {
    let source = folder.join("given.cu");
    fs::write(&source, body).unwrap();
    instance.replay("default<O3>").args(["--source", source.to_str().unwrap()]).outcome().json()["Result"].clone()
}

#[test]
fn code_that_is_right_on_the_recorded_input_alone_does_not_verify() {
    if !have_compiler("code_that_is_right_on_the_recorded_input_alone_does_not_verify") {
        return;
    }
    let recording = repeated();
    let refill = instance(&recording, "refill");
    let folder = tempfile::tempdir().unwrap();
    let honest = "__global__ void refill(float *out, const float *in, size_t n) {
            size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
            if (i < n) out[i] = in[i] * 0.5f + 1.0f;
        }";
    let result = with_source(&refill, folder.path(), honest);
    let fresh = &result["evidence"]["fresh_inputs"];
    assert_eq!((&result["status"], &fresh["agreed"]), (&"verified".into(), &3.into()), "{result:#}");
    // It keeps results by their position from one run to the next.
    let memo = "__device__ float kept[5000];
        __device__ int has[5000];
        __global__ void refill(float *out, const float *in, size_t n) {
            size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
            if (i >= n) return;
            if (!has[i]) { kept[i] = in[i] * 0.5f + 1.0f; has[i] = 1; }
            out[i] = kept[i];
        }";
    // It contains the recorded result.
    let table = "__global__ void refill(float *out, const float *in, size_t n) {
            size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
            if (i < n) out[i] = (-1.0f - float(i % 512)) * 0.5f + 1.0f;
        }";
    // It checks one element in a hundred.
    let sample = "__global__ void refill(float *out, const float *in, size_t n) {
            size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x;
            if (i >= n) return;
            float first = -1.0f - float(i % 512);
            out[i] = (i % 100 == 0 ? in[i] : first) * 0.5f + 1.0f;
        }";
    for cheat in [memo, table, sample] {
        let result = with_source(&refill, folder.path(), cheat);
        assert_eq!(result["status"], "failed_verification", "{cheat}: {result:#}");
    }
    // The same seed makes the same inputs.
    let replay = || {
        let replay = refill.replay("default<O3>").args(["--fresh", "2", "--fresh-seed", "7"]);
        replay.succeed().json()["Result"]["evidence"]["fresh_inputs"].clone()
    };
    let fresh = replay();
    assert_eq!((&fresh["agreed"], &fresh["seeds"][0]), (&2.into(), &7.into()), "{fresh}");
    assert_eq!(fresh, replay());
}
