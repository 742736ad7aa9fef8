//! The protocol of `mneme-replay serve`, in lines of JSON.
//!
//! Each message is a line; requests arrive on standard input, replies leave on standard output.
//!
//! The server sends [`Reply::Hello`] as soon as the recording is resident on a device. A client submits configurations
//! under ids that it chooses, and gets one reply for each, in order of completion: [`Reply::Result`] or
//! [`Reply::Cancelled`]. The server answers an invalid request with [`Reply::Error`] and ignores it. At the end of
//! input, it finishes the submitted work and exits. `docs/reference/protocol.md` is the page for authors of clients.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::configuration::{Changes, Configuration};
use crate::device::DeviceLimits;
use crate::launch::{Dim3, Moment};
use crate::result::{Evidence, ReplayResult};

/// Increases when a message changes its meaning; a client refuses a greater version. Adding fields and messages does
/// not change it: a client ignores unknown parts of a reply, and a server refuses unknown parts of a request by name.
pub const VERSION: u32 = 2;

/// From the client. A field that is not named here is an error: a word that is mistyped would be ignored in silence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Request {
    /// Says which protocol the client speaks; answered with [`Reply::Hello`], or [`Reply::Error`] where the server is
    /// older. It may be left out.
    Hello { protocol: u32 },
    /// Replay one configuration.
    Submit(Box<Submission>),
    /// Forget a configuration. One that waits or is being built is answered with [`Reply::Cancelled`]; one that runs
    /// already is finished and answered with its result.
    Cancel { id: u64 },
    /// Answered with [`Reply::Statistics`].
    Statistics {},
    /// Send [`Reply::Progress`] every so many seconds while there is work; 0 stops it.
    Progress { interval_s: f64 },
    /// The kernel's IR, all recorded modules linked into one; answered with [`Reply::Ir`].
    Ir {},
    /// Recorded memory; answered with [`Reply::Memory`].
    Memory {
        moment: Moment,
        /// Name of a device variable, tag or address ("0x…", anywhere inside) of an allocation; all regions without it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        region: Option<String>,
    },
    /// Asks whether pipelines can be read and what the kernel uses, before a build; answered with [`Reply::Examined`].
    Examine {
        /// Pipelines, in the syntax of `opt -passes`.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        passes: Vec<String>,
    },
    /// End at once: what was submitted and has no result yet is cancelled. (End of input finishes it first.)
    Shutdown {},
}

/// One configuration to replay, and what is wanted of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Submission {
    /// Names the configuration in replies; not in use by one that has no reply yet.
    pub id: u64,
    /// The configuration; fields left out are as recorded.
    #[serde(default)]
    pub config: Changes,
    /// Measured runs, if the configuration does not set them; by default the server's `--iterations`. With 0, the code
    /// only runs on `fresh_inputs`, so the result does not cover the recorded input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub iterations: Option<u32>,
    /// Runs before them, likewise.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<u32>,
    /// When fewer runs than these are enough. A configuration that says how often it is run has all of its runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopping: Option<StoppingRule>,
    /// Greater ones first; equal ones in the order of submission.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub priority: i32,
    /// Run it even where the result of a configuration with the same code and the same launch is known.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fresh: bool,
    /// Seeds of inputs other than the recorded one, to run it on afterwards. The application's own code says what is
    /// right for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fresh_inputs: Vec<u64>,
    /// Look for races, for results that are kept from one launch to the next, and for clocks, too (`evidence.doubts` of
    /// the result). Code in place of the recorded kernel's is always looked at so.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub thorough: bool,
    /// An earlier submission proved that this configuration and code are right: only compare memory with the recording,
    /// and measure. The result may be `verified` with little evidence.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub proven: bool,
    /// The device to run it on, one of the greeting's `devices`; whichever is free first without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<i32>,
    /// Measure the energy of a launch as well (`energy_j` of the result), which takes one to ten seconds more.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub energy: bool,
    /// Hardware counters to count a launch with, too, by NVIDIA's names (`counters` of the result).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// Instead of measuring, find the recorded memory that the code reads and writes (`touched` of the result).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub touched: bool,
    /// Code in place of the recorded kernel's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<Code>,
    /// Files to write.
    #[serde(default, skip_serializing_if = "Outputs::is_empty")]
    pub outputs: Outputs,
}

fn is_zero(priority: &i32) -> bool {
    *priority == 0
}

/// When a configuration has been run often enough, which is never later than without it.
///
/// Configurations with the same code and launch share their runs whatever their `near` and `hopeless_ns` are.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StoppingRule {
    /// A first run that takes so long, ns, is the only warm-up.
    pub long_ns: u64,
    /// Measured runs of a kernel that takes so long, at most.
    pub long_runs: u32,
    /// What the measured runs are compared with; without it there are as many as are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub near: Option<Near>,
    /// A first run that takes so long, ns, is the only run, and a warm-up: the configuration is given up, and the
    /// result has no measured run. It counts if there are warm-ups at all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hopeless_ns: Option<u64>,
}

/// A time that a configuration may be near: it is run again as long as it is.
///
/// After `n` measured runs it is near while the logarithm of its geometric mean differs from that of `ns` by less than
/// `within * sqrt(1 / n + 1 / runs)`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Near {
    /// ns.
    pub ns: f64,
    /// Runs that this is the mean of.
    pub runs: u32,
    /// A difference of logarithms.
    pub within: f64,
}

impl Near {
    /// Whether the measured runs, ns, are still too close to this time to tell which of the two is faster.
    pub fn holds(&self, times: &[u64]) -> bool {
        let count = times.len() as f64;
        let mean = times.iter().map(|time| (*time as f64).ln()).sum::<f64>() / count;
        let bound = self.within * (1.0 / count + 1.0 / f64::from(self.runs.max(1))).sqrt();
        // A stopped clock proves nothing.
        !mean.is_finite() || (mean - self.ns.ln()).abs() < bound
    }
}

impl StoppingRule {
    /// Measured time after which two runs of a long kernel are enough, ns.
    const ENOUGH: u64 = 200_000_000;

    /// Whether the runs so far are enough. `measured` are the times of the runs that count, ns; `all` is the maximum
    /// number of runs.
    pub fn is_content(&self, measured: &[u64], all: u32, is_long: bool) -> bool {
        let is_enough = measured.len() >= 2 && measured.iter().sum::<u64>() >= Self::ENOUGH;
        let most = match is_long {
            true if is_enough => 2,
            true => self.long_runs.min(all),
            false => all,
        };
        !measured.is_empty()
            && (measured.len() >= most.max(1) as usize || self.near.is_some_and(|near| !near.holds(measured)))
    }
}

/// Code in place of the recorded kernel's. It must define the kernel under its recorded name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Code {
    /// A file of LLVM IR, textual (.ll) or bitcode (.bc).
    IrFile(PathBuf),
    /// Textual LLVM IR.
    IrText(String),
    /// LLVM bitcode, base64 (RFC 4648, with padding).
    Bitcode(String),
    /// A file of PTX.
    PtxFile(PathBuf),
    /// PTX.
    PtxText(String),
    /// A file of machine code (ELF).
    CubinFile(PathBuf),
}

/// Files that are written for a configuration.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outputs {
    /// Textual IR after the pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ir: Option<PathBuf>,
    /// The PTX that the code was assembled from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ptx: Option<PathBuf>,
    /// The code object (cubin; a shared object on the CPU device).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<PathBuf>,
    /// All recorded memory as the last run left it, laid out as [`Reply::Memory`] says of the prologue.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<PathBuf>,
}

impl Outputs {
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// From the server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Reply {
    /// First line of the server: the recording is loaded and a device works.
    Hello(Box<Hello>),
    /// The outcome of the configuration submitted as `id`.
    Result {
        id: u64,
        #[schemars(with = "ResultFields")]
        result: Box<ReplayResult>,
    },
    /// The configuration submitted as `id` was cancelled and has no result.
    Cancelled {
        id: u64,
    },
    Statistics(Statistics),
    /// What [`Request::Progress`] asked for.
    Progress(Statistics),
    /// A file of bitcode, which lasts as long as the server does.
    Ir {
        path: PathBuf,
    },
    Memory {
        moment: Moment,
        regions: Vec<Region>,
    },
    Examined(Examination),
    /// A request made no sense and changed nothing.
    Error {
        /// The id that it named, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<u64>,
        /// One sentence.
        error: String,
    },
    /// The server cannot go on; it exits with `status` (see [`mneme_system::exit`]).
    Fatal {
        status: i32,
        error: String,
    },
}

/// What the schema says of a result: the fields beyond upstream's that decide what it is worth.
#[derive(JsonSchema)]
#[allow(dead_code, reason = "only its schema is used")]
struct ResultFields {
    /// Memory is as recorded, and that shows something.
    verified: bool,
    /// Empty, or one sentence.
    error: String,
    /// What it shows that memory is as recorded; it is there if memory is so.
    evidence: Option<Evidence>,
    #[serde(flatten)]
    others: Map<String, Value>,
}

/// What the server is and what it replays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hello {
    /// [`VERSION`] of the server.
    pub protocol: u32,
    /// Version of mneme-replay.
    #[serde(default)]
    pub version: String,
    /// Mangled name.
    pub kernel: String,
    /// Launch as recorded; shared memory in bytes.
    pub grid: Dim3,
    pub block: Dim3,
    pub shared_mem: u32,
    /// The configuration that repeats the recorded launch: what submissions change.
    #[schemars(with = "Map<String, Value>")]
    pub recorded: Configuration,
    /// Name and driver of the first device.
    pub device: String,
    pub driver: String,
    /// What makes machine code for it: name, version and mode, as results have it (`environment.versions.assembler`).
    /// Where it cannot be told, "".
    #[serde(default)]
    pub assembler: String,
    /// The whole version of the LLVM that compiles where a configuration names none, as results have it
    /// (`environment.versions.llvm`); "" where the recorded code is machine code.
    #[serde(default)]
    pub llvm: String,
    /// The whole versions of LLVM that configurations may ask for, oldest first: those of all builders that work.
    #[serde(default)]
    pub compilers: Vec<String>,
    /// What times kernels there unless it fails to, as results have it (`environment.timer`).
    #[serde(default)]
    pub timer: String,
    /// Numbers of all devices, as results name them (`gpu_id`).
    #[serde(default)]
    pub devices: Vec<i32>,
    /// What the first device can take.
    #[serde(default)]
    pub limits: DeviceLimits,
    /// Builds that are made at a time; 0 where an older server does not say.
    #[serde(default)]
    pub builders: u32,
}

/// What [`Request::Examine`] asked for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Examination {
    /// For each pipeline the error of the default LLVM, or `null` if it can read the pipeline.
    pub problems: Vec<Option<String>>,
    /// Whether the kernel or a function that it calls reads the grid's dimensions; `null` if unknown.
    pub reads_grid: Option<bool>,
    /// Whether the kernel runs only with the block's dimensions that its code names (`.reqntid`); `null` if unknown.
    pub fixes_block: Option<bool>,
}

/// Counts since the server's start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Statistics {
    pub submitted: u64,
    /// Results by status.
    pub finished: std::collections::BTreeMap<String, u64>,
    pub cancelled: u64,
    /// Configurations without a reply yet; those of them that run; builds at work.
    pub outstanding: u64,
    pub running: u64,
    pub building: u64,
    /// Builds through LLVM that ended, with code or without.
    pub built: u64,
    /// Code objects that an assembler made; fewer than `built` where different configurations come to the same PTX.
    pub assembled: u64,
    /// Configurations that took over the result of one with the same code and the same launch.
    pub shared: u64,
    /// Executors that were lost to a fault or a hang, and replaced.
    pub executors_replaced: u64,
    /// Seconds since the server's start.
    pub uptime_s: f64,
    /// Results a second, since the first submission.
    pub rate: f64,
}

/// A stretch of recorded memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Region {
    /// Name of the device variable; an allocation has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub variable: Option<String>,
    /// Tag that the application gave it.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// As recorded, "0x…".
    pub address: String,
    /// Bytes.
    pub size: u64,
    /// File with the bytes, to be mapped for reading; it lasts as long as the server does.
    pub path: PathBuf,
    /// Where each part of the region is in the file, without gaps: one part before the launch, several after it.
    pub parts: Vec<Part>,
}

/// A part of a region in a file, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Part {
    /// Offset in the region.
    pub at: u64,
    /// Offset in the file.
    pub offset: u64,
    pub size: u64,
}

/// The JSON schema of both directions, as in docs/reference/protocol.schema.json.
pub fn schema() -> Value {
    let mut generator = schemars::SchemaGenerator::default();
    let request = generator.subschema_for::<Request>();
    let reply = generator.subschema_for::<Reply>();
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("mneme-replay serve, protocol {VERSION}: a line is a request or a reply"),
        "anyOf": [request, reply],
        "$defs": generator.definitions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded() -> Configuration {
        Configuration::recorded(Dim3::new(10, 2, 1), Dim3::new(32, 4, 1), 16)
    }

    #[test]
    fn a_submission_of_the_first_version_is_understood() {
        let config = serde_json::to_string(&recorded()).unwrap();
        let line = format!(r#"{{"type":"submit","id":3,"config":{config},"iterations":5,"warmup":1}}"#);
        let Request::Submit(submission) = serde_json::from_str(&line).unwrap() else { panic!("a submission") };
        assert_eq!((submission.id, submission.iterations, submission.warmup), (3, Some(5), Some(1)));
        assert_eq!(submission.config.apply(&recorded()).unwrap(), recorded());
    }

    #[test]
    fn runs_are_enough_once_they_are_far_from_what_they_are_compared_with() {
        let near = Near { ns: 1000.0, runs: 4, within: 0.1 };
        let rule = StoppingRule { long_ns: 500, long_runs: 2, near: Some(near), hopeless_ns: None };
        // One run: 0.1 * sqrt(1.25) is 11.8 %. Four: 7.3 %.
        assert!(!rule.is_content(&[], 5, false) && !rule.is_content(&[1110], 5, false));
        assert!(rule.is_content(&[1130], 5, false) && rule.is_content(&[880], 5, false));
        assert!(rule.is_content(&[1090; 4], 5, false) && !rule.is_content(&[1060; 4], 5, false));
        assert!(rule.is_content(&[1000; 5], 5, false) && rule.is_content(&[1000; 2], 5, true));
        assert!(!rule.is_content(&[0], 5, false), "a clock that stood still");
        let alone = StoppingRule { near: None, ..rule };
        assert!(!alone.is_content(&[9000; 4], 5, false) && alone.is_content(&[9000], 1, false));
    }

    #[test]
    fn words_that_are_not_known_are_refused_by_name() {
        for (line, word) in [
            (r#"{"type":"submit","id":3,"proirity":5}"#, "proirity"),
            (r#"{"type":"submit","id":3,"outputs":{"ri":"x.ll"}}"#, "ri"),
            (r#"{"type":"submit","id":3,"code":{"irfile":"x.ll"}}"#, "irfile"),
            (r#"{"type":"memory","moment":"prologue","regoin":"x"}"#, "regoin"),
            (r#"{"type":"cancel","id":3,"now":true}"#, "now"),
            (r#"{"type":"statistics","of":3}"#, "of"),
            (r#"{"type":"shutdown","in":3}"#, "in"),
            (r#"{"type":"dance"}"#, "dance"),
        ] {
            let error = serde_json::from_str::<Request>(line).unwrap_err().to_string();
            assert!(error.contains("unknown") && error.contains(&format!("`{word}`")), "{line}: {error}");
        }
        for line in [r#"{"type":"statistics"}"#, r#"{"type":"ir"}"#, r#"{"type":"shutdown"}"#] {
            let request: Request = serde_json::from_str(line).unwrap();
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
        }
    }

    #[test]
    fn the_schema_in_the_docs_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/protocol.schema.json");
        let text = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
        if std::env::var_os("MNEME_UPDATE_DOCS").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        assert_eq!(
            std::fs::read_to_string(path).unwrap_or_default(),
            text,
            "run this test with MNEME_UPDATE_DOCS=1 to write {path} anew"
        );
    }
}
