//! The candidates that `mneme evaluate` reads, and its judgements, as lines of JSON.
//!
//! Each line of input is a [`Candidate`]: a change to a recorded kernel. Each line of output is a [`Judgement`]. People
//! and models who propose candidates read [`Judgement::feedback`]; programs read the other fields.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::configuration::Changes;
use crate::result::Evidence;

/// Increases when a field of a [`Judgement`] changes its meaning. Adding fields does not change it.
pub const VERSION: u32 = 1;

/// The greatest length of [`Judgement::feedback`], in characters.
pub const FEEDBACK: usize = 1_499;

/// A change to a recorded kernel. At most one of `source`, `diff`, `blocks`, `ir` and `ptx` may be there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Candidate {
    /// Names the candidate in its judgement.
    pub id: CandidateId,
    /// CUDA source with a kernel of the recorded name: the whole file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// A unified diff against the file of `--source-base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub diff: Option<String>,
    /// SEARCH/REPLACE blocks for the file of `--source-base`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocks: Option<String>,
    /// LLVM IR with such a kernel, as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ir: Option<String>,
    /// PTX with such a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ptx: Option<String>,
    /// Fields of a configuration that differ from the recorded one.
    #[serde(default)]
    pub config: Changes,
    /// Options for the compiler of the source, such as `-DTILE=32`. Without code, they compile the file of
    /// `--source-base`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
}

/// A candidate's name: text, or a number. The number 7 and the text "7" are the same name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum CandidateId {
    Text(String),
    Number(u64),
}

impl fmt::Display for CandidateId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Number(number) => write!(f, "{number}"),
        }
    }
}

/// The outcome of judging a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It verified, also on fresh inputs, and was faster than the application's own code in two separate comparisons.
    Faster,
    /// It verified, and the interval of its speedup is below 1.
    Slower,
    /// It verified, and is about as fast as the application's own code.
    Inconclusive,
    /// It leaves other memory than the application's own code, or fails while it runs.
    Incorrect,
    /// It leaves memory as recorded, but the evidence is too weak, or the code raised a doubt.
    Unproven,
    /// It was not judged: it does not compile, cannot be launched, or did not end within the time limit.
    Invalid,
}

/// The judgement of a candidate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judgement {
    /// The version of this schema, [`VERSION`].
    pub schema: u32,
    /// `null` if a line of input has no id that can be read.
    pub id: Option<CandidateId>,
    pub verdict: Verdict,
    /// The result in words and what to try next, in less than 1,500 characters; written for a model.
    pub feedback: String,
    /// A checksum of the candidate.
    #[serde(default)]
    pub candidate: String,
    /// As in results of `mneme-replay`, such as "verified" or "compile_error"; "" if nothing was replayed.
    #[serde(default)]
    pub status: String,
    /// The speedup over the application's own code, if both were compared.
    #[serde(default)]
    pub speedup: Option<Speedup>,
    /// The mean time of a launch, ns, and that of the application's own code in the same comparison.
    #[serde(default)]
    pub exec_time: Option<f64>,
    #[serde(default)]
    pub baseline_time: Option<f64>,
    /// A lower limit for the time, if it is known.
    #[serde(default)]
    pub floor: Option<Floor>,
    /// The hardware counters of `--counters`, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, Counted>,
    /// Registers of a thread, if the device reports them.
    #[serde(default)]
    pub registers: Option<u64>,
    /// Bytes that a thread spills to local memory, and reloads.
    #[serde(default)]
    pub spills: Option<Spilled>,
    /// The share of a multiprocessor's warps that the launch can occupy.
    #[serde(default)]
    pub occupancy: Option<f64>,
    /// The evidence for correct results.
    #[serde(default)]
    pub evidence: Option<Evidence>,
    /// The first element of memory that is wrong.
    #[serde(default)]
    pub first_wrong: Option<WrongElement>,
    /// The compiler's first error.
    #[serde(default)]
    pub compiler: Option<CompilerMessage>,
    /// The time limit that it exceeded, s.
    #[serde(default)]
    pub time_limit: Option<f64>,
    /// The code that was judged, as a file in the results folder.
    #[serde(default)]
    pub code: Option<String>,
    /// The time that this candidate took, from its first step to its verdict, s.
    #[serde(default)]
    pub elapsed: f64,
}

/// A ratio of times, measured by turns, with its confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Speedup {
    pub estimate: f64,
    pub low: f64,
    pub high: f64,
    /// The confidence of the interval, such as 0.95.
    pub confidence: f64,
    /// Rounds of the comparison; 0 if the candidate has the application's machine code, which is not measured again.
    pub rounds: usize,
}

/// The time in which the device copies as much memory, or performs as many floating-point operations, as the
/// application's own code has to: the longer of the two.
///
/// Each sector of 32 bytes counts once if the launch reads it before it writes it, and once if the launch writes it. A
/// candidate that moves less memory or computes less may be faster.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Floor {
    /// Bytes that a launch reads and writes.
    pub bytes: u64,
    /// The rate at which the device copies memory of this size: bytes read and written a second.
    pub bytes_per_s: f64,
    /// Floating-point operations of a launch; a fused multiply-add counts as two. `null` in older verdicts.
    #[serde(default)]
    pub flops: Option<u64>,
    /// The highest rate at which the device performs operations on numbers of these widths; `null` if there are none,
    /// or if it cannot be measured.
    #[serde(default)]
    pub flops_per_s: Option<f64>,
    /// What takes the longer time.
    #[serde(default)]
    pub bound: Bound,
    /// ns.
    pub time: f64,
    /// `time` as a part of `exec_time`.
    pub share: f64,
}

/// What limits the time of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Bound {
    #[default]
    Memory,
    Arithmetic,
}

/// A hardware counter of a launch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counted {
    pub candidate: f64,
    /// That of the application's own code.
    pub baseline: f64,
}

/// Bytes by direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Spilled {
    pub stores: u64,
    pub loads: u64,
}

/// An element of memory that a candidate left wrong.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WrongElement {
    /// The buffer: its tag, the name of the variable, or its recorded address.
    pub buffer: String,
    /// The element's type, such as "f32"; "u8" if it is unknown.
    pub dtype: String,
    pub index: u64,
    /// Elements of the buffer.
    pub elements: u64,
    pub expected: String,
    pub got: String,
    /// Elements that are wrong.
    pub differing: u64,
}

/// A message of a compiler.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CompilerMessage {
    pub message: String,
    /// The file, and the place in it, if the compiler names them. Lines and columns count from 1.
    pub file: Option<String>,
    pub line: Option<u64>,
    pub column: Option<u64>,
}

/// The JSON schema of both directions, as in docs/reference/evaluate.schema.json.
pub fn schema() -> Value {
    let mut generator = schemars::SchemaGenerator::default();
    let candidate = generator.subschema_for::<Candidate>();
    let judgement = generator.subschema_for::<Judgement>();
    serde_json::json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": format!("mneme evaluate, schema {VERSION}: a line is a candidate or a judgement"),
        "anyOf": [candidate, judgement],
        "$defs": generator.definitions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_read_strictly() {
        let read = serde_json::from_str::<Candidate>;
        let candidate = read(r#"{"id": 7, "source": "x", "options": ["-DN=1"], "config": {"maxnreg": 32}}"#).unwrap();
        assert_eq!((candidate.id.to_string().as_str(), candidate.source.as_deref()), ("7", Some("x")));
        for line in [r#"{"id": "a", "sorce": "x"}"#, r#"{"source": "x"}"#, r#"{"id": "a", "ir": 3}"#, "[]"] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn the_schema_in_the_docs_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/evaluate.schema.json");
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
