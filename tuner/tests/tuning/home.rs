//! A folder for the command lines of these tests.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

/// A folder with one kernel's recording, and a stub as `mneme-replay`.
pub struct Home(TempDir);

impl Home {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server/replay");
        std::os::unix::fs::symlink(server, folder.path().join("mneme-replay")).unwrap();
        let home = Self(folder);
        home.record(5, &[("1", 1)]);
        home
    }

    /// Writes a kernel's recording with these instances and their numbers of launches.
    pub fn record(&self, hash: u64, instances: &[(&str, u64)]) {
        let instance = |occurrences: u64| {
            json!({
                "Prologue": "p", "Epilogue": "e", "BlockDims": {"x": 4, "y": 1, "z": 1}, "GridDims": {"x": 6, "y": 1, "z": 1},
                "SharedMem": 0, "Args": [], "Occurrences": occurrences
            })
        };
        let instances: serde_json::Map<String, Value> =
            instances.iter().map(|(id, seen)| ((*id).to_owned(), instance(*seen))).collect();
        let record = json!({
            "StaticHash": hash, "VAddr": "0x0", "VASize": 0, "KernelName": format!("_Z{hash}kv"), "DemangledName": "k()", "Modules": [],
            "BinaryBlobs": [], "ArgNames": [], "Specializations": [], "instances": instances
        });
        std::fs::write(self.path(&format!("{hash}.json")), record.to_string()).unwrap();
    }

    pub fn folder(&self) -> &Path {
        self.0.path()
    }

    /// Reads a JSON file.
    #[track_caller]
    pub fn json(&self, name: &str) -> Value {
        serde_json::from_str(
            &std::fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}")),
        )
        .unwrap()
    }

    /// The lines of `FOLDER/trials.jsonl`.
    pub fn trials(&self, folder: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path(folder).join("trials.jsonl")).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// `mneme-tune ARGUMENTS` in this folder.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mneme-tune"));
        command.args(arguments).env("MNEME_HOME", self.folder()).env_remove("MNEME_PYTHON").current_dir(self.folder());
        command
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Runs `mneme-tune -rdb HOME/5.json ARGUMENTS`, asserts its exit status, and returns its standard output.
    #[track_caller]
    pub fn tune(&self, arguments: &[&str], status: i32) -> String {
        self.run(arguments, status).0
    }

    /// The same, with standard error.
    #[track_caller]
    pub fn run(&self, arguments: &[&str], status: i32) -> (String, String) {
        let named = arguments.iter().any(|argument| ["--config", "--record-database", "--resume"].contains(argument));
        let database = if named { &[][..] } else { &["-rdb", "5.json"] };
        let output = self.command(&[database, arguments].concat()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {stderr}");
        assert!(status == 0 || !stderr.is_empty());
        (String::from_utf8(output.stdout).unwrap(), stderr)
    }
}
