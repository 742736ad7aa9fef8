//! Code for launches that repeat: what an application's process asks `mneme apply` for, and the answer.
//!
//! The recorder library leaves a request in the folder that `MNEME_DATA_DIR` names, and the kernel's IR beside it,
//! under the names of a recording.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{LaunchDimensions, Winner, mailbox};
use crate::compile_options::CompileOptions;
use crate::launch::Dim3;
use crate::recording::database::KernelRecord;
use crate::recording::manifest::RecordedArgument;

/// The environment variable that says which arguments are folded; `mneme apply` sets it, and `MNEME_DATA_DIR`, which
/// the requests go to.
pub const SPECIALISATION_VARIABLE: &str = "MNEME_SPECIALIZE";

const REQUEST: &str = "request";
const ANSWER: &str = "answer";

/// The arguments that are folded into the code of a launch that repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FoldedKinds {
    /// Integers: arithmetic with them comes to the same before a program runs and in it.
    Integers,
    /// Floating-point numbers too, of which results may differ in their last bits.
    Scalars,
}

impl FoldedKinds {
    /// Reads its name.
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

/// Code that is wanted for a launch which repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpecialisationRequest {
    /// The kernel, without instances; its modules are in the folder.
    pub record: KernelRecord,
    /// How the application's own code was compiled, where the IR came with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiled: Option<CompileOptions>,
    /// The winner that launches like this one get so far, by where it comes from and the launch that it was tuned for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<(PathBuf, LaunchDimensions)>,
    /// The launch, and what it is to be.
    pub recorded: LaunchDimensions,
    pub shape: LaunchDimensions,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<Dim3>,
    pub arguments: Vec<RecordedArgument>,
    /// Those that are folded, counted from 0.
    pub folded: Vec<u32>,
}

/// The code, or why there is none.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SpecialisationAnswer {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub winner: Option<Winner>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub refusal: String,
}

impl SpecialisationRequest {
    /// Writes it under a name that no other request of the folder has.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> std::io::Result<()> {
        mailbox::save(self, folder, name, REQUEST)
    }

    /// Those of a folder that wait for their answers, with their names. What cannot be read is none.
    pub fn waiting(folder: &Path) -> Vec<(String, Self)> {
        mailbox::waiting(folder, REQUEST, ANSWER)
    }
}

impl SpecialisationAnswer {
    /// Writes the answer to a request.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn save(&self, folder: &Path, name: &str) -> std::io::Result<()> {
        mailbox::save(self, folder, name, ANSWER)
    }

    /// The answer to a request, once there is one.
    pub fn load(folder: &Path, name: &str) -> Option<Self> {
        mailbox::load(folder, name, ANSWER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::fixture;

    #[test]
    fn kinds_have_names() {
        for kinds in [FoldedKinds::Integers, FoldedKinds::Scalars] {
            assert_eq!(FoldedKinds::parse(kinds.name()), Some(kinds));
        }
        assert_eq!(FoldedKinds::parse("all"), None);
    }

    #[test]
    fn a_request_waits_until_its_answer_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let request = SpecialisationRequest {
            record: fixture::kernel(),
            compiled: None,
            base: Some(("results".into(), LaunchDimensions::default())),
            recorded: LaunchDimensions::default(),
            shape: LaunchDimensions { shared_mem: 8, ..LaunchDimensions::default() },
            cluster: None,
            arguments: vec![RecordedArgument { offset: 0, bytes: vec![1; 8] }],
            folded: vec![0],
        };
        request.save(folder.path(), "7-0").unwrap();
        std::fs::write(folder.path().join("7-1.request"), "{").unwrap();
        assert_eq!(SpecialisationRequest::waiting(folder.path()), [("7-0".to_owned(), request)]);
        assert_eq!(SpecialisationAnswer::load(folder.path(), "7-0"), None);
        let answer = SpecialisationAnswer { refusal: "it does not compile".into(), ..Default::default() };
        answer.save(folder.path(), "7-0").unwrap();
        assert!(SpecialisationRequest::waiting(folder.path()).is_empty());
        assert_eq!(SpecialisationAnswer::load(folder.path(), "7-0"), Some(answer));
    }
}
