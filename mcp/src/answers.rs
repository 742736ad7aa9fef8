//! Answers to clients: the state of a job, its result, and links to its files.

use std::sync::Arc;

use mneme_system::files::private;
use rmcp::model::{CallToolResult, ContentBlock};
use serde_json::{Value, json};

use crate::error::ToolError;
use crate::folders::Folders;
use crate::jobs::Job;
use crate::resources::Resources;

/// The longest result in an answer, bytes; longer ones are in a file.
const LONGEST_RESULT: usize = 48 << 10;

#[derive(Clone)]
pub struct Answers {
    pub folders: Arc<Folders>,
    pub resources: Arc<Resources>,
}

impl Answers {
    /// A job without its result.
    pub fn about(&self, job: &Job) -> Value {
        let mut about = json!({"job": job.id, "state": state(job)});
        let output = job.output();
        if !output.is_empty() {
            about["output"] = output.into();
        }
        if let Some(folder) = &job.folder {
            about["folder"] = self.folders.shown(folder).into();
        }
        about
    }

    pub fn answer(&self, job: &Job) -> CallToolResult {
        let mut about = self.about(job);
        let Some(end) = job.end() else { return CallToolResult::structured(about) };
        let result = match end.as_ref() {
            Ok(result) => result,
            Err(error) => {
                let mut answer = failure(error);
                answer.structured_content = Some(about);
                return answer;
            }
        };
        let text = result.to_string();
        if text.len() <= LONGEST_RESULT {
            about["result"] = result.clone();
        } else if let Err(error) = keep(job, &text) {
            return failure(&error);
        }
        let files = job.folder.as_ref().map(|folder| self.resources.of(folder)).unwrap_or_default();
        if !files.is_empty() {
            about["files"] = files.iter().map(|file| Value::from(&*file.uri)).collect();
        }
        let mut answer = CallToolResult::structured(about);
        answer.content.extend(files.into_iter().map(ContentBlock::resource_link));
        answer
    }
}

/// Writes a long result to the job's folder.
fn keep(job: &Job, text: &str) -> Result<(), ToolError> {
    let (what, limit) = ("the result", "48 KiB");
    let too_large = ToolError::TooLarge { what, limit, remedy: "name one kernel and one instance" };
    let path = job.folder.as_ref().ok_or(too_large)?.join("result.json");
    private::write(&path, text).map_err(|source| ToolError::Unwritten { path, source })
}

pub fn state(job: &Job) -> &'static str {
    match job.end().as_deref() {
        None => "running",
        Some(Ok(_)) => "done",
        Some(Err(ToolError::Cancelled)) => "cancelled",
        Some(Err(_)) => "failed",
    }
}

/// An answer that tells the model what to do.
pub fn failure(error: &ToolError) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(error.to_string())])
}
