//! Tests that `mneme-bisect` names the part at fault.
//!
//! The faults are planted passes, real passes that crash, code generation, the configuration, and the kernel itself.

use std::fs;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use mneme_e2e::apps::{DELICATE, app};
use mneme_e2e::command::{ProgramOutput, Run, run};
use mneme_e2e::installation::{TestDevice, program};
use mneme_e2e::platform::llvm;
use mneme_e2e::recording::Recording;
use mneme_recording::database::KernelRecord;
use serde_json::Value;
use tempfile::TempDir;

/// Exit statuses of docs/reference/exit-status.md.
const NOTHING: i32 = 0;
const IR_PASS: i32 = 1;
const BACK_END: i32 = 2;
const ASSEMBLER: i32 = 3;
const KERNEL: i32 = 4;
const CONFIGURATION: i32 = 5;
const UNCLEAR: i32 = 125;

/// A recorded kernel, and a folder for the findings.
struct Case {
    recording: Recording,
    output: TempDir,
}

impl Case {
    fn of(name: &str) -> Self {
        let app = if name == DELICATE.name { &DELICATE } else { app(name) };
        Self { recording: Recording::of(app, &[]), output: tempfile::tempdir().unwrap() }
    }

    /// `mneme bisect -rdb … --kernel KERNEL PIPELINE --json`.
    fn bisect(&self, kernel: &str, pipeline: &str) -> Run {
        run(program("mneme"))
            .args(["bisect".as_ref(), "-rdb".as_ref(), self.recording.folder().as_os_str()])
            .args(["--kernel", kernel, "--json", "--device", TestDevice::under_test().name(), pipeline, "-o"])
            .arg(self.output.path())
    }

    fn file(&self, name: &str) -> String {
        let path = self.output.path().join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Checks that the bisection finds the planted fault and nothing else.
    #[track_caller]
    fn finds(&self, bisect: Run, status: i32, verdict: &str) -> (ProgramOutput, Value) {
        let outcome = bisect.exit_with(status);
        let json = outcome.json();
        assert_eq!(json["verdict"], verdict, "{outcome}");
        (outcome, json)
    }

    fn kernel_name(&self) -> String {
        let (_, KernelRecord { kernel_name, .. }) = self.recording.kernels().remove(0);
        kernel_name
    }
}

/// A long pipeline of function and loop passes, with another pass in an arbitrary position.
fn long_pipeline(planted: &str) -> (String, usize) {
    let usual = "sroa,early-cse<memssa>,simplifycfg,instcombine,loop-mssa(licm),gvn,dse,reassociate,sccp,adce,jump-threading,\
                 correlated-propagation,loop-simplify,lcssa,tailcallelim,memcpyopt,bdce,div-rem-pairs,float2int,sink";
    let usual: Vec<&str> = usual.split(',').collect();
    let mut passes: Vec<&str> = usual.iter().copied().cycle().take(5 * usual.len()).collect();
    let random = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().subsec_nanos() as usize;
    let place = random % passes.len();
    passes.insert(place, planted);
    println!("planted at place {place}");
    (format!("function({})", passes.join(",")), place)
}

/// An installed LLVM program in an environment without Mneme. Its version is the one that compiles the applications.
fn llvm_program(name: &str) -> Option<Run> {
    let path = Path::new("/usr/bin").join(format!("{name}-{}", llvm()));
    path.exists().then(|| run("env").args(["-i", "PATH=/usr/bin:/bin"]).arg(path))
}

#[test]
fn a_wrong_pass_is_found_wherever_it_is() {
    let case = Case::of("vecadd");
    for fault in ["wrong-operator", "narrowed-store"] {
        let planted = format!("mneme-fault<{fault}>");
        let (pipeline, _) = long_pipeline(&planted);
        let (outcome, json) =
            case.finds(case.bisect("vecadd", &pipeline).args(["--reduce", "600"]), IR_PASS, "ir_pass");
        let pass = &json["pass"];
        assert_eq!(
            (&pass["pass"], pass["from"].as_u64()),
            (&"mneme-fault".into(), pass["number"].as_u64()),
            "{outcome}"
        );
        assert_eq!(pass["unit"], format!("function {}", case.kernel_name()), "{outcome}");
        assert!(pass["of"].as_u64() >= Some(100), "{outcome}");
        assert_eq!(json["mismatch"]["dtype"], "i64", "{outcome}");
        // The files show what the pass did, and how to reproduce it.
        let (before, after) = (case.file("function-before.ll"), case.file("function-after.ll"));
        assert!(before.starts_with("define ") && after.starts_with("define ") && before != after);
        assert!(case.file("pass.diff").lines().any(|line| line.starts_with("+  ")));
        assert_eq!(json["files"]["opt"], format!("function({planted})"), "{outcome}");
        let [whole, reduced] = [0, 1].map(|at| json["files"]["instructions"][at].as_u64().unwrap_or(u64::MAX));
        assert!(reduced < 30 && reduced <= whole, "{outcome}");
        assert!(
            case.file("reduced.ll").contains(&case.kernel_name())
                && case.file("reduced.ll") != case.file("reduced-after.ll")
        );
    }
}

#[test]
fn a_fault_between_real_pipelines_is_found() {
    let case = Case::of("saxpy");
    let pipeline = "default<O1>,function(mneme-fault<lost-store>),default<O3>";
    let (outcome, json) = case.finds(case.bisect("saxpy", pipeline).args(["--reduce", "600"]), IR_PASS, "ir_pass");
    assert_eq!(json["pass"]["pass"], "mneme-fault", "{outcome}");
    assert!(json["files"]["instructions"][1].as_u64().is_some_and(|count| count < 30), "{outcome}");
    let launch: Value = serde_json::from_str(&case.file("launch.json")).unwrap();
    assert_eq!(launch["block"]["x"], 128);
    outcome.complains("an IR pass: pass ");
}

#[test]
fn a_pass_that_crashes_is_found_and_llvm_alone_shows_it() {
    let case = Case::of("vecadd");
    let (pipeline, _) = long_pipeline("trigger-crash-function");
    let bisect = case.bisect("vecadd", &pipeline).args(["--failing", "crash", "--reduce", "600"]);
    let (outcome, json) = case.finds(bisect, IR_PASS, "ir_pass");
    assert_eq!(
        (&json["pass"]["pass"], &json["files"]["opt"]),
        (&"trigger-crash-function".into(), &"function(trigger-crash-function)".into()),
        "{outcome}"
    );
    assert!(json["files"]["instructions"][1].as_u64().is_some_and(|count| count < 30), "{outcome}");
    if llvm_program("opt").is_some() {
        let reproduced = run(case.output.path().join("reproduce.sh")).outcome();
        assert_ne!(reproduced.status, 0, "{reproduced}");
        reproduced.complains("PLEASE submit a bug report");
    }
    // A build without a crash is good.
    case.finds(case.bisect("vecadd", "default<O2>").args(["--failing", "crash"]), NOTHING, "good");
}

#[test]
fn a_crash_of_llvms_own_is_found_and_llvm_alone_shows_it() {
    let case = Case::of("reduce");
    // One run of instcombine leaves work on this kernel. LLVM 19 crashes if the option makes it check for that.
    let pipeline = "function(sroa,simplifycfg,instcombine<verify-fixpoint>,gvn)";
    let bisect = case.bisect("reduce", pipeline).args(["--failing", "crash", "--reduce", "20"]);
    let (outcome, json) = case.finds(bisect, IR_PASS, "ir_pass");
    assert_eq!(json["pass"]["pass"], "instcombine", "{outcome}");
    let [whole, reduced] = [0, 1].map(|at| json["files"]["instructions"][at].as_u64().unwrap_or(u64::MAX));
    assert!(reduced < whole, "{outcome}");
    if llvm_program("opt").is_some() {
        let reproduced = run(case.output.path().join("reproduce.sh")).outcome();
        assert_ne!(reproduced.status, 0, "{reproduced}");
        reproduced.complains("did not reach a fixpoint");
    }
}

#[test]
fn wrong_code_generation_is_told_from_wrong_passes() {
    let case = Case::of("vecadd");
    let pipeline = "default<O1>,function(mneme-fault<codegen>),default<O3>";
    let (outcome, json) = case.finds(case.bisect("vecadd", pipeline).args(["--reduce", "600"]), BACK_END, "back_end");
    assert_eq!(json["codegen_pass"]["pass"], "Mneme's planted fault", "{outcome}");
    assert!(
        case.file("given.ll").contains("mneme.fault.codegen") && case.file("reproduce.sh").starts_with("#!/bin/sh")
    );
    assert!(json["files"]["instructions"][1].as_u64().is_some_and(|count| count < 30), "{outcome}");
    if TestDevice::under_test() == TestDevice::Cpu {
        // The fault was in code for this machine's processor. Only Mneme compiles such IR to it.
        let path =
            format!("{}:{}", program("mneme-replay").parent().unwrap().display(), std::env::var("PATH").unwrap());
        run(case.output.path().join("reproduce.sh")).env("PATH", path).exit_with(mneme_system::exit::NOT_VERIFIED);
    } else {
        assert!(case.file("code.diff").contains("sub.s64") && case.file("bad.ptx").contains(".entry"), "{outcome}");
    }
}

#[test]
fn code_generation_that_gives_up_is_found_and_llvm_alone_shows_it() {
    let case = Case::of("vecadd");
    let bisect = case.bisect("vecadd", "default<O1>,function(mneme-fault<unselectable>),default<O3>");
    let (outcome, json) = case.finds(bisect.args(["--failing", "crash", "--reduce", "600"]), BACK_END, "back_end");
    assert!(json["error"].as_str().unwrap().contains("Cannot select"), "{outcome}");
    assert_eq!(json["pass"]["pass"], "mneme-fault", "{outcome}");
    assert!(json["files"]["instructions"][1].as_u64().is_some_and(|count| count < 30), "{outcome}");
    assert!(
        case.file("given.ll").contains("@llvm.vscale.i64") && case.file("reduced.ll").contains("@llvm.vscale.i64"),
        "{outcome}"
    );
    assert!(case.file("pass.diff").contains("@llvm.vscale.i64"), "{outcome}");
    for ir in ["given.ll", "reduced.ll"] {
        let Some(llc) = llvm_program("llc") else { return mneme_fixtures::skip("llc is not installed") };
        let reproduced = llc.args(["-mcpu=sm_90", ir, "-o", "/dev/null"]).folder(case.output.path()).outcome();
        assert_ne!(reproduced.status, 0, "{reproduced}");
        reproduced.complains("Cannot select");
    }
    if TestDevice::under_test() == TestDevice::Cuda {
        let reproduced = run(case.output.path().join("reproduce.sh")).outcome();
        assert_ne!(reproduced.status, 0, "{reproduced}");
        reproduced.complains("Cannot select");
    }
}

#[test]
fn an_assembler_that_gives_up_is_found() {
    if TestDevice::under_test() == TestDevice::Cpu {
        // The CPU device uses no assembler.
        return;
    }
    let case = Case::of("vecadd");
    let bisect = case.bisect("vecadd", "default<O1>,function(mneme-fault<unassemblable>),default<O3>");
    let (outcome, json) = case.finds(bisect.args(["--failing", "crash", "--reduce", "600"]), ASSEMBLER, "assembler");
    assert_eq!(json["pass"]["pass"], "mneme-fault", "{outcome}");
    assert!(json["files"]["instructions"][1].as_u64().is_some_and(|count| count < 30), "{outcome}");
    assert!(
        case.file("kernel.ptx").contains("no.such.instruction") && case.file("reproduce.sh").contains("ptxas"),
        "{outcome}"
    );
}

#[test]
fn a_wrong_assembler_is_told_from_wrong_code_generation() {
    let case = Case::of("vecadd");
    let bisect =
        case.bisect("vecadd", "default<O1>,function(mneme-fault<assembler>),default<O3>").args(["--reduce", "600"]);
    if TestDevice::under_test() == TestDevice::Cpu {
        // The CPU device uses no assembler.
        case.finds(bisect, NOTHING, "good");
        return;
    }
    let (outcome, json) = case.finds(bisect, ASSEMBLER, "assembler");
    assert_eq!(json["level"], serde_json::json!({"field": "ptx_opt", "good": 1, "bad": 2}), "{outcome}");
    assert!(json["files"]["instructions"][1].as_u64().is_some_and(|count| count < 30), "{outcome}");
    assert!(
        case.file("kernel.ptx").contains(".entry") && case.file("given.ll").contains("mneme.fault.assembler"),
        "{outcome}"
    );
}

#[test]
fn a_slow_pass_is_found() {
    let case = Case::of("vecadd");
    let pipeline = "default<O1>,function(mneme-fault<slow>),default<O1>";
    let options =
        ["--failing", "slow", "--threshold", "10", "--reference", "default<O1>", "--repeat", "9", "--reduce", "20"];
    let (outcome, json) = case.finds(case.bisect("vecadd", pipeline).args(options), IR_PASS, "ir_pass");
    assert_eq!(json["pass"]["pass"], "mneme-fault", "{outcome}");
    assert!(json["figures"][1].as_f64().unwrap() > 10.0 * json["figures"][0].as_f64().unwrap(), "{outcome}");
    // If times vary too much, no reduced IR is reliably slow.
    assert!(json["files"]["instructions"][1].as_u64().is_none_or(|count| count < 30), "{outcome}");
}

#[test]
fn fast_math_and_undefined_behaviour_are_no_passs_fault() {
    let case = Case::of(DELICATE.name);
    let (outcome, json) = case.finds(
        case.bisect("numbers", "default<O3>").args(["--fast-math", "--reduce", "0"]),
        CONFIGURATION,
        "configuration",
    );
    assert_eq!(json["field"], "fast_math", "{outcome}");
    // Without folding in code generation, the fault needs a pass of LLVM. LLVM's program reproduces it from the files
    // in the folder.
    let options = ["--fast-math", "--codegen-opt", "0", "--reduce", "0"];
    let (outcome, json) =
        case.finds(case.bisect("numbers", "default<O3>").args(options), CONFIGURATION, "configuration");
    // On a GPU, code generation itself takes this liberty.
    if TestDevice::under_test() == TestDevice::Cpu {
        assert_eq!(json["pass"]["pass"], "instcombine", "{outcome}");
    }
    if TestDevice::under_test() == TestDevice::Cpu && llvm_program("opt").is_some() {
        assert!(json["files"]["opt"].is_string(), "{outcome}");
        run("env").args(["-i", "PATH=/usr/bin:/bin"]).arg(case.output.path().join("reproduce.sh")).succeed();
        let plain = |name: &str| {
            let printed =
                llvm_program("opt").unwrap().args(["-S", "-passes=verify", name]).folder(case.output.path()).succeed();
            printed.stdout.split_inclusive('\n').filter(|line| !line.contains("ModuleID")).collect::<String>()
        };
        assert_eq!(plain("again.ll"), plain("after.ll"));
        assert_ne!(plain("again.ll"), plain("before.ll"));
    }
    case.finds(case.bisect("numbers", "default<O3>"), NOTHING, "good");

    let bisect = case.bisect("overflow", "default<O0>").args(["--reference", "default<O3>", "--reduce", "0"]);
    let (outcome, json) = case.finds(bisect, KERNEL, "kernel");
    assert!(json["evidence"].to_string().contains("mul nsw"), "{outcome}");

    // A few runs may all give the same result.
    let bisect = case.bisect("order", "default<O3>").args(["--repeat", "50"]).env("MNEME_CPU_THREADS", "2");
    let (outcome, json) = case.finds(bisect, KERNEL, "kernel");
    assert!(json["evidence"].to_string().contains("runs of the same code"), "{outcome}");
}

/// The bisection finds a pass that breaks a kernel in some runs, or reports no culprit. It mentions findings of
/// `--check`, but they do not clear a wrong pass.
#[test]
fn failures_now_and_then_and_faults_that_do_not_matter_mislead_nobody() {
    let case = Case::of(DELICATE.name);
    let pipeline = "default<O1>,function(mneme-fault<lost-store>),default<O3>";
    let (outcome, json) = case.finds(case.bisect("benign", pipeline).args(["--reduce", "0"]), IR_PASS, "ir_pass");
    assert_eq!(json["pass"]["pass"], "mneme-fault", "{outcome}");
    assert!(json["evidence"].to_string().contains("reads what nothing has written"), "{outcome}");

    let outcome = case.bisect("coin", pipeline).args(["--reduce", "0"]).outcome();
    let json = outcome.json();
    match json["verdict"].as_str() {
        Some("ir_pass") => assert_eq!(json["pass"]["pass"], "mneme-fault", "{outcome}"),
        verdict => assert!(matches!(verdict, Some("unclear" | "good")), "{outcome}"),
    }
}

#[test]
fn what_cannot_be_judged_is_said_to_be_so() {
    let case = Case::of("vecadd");
    let bisect = case.bisect("vecadd", "default<O3>").args(["--reference", "function(mneme-fault<lost-store>)"]);
    let (outcome, _) = case.finds(bisect, UNCLEAR, "unclear");
    outcome.complains("the reference");
    let missing = tempfile::tempdir().unwrap();
    let missing = run(program("mneme-bisect")).arg("-rdb").arg(missing.path().join("1.json"));
    missing.exit_with(mneme_system::exit::NO_INPUT);
    run(program("mneme-bisect")).args(["--failing", "sometimes"]).exit_with(mneme_system::exit::BAD_USAGE);
    if TestDevice::under_test() == TestDevice::Cpu {
        let outcome =
            case.bisect("vecadd", "default<O3>").args(["--failing", "regs"]).exit_with(mneme_system::exit::BAD_USAGE);
        outcome.complains("needs a GPU");
    }
}
