//! The identity of a run.

use mneme_model::hash::{ChunkId, chunk_id};
use mneme_model::protocol::StoppingRule;

use crate::execute::message::{RunRequest, RunSpec};

/// Equal for indistinguishable runs: the executor's whole input, the time limit, and the device if it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Identity(ChunkId, ChunkId);

impl Identity {
    pub fn of(run: &RunRequest, image: &[u8], limit: std::time::Duration, device: Option<i32>) -> Self {
        // A rule's baseline does not change the runs.
        let stopping = run.spec.stopping.map(|rule| StoppingRule { near: None, hopeless_ns: None, ..rule });
        let run = RunRequest { spec: RunSpec { stopping, ..run.spec.clone() }, ..run.clone() };
        let request = serde_json::to_vec(&(run, limit, device)).expect("plain data serialises");
        Self(chunk_id(image), chunk_id(&request))
    }
}
