//! Compiles a winner, by a replay that verifies it once more.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use mneme_model::configuration::{Changes, Configuration};
use mneme_model::protocol::{Outputs, Reply, Request, Submission};
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::files::private;
use mneme_system::install;
use mneme_winners::{LaunchDimensions, Winner};

use super::cache::{CodeCache, CompiledCode};
use super::run_folder;
use super::{AppliedWinner, ApplyError};
use crate::siblings;
use mneme_sandbox::program::{end_with_this_thread, survive_broken_pipes};

/// The option of `mneme-replay` to start from the PTX beside the recorded machine code.
pub const FROM_PTX: &str = "--from-ptx";

/// Compiles a configuration for this machine's device, which must have this architecture. If it starts `more_threads`
/// than the recorded launch, checks what these touch.
pub fn compile(
    found: &AppliedWinner,
    id: &str,
    architecture: &str,
    more_threads: bool,
    cache: &CodeCache,
) -> Result<CompiledCode, ApplyError> {
    let folder = run_folder::create(cache.folder()).map_err(ApplyError::NoFolder)?;
    let image = folder.path().join("code");
    let outputs = Outputs { image: Some(image.clone()), ..Outputs::default() };
    // Its messages only matter if it fails. Otherwise they would include the output of a kernel that prints.
    let messages = folder.path().join("messages");
    let errors = private::create(&messages).map_or_else(|_| Stdio::null(), Stdio::from);
    let result = replay(found, id, architecture, outputs, errors).inspect_err(|_| {
        let said = std::fs::read_to_string(&messages).unwrap_or_default();
        said.lines().for_each(|line| mneme_system::remark!("{line}"));
    })?;
    if result.status == ReplayStatus::InternalError {
        return Err(ApplyError::NotCompiled(result.error));
    }
    if result.status != ReplayStatus::Verified {
        let why = if result.error.is_empty() { "its memory differs".into() } else { result.error };
        return Err(ApplyError::Unverified { status: result.status, why });
    }
    let here = &result.environment.arch;
    if architecture != "cpu" && here != architecture {
        return Err(ApplyError::OtherDevice { tuned: architecture.into(), here: here.clone() });
    }
    let image = std::fs::read(&image).map_err(|source| ApplyError::Unread { path: image, source })?;
    let Configuration { grid, block, shared_mem, .. } = found.configuration;
    let tuned = LaunchDimensions { grid, block, shared_mem };
    let bears_threads = !more_threads || touches_no_other_memory(found, id, architecture, &tuned);
    Ok(CompiledCode { image, shared_is_static: result.shared_is_static, bears_threads })
}

/// Why a replay with a winner's code did not verify.
#[derive(Debug)]
pub struct NotVerified {
    pub why: String,
    /// Whether the code with these dimensions is at fault.
    pub is_refuted: bool,
}

/// Replays a recorded launch with a winner's code and these dimensions.
pub fn verify(found: &AppliedWinner, id: &str, winner: &Winner, shape: LaunchDimensions) -> Result<(), NotVerified> {
    let configuration = Configuration {
        grid: shape.grid,
        block: shape.block,
        shared_mem: shape.shared_mem,
        // Launch bounds follow the block unless the winner sets them.
        max_threads: winner.max_threads.or(found.configuration.max_threads),
        ..found.configuration.clone()
    };
    let tried = AppliedWinner { configuration, ..found.clone() };
    // Its messages belong in the verdict, not into the application's output.
    let result = replay(&tried, id, &winner.architecture, Outputs::default(), Stdio::null())
        .map_err(|error| NotVerified { why: format!("it cannot be verified: {error}"), is_refuted: false })?;
    let why = if result.error.is_empty() { result.status.name() } else { &result.error };
    match result.status {
        ReplayStatus::Verified => Ok(()),
        ReplayStatus::FailedVerification => {
            let why = format!("its results differ from those of the application's own code ({why})");
            Err(NotVerified { why, is_refuted: true })
        }
        status => {
            let is_refuted = status == ReplayStatus::RuntimeError;
            Err(NotVerified { why: format!("its replay failed ({}: {why})", status.name()), is_refuted })
        }
    }
}

/// Whether a winner that starts more threads than a recorded launch touches only the launch's memory. A verified replay
/// does not show this: in the application, memory after an allocation belongs to something else.
pub fn touches_no_other_memory(found: &AppliedWinner, id: &str, architecture: &str, tuned: &LaunchDimensions) -> bool {
    let Ok(program) = siblings::find(install::REPLAYER) else { return false };
    let LaunchDimensions { grid, block, shared_mem } = tuned;
    let llvm = found.configuration.llvm;
    let mut command = Command::new(program);
    command.arg("-rdb").arg(&found.recording.database).args([
        "-rid",
        id,
        "--check",
        "--shared-mem",
        &shared_mem.to_string(),
    ]);
    for (name, dimensions) in [("grid", grid), ("block", block)] {
        for (axis, count) in ["x", "y", "z"].into_iter().zip(dimensions.as_array()) {
            command.arg(format!("--{name}-dim-{axis}={count}"));
        }
    }
    if architecture == "cpu" {
        command.args(["--device", "cpu"]);
    }
    command.args(llvm.map(|version| format!("--llvm={version}")));
    command.args(found.replay.iter().filter(|option| *option == FROM_PTX));
    command.arg(&found.configuration.passes).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    end_with_this_thread(&mut command);
    command.status().is_ok_and(|status| status.success())
}

/// Replays an instance once, in a process that ends with the calling thread.
pub fn replay(
    tuned: &AppliedWinner,
    id: &str,
    architecture: &str,
    outputs: Outputs,
    errors: Stdio,
) -> Result<ReplayResult, ApplyError> {
    let program = siblings::find(install::REPLAYER).map_err(|error| ApplyError::Installation(Box::new(error)))?;
    let mut command = Command::new(&program);
    command.arg("serve").arg("-rdb").arg(&tuned.recording.database).args(["-rid", id]).args(&tuned.replay);
    if architecture == "cpu" {
        command.args(["--device", "cpu"]);
    }
    end_with_this_thread(&mut command);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(errors);
    let mut child = command.spawn().map_err(|source| ApplyError::Start { program, source })?;
    let submission = Submission {
        id: 1,
        config: Changes::from(&tuned.configuration),
        iterations: Some(1),
        warmup: Some(0),
        outputs,
        ..Submission::default()
    };
    let line = serde_json::to_string(&Request::Submit(Box::new(submission))).expect("plain data serialises") + "\n";
    // A server that has failed still reports why. Closing its input makes it exit after its answer.
    survive_broken_pipes();
    let _ = child.stdin.take().map(|mut input| input.write_all(line.as_bytes()));
    let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
    let (mut found, mut failure) = (None, None);
    for line in output.lines() {
        match line.map(|line| serde_json::from_str(&line)) {
            Ok(Ok(Reply::Result { result, .. })) => found = Some(*result),
            // If an output cannot be written, the error comes before the result.
            Ok(Ok(Reply::Fatal { error, .. } | Reply::Error { error, .. })) => {
                failure = Some(ApplyError::Replayer(error));
            }
            Ok(Ok(_)) => {}
            Ok(Err(error)) => failure = Some(ApplyError::OtherRelease(error)),
            Err(error) => failure = Some(error.into()),
        }
    }
    let _ = child.wait();
    match failure {
        Some(error) => Err(error),
        None => found.ok_or(ApplyError::NoAnswer),
    }
}
