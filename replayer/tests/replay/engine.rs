//! Tests of sweeps and of the protocol, with many configurations, many of them bad.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use mneme_model::protocol::Reply;
use mneme_system::exit;
use serde_json::{Value, json};

use crate::recording::{ELEMENTS, Recording};
use crate::{PATIENCE, device, installed, program};

/// The width of a block, with as many blocks as the recording's elements need.
pub fn shape(width: u32) -> Value {
    json!({"block": {"x": width}, "grid": {"x": (ELEMENTS as u32).div_ceil(width)}})
}

fn with(mut configuration: Value, field: &str, value: impl Into<Value>) -> Value {
    configuration[field] = value.into();
    configuration
}

/// Runs a sweep over the lines. Returns the results by id, and the messages.
fn sweep(recording: &Recording, options: &[&str], lines: &[String], status: i32) -> (BTreeMap<u64, Value>, String) {
    let mut command = Command::new(program());
    command.args(["sweep", "-rdb"]).arg(recording.database()).args(options).arg("-");
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let text = lines.join("\n");
    let writer = std::thread::spawn(move || input.write_all(text.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{errors}");
    let mut results = BTreeMap::new();
    for line in output.stdout.lines() {
        let value: Value = serde_json::from_str(&line.unwrap()).unwrap();
        assert!(results.insert(value["id"].as_u64().unwrap(), value.clone()).is_none(), "two results: {value}");
    }
    (results, errors)
}

#[test]
fn a_sweep_runs_on_fresh_inputs_too() {
    let Some(device) = device() else { return };
    let lines = ["default<O1>", "default<O3>"].map(|passes| json!({ "passes": passes }).to_string());
    let options = ["--device", device, "--fresh", "2", "--fresh-seed", "7"];
    let (results, _) = sweep(&Recording::make(), &options, &lines, 0);
    let inputs: Vec<_> = results.values().map(|line| &line["Result"]["evidence"]["fresh_inputs"]).collect();
    for found in &inputs {
        let number = |name: &str| found[name].as_u64().unwrap_or(0);
        assert!(number("agreed") > 0 && number("agreed") + number("discarded") == number("tried"), "{found}");
        assert_eq!(found["seeds"], inputs[0]["seeds"]);
    }
}

#[test]
fn a_sweep_of_which_many_go_wrong_has_a_result_for_each() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let mut lines = Vec::new();
    let mut expected = Vec::new();
    let mut add = |line: String, status: &'static str| {
        lines.push(line);
        expected.push(status);
    };
    for round in 0..4u32 {
        let pipeline = ["default<O1>", "default<O2>", "default<O3>", "default<Oz>"][round as usize];
        for width in [32, 64, 96, 128, 256, 512] {
            add(with(shape(width), "passes", pipeline).to_string(), "verified");
        }
        add(with(json!({}), "passes", "module(trigger-crash-module)").to_string(), "compile_error");
        add(with(json!({}), "passes", format!("no-such-pass-{round}")).to_string(), "compile_error");
        // The kernel faults with this shape, and hangs with the next.
        add(with(shape(33), "passes", pipeline).to_string(), "runtime_error");
        add(with(shape(65), "passes", pipeline).to_string(), "timeout");
        // It writes past the end of its buffer, into other mapped memory.
        add(with(shape(34), "passes", pipeline).to_string(), "failed_verification");
        add(json!({"set_launch_bounds": true, "max_threads": 64, "maxnreg": 20 + round}).to_string(), "invalid_launch");
        add(with(json!({"grid": {"x": 1 + round}}), "passes", pipeline).to_string(), "failed_verification");
        add(json!({"block": {"x": 2048}}).to_string(), "invalid_config");
        add(json!({"shared_mem": 100_000_000 + round}).to_string(), "invalid_launch");
        add("{\"block\":".into(), "invalid_config");
        add(json!({"threads": 3}).to_string(), "invalid_config");
    }
    add(json!({"passes": endless()}).to_string(), "timeout");
    let (results, errors) = sweep(&recording, &["--device", device, "--timeout", "2"], &lines, exit::VERIFIED);
    assert_eq!(results.len(), lines.len());
    for (number, expected) in (1..).zip(&expected) {
        let result = &results[&number]["Result"];
        assert_eq!(result["status"], *expected, "line {number}: {} gave {result}", lines[number as usize - 1]);
        assert_eq!(result["error"] == "", *expected == "verified", "{result}");
    }
    assert!(errors.contains(&format!("{} configurations", lines.len())), "{errors}");
}

#[test]
fn a_compiler_that_takes_all_memory_or_exits_is_that_configurations_result() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    // The pipeline alone exceeds the limit.
    let lines = [
        json!({"passes": format!("function({})", ["gvn"; 1_500_000].join(","))}).to_string(),
        json!({"llvm_options": ["-version"]}).to_string(),
        json!({}).to_string(),
    ];
    let (results, _) = sweep(&recording, &["--device", device, "--memory-limit", "0.1"], &lines, exit::VERIFIED);
    let of = |id: u64| {
        (results[&id]["Result"]["status"].as_str().unwrap(), results[&id]["Result"]["error"].as_str().unwrap())
    };
    assert_eq!(
        of(1),
        (
            "compile_error",
            "the compiler ran out of memory while running the pass pipeline; --memory-limit sets what it may take"
        )
    );
    assert!(of(2).0 == "compile_error" && of(2).1.starts_with("the compiler exited with status 0"), "{:?}", of(2));
    assert_eq!(of(3), ("verified", ""));
}

/// A pipeline that takes longer than any time limit here.
fn endless() -> String {
    format!("function({})", ["gvn"; 200_000].join(","))
}

fn children(pid: u32) -> Vec<u32> {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    children.split_whitespace().map(|child| child.parse().unwrap()).collect()
}

fn kill(process: u32) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(process as i32), nix::sys::signal::Signal::SIGKILL).unwrap();
}

/// The live descendants of this process.
fn descendants(pid: u32) -> Vec<u32> {
    children(pid).iter().flat_map(|child| std::iter::once(*child).chain(descendants(*child))).collect()
}

pub fn is_alive(pid: &u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
}

#[test]
fn whoever_dies_in_the_middle_leaves_no_process() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    for (victim, runs) in [("supervisor", true), ("supervisor", false), ("client", true), ("client", false)] {
        let mut server = Server::start(&recording, &["--device", device, "--builders", "4"]);
        server.say(&json!({"type": "submit", "id": 0}));
        assert!(server.result(0).verified);
        // Endless runs or builds. On the CPU device they do not run at the same time.
        if runs {
            server.say(&json!({"type": "submit", "id": 1, "config": shape(65)}));
        } else {
            for id in 2..5 {
                server.say(&json!({"type": "submit", "id": id, "config": {"passes": endless(), "maxnreg": 16 + id}}));
            }
        }
        server.say(&json!({"type": "statistics"}));
        assert!(matches!(server.reply(), Reply::Statistics(_)));
        let start = Instant::now();
        // The fork server, an executor, and a builder.
        while descendants(server.child.id()).len() < if runs { 2 } else { 3 } {
            assert!(start.elapsed() < PATIENCE, "nothing is at work");
            std::thread::sleep(Duration::from_millis(5));
        }
        let mut processes = descendants(server.child.id());
        processes.push(server.child.id());
        if victim == "supervisor" {
            server.child.kill().unwrap();
        }
        // A client that has exited has closed both of its ends.
        let Server { mut child, input, output } = server;
        drop((input, output));
        let start = Instant::now();
        child.wait().unwrap();
        while processes.iter().any(is_alive) {
            assert!(start.elapsed() < PATIENCE, "the {victim} is gone, and of {processes:?} some are not");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// The process that forks the builders, once it has started.
fn fork_server(server: &Server) -> nix::unistd::Pid {
    let start = Instant::now();
    loop {
        let named = |pid: &u32| {
            std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "mneme-forksrv")
        };
        if let Some(pid) = children(server.child.id()).into_iter().find(named) {
            return nix::unistd::Pid::from_raw(pid as i32);
        }
        assert!(start.elapsed() < PATIENCE, "there is no fork server");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_fork_server_that_hangs_is_replaced_and_nobody_waits_for_it() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device, "--timeout", "5"]);
    server.say(&json!({"type": "submit", "id": 1}));
    assert!(server.result(1).verified);
    let hanging = fork_server(&server);
    nix::sys::signal::kill(hanging, nix::sys::signal::Signal::SIGSTOP).unwrap();
    // More orders than fit into the socket of a fork server that does not read them.
    server.say(&json!({"type": "submit", "id": 2, "code": {"ir-text": format!("; {}\n", "x".repeat(8 << 20))}}));
    server.say(&json!({"type": "submit", "id": 3, "config": {"passes": "default<O1>"}}));
    let start = Instant::now();
    server.say(&json!({"type": "statistics"}));
    assert!(matches!(server.reply(), Reply::Statistics(statistics) if statistics.outstanding == 2));
    assert!(start.elapsed() < Duration::from_secs(5), "the supervisor waits for the fork server");
    let mut results = BTreeMap::new();
    while results.len() < 2 {
        let Reply::Result { id, result } = server.reply() else { panic!("no result") };
        results.insert(id, result);
    }
    assert!(results[&3].verified && results[&2].status.name() == "compile_error", "{results:?}");
    assert!(start.elapsed() < Duration::from_secs(80) && !is_alive(&(hanging.as_raw() as u32)));
    assert_ne!(fork_server(&server), hanging);
    server.end();
}

#[test]
fn equal_code_is_run_once() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let lines: Vec<String> =
        ["{}", "{}", r#"{"codegen_method":"rtc"}"#, r#"{"min_blocks_per_sm":3}"#, r#"{"iterations":7}"#]
            .map(String::from)
            .to_vec();
    let (results, errors) = sweep(&recording, &["--device", device], &lines, exit::VERIFIED);
    let shared: Vec<Option<u64>> = results.values().map(|line| line["Result"]["shared_with"].as_u64()).collect();
    assert_eq!(shared, [None, Some(1), Some(1), Some(1), None], "{results:?}");
    assert_eq!(results[&1]["Result"]["exec_time"], results[&4]["Result"]["exec_time"]);
    assert!(errors.contains("1 build,") && errors.contains("3 results shared"), "{errors}");
    let (fresh, _) = sweep(&recording, &["--device", device, "--no-reuse"], &lines, exit::VERIFIED);
    assert!(fresh.values().all(|line| line["Result"]["shared_with"].is_null()), "{fresh:?}");
}

#[test]
fn every_isolation_gives_the_same_results() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let lines = [
        shape(64).to_string(),
        json!({"grid": {"x": 1}}).to_string(),
        json!({"passes": "none-such"}).to_string(),
        shape(128).to_string(),
    ];
    for isolation in ["fault", "process", "none"] {
        let (results, _) = sweep(&recording, &["--device", device, "--isolation", isolation], &lines, exit::VERIFIED);
        let statuses: Vec<&str> = results.values().map(|line| line["Result"]["status"].as_str().unwrap()).collect();
        assert_eq!(statuses, ["verified", "failed_verification", "compile_error", "verified"], "{isolation}");
    }
}

#[test]
fn a_sweep_without_anything_that_verifies_says_so() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    sweep(&recording, &["--device", device], &["nonsense".into()], exit::NOT_VERIFIED);
    sweep(&recording, &["--device", device], &[], exit::NOT_VERIFIED);
}

pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(recording: &Recording, options: &[&str]) -> Self {
        Self::start_with(recording, options, &[])
    }

    pub fn start_with(recording: &Recording, options: &[&str], environment: &[(&str, &str)]) -> Self {
        let mut command = Command::new(program());
        command.envs(environment.iter().copied());
        command.args(["serve", "-rdb"]).arg(recording.database()).args(options);
        // For a second request.
        command.env("MNEME_CPU_DEVICES", "2");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, input, output };
        let Reply::Hello(hello) = server.reply() else { panic!("no greeting") };
        assert_eq!(hello.protocol, mneme_model::protocol::VERSION);
        // The CPU device's own limits, which are those of common GPUs.
        let limits = &hello.limits;
        assert_eq!(
            (limits.max_threads, limits.max_block.z, limits.warp_size, limits.registers),
            (1024, 64, 32, Some(65536))
        );
        assert!(limits.multiprocessors >= Some(1) && limits.shared_mem_optin >= Some(limits.shared_mem), "{limits:?}");
        server
    }

    pub fn say(&mut self, line: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    pub fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    pub fn result(&mut self, id: u64) -> mneme_model::result::ReplayResult {
        match self.reply() {
            Reply::Result { id: found, result } if found == id => *result,
            other => panic!("no result for {id} but {other:?}"),
        }
    }

    pub fn end(mut self) {
        self.input = None;
        let mut line = String::new();
        assert_eq!(self.output.read_line(&mut line).unwrap(), 0, "{line}");
        assert_eq!(self.child.wait().unwrap().code(), Some(exit::VERIFIED));
    }
}

/// What a submission leaves on the device's heap helps no later one.
#[test]
fn code_that_uses_the_heap_has_processes_of_its_own() {
    // Elsewhere, the heap's address is unknown.
    let Some(device) = device().filter(|device| *device == "cpu") else { return };
    let find = "entry:
  %room = call ptr @malloc(i64 16)
  call void @free(ptr %room)
  %begin = ptrtoint ptr %room to i64
  %page = and i64 %begin, -65536
  %far = add i64 %page, 1048576
  %kept = inttoptr i64 %far to ptr
";
    let with = |use_it: &str| {
        let text = include_str!("kernel.ll").replace("entry:\n", &(find.to_owned() + use_it));
        text + "declare ptr @malloc(i64)\ndeclare void @free(ptr)\n"
    };
    let leaves = with("  store i64 7, ptr %kept\n");
    let finds = with("  %known = load i64, ptr %kept\n  %is_known = icmp eq i64 %known, 7\n").replace(
        "  %new = add i32 %old, %by\n",
        "  %wrong = select i1 %is_known, i32 0, i32 1\n  %sum = add i32 %old, %by\n  %new = add i32 %sum, %wrong\n",
    );
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    for (id, text, status) in [(1, leaves, "verified"), (2, finds, "failed_verification")] {
        server.say(&json!({"type": "submit", "id": id, "code": {"ir-text": text}}));
        let result = server.result(id);
        assert_eq!(result.status.name(), status, "{id}: {}", result.error);
    }
    server.say(&json!({"type": "submit", "id": 3}));
    let result = server.result(3);
    assert!(result.verified && result.evidence.unwrap().own_processes == 0, "other code needs none");
    server.end();
}

#[test]
fn what_is_no_request_is_answered_and_forgotten() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    server.say(&json!({"type": "dance", "id": 4}));
    assert!(matches!(server.reply(), Reply::Error { id: Some(4), error } if error.contains("dance")));
    server.say(&json!({"type": "submit", "id": 5, "config": {"pases": "x"}}));
    assert!(server.result(5).error.contains("pases"));
    server.say(&json!({"type": "submit", "id": 8, "proirity": 5}));
    let refused = server.result(8);
    assert!(
        refused.status.name() == "invalid_config" && refused.error.contains("unknown field 'proirity'"),
        "{}",
        refused.error
    );
    // The device is named as far as it is known. LLVM has compiled nothing.
    let environment = &refused.environment;
    assert!(!environment.device.is_empty() && !environment.versions.contains_key("llvm"), "{refused:?}");
    assert!(!refused.start_time.is_empty() && !refused.end_time.is_empty());
    server.say(&json!({"type": "memory", "moment": "prologue", "regoin": "x"}));
    assert!(matches!(server.reply(), Reply::Error { id: None, error } if error.contains("'regoin'")));
    server.say(&json!({"type": "cancel", "id": 6}));
    assert!(matches!(server.reply(), Reply::Error { id: Some(6), .. }));
    server.say(&json!({"type": "hello", "protocol": 99}));
    assert!(matches!(server.reply(), Reply::Error { id: None, error } if error.contains("99")));
    server.say(&json!({"type": "submit", "id": 7}));
    assert!(server.result(7).verified);
    server.end();
}

#[test]
fn a_configuration_runs_on_the_device_that_it_names() {
    let Some(device) = device().filter(|device| *device == "cpu") else { return };
    let mut server = Server::start(&Recording::make(), &["--device", &format!("{device},{device}:1")]);
    for id in 0..6 {
        server.say(&json!({"type": "submit", "id": id, "config": shape(64), "fresh": true, "device": 1}));
    }
    // Equal configurations share a result on the same device.
    server.say(&json!({"type": "submit", "id": 6, "config": shape(64), "device": 0}));
    server.say(&json!({"type": "submit", "id": 7, "config": shape(64), "device": 1}));
    server.say(&json!({"type": "submit", "id": 8, "device": 2}));
    let mut results = BTreeMap::new();
    while results.len() < 9 {
        let Reply::Result { id, result } = server.reply() else { panic!("no result") };
        results.insert(id, result);
    }
    for (id, ordinal) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (6, 0), (7, 1)] {
        assert!(results[&id].verified && results[&id].gpu_id == ordinal, "{id}: {:?}", results[&id]);
    }
    assert_eq!(results[&6].shared_with, None);
    assert!(results[&8].error.contains("device 2"), "{}", results[&8].error);
    server.end();
}

#[test]
fn priorities_come_first_and_cancelled_ones_never() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device, "--builders", "1", "--timeout", "2"]);
    // This one hangs for two seconds, so the others wait.
    server.say(&json!({"type": "submit", "id": 0, "config": shape(65), "priority": 9}));
    for (id, priority) in [(1, 0), (2, 0), (3, 5)] {
        server.say(&json!({"type": "submit", "id": id, "priority": priority, "fresh": true}));
    }
    server.say(&json!({"type": "cancel", "id": 1}));
    server.say(&json!({"type": "statistics"}));
    assert!(matches!(server.reply(), Reply::Cancelled { id: 1 }));
    assert!(matches!(
        server.reply(),
        Reply::Statistics(statistics) if statistics.submitted == 4 && statistics.outstanding == 3
    ));
    assert_eq!(server.result(0).status.name(), "timeout");
    assert!(server.result(3).verified && server.result(2).verified);
    server.say(&json!({"type": "statistics"}));
    let Reply::Statistics(statistics) = server.reply() else { panic!("no statistics") };
    assert_eq!(
        (statistics.finished["verified"], statistics.cancelled, statistics.executors_replaced),
        (2, 1, 1),
        "{statistics:?}"
    );
    server.say(&json!({"type": "submit", "id": 4, "config": shape(65), "fresh": true}));
    server.say(&json!({"type": "shutdown"}));
    assert!(matches!(server.reply(), Reply::Cancelled { id: 4 }));
    server.end();
}

#[test]
fn nothing_is_taken_behind_a_shutdown() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device, "--timeout", "60"]);
    server.say(&json!({"type": "submit", "id": 1, "iterations": 20_000}));
    loop {
        server.say(&json!({"type": "statistics"}));
        match server.reply() {
            Reply::Statistics(statistics) if statistics.running == 1 => break,
            Reply::Statistics(_) => std::thread::sleep(Duration::from_millis(2)),
            other => panic!("{other:?}"),
        }
    }
    // The second one cannot verify, and the third equals neither.
    let lines = [
        json!({"type": "shutdown"}),
        json!({"type": "submit", "id": 2, "config": {"grid": {"x": 1}}}),
        json!({"type": "submit", "id": 3, "config": shape(64)}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    server.input.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(matches!(server.reply(), Reply::Cancelled { id: 1 }));
    server.end();
}

#[test]
fn files_that_cannot_be_written_leave_the_verdict_alone() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    server
        .say(&json!({"type": "submit", "id": 1, "config": {"grid": {"x": 1}}, "outputs": {"memory": "/proc/nope/x"}}));
    assert!(matches!(server.reply(), Reply::Error { id: Some(1), error } if error.contains("/proc/nope/x")));
    assert_eq!(server.result(1).status.name(), "failed_verification");
    server.say(&json!({"type": "submit", "id": 2, "iterations": 0}));
    assert_eq!(server.result(2).status.name(), "invalid_config");
    server.say(&json!({"type": "submit", "id": 3, "config": {"passes": "no-such-pass"}}));
    assert_ne!(server.result(3).environment.device, "", "it is known, if nothing ran there");
    server.say(&json!({"type": "statistics"}));
    let Reply::Statistics(statistics) = server.reply() else { panic!("no statistics") };
    assert_eq!(
        (statistics.executors_replaced, statistics.submitted, statistics.finished["invalid_config"]),
        (0, 3, 1),
        "{statistics:?}"
    );
    server.end();
}

#[test]
fn the_builders_parent_and_an_idle_executor_are_replaced() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device, "-v", "error"]);
    for id in 0..2 {
        server.say(&json!({"type": "submit", "id": id, "config": {"maxnreg": 32 + id}}));
        assert!(server.result(id).verified);
        children(server.child.id()).into_iter().for_each(kill);
    }
    for id in 2..8 {
        server.say(&json!({"type": "submit", "id": id, "config": {"maxnreg": 32 + id}}));
    }
    let mut verified: Vec<u64> = (2..8)
        .map(|_| match server.reply() {
            Reply::Result { id, result } if result.verified => id,
            other => panic!("{other:?}"),
        })
        .collect();
    verified.sort_unstable();
    assert_eq!(verified, [2, 3, 4, 5, 6, 7]);
    server.end();
}

#[test]
fn builds_whose_parent_dies_are_ordered_again() {
    let Some(device) = device() else { return };
    let mut server =
        Server::start(&Recording::make(), &["--device", device, "-v", "error", "--timeout", "2", "--builders", "3"]);
    for id in 0..3 {
        server.say(&json!({"type": "submit", "id": id, "config": {"passes": endless(), "maxnreg": 16 + id}}));
    }
    let start = Instant::now();
    let parent = loop {
        assert!(start.elapsed() < PATIENCE, "nothing is built");
        if let Some(parent) = children(server.child.id()).into_iter().find(|child| !children(*child).is_empty()) {
            break parent;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    kill(parent);
    for _ in 0..3 {
        assert!(matches!(server.reply(), Reply::Result { result, .. } if result.status.name() == "timeout"));
    }
    server.say(&json!({"type": "submit", "id": 3}));
    assert!(server.result(3).verified);
    server.end();
}

#[test]
fn progress_comes_while_there_is_work() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device, "--timeout", "1"]);
    server.say(&json!({"type": "progress", "interval_s": 0.05}));
    server.say(&json!({"type": "submit", "id": 1, "config": shape(65)}));
    let (mut told, begin) = (0, Instant::now());
    let result = loop {
        match server.reply() {
            Reply::Progress(statistics) => {
                assert_eq!((statistics.submitted, statistics.outstanding), (1, 1));
                told += 1;
            }
            Reply::Result { id: 1, result } => break result,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(result.status.name(), "timeout");
    let most = begin.elapsed().as_millis() / 50 + 2;
    assert!((5..=most).contains(&told), "{told}, and at most {most} every twentieth of a second");
    server.say(&json!({"type": "progress", "interval_s": 0}));
    server.say(&json!({"type": "submit", "id": 2, "config": shape(65), "fresh": true}));
    assert_eq!(server.result(2).status.name(), "timeout");
    server.end();
}

/// The effect of `kernel.ll` for the recorded shape.
const UPDATE_PTX: &str = "
.version 8.0
.target sm_90
.address_size 64
.const .align 4 .u32 step;
.visible .global .align 4 .u32 counter;
.visible .entry _Z6updatePii(.param .u64 data, .param .u32 n) {
  .reg .pred %out;
  .reg .b32 %tid, %ntid, %ctaid, %i, %n, %old, %by, %sum, %seen;
  .reg .b64 %data, %offset, %place;
  ld.param.u64 %data, [data];
  ld.param.u32 %n, [n];
  mov.u32 %tid, %tid.x;
  mov.u32 %ntid, %ntid.x;
  mov.u32 %ctaid, %ctaid.x;
  mad.lo.s32 %i, %ctaid, %ntid, %tid;
  setp.ge.s32 %out, %i, %n;
  @%out bra end;
  mul.wide.s32 %offset, %i, 4;
  add.s64 %place, %data, %offset;
  ld.u32 %old, [%place];
  ld.const.u32 %by, [step];
  add.s32 %sum, %old, %by;
  st.u32 [%place], %sum;
  atom.global.add.u32 %seen, [counter], 1;
end:
  ret;
}
";

#[test]
fn ptx_can_be_submitted() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    if device == "cpu" {
        for (id, text, status, error) in [
            (1, UPDATE_PTX.to_owned(), "verified", ""),
            (2, UPDATE_PTX.replace("add.s32 %sum", "sub.s32 %sum"), "failed_verification", ""),
            (
                3,
                UPDATE_PTX.replace("_Z6updatePii", "other"),
                "compile_error",
                "no kernel named _Z6updatePii; it has other",
            ),
            (4, UPDATE_PTX.replace("add.s64 %place, %data,", "alloca.u64 %place,"), "invalid_config", "alloca"),
            (5, UPDATE_PTX.replace("add.s32 %sum", "blend.s32 %sum"), "invalid_launch", "CUDA_ERROR_NOT_SUPPORTED"),
        ] {
            server.say(&json!({"type": "submit", "id": id, "code": {"ptx-text": text}}));
            let result = server.result(id);
            assert_eq!(result.status.name(), status, "{id}: {}", result.error);
            assert!(result.error.contains(error), "{id}: {}", result.error);
            assert_eq!(result.lifted, [1, 2, 5].contains(&id), "{id}");
        }
        return server.end();
    }
    let folder = tempfile::tempdir().unwrap();
    let (ptx, cubin) = (folder.path().join("kernel.ptx"), folder.path().join("kernel.cubin"));
    server.say(&json!({"type": "submit", "id": 1, "outputs": {"ptx": ptx, "image": cubin}}));
    assert!(server.result(1).verified);
    let text = std::fs::read_to_string(&ptx).unwrap();
    let wrong = text.replace("add.s32", "sub.s32");
    assert_ne!(wrong, text);
    for (id, code, status) in [
        (2, json!({"ptx-text": text}), "verified"),
        (3, json!({"ptx-file": ptx}), "verified"),
        (4, json!({"cubin-file": cubin}), "verified"),
        (5, json!({"ptx-text": wrong}), "failed_verification"),
        (6, json!({"ptx-text": text.replace("_Z6updatePii", "other")}), "compile_error"),
        (7, json!({"ptx-text": ".version 8.0"}), "compile_error"),
    ] {
        server.say(&json!({"type": "submit", "id": id, "code": code}));
        let result = server.result(id);
        assert_eq!(result.status.name(), status, "{id}: {}", result.error);
    }
    server.end();
}

#[test]
fn memory_and_ir_are_files() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    let mut bytes = BTreeMap::new();
    let mut places = Vec::new();
    for moment in ["prologue", "epilogue"] {
        server.say(&json!({"type": "memory", "moment": moment, "region": "counter"}));
        let Reply::Memory { regions, .. } = server.reply() else { panic!("no memory") };
        assert_eq!(regions.len(), 1);
        let file = std::fs::read(&regions[0].path).unwrap();
        let parts =
            regions[0].parts.iter().flat_map(|part| file[part.offset as usize..][..part.size as usize].to_vec());
        bytes.insert(moment, parts.collect::<Vec<u8>>());
        assert_eq!(bytes[moment].len() as u64, regions[0].size);
        places.push(regions[0].parts[0].offset as usize);
    }
    assert_ne!(bytes["prologue"], bytes["epilogue"], "the kernel counts");
    server.say(&json!({"type": "memory", "moment": "prologue", "region": "nothing"}));
    assert!(matches!(server.reply(), Reply::Error { .. }));
    server.say(&json!({"type": "ir"}));
    let Reply::Ir { path } = server.reply() else { panic!("no IR") };
    let ir = std::fs::read(path).unwrap();
    assert!(ir.starts_with(b"BC"));
    let folder = tempfile::tempdir().unwrap();
    let (bitcode, text) = (folder.path().join("kernel.bc"), folder.path().join("kernel.ll"));
    std::fs::write(&bitcode, ir).unwrap();
    server.say(&json!({"type": "submit", "id": 1, "code": {"ir-file": bitcode}, "outputs": {"ir": text}}));
    assert!(server.result(1).verified);
    // The result of the pipeline is IR again.
    server.say(&json!({"type": "submit", "id": 2, "code": {"ir-file": text}, "config": {"passes": "default<O0>"}}));
    assert!(server.result(2).verified);
    server.say(&json!({"type": "submit", "id": 3, "code": {"ir-text": "no IR"}}));
    assert_eq!(server.result(3).status.name(), "compile_error");
    // The memory after a run has the layout of the recorded memory before the launch.
    let memory = folder.path().join("memory.bin");
    server.say(&json!({"type": "submit", "id": 4, "outputs": {"memory": memory}}));
    assert!(server.result(4).verified);
    assert_eq!(std::fs::read(memory).unwrap()[places[0]..][..4], bytes["epilogue"]);
    server.end();
}

#[test]
fn memory_as_a_run_leaves_it_is_laid_out_like_the_prologue() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    let folder = tempfile::tempdir().unwrap();
    let (whole, part) = (folder.path().join("whole"), folder.path().join("part"));
    let mut memory = |moment: &str| {
        server.say(&json!({"type": "memory", "moment": moment}));
        let Reply::Memory { regions, .. } = server.reply() else { panic!("no memory") };
        regions
    };
    let (before, after) = (memory("prologue"), memory("epilogue"));
    server.say(&json!({"type": "submit", "id": 1, "outputs": {"memory": whole}}));
    assert!(server.result(1).verified);
    server.say(&json!({"type": "submit", "id": 2, "config": {"grid": {"x": 1}}, "outputs": {"memory": part}}));
    assert_eq!(server.result(2).status.name(), "failed_verification");
    let (whole, part, snapshot) =
        (std::fs::read(whole).unwrap(), std::fs::read(part).unwrap(), std::fs::read(&before[0].path).unwrap());
    let mut differing = 0;
    for (before, after) in before.iter().zip(&after) {
        let [place] = before.parts[..] else { panic!("one part: {before:?}") };
        let at = place.offset as usize..(place.offset + place.size) as usize;
        let expected: Vec<u8> = after
            .parts
            .iter()
            .flat_map(|part| &snapshot[part.offset as usize..][..part.size as usize])
            .copied()
            .collect();
        assert_eq!(whole[at.clone()], expected, "{before:?}");
        differing += usize::from(part[at] != expected[..]);
    }
    assert_eq!(differing, 2, "the data and the counter");
    server.end();
}

#[test]
fn the_example_scripts_print_tables() {
    let Some(device) = device().filter(|_| installed("jq")) else { return };
    let recording = Recording::make();
    let scripts = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples");
    for (name, expected) in
        [("sweep-blocks.sh", "128"), ("sweep-pipelines.sh", "default<O1>"), ("sweep-random.sh", "threads")]
    {
        let mut command = Command::new(scripts.join(name));
        let output = command.arg(recording.database()).args(["7", "--device", device]).output().unwrap();
        let (table, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{name}: {errors}");
        assert!(table.lines().count() > 2 && table.contains(expected), "{name}: {table}{errors}");
    }
}
