//! Specialised code for repeated launches.
//!
//! This module has the requests of an application's process to `mneme apply`, and the answers.
//!
//! The recorder library writes a [`SpecialisationRequest`] and the kernel's IR to the folder that `MNEME_DATA_DIR`
//! names, in files named like a recording's. The [`SpecialisationAnswer`] repeats the [`SpecialisedLaunch`].

use std::path::Path;

use mneme_model::compile_options::CompileOptions;
use mneme_model::launch::Dim3;
use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::RecordedArgument;
use serde::{Deserialize, Serialize};

use crate::mailbox;
use crate::rule::LaunchDimensions;
use crate::winner::{Winner, WinnerIdentity};

/// The environment variable for the kinds of folded arguments. `mneme apply` sets it, and sets `MNEME_DATA_DIR` to the
/// folder of requests.
pub const SPECIALISATION_VARIABLE: &str = "MNEME_SPECIALIZE";

const REQUEST: &str = "request";
const ANSWER: &str = "answer";

/// The kinds of arguments to fold into the code of a repeated launch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldedKinds {
    /// Integers only: constant folding gives the same results as arithmetic at run time.
    Integers,
    /// Floating-point numbers too; results may differ in their last bits.
    Scalars,
}

impl FoldedKinds {
    /// Parses the name.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Integers, Self::Scalars].into_iter().find(|kinds| kinds.name() == text)
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Integers => "integers",
            Self::Scalars => "scalars",
        }
    }
}

/// A repeated launch and its values to fold; the answer must repeat it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpecialisedLaunch {
    /// Mangled.
    pub kernel: String,
    /// A hash of the kernel's code.
    pub static_hash: u64,
    /// The application's launch and the launch to make.
    pub recorded: LaunchDimensions,
    pub shape: LaunchDimensions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Dim3>,
    pub arguments: Vec<RecordedArgument>,
    /// The indices of the folded arguments, from 0.
    pub folded: Vec<u32>,
}

impl SpecialisedLaunch {
    /// Whether a winner's code is for this launch, with everything to be folded.
    fn has(&self, winner: &Winner) -> bool {
        (&winner.kernel, winner.static_hash) == (&self.kernel, self.static_hash)
            && (winner.recorded, winner.tuned, winner.cluster) == (self.recorded, self.shape, self.cluster)
            && winner.arguments == self.arguments
            && self.folded.iter().all(|argument| winner.folded.arguments.contains(argument))
    }
}

/// A request for specialised code.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpecialisationRequest {
    pub launch: SpecialisedLaunch,
    /// The kernel, without instances; its modules are in the folder.
    pub record: KernelRecord,
    /// The compilation options of the application's own code, if they came with the IR.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<CompileOptions>,
    /// The current winner for launches like this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<WinnerIdentity>,
}

/// The code, or the reason for its absence.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpecialisationAnswer {
    /// The launch of the request.
    pub launch: SpecialisedLaunch,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<Winner>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
}

/// The reason for a request without code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpecialisationError {
    #[error("the answer is to another request")]
    OtherRequest,
    /// The reason from `mneme apply`.
    #[error("{0}")]
    Refused(String),
}

impl SpecialisationRequest {
    /// Writes the request to the folder; returns its name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn ask(&self, folder: &Path) -> std::io::Result<String> {
        mailbox::ask(self, folder, REQUEST)
    }

    /// The unanswered requests of a folder, with their names. Unreadable files are skipped.
    pub fn waiting(folder: &Path) -> Vec<(String, Self)> {
        mailbox::waiting(folder, REQUEST, ANSWER)
    }

    /// The answer to this request, once a file has its name: the code, or the reason for its absence. An answer to
    /// another request is refused.
    pub fn answer(&self, folder: &Path, name: &str) -> Option<Result<Winner, SpecialisationError>> {
        let SpecialisationAnswer { launch, winner, refusal } = mailbox::load(folder, name, ANSWER)?;
        let is_own = launch == self.launch && winner.as_ref().is_none_or(|winner| launch.has(winner));
        Some(match winner {
            _ if !is_own => Err(SpecialisationError::OtherRequest),
            Some(winner) => Ok(winner),
            None => Err(SpecialisationError::Refused(refusal)),
        })
    }
}

impl SpecialisationAnswer {
    /// Writes the answer to the request with this name.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> std::io::Result<()> {
        mailbox::save(self, folder, name, ANSWER)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::winner::fixture::winner;
    use mneme_recording::database::{KernelDetails, VERSION};

    #[test]
    fn kinds_have_names() {
        for kinds in [FoldedKinds::Integers, FoldedKinds::Scalars] {
            assert_eq!(FoldedKinds::parse(kinds.name()), Some(kinds));
        }
        assert_eq!(FoldedKinds::parse("all"), None);
    }

    fn request() -> SpecialisationRequest {
        let Winner { kernel, static_hash, recorded, tuned: shape, cluster, arguments, folded, .. } =
            winner("code".as_ref());
        let folded = folded.arguments;
        SpecialisationRequest {
            launch: SpecialisedLaunch { kernel, static_hash, recorded, shape, cluster, arguments, folded },
            record: KernelRecord {
                static_hash,
                arena_address: "0x0000100000000000".into(),
                arena_size: 1 << 41,
                kernel_name: "_Z1kv".into(),
                demangled_name: "k()".into(),
                modules: vec!["RecordedIR_42.bc".into()],
                binary_blobs: Vec::new(),
                arg_names: Vec::new(),
                specializations: Vec::new(),
                instances: BTreeMap::new(),
                ours: KernelDetails { format: VERSION, ..KernelDetails::default() },
            },
            compiled: None,
            base: Some(WinnerIdentity { source: "results".into(), ..WinnerIdentity::default() }),
        }
    }

    #[test]
    fn a_request_waits_until_its_answer_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let request = request();
        let name = request.ask(folder.path()).unwrap();
        std::fs::write(folder.path().join("0.request"), "{").unwrap();
        assert_eq!(SpecialisationRequest::waiting(folder.path()), [(name.clone(), request.clone())]);
        assert_eq!(request.answer(folder.path(), &name), None);
        let refusal = "it does not compile".to_owned();
        let answer = SpecialisationAnswer { launch: request.launch.clone(), winner: None, refusal: refusal.clone() };
        answer.save(folder.path(), &name).unwrap();
        assert!(SpecialisationRequest::waiting(folder.path()).is_empty());
        assert_eq!(request.answer(folder.path(), &name), Some(Err(SpecialisationError::Refused(refusal))));
    }

    #[test]
    fn code_for_another_launch_is_no_answer() {
        let folder = tempfile::tempdir().unwrap();
        let request = request();
        let name = request.ask(folder.path()).unwrap();
        let answered = |launch: &SpecialisedLaunch, winner: Winner| {
            let answer = SpecialisationAnswer { launch: launch.clone(), winner: Some(winner), ..Default::default() };
            answer.save(folder.path(), &name).unwrap();
            request.answer(folder.path(), &name).unwrap().is_ok()
        };
        let own = winner("code".as_ref());
        assert!(answered(&request.launch, own.clone()));
        let other = SpecialisedLaunch { static_hash: 7, ..request.launch.clone() };
        assert!(!answered(&other, own.clone()));
        let changes: [fn(&mut Winner); 6] = [
            |winner| winner.kernel = "_Z1lv".into(),
            |winner| winner.static_hash = 7,
            |winner| winner.recorded.shared_mem += 1,
            |winner| winner.tuned.shared_mem += 1,
            |winner| winner.arguments[0].bytes[0] ^= 1,
            |winner| winner.folded.arguments.clear(),
        ];
        for change in changes {
            let mut winner = own.clone();
            change(&mut winner);
            assert!(!answered(&request.launch, winner));
        }
    }
}
