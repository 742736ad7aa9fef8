//! Checks a space for pipelines that LLVM cannot read, before the first trial.

use serde_json::Value;

use super::TuneError;
use crate::evaluator::Evaluator;
use crate::session::SessionError;
use crate::space::{Domain, SearchSpace};

/// The parameters for pipelines and for versions of LLVM.
const PASSES: &str = "passes";
const LLVM: &str = "llvm";

/// An error message for the first pipeline in a space that LLVM cannot read; `None` if it can read all.
///
/// # Errors The server ends, or the session is interrupted.
pub fn unreadable(evaluator: &mut Evaluator, space: &dyn SearchSpace) -> Result<Option<String>, TuneError> {
    let passes = pipelines(space);
    if passes.is_empty() {
        return Ok(None);
    }
    let found = evaluator.examine(passes).map_err(SessionError::from)?;
    Ok(found.problems.into_iter().flatten().next())
}

/// The pipelines in a space. Empty if the space chooses the LLVM version, because another version may read what this
/// one rejects.
fn pipelines(space: &dyn SearchSpace) -> Vec<String> {
    let named = |name: &str| space.parameters().iter().find(|parameter| parameter.name == name);
    let baseline = space.baseline();
    if named(LLVM).is_some() || baseline.llvm.is_some() {
        return Vec::new();
    }
    let mut passes = vec![baseline.passes];
    if let Some(Domain::Categorical(values)) = named(PASSES).map(|parameter| &parameter.domain) {
        passes.extend(values.iter().filter_map(Value::as_str).map(str::to_owned));
    }
    passes.sort();
    passes.dedup();
    passes
}
