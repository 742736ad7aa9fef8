//! Sweeps and the protocol: many configurations, many of them bad.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mneme_core::exit;
use mneme_core::protocol::Reply;
use serde_json::{Value, json};

use crate::recording::{ELEMENTS, Recording};
use crate::{device, program};

/// The width of a block and as many blocks as the recording's elements need.
fn shape(width: u32) -> Value {
    json!({"block": {"x": width}, "grid": {"x": (ELEMENTS as u32).div_ceil(width)}})
}

fn with(mut configuration: Value, field: &str, value: impl Into<Value>) -> Value {
    configuration[field] = value.into();
    configuration
}

/// Runs a sweep over the lines; results by id, and what it said.
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
        // The kernel faults under this shape, and hangs under the next.
        add(with(shape(33), "passes", pipeline).to_string(), "runtime_error");
        add(with(shape(65), "passes", pipeline).to_string(), "timeout");
        add(with(json!({"grid": {"x": 1 + round}}), "passes", pipeline).to_string(), "failed_verification");
        add(json!({"block": {"x": 2048}}).to_string(), "invalid_config");
        add(json!({"shared_mem": 100_000_000 + round}).to_string(), "invalid_launch");
        add("{\"block\":".into(), "invalid_config");
        add(json!({"threads": 3}).to_string(), "invalid_config");
    }
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
fn equal_code_is_run_once() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let lines: Vec<String> =
        ["{}", "{}", r#"{"codegen_method":"rtc"}"#, r#"{"min_blocks_per_sm":3}"#, r#"{"iterations":7}"#].map(String::from).to_vec();
    let (results, errors) = sweep(&recording, &["--device", device], &lines, exit::VERIFIED);
    let shared: Vec<Option<u64>> = results.values().map(|line| line["Result"]["shared_with"].as_u64()).collect();
    assert_eq!(shared, [None, Some(1), Some(1), Some(1), None], "{results:?}");
    assert_eq!(results[&1]["Result"]["exec_time"], results[&4]["Result"]["exec_time"]);
    assert!(errors.contains("1 builds") && errors.contains("3 results shared"), "{errors}");
    let (fresh, _) = sweep(&recording, &["--device", device, "--fresh"], &lines, exit::VERIFIED);
    assert!(fresh.values().all(|line| line["Result"]["shared_with"].is_null()), "{fresh:?}");
}

#[test]
fn every_isolation_gives_the_same_results() {
    let Some(device) = device() else { return };
    let recording = Recording::make();
    let lines =
        [shape(64).to_string(), json!({"grid": {"x": 1}}).to_string(), json!({"passes": "none-such"}).to_string(), shape(128).to_string()];
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

struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Server {
    fn start(recording: &Recording, options: &[&str]) -> Self {
        let mut command = Command::new(program());
        command.args(["serve", "-rdb"]).arg(recording.database()).args(options);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let mut server = Self { child, input, output };
        let Reply::Hello(hello) = server.reply() else { panic!("no greeting") };
        assert_eq!(hello.protocol, mneme_core::protocol::VERSION);
        server
    }

    fn say(&mut self, line: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{line}").unwrap();
    }

    fn reply(&mut self) -> Reply {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn result(&mut self, id: u64) -> mneme_core::result::ReplayResult {
        match self.reply() {
            Reply::Result { id: found, result } if found == id => *result,
            other => panic!("no result for {id} but {other:?}"),
        }
    }

    fn end(mut self) {
        self.input = None;
        let mut line = String::new();
        assert_eq!(self.output.read_line(&mut line).unwrap(), 0, "{line}");
        assert_eq!(self.child.wait().unwrap().code(), Some(exit::VERIFIED));
    }
}

#[test]
fn what_is_no_request_is_answered_and_forgotten() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device]);
    server.say(&json!({"type": "dance", "id": 4}));
    assert!(matches!(server.reply(), Reply::Error { id: Some(4), error } if error.contains("dance")));
    server.say(&json!({"type": "submit", "id": 5, "config": {"pases": "x"}}));
    assert!(server.result(5).error.contains("pases"));
    server.say(&json!({"type": "cancel", "id": 6}));
    assert!(matches!(server.reply(), Reply::Error { id: Some(6), .. }));
    server.say(&json!({"type": "hello", "protocol": 99}));
    assert!(matches!(server.reply(), Reply::Error { id: None, error } if error.contains("99")));
    server.say(&json!({"type": "submit", "id": 7}));
    assert!(server.result(7).verified);
    server.end();
}

#[test]
fn priorities_come_first_and_cancelled_ones_never() {
    let Some(device) = device() else { return };
    let mut server = Server::start(&Recording::make(), &["--device", device, "--builders", "1", "--timeout", "2"]);
    // This one hangs for two seconds, so that the others wait.
    server.say(&json!({"type": "submit", "id": 0, "config": shape(65), "priority": 9}));
    for (id, priority) in [(1, 0), (2, 0), (3, 5)] {
        server.say(&json!({"type": "submit", "id": id, "priority": priority, "fresh": true}));
    }
    server.say(&json!({"type": "cancel", "id": 1}));
    server.say(&json!({"type": "statistics"}));
    assert!(matches!(server.reply(), Reply::Statistics(statistics) if statistics.submitted == 4 && statistics.outstanding == 3));
    assert!(matches!(server.reply(), Reply::Cancelled { id: 1 }));
    assert_eq!(server.result(0).status.name(), "timeout");
    assert!(server.result(3).verified && server.result(2).verified);
    server.say(&json!({"type": "statistics"}));
    let Reply::Statistics(statistics) = server.reply() else { panic!("no statistics") };
    assert_eq!((statistics.finished["verified"], statistics.cancelled, statistics.executors_replaced), (2, 1, 1), "{statistics:?}");
    server.say(&json!({"type": "submit", "id": 4, "config": shape(65), "fresh": true}));
    server.say(&json!({"type": "shutdown"}));
    assert!(matches!(server.reply(), Reply::Cancelled { id: 4 }));
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
        let parts = regions[0].parts.iter().flat_map(|part| file[part.offset as usize..][..part.size as usize].to_vec());
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
    // What the pipeline made of it is IR again.
    server.say(&json!({"type": "submit", "id": 2, "code": {"ir-file": text}, "config": {"passes": "default<O0>"}}));
    assert!(server.result(2).verified);
    server.say(&json!({"type": "submit", "id": 3, "code": {"ir-text": "no IR"}}));
    assert_eq!(server.result(3).status.name(), "compile_error");
    // What a run leaves is where the recorded memory before the launch is.
    let memory = folder.path().join("memory.bin");
    server.say(&json!({"type": "submit", "id": 4, "outputs": {"memory": memory}}));
    assert!(server.result(4).verified);
    assert_eq!(std::fs::read(memory).unwrap()[places[0]..][..4], bytes["epilogue"]);
    server.end();
}
