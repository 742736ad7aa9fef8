//! Files about the culprit: its input, its output and a reproducer.
//!
//! The reproducer needs only LLVM's or NVIDIA's tools.

mod given;
mod pass;
mod script;

pub use self::pass::again;

use std::path::{Path, PathBuf};

use mneme_model::configuration::Configuration;
use mneme_system::files::private;
use serde_json::json;

use super::criterion::Criterion;
use super::experiments::ExperimentRunner;
use super::finding::{BisectFinding, Files, Verdict};
use crate::cli::Bisect;
use crate::error::Fatal;
use crate::report::artifacts::{self, unwritable};

/// The reduced reproducer, a file in the folder.
const REDUCED: &str = "reduced.ll";
const LAUNCH: &str = "launch.json";

/// Writes all files about the finding.
pub fn write(
    runner: &mut ExperimentRunner<'_>,
    options: &Bisect,
    failing: &Configuration,
    criterion: &Criterion,
    finding: &mut BisectFinding,
) -> Result<(), Fatal> {
    let (culprit, given) = (finding.pass.clone(), finding.given.clone());
    let blames_later_stage = matches!(finding.verdict, Verdict::BackEnd | Verdict::Assembler);
    if culprit.is_none() && !(given.is_some() && blames_later_stage) {
        return Ok(());
    }
    let folder =
        options.output.clone().unwrap_or_else(|| PathBuf::from(format!("bisect-{}", runner.context.recorded.id())));
    artifacts::clear(&folder, pass::FILES.into_iter().chain(given::FILES).chain([REDUCED, LAUNCH, script::NAME]))?;
    finding.keep_when_interrupted(&format!("what was written is in {}", folder.display()));
    let mut files = Files { folder, ..Files::default() };
    if let Some(culprit) = &culprit {
        pass::write(runner, options, failing, criterion, culprit, !blames_later_stage, &mut files)?;
    }
    let stage = match given.filter(|_| blames_later_stage) {
        Some(given) => given::write(runner, options, failing, criterion, finding, &given, &mut files)?,
        None => None,
    };
    launch(runner, failing, finding, &files)?;
    script::write(runner, failing, finding, &files, stage.as_ref())?;
    finding.files = Some(files);
    Ok(())
}

/// The kernel, its launch and its arguments.
fn launch(
    runner: &ExperimentRunner<'_>,
    failing: &Configuration,
    finding: &BisectFinding,
    files: &Files,
) -> Result<(), Fatal> {
    let recorded = &runner.context.recorded;
    let header = &recorded.moments.prologue.header;
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let launch = json!({
        "kernel": recorded.kernel.kernel_name,
        "demangled": recorded.kernel.demangled_name,
        "grid": failing.grid,
        "block": failing.block,
        "dynamic_shared_bytes": failing.shared_mem,
        "arguments": header
            .arguments
            .iter()
            .map(|argument| json!({"offset": argument.offset, "bytes": hex(&argument.bytes)}))
            .collect::<Vec<_>>(),
        "verdict": finding.verdict,
        "summary": finding.summary,
        "mismatch": finding.mismatch,
    });
    save(&files.folder, LAUNCH, &(serde_json::to_string_pretty(&launch).expect("plain data serialises") + "\n"))
}

fn save(folder: &Path, name: &str, text: &str) -> Result<(), Fatal> {
    let path = folder.join(name);
    private::write(&path, text).map_err(|error| unwritable(&path, &error))
}
