//! The command line of `mneme-tune evaluate`.

use std::path::PathBuf;

use mneme_system::arguments::{ValueError, non_negative};

const EXAMPLES: &str = "Examples:
  mneme evaluate -rdb recording --kernel stencil faster.cu other.cu
  mneme evaluate -rdb recording --kernel stencil --source-base stencil.cu change.diff
  mneme evaluate -rdb recording --candidates candidates.jsonl --results-dir results
  mneme evaluate -rdb recording --candidates candidates.jsonl --results-dir results --resume
  propose | mneme evaluate -rdb recording --kernel stencil --source-base stencil.cu --candidates -

A candidate is a JSON line such as {\"id\": \"a\", \"source\": \"…\", \"options\": [\"-DTILE=32\"]}; see \
docs/reference/evaluate.md. Each verdict is a JSON line on standard output, and in verdicts.jsonl of the results \
folder before that.

Exit status: 0 done, whatever the verdicts are, 1 the application's own code failed, 64 bad usage or a line that is no \
candidate, 65 bad recording, 66 a named file or folder is missing, 69 no such device, 70 internal error or full disk, \
75 another process is writing to the results folder.";

const RECORDING: &str = "Recording";
const CANDIDATES: &str = "Candidates";
const EVALUATION: &str = "Evaluation";
const RESULTS: &str = "Results";

/// Judge candidates for a recorded kernel: sources, changes to a source, IR, PTX or configurations
///
/// Compiles each candidate, verifies it against the recording and on fresh inputs, compares it with the application's
/// own code by turns, and prints its verdict.
#[derive(Clone, Debug, clap::Args)]
#[command(version, after_help = EXAMPLES)]
pub struct EvaluateOptions {
    /// Candidates as files: .cu (source), .diff or .patch, .ll or .bc (IR), .ptx, .json (a configuration), .jsonl. The
    /// path is the candidate's id
    #[arg(value_name = "CANDIDATE")]
    pub files: Vec<PathBuf>,

    /// The recording's folder, or a kernel's .json file in it (also -rdb)
    #[arg(long, aliases = ["record-db", "rdb"], value_name = "PATH", default_value = "recording", help_heading = RECORDING)]
    pub record_database: PathBuf,
    /// Instance of the kernel (dynamic hash; also -rid); a candidate has to be right on each instance that you name
    #[arg(long, alias = "rid", value_name = "ID", value_delimiter = ',', help_heading = RECORDING)]
    pub record_id: Vec<String>,
    /// The kernel: its name or a part of it, mangled or demangled
    #[arg(long, value_name = "NAME", help_heading = RECORDING)]
    pub kernel: Option<String>,
    /// Judge candidates on all recorded instances of the kernel
    #[arg(long, help_heading = RECORDING)]
    pub all_instances: bool,

    /// Candidates as JSON lines, from a file, or from standard input with - [default: - without other candidates]
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES)]
    pub candidates: Option<PathBuf>,
    /// A candidate's source, whatever its file is called; may be repeated, like the next three
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES)]
    pub source: Vec<PathBuf>,
    /// LLVM IR with a kernel of the recorded name
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES)]
    pub ir: Vec<PathBuf>,
    /// PTX with such a kernel
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES)]
    pub ptx: Vec<PathBuf>,
    /// A configuration as JSON
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES)]
    pub config: Vec<PathBuf>,
    /// The kernel's source, which diffs, SEARCH/REPLACE blocks and compiler options change. Candidates may include the
    /// files beside it
    #[arg(long, value_name = "FILE", help_heading = CANDIDATES)]
    pub source_base: Option<PathBuf>,
    /// A flag for clang (-I, -D, -std=); may be repeated
    #[arg(long = "source-flag", value_name = "FLAG", allow_hyphen_values = true, help_heading = CANDIDATES)]
    pub source_flags: Vec<String>,
    /// The clang that compiles sources [default: clang++-NN of the LLVM that wrote the recorded IR, or clang++-19]
    #[arg(long, value_name = "PROGRAM", help_heading = CANDIDATES)]
    pub clang: Option<PathBuf>,
    /// The NVRTC that compiles sources instead of clang, such as /usr/local/cuda/lib64/libnvrtc.so.13. Sources may then
    /// contain device code only [default: that of a CUDA toolkit, if the clang is not installed]
    #[arg(long, value_name = "LIBRARY", conflicts_with = "clang", help_heading = CANDIDATES)]
    pub nvrtc: Option<PathBuf>,
    /// Compile sources without confinement, so that they can read your files
    #[arg(long, help_heading = CANDIDATES)]
    pub unconfined: bool,

    /// Begin no further candidate after this many seconds
    #[arg(long, value_name = "SECONDS", value_parser = non_negative, help_heading = EVALUATION)]
    pub timeout: Option<f64>,
    /// Give at most this many verdicts
    #[arg(long, value_name = "N", help_heading = EVALUATION)]
    pub max_candidates: Option<u64>,
    /// Time limit for compiling a candidate, for its build, and for all its runs together, in seconds [default: 20, and
    /// more if the recorded launch takes long; 120 for compiling]
    #[arg(long, value_name = "SECONDS", value_parser = limit, help_heading = EVALUATION)]
    pub trial_timeout: Option<f64>,
    /// Time for each comparison with the application's own code, in seconds
    #[arg(long, value_name = "SECONDS", value_parser = non_negative, default_value = "20", help_heading = EVALUATION)]
    pub confirm_time: f64,
    /// Also count a launch of each candidate and of the application's own code on the hardware, with NVIDIA's names of
    /// counters, as in dram__bytes.sum,smsp__inst_executed.sum
    #[arg(long, value_name = "NAME", value_delimiter = ',', help_heading = EVALUATION)]
    pub counters: Vec<String>,
    /// Seed for the order of measurements [default: a random number]
    #[arg(long, value_name = "N", help_heading = EVALUATION)]
    pub seed: Option<u64>,
    /// Device to replay on: cpu, cuda, hip, or the numbers of GPUs, such as 0,1 [default: as recorded]
    #[arg(long, help_heading = EVALUATION)]
    pub device: Option<String>,
    /// Relative tolerance for float and double values
    #[arg(long, value_name = "R", value_parser = non_negative, help_heading = EVALUATION)]
    pub rtol: Option<f64>,
    /// Absolute tolerance for float and double values
    #[arg(long, value_name = "A", value_parser = non_negative, help_heading = EVALUATION)]
    pub atol: Option<f64>,
    /// Tolerance for one buffer or all, `[BUFFER=]TYPE:THRESHOLD[:KIND[:NORM]]`; see `mneme-replay --help`; may be
    /// repeated
    #[arg(long, value_name = "TOLERANCE", help_heading = EVALUATION)]
    pub tolerance: Vec<String>,

    /// Folder for verdicts and candidates' code [default: a new one in mneme-evaluations]
    #[arg(long, value_name = "FOLDER", help_heading = RESULTS)]
    pub results_dir: Option<PathBuf>,
    /// Go on in --results-dir with the same options: print the verdicts that are there without judging those candidates
    /// again
    #[arg(long, requires = "results_dir", help_heading = RESULTS)]
    pub resume: bool,
    /// Trust this folder and everything in it, whoever owns it; may be repeated [default: MNEME_TRUST]
    #[arg(long, value_name = "FOLDER", help_heading = RESULTS)]
    pub trust: Vec<PathBuf>,
}

impl EvaluateOptions {
    /// The options that verdicts depend on, with their values.
    pub fn judging(&self) -> Vec<(&'static str, String)> {
        let number = |number: Option<f64>| number.map_or_else(|| "the default".into(), |number| number.to_string());
        vec![
            ("--rtol", number(self.rtol)),
            ("--atol", number(self.atol)),
            ("--tolerance", format!("{:?}", self.tolerance)),
            ("--source-flag", format!("{:?}", self.source_flags)),
            ("--device", self.device.clone().unwrap_or_else(|| "the default".into())),
            ("--trial-timeout", number(self.trial_timeout)),
            ("--confirm-time", number(Some(self.confirm_time))),
            ("--counters", self.counters.join(",")),
        ]
    }
}

fn limit(text: &str) -> Result<f64, ValueError> {
    non_negative(text).and_then(|seconds| {
        if (1e-3..1e9).contains(&seconds) { Ok(seconds) } else { Err("it must be a number above 0.001".into()) }
    })
}
