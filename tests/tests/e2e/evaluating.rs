//! Tests that `mneme evaluate` judges candidates strictly and keeps every verdict.
//!
//! `MNEME_TEST_EVALUATIONS=20` judges the original in 20 sessions and kills 20 evaluations; the suite does fewer.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use mneme_e2e::apps::app;
use mneme_e2e::command::{Run, run};
use mneme_e2e::hip;
use mneme_e2e::installation::{Cudart, TestDevice, have_compiler, number, program};
use mneme_e2e::platform::{compile_flags, link_flags, recordable_clang, sources};
use mneme_e2e::recording::Recording;
use mneme_model::evaluation::{Judgement, Verdict};
use serde_json::{Value, json};

/// A source of the zoo's kernel `tuned`, which the application computes in 600 rounds. It has a place to change.
const BASE: &str = "
__device__ float slowly(float value, int rounds) {
    float result = value;
    for (int round = 0; round < rounds; ++round)
        result = result * 0.5f + value * 0.5f;
    return result;
}

#ifndef ROUNDS
#define ROUNDS 2 * rounds
#endif

__global__ void tuned(float *out, const float *in, int n, int rounds) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n)
        out[i] = slowly(in[i], ROUNDS);
}
";

/// How many evaluations the slowest tests make.
const EVALUATIONS: &str = "MNEME_TEST_EVALUATIONS";

struct Kernel {
    recording: Recording,
    folder: tempfile::TempDir,
}

impl Kernel {
    fn tuned() -> Self {
        let rounds = if TestDevice::under_test() == TestDevice::Cuda { "20000" } else { "300" };
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("base.cu"), BASE).unwrap();
        Self { recording: Recording::of(app("zoo"), &["4000", rounds]), folder }
    }

    /// A recording of `BASE` itself.
    fn original() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let rounds = if TestDevice::under_test() == TestDevice::Cuda { 20_000 } else { 300 };
        let [base, source, binary] = ["base.cu", "original.cu", "original"].map(|name| folder.path().join(name));
        fs::write(&base, BASE).unwrap();
        let main = format!(
            "#include \"check.cuh\"
            {BASE}
            int main() {{
                std::vector<float> values(4000);
                for (int i = 0; i < 4000; ++i)
                    values[i] = float(i / 4) * 0.5f + 1.0f;
                DeviceArray<float> in(values), out(4000);
                out.clear();
                tuned<<<blocks_for(4000, 128), 128>>>(out.get(), in.get(), 4000, {rounds});
                LAUNCH_OK();
            }}"
        );
        fs::write(&source, main).unwrap();
        let command = recordable_clang().args(compile_flags()).arg("-I").arg(sources()).arg(&source).arg("-o");
        command.arg(&binary).args(link_flags(Cudart::under_test())).succeed();
        Self { recording: Recording::of_executable(&binary, &[]), folder }
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    fn evaluate(&self, results: &str) -> Run {
        self.session(results, 1)
    }

    fn session(&self, results: &str, seed: u64) -> Run {
        run(program("mneme"))
            .args(["evaluate".as_ref(), "-rdb".as_ref(), self.recording.folder().as_os_str()])
            .args(["--kernel", "tuned", "--device", TestDevice::under_test().name(), "--seed", &seed.to_string()])
            .args(["--source-base".as_ref(), self.path("base.cu").as_os_str()])
            .args(["--results-dir".as_ref(), self.path(results).as_os_str()])
    }

    /// Writes candidates as lines, and returns their file.
    fn candidates(&self, all: &[Value]) -> std::path::PathBuf {
        let path = self.path("candidates.jsonl");
        fs::write(&path, all.iter().map(|it| format!("{it}\n")).collect::<String>()).unwrap();
        path
    }

    /// The judgements on lines of candidates, by id.
    fn judge(&self, results: &str, all: &[Value]) -> BTreeMap<String, Judgement> {
        let path = self.candidates(all);
        let outcome = self.evaluate(results).args(["--candidates".as_ref(), path.as_os_str()]).succeed();
        let found = by_id(&outcome.stdout);
        assert_eq!(found.len(), all.len(), "{outcome}");
        assert!(found.values().all(|it| it.feedback.chars().count() < 1500 && !it.feedback.is_empty()), "{outcome}");
        found
    }
}

/// Lines by id, each of which comes once.
fn by_id(lines: &str) -> BTreeMap<String, Judgement> {
    let mut found = BTreeMap::new();
    for line in lines.lines() {
        let judgement: Judgement = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        let id = judgement.id.as_ref().unwrap().to_string();
        assert!(found.insert(id, judgement).is_none(), "twice: {line}");
    }
    found
}

#[test]
fn candidates_of_every_kind_have_their_verdict() {
    if !have_compiler("candidates_of_every_kind_have_their_verdict") {
        return;
    }
    let kernel = Kernel::tuned();
    let fast = BASE.replace("#define ROUNDS 2 * rounds", "#define ROUNDS rounds / 3");
    let diff = "--- base.cu\n+++ base.cu\n@@ -10 +10 @@\n-#define ROUNDS 2 * rounds\n+#define ROUNDS rounds / 3\n";
    let blocks = "<<<<<<< SEARCH\n#define ROUNDS 2 * rounds\n=======\n#define ROUNDS 6 * rounds\n>>>>>>> REPLACE\n";
    let state = "__device__ float kept[4000]; __device__ int has[4000];\n".to_owned()
        + &BASE.replace(
            "out[i] = slowly(in[i], ROUNDS);",
            "{ if (!has[i]) { kept[i] = in[i]; has[i] = 1; } out[i] = kept[i]; }",
        );
    let found = kernel.judge(
        "kinds",
        &[
            json!({"id": "source", "source": fast}),
            json!({"id": "diff", "diff": diff}),
            json!({"id": "blocks", "blocks": blocks}),
            json!({"id": "options", "options": ["-DROUNDS=rounds/3"]}),
            json!({"id": "config", "config": {"shared_mem": 16}}),
            json!({"id": 6, "config": {"shared_mem": 32}}),
            json!({"id": "wrong", "source": BASE.replace("in[i], ROUNDS", "in[i] + 1.0f, ROUNDS")}),
            json!({"id": "syntax", "source": BASE.replace("out[i] =", "out[i] = nothing +")}),
            json!({"id": "misfit", "blocks": blocks.replace("2 *", "3 *")}),
            json!({"id": "state", "source": state}),
            json!({"id": "ir", "ir": "not IR"}),
            json!({"id": "tolerance", "config": {"tolerance": {"dtype": "f32", "threshold": 1e9, "kind": "absolute"}}}),
        ],
    );
    let verdict = |id: &str| found[id].verdict;
    for id in ["source", "diff", "options", "config"] {
        let judgement = &found[id];
        assert_eq!(judgement.verdict, Verdict::Faster, "{id}: {judgement:#?}");
        let speedup = judgement.speedup.unwrap();
        assert!(speedup.low > 1.0 && speedup.confidence == 0.95 && speedup.rounds >= 6, "{judgement:#?}");
        assert!(judgement.evidence.as_ref().unwrap().fresh_inputs.agreed > 0, "{judgement:#?}");
        assert!(judgement.exec_time < judgement.baseline_time, "{judgement:#?}");
        // It reads 4000 numbers and writes as many.
        let floor = judgement.floor.unwrap();
        assert!(floor.bytes == 32_000 && floor.time > 0.0 && floor.share < 1.0, "{judgement:#?}");
        assert!((floor.share * judgement.exec_time.unwrap() / floor.time - 1.0).abs() < 1e-6, "{judgement:#?}");
        assert!(judgement.feedback.contains("times the floor of"), "{judgement:#?}");
    }
    assert_eq!(verdict("blocks"), Verdict::Slower, "{:#?}", found["blocks"]);
    for id in ["6", "wrong"] {
        assert_eq!(verdict(id), Verdict::Incorrect, "{:#?}", found[id]);
    }
    let wrong = found["wrong"].first_wrong.as_ref().unwrap();
    assert_eq!((wrong.index, wrong.elements, wrong.dtype.as_str()), (0, 4000, "f32"), "{wrong:?}");
    assert!(wrong.got.parse::<f32>().unwrap() == wrong.expected.parse::<f32>().unwrap() + 1.0, "{wrong:?}");
    let compiler = found["syntax"].compiler.as_ref().unwrap();
    assert_eq!((verdict("syntax"), compiler.line), (Verdict::Invalid, Some(16)), "{compiler:?}");
    assert!(found["syntax"].feedback.contains("line 16") && compiler.message.contains("nothing"), "{compiler:?}");
    for id in ["misfit", "ir", "tolerance"] {
        assert_eq!(verdict(id), Verdict::Invalid, "{:#?}", found[id]);
    }
    assert!(
        ![Verdict::Faster, Verdict::Slower, Verdict::Inconclusive].contains(&verdict("state")),
        "{:#?}",
        found["state"]
    );
}

#[test]
fn files_lines_and_ids_are_told_apart() {
    if !have_compiler("files_lines_and_ids_are_told_apart") {
        return;
    }
    let kernel = Kernel::tuned();
    let (one, other) = (kernel.path("one.cu"), kernel.path("other.json"));
    fs::write(&one, BASE).unwrap();
    fs::write(&other, r#"{"shared_mem": 32}"#).unwrap();
    let lines = kernel.candidates(&[
        json!({"id": "a", "config": {"shared_mem": 32}}),
        json!({"id": "a", "config": {"shared_mem": 32}}),
        json!({"id": "a", "config": {"shared_mem": 48}}),
        json!({"id": "b", "sorce": "x"}),
        json!({"id": "c", "config": {"shared_mem": 32}}),
    ]);
    let arguments = [one.as_os_str(), other.as_os_str(), "--candidates".as_ref(), lines.as_os_str()];
    let outcome = kernel.evaluate("results").args(arguments).exit_with(64);
    let answers: Vec<(String, String)> = outcome
        .stdout
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|line| (line["id"].as_str().unwrap().to_owned(), line["verdict"].as_str().unwrap().to_owned()))
        .collect();
    let count =
        |id: &str, verdict: &str| answers.iter().filter(|it| (it.0.as_str(), it.1.as_str()) == (id, verdict)).count();
    assert_eq!(answers.len(), 7, "{outcome}");
    assert_eq!(
        [count("a", "incorrect"), count("a", "invalid"), count("b", "invalid"), count("c", "incorrect")],
        [2, 1, 1, 1]
    );
    assert_eq!(count(&other.display().to_string(), "incorrect"), 1, "{outcome}");
    let kept = by_id(&fs::read_to_string(kernel.path("results/verdicts.jsonl")).unwrap());
    assert_eq!(kept.len(), 4, "{kept:#?}");

    // Without --resume, verdicts are never mixed. With it, known candidates are not judged again.
    kernel.evaluate("results").arg(&one).exit_with(64);
    let resumed = kernel.evaluate("results").args([one.as_os_str(), "--resume".as_ref()]).succeed();
    assert_eq!(by_id(&resumed.stdout)[&one.display().to_string()], kept[&one.display().to_string()]);
    let most =
        kernel.evaluate("few").args([other.as_os_str(), one.as_os_str(), "--max-candidates".as_ref(), "1".as_ref()]);
    assert_eq!(by_id(&most.succeed().stdout).len(), 1);
    assert!(
        kernel.evaluate("late").args([one.as_os_str(), "--timeout".as_ref(), "0".as_ref()]).succeed().stdout.is_empty()
    );
    kernel.evaluate("missing").arg(kernel.path("missing.cu")).exit_with(66);
    fs::write(&one, BASE.replace("out[i] = slowly(in[i], ROUNDS)", "while (n > 0) atomicAdd(out + i, 1.0f)")).unwrap();
    let endless =
        kernel.evaluate("endless").args([one.as_os_str(), "--trial-timeout".as_ref(), "5".as_ref()]).succeed();
    let judgement = by_id(&endless.stdout).into_values().next().unwrap();
    assert_eq!((judgement.verdict, judgement.time_limit), (Verdict::Invalid, Some(5.0)), "{endless}");
}

#[test]
fn no_verdict_is_lost_or_given_twice_however_often_it_is_killed() {
    if !have_compiler("no_verdict_is_lost_or_given_twice_however_often_it_is_killed") {
        return;
    }
    let kernel = Kernel::tuned();
    let all: Vec<Value> = (0..12)
        .map(|number| match number % 3 {
            0 => json!({"id": number, "config": {"shared_mem": 32 + 16 * (number / 3)}}),
            1 => json!({"id": number, "options": [format!("-DROUNDS={}", 500 + number)]}),
            _ => json!({"id": number, "source": "nonsense"}),
        })
        .collect();
    let lines = kernel.candidates(&all);
    let verdicts = kernel.path("results/verdicts.jsonl");
    let (mut random, mut told) = (7u64, BTreeMap::<String, String>::new());
    let kills = number(EVALUATIONS, 8);
    for kill in 0..=kills {
        let mut command = Command::new(program("mneme"));
        command.args(["evaluate", "-rdb"]).arg(kernel.recording.folder()).args(["--kernel", "tuned", "--resume"]);
        command.args(["--confirm-time", "1", "--device", TestDevice::under_test().name(), "--source-base"]);
        command.arg(kernel.path("base.cu")).arg("--results-dir").arg(kernel.path("results"));
        command.arg("--candidates").arg(&lines).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        if kill < kills {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            std::thread::sleep(Duration::from_millis(100 + (random >> 33) % 2500));
            let _ = child.kill();
        }
        let output = child.wait_with_output().unwrap();
        assert!(kill < kills || output.status.success(), "{output:?}");
        // What was told before a kill stays as it was told.
        for line in String::from_utf8(output.stdout).unwrap().split_inclusive('\n').filter(|line| line.ends_with('\n'))
        {
            let id = serde_json::from_str::<Value>(line).unwrap()["id"].to_string();
            let before = told.entry(id).or_insert_with(|| line.to_owned());
            assert_eq!(before, line);
        }
    }
    assert_eq!(told.len(), all.len());
    let text = fs::read_to_string(verdicts).unwrap();
    assert_eq!(by_id(&text).len(), all.len());
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    lines.sort_unstable();
    let mut told: Vec<&str> = told.values().map(String::as_str).collect();
    told.sort_unstable();
    assert_eq!(lines, told);
}

#[test]
fn of_sessions_whose_proposals_are_the_original_hardly_any_has_a_winner() {
    if !have_compiler("of_sessions_whose_proposals_are_the_original_hardly_any_has_a_winner") {
        return;
    }
    let kernel = Kernel::original();
    // The same work in other machine code.
    let other = BASE.replace("if (i < n)", "asm volatile(\"\"); if (i < n)");
    let all = [json!({"id": 1, "options": ["-DUNUSED_WORD"]}), json!({"id": 2, "source": other}), json!({"id": 3})];
    let lines = kernel.candidates(&all);
    let sessions = number(EVALUATIONS, 6);
    let (mut winners, mut rounds) = (Vec::new(), 0);
    for seed in 0..sessions {
        let outcome = kernel
            .session(&format!("null-{seed}"), seed)
            .args(["--candidates".as_ref(), lines.as_os_str()])
            .args(["--confirm-time", "1"])
            .succeed();
        let found = by_id(&outcome.stdout);
        assert_eq!(found.len(), all.len(), "{outcome}");
        rounds += found.values().map(|it| it.speedup.unwrap_or_else(|| panic!("{outcome}")).rounds).sum::<usize>();
        let faster = found.into_iter().filter(|(_, it)| it.verdict == Verdict::Faster);
        winners.extend(faster.map(|(id, it)| (seed, id, it.speedup)).next());
    }
    println!("{} of {sessions} sessions have a winner; {rounds} rounds", winners.len());
    assert!(winners.len() <= 1 && rounds > 0, "{winners:#?}");
}

#[test]
fn verdicts_are_resumed_only_as_they_were_made() {
    if !have_compiler("verdicts_are_resumed_only_as_they_were_made") {
        return;
    }
    let kernel = Kernel::tuned();
    fs::write(kernel.path("plus.h"), "#define PLUS 1.0f\n").unwrap();
    let source = format!("#include \"plus.h\"\n{}", BASE.replace("in[i], ROUNDS", "in[i] + PLUS, ROUNDS"));
    let lines = kernel.candidates(&[json!({"id": "a", "source": source})]);
    let evaluate = |more: &[&str]| {
        kernel.evaluate("results").args(["--candidates".as_ref(), lines.as_os_str()]).args(["--resume"]).args(more)
    };
    let first = evaluate(&[]).succeed();
    assert_eq!(by_id(&first.stdout)["a"].verdict, Verdict::Incorrect, "{first}");
    for more in [&["--rtol", "0.5"][..], &["--atol", "9"], &["--tolerance", "f32:9"], &["--source-flag=-DX"]] {
        let refused = evaluate(more).exit_with(64);
        assert!(refused.stdout.is_empty() && refused.stderr.contains(more[0].split('=').next().unwrap()), "{refused}");
    }
    assert_eq!(evaluate(&[]).succeed().stdout, first.stdout);
    fs::write(kernel.path("plus.h"), "#define PLUS 0.0f\n").unwrap();
    let other = evaluate(&[]).exit_with(64);
    assert!(other.stdout.contains("another candidate"), "{other}");
}

#[test]
fn texts_are_short_and_plain() {
    if !have_compiler("texts_are_short_and_plain") {
        return;
    }
    let kernel = Kernel::tuned();
    let steering = "\u{1b}[31m\u{7}\u{202e}";
    let lines = kernel.candidates(&[
        json!({"id": "long", "x".repeat(3000): 1}),
        json!({"id": "error", "source": format!("#error {}", "z".repeat(100_000))}),
        json!({"id": "ir", "ir": format!("define void @f() {{ {steering} }}")}),
        json!({"id": "ptx", "ptx": format!(".version 8.5 {steering}")}),
        json!({"id": "passes", "config": {"passes": steering}}),
        json!({"id": "field", "config": {steering: 1}}),
        json!({"id": "option", "source": BASE, "options": [steering]}),
        json!({"id": "source", "source": format!("#error {steering}")}),
    ]);
    let outcome = kernel.evaluate("results").args(["--candidates".as_ref(), lines.as_os_str()]).exit_with(64);
    let found = by_id(&outcome.stdout);
    assert_eq!(found.len(), 8, "{outcome}");
    for (id, judgement) in found {
        assert!(judgement.feedback.chars().count() < 1500 && !judgement.feedback.is_empty(), "{id}: {judgement:#?}");
        let message = judgement.compiler.map(|compiler| compiler.message).unwrap_or_default();
        assert!(message.chars().count() <= 500, "{id}: {message}");
        for text in [&judgement.feedback, &message] {
            assert!(!text.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{id}: {text:?}");
        }
    }
}

#[test]
fn a_source_reads_no_recording_beside_it() {
    if !have_compiler("a_source_reads_no_recording_beside_it") {
        return;
    }
    let kernel = Kernel::tuned();
    let copied = kernel.path("recording");
    run("cp").args(["-r".as_ref(), kernel.recording.folder().as_os_str(), copied.as_os_str()]).succeed();
    let memory = fs::read_dir(&copied).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let memory = memory.filter(|name| name.starts_with("DeviceState.epilogue")).min().unwrap();
    fs::create_dir_all(kernel.path("include/deep")).unwrap();
    fs::write(kernel.path("include/deep/word.h"), "#define WORD\n").unwrap();
    let embedded = |path: &str| json!(format!("const unsigned char d[] = {{\n#embed \"{path}\"\n}};\n{BASE}"));
    let nested = format!("#include \"include/deep/word.h\"\n#ifndef WORD\n#error\n#endif\n{BASE}");
    let candidates = kernel.candidates(&[
        json!({"id": "beside", "source": embedded(&format!("recording/{memory}"))}),
        json!({"id": "climbing", "source": embedded(&format!("include/../recording/{memory}"))}),
        json!({"id": "results", "source": embedded("results/recording.json")}),
        json!({"id": "nested", "source": nested}),
    ]);
    let outcome = run(program("mneme"))
        .args(["evaluate".as_ref(), "-rdb".as_ref(), copied.as_os_str()])
        .args(["--kernel", "tuned", "--confirm-time", "1", "--device", TestDevice::under_test().name()])
        .args(["--source-base".as_ref(), kernel.path("base.cu").as_os_str()])
        .args(["--results-dir".as_ref(), kernel.path("results").as_os_str()])
        .args(["--candidates".as_ref(), candidates.as_os_str()])
        .args(["--source-flag".to_owned(), format!("-I{}", kernel.folder.path().display())])
        .succeed();
    for (id, judgement) in by_id(&outcome.stdout) {
        assert_eq!(judgement.verdict == Verdict::Invalid, id != "nested", "{id}: {judgement:#?}");
        assert_eq!(judgement.status == "compile_error", id != "nested", "{id}: {judgement:#?}");
    }
}

#[test]
fn a_source_reads_no_file_of_the_user() {
    if !have_compiler("a_source_reads_no_file_of_the_user") {
        return;
    }
    let kernel = Kernel::tuned();
    let secret = tempfile::tempdir().unwrap();
    let file = secret.path().join("secret.h");
    fs::write(&file, "int secret_word = xyzzy;\n").unwrap();
    let link = kernel.path("link.h");
    std::os::unix::fs::symlink(&file, &link).unwrap();
    fs::write(kernel.path("beside.h"), "#define BESIDE\n").unwrap();
    let source = |line: &str| json!(format!("{line}\n{BASE}"));
    let climbing = format!("../../../../../../..{}", file.display());
    let embedded = format!("const unsigned char secret[] = {{\n#embed \"{}\"\n}};", file.display());
    let assembly = format!("asm(\".incbin \\\"{}\\\"\");", file.display());
    let module = format!("module asm \".incbin \\\"{}\\\"\"\n", file.display());
    let found = kernel.judge(
        "escapes",
        &[
            json!({"id": "absolute", "source": source(&format!("#include \"{}\"", file.display()))}),
            json!({"id": "system", "source": source("#include \"/etc/passwd\"")}),
            json!({"id": "climbing", "source": source(&format!("#include \"{climbing}\""))}),
            json!({"id": "link", "source": source("#include \"link.h\"")}),
            json!({"id": "embed", "source": source(&embedded)}),
            json!({"id": "process", "source": source("#include \"/proc/self/environ\"")}),
            json!({"id": "option", "options": [format!("-include{}", file.display())]}),
            json!({"id": "module", "ir": module}),
            json!({"id": "beside", "source": source("#include \"beside.h\"\n#ifndef BESIDE\n#error\n#endif")}),
            json!({"id": "assembly", "source": source(&assembly)}),
        ],
    );
    for (id, judgement) in &found {
        let line = serde_json::to_string(judgement).unwrap();
        assert!(!line.contains("xyzzy") && !line.contains("root:"), "{id}: {line}");
        // clang leaves out assembly for the host.
        let compiles = ["beside", "assembly"].contains(&id.as_str());
        assert_eq!(judgement.verdict == Verdict::Invalid, !compiles, "{id}: {judgement:#?}");
    }
    assert!(found["link"].feedback.contains("link.h"), "{:#?}", found["link"]);
    let kept = kernel.path("escapes/candidates");
    let leaked = run("grep").args(["-rl".as_ref(), "xyzzy".as_ref(), kept.as_os_str()]).outcome();
    assert_eq!(leaked.status, 1, "{leaked}");
    assert!(Path::new(&file).exists());
}

/// A kernel of `saxpy`, as HIP source.
const HIP: &str = "
#include <hip/hip_runtime.h>

__global__ void saxpy(int n, float a, const float *x, float *y, double bias, bool negate) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float sum = fmaf(a, x[i], y[i]) + static_cast<float>(bias);
        y[i] = negate ? -sum : sum;
    }
}
";

#[test]
fn hip_sources_are_judged() {
    if !hip::can_run("hip_sources_are_judged") {
        return;
    }
    let recording = Recording::of_executable(&hip::executable(hip::app("saxpy")), &[]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("base.hip"), HIP).unwrap();
    let lines = [
        json!({"id": "right", "options": ["-DUNUSED"]}),
        json!({"id": "wrong", "source": HIP.replace("negate ?", "!negate ?")}),
        json!({"id": "reading", "source": format!("#include \"/etc/passwd\"\n{HIP}")}),
        json!({"id": "syntax", "source": HIP.replace("fmaf(", "fmaff(")}),
    ];
    fs::write(path("candidates.jsonl"), lines.map(|line| line.to_string()).join("\n")).unwrap();
    let evaluate = |results: &str| {
        run(program("mneme"))
            .args(["evaluate".as_ref(), "-rdb".as_ref(), recording.folder().as_os_str()])
            .args(["--kernel", "saxpy", "--confirm-time", "1", "--device", "cpu"])
            .args(["--source-base".as_ref(), path("base.hip").as_os_str()])
            .args(["--candidates".as_ref(), path("candidates.jsonl").as_os_str()])
            .args(["--results-dir".as_ref(), path(results).as_os_str()])
    };
    let outcome = evaluate("results").succeed();
    let found = by_id(&outcome.stdout);
    assert!(found["right"].speedup.is_some(), "{outcome}");
    // It reads two buffers, and writes one of them.
    assert!(found["right"].floor.is_some_and(|floor| floor.bytes == 240_000), "{outcome}");
    assert_eq!(found["wrong"].verdict, Verdict::Incorrect, "{outcome}");
    for (id, line) in [("reading", 1), ("syntax", 6)] {
        let compiler = found[id].compiler.as_ref().unwrap_or_else(|| panic!("{outcome}"));
        assert_eq!((compiler.file.as_deref(), compiler.line), (Some("kernel.hip"), Some(line)), "{outcome}");
    }
    assert!(!outcome.stdout.contains("root:"), "{outcome}");
    evaluate("refused").args(["--nvrtc", "/usr/lib/libnvrtc.so"]).exit_with(64).complains("HIP");
}

#[test]
fn counters_are_refused_by_name_if_the_device_has_none() {
    if !have_compiler("counters_are_refused_by_name_if_the_device_has_none")
        || TestDevice::under_test() != TestDevice::Cpu
    {
        return;
    }
    let kernel = Kernel::tuned();
    let lines = kernel.candidates(&[json!({"id": "a", "options": ["-DROUNDS=rounds"]})]);
    let outcome = kernel
        .evaluate("results")
        .args(["--candidates".as_ref(), lines.as_os_str()])
        .args(["--counters", "dram__bytes.sum,sm__cycles_active.avg"])
        .exit_with(64);
    outcome.complains("dram__bytes.sum,sm__cycles_active.avg: the CPU device has no hardware counters");
    assert!(outcome.stdout.is_empty(), "{outcome}");
}
