//! Records applications, and replays the recordings.

use std::path::{Path, PathBuf};

use mneme_recording::database::{KernelRecord, kernels};
use tempfile::TempDir;

use crate::apps::{App, executable};
use crate::command::{ProgramOutput, Run, run};
use crate::installation::{Cudart, TestDevice, library, program};

/// The pipelines for the replays of every recorded kernel.
pub const PIPELINES: [&str; 6] =
    ["default<O0>", "default<O1>", "default<O2>", "default<O3>", "default<Os>", "default<Oz>"];

/// The application without the recorder: on the GPU, or with the CPU device instead of the vendor's libraries.
pub fn unrecorded(app: &App) -> Run {
    let run = run(executable(app, Cudart::under_test()));
    match TestDevice::under_test() {
        TestDevice::Cpu => run.env("LD_PRELOAD", library("libmneme_cpu.so")),
        TestDevice::Cuda => run,
    }
}

/// `mneme record -rdb FOLDER -- APP ARGUMENTS`.
pub fn record_into(folder: &Path, app: &App, arguments: &[&str]) -> Run {
    record_executable_into(folder, &executable(app, Cudart::under_test()), arguments)
}

/// The same for any program.
pub fn record_executable_into(folder: &Path, executable: &Path, arguments: &[&str]) -> Run {
    run(program("mneme"))
        .args(["record".as_ref(), "-rdb".as_ref(), folder.as_os_str(), "--".as_ref()])
        .arg(executable)
        .args(arguments)
        .env("MNEME_DEVICE", TestDevice::under_test().name())
        // On a busy machine, a kernel may exceed the usual limit.
        .env("MNEME_KERNEL_LIMIT", "120")
}

/// A recording in a temporary folder.
pub struct Recording {
    folder: TempDir,
    /// The output and status of the recorded run.
    pub outcome: ProgramOutput,
}

impl Recording {
    /// Records an application. The run must succeed.
    #[track_caller]
    pub fn of(app: &App, arguments: &[&str]) -> Self {
        Self::of_executable(&executable(app, Cudart::under_test()), arguments)
    }

    /// The same for any program.
    #[track_caller]
    pub fn of_executable(executable: &Path, arguments: &[&str]) -> Self {
        Self::by(|folder| record_executable_into(folder, executable, arguments))
    }

    /// Records with a command that gets the folder. The run must succeed.
    #[track_caller]
    pub fn by(command: impl FnOnce(&Path) -> Run) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let outcome = command(folder.path()).succeed();
        Self { folder, outcome }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Every recorded kernel with the path of its JSON file.
    #[track_caller]
    pub fn kernels(&self) -> Vec<(PathBuf, KernelRecord)> {
        load_kernels(self.folder())
    }

    /// The only kernel whose demangled name begins this way.
    #[track_caller]
    pub fn kernel(&self, name: &str) -> (PathBuf, KernelRecord) {
        let mut found = self.kernels();
        found.retain(|(_, kernel)| is_named(kernel, name));
        assert_eq!(found.len(), 1, "kernels named '{name}' in {}", self.folder().display());
        found.remove(0)
    }

    /// The only instance of the only kernel.
    #[track_caller]
    pub fn single(&self) -> TestInstance {
        let mut found = self.kernels();
        assert_eq!(found.len(), 1, "kernels in {}", self.folder().display());
        let (database, kernel) = found.remove(0);
        assert_eq!(kernel.instances.len(), 1, "instances in {}", database.display());
        let id = kernel.instances.keys().next().expect("one").clone();
        TestInstance { database, id }
    }
}

/// Pipelines for the replays of an instance: all for a kernel's first instance, and only the extremes for others,
/// because their code is the same.
pub fn pipelines_of(index: usize) -> Vec<&'static str> {
    if index == 0 { PIPELINES.to_vec() } else { vec!["default<O0>", "default<O3>"] }
}

/// Checks that a recording has the expected contents, and that each kernel replays verified under every pipeline.
#[track_caller]
pub fn replay_everything(app: &App, recording: &Recording) {
    let name = app.name;
    let mut recorded = recording.kernels();
    assert_eq!(recorded.len(), app.kernels.len(), "kernels recorded of {name}");
    for kernel in app.kernels {
        // If several kernels have the same name, each comes from another library.
        let found = recorded
            .iter()
            .position(|(_, record)| is_named(record, kernel.name) && launches(record) == kernel.occurrences);
        let found = found.unwrap_or_else(|| {
            panic!("{} launches of kernel {} of {name} were not recorded", kernel.occurrences.len(), kernel.name)
        });
        let (database, record) = &recorded.remove(found);
        // The summary shortens long names.
        recording.outcome.complains(kernel.name.get(..40).unwrap_or(kernel.name));
        let options = kernel.comparison.options();
        for (index, id) in record.instances.keys().enumerate() {
            let instance = TestInstance::new(database, id);
            instance.verify_under(pipelines_of(index), |sweep| {
                sweep.args(["--device", TestDevice::under_test().name()]).args(options)
            });
        }
    }
}

/// Checks that `--check` finds no fault in the recording.
#[track_caller]
pub fn check_everything(recording: &Recording) {
    for (database, record) in recording.kernels() {
        for id in record.instances.keys() {
            let check = TestInstance::new(&database, id).replay("default<O3>").arg("--check");
            check.exit_with(mneme_system::exit::VERIFIED);
        }
    }
}

/// The number of launches per dynamic hash, ascending.
fn launches(record: &KernelRecord) -> Vec<u64> {
    let mut occurrences: Vec<_> = record.instances.values().map(|instance| instance.occurrences).collect();
    occurrences.sort_unstable();
    occurrences
}

/// Every kernel of a recording folder.
#[track_caller]
pub fn load_kernels(folder: &Path) -> Vec<(PathBuf, KernelRecord)> {
    let paths = kernels(folder).unwrap_or_else(|error| panic!("{error}"));
    paths
        .into_iter()
        .map(|path| (path.clone(), KernelRecord::load(&path).unwrap_or_else(|error| panic!("{error}"))))
        .collect()
}

/// Whether a kernel's demangled name begins this way, ignoring the return type that demanglers print for templates.
pub fn is_named(kernel: &KernelRecord, name: &str) -> bool {
    let demangled = kernel.demangled_name.trim_start_matches("void ");
    demangled.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('('))
}

/// A recorded kernel instance.
#[derive(Clone, Debug)]
pub struct TestInstance {
    pub database: PathBuf,
    pub id: String,
}

impl TestInstance {
    pub fn new(database: &Path, id: &str) -> Self {
        Self { database: database.to_path_buf(), id: id.into() }
    }

    /// The same instance in another folder.
    pub fn moved_to(&self, folder: &Path) -> Self {
        Self { database: folder.join(self.database.file_name().expect("a database is a file")), id: self.id.clone() }
    }

    /// `mneme-replay -rdb … -rid … --device … PASSES`, ready for further options.
    pub fn replay(&self, passes: &str) -> Run {
        run(program("mneme-replay"))
            .args(["-rdb".as_ref(), self.database.as_os_str(), "-rid".as_ref(), self.id.as_ref()])
            .args(["--device", TestDevice::under_test().name(), passes])
    }

    /// Replays, requires a verified result, and returns the JSON.
    #[track_caller]
    pub fn verify(&self, passes: &str, options: &[&str]) -> serde_json::Value {
        let outcome = self.replay(passes).args(options).succeed();
        let json = outcome.json();
        let result = &json["Result"];
        assert_eq!(result["verified"], true, "{outcome}");
        assert_eq!(result["executed"], true, "{outcome}");
        assert_eq!(result["failed"], false, "{outcome}");
        json
    }

    /// Replays under all these pipelines in one sweep, with the options that `completed` adds, and requires that each
    /// is verified.
    #[track_caller]
    pub fn verify_under(&self, pipelines: Vec<&str>, completed: impl FnOnce(Run) -> Run) {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let configurations = folder.path().join("configurations");
        let lines: String =
            pipelines.iter().map(|passes| format!("{}\n", serde_json::json!({ "passes": passes }))).collect();
        std::fs::write(&configurations, lines).expect("configurations are written");
        let sweep = run(program("mneme-replay"))
            .args(["sweep".as_ref(), "-rdb".as_ref(), self.database.as_os_str(), "-rid".as_ref(), self.id.as_ref()])
            .arg(configurations);
        let outcome = completed(sweep).succeed();
        let mut left = pipelines;
        for line in outcome.stdout.lines() {
            let json: serde_json::Value =
                serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {outcome}"));
            let result = &json["Result"];
            assert_eq!(result["verified"], true, "{outcome}");
            assert_eq!(result["executed"], true, "{outcome}");
            assert_eq!(result["failed"], false, "{outcome}");
            left.retain(|passes| json["Replay-config"]["passes"] != *passes);
        }
        assert!(left.is_empty(), "no result under {left:?}: {outcome}");
    }

    /// Replays, requires a difference in memory, and returns the JSON.
    #[track_caller]
    pub fn refute(&self, passes: &str, options: &[&str]) -> serde_json::Value {
        let outcome = self.replay(passes).args(options).exit_with(mneme_system::exit::NOT_VERIFIED);
        let json = outcome.json();
        let result = &json["Result"];
        assert_eq!(result["verified"], false, "{outcome}");
        assert_eq!(result["executed"], true, "{outcome}");
        assert!(result["mismatch"]["differing"].as_u64() > Some(0), "{outcome}");
        json
    }
}

/// A copy of a folder that a test may damage.
pub fn copy_of(folder: &Path) -> TempDir {
    let copy = tempfile::tempdir().expect("a temporary folder");
    run("cp").args(["-r".as_ref(), folder.join(".").as_os_str(), copy.path().as_os_str()]).succeed();
    copy
}
