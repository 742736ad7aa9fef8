//! Submissions of clients: turns a request into a job, and its outcome into files.

use std::path::{Path, PathBuf};
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mneme_builds::{BuildOutcome, BuildSpec, CodeError, Replacement};
use mneme_model::configuration::{Configuration, ConfigurationError};
use mneme_model::observation::Observe;
use mneme_model::protocol::{Code, Near, Outputs, Submission};
use mneme_recording::CodeKind;
use mneme_system::files::{private, trust};

use crate::execute::message::RunSpec;
use crate::job::{Job, JobSchedule};

/// The job of a submission. `runs` are iterations and warm-ups if the submission does not set them, `devices` the
/// numbers of the devices in use.
pub fn job(
    submission: Submission,
    recorded: &Configuration,
    runs: (u32, u32),
    devices: &[i32],
) -> Result<Job, SubmissionError> {
    if let Some(device) = submission.device.filter(|device| !devices.contains(device)) {
        return Err(SubmissionError::Device { device, devices: devices.to_vec() });
    }
    let configuration = submission.config.apply(recorded)?;
    if submission.iterations == Some(0) && submission.fresh_inputs.is_empty() {
        return Err(SubmissionError::NoRuns);
    }
    let runs = (submission.iterations.unwrap_or(runs.0), submission.warmup.unwrap_or(runs.1));
    let replacement = submission.code.map(replacement).transpose()?.map(Rc::new);
    let is_foreign = replacement.is_some() && !submission.proven;
    if replacement.is_some() && configuration.original {
        return Err(SubmissionError::OriginalCode);
    }
    // The configuration's own numbers of runs take precedence.
    let stopping = submission.stopping.filter(|_| configuration.iterations.is_none() && configuration.warmup.is_none());
    if stopping.as_ref().and_then(|rule| rule.near.as_ref()).is_some_and(|near| !is_sound(near)) {
        return Err(SubmissionError::Near);
    }
    let runs = if submission.touched { (1, 0) } else { runs };
    let job = Job::new(submission.id, configuration, runs.0, runs.1)
        .observing(submission.touched.then_some(Observe::Touched));
    let keep_ir = submission.outputs.ir.is_some() || submission.outputs.ptx.is_some();
    Ok(Job {
        schedule: JobSchedule {
            priority: submission.priority,
            fresh: submission.fresh,
            device: submission.device,
            ..job.schedule
        },
        build: BuildSpec { replacement, keep_ir, ..job.build },
        run: RunSpec {
            stopping,
            energy: submission.energy,
            fresh_inputs: submission.fresh_inputs,
            thorough: (submission.thorough || is_foreign) && !submission.touched,
            needs_fresh_input: is_foreign && !submission.touched,
            proven: submission.proven,
            counters: submission.counters,
            memory: submission.outputs.memory,
            ..job.run
        },
    })
}

fn is_sound(near: &Near) -> bool {
    near.ns.is_finite() && near.ns > 0.0 && near.within.is_finite() && near.within > 0.0
}

/// Why a submission is refused, or has no file.
#[derive(Debug, thiserror::Error)]
pub enum SubmissionError {
    #[error("device {device} is not in use here; configurations run on {devices:?}")]
    Device { device: i32, devices: Vec<i32> },
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error("iterations is 0, and there are no fresh_inputs to run on")]
    NoRuns,
    #[error("stopping.near is invalid: ns and within must be numbers above 0")]
    Near,
    #[error("the submission has code, and original means the application's own; leave one of them out")]
    OriginalCode,
    #[error(transparent)]
    Code(#[from] CodeError),
    #[error("the bitcode is not base64: {0}")]
    Base64(#[from] base64::DecodeError),
    #[error("{} cannot be read: {source}", path.display())]
    Unread { path: PathBuf, source: std::io::Error },
    #[error("this build has no {0} to write")]
    NoText(&'static str),
    #[error("{} cannot be written: {source}", path.display())]
    Unwritten { path: PathBuf, source: std::io::Error },
}

fn replacement(code: Code) -> Result<Replacement, SubmissionError> {
    let read = |path: &Path| trust::read(path).map_err(|source| SubmissionError::Unread { path: path.into(), source });
    let (kind, bytes) = match code {
        Code::IrFile(path) => (CodeKind::Bitcode, read(&path)?),
        Code::IrText(text) => (CodeKind::Bitcode, text.into_bytes()),
        Code::Bitcode(text) => (CodeKind::Bitcode, BASE64_STANDARD.decode(text)?),
        Code::PtxFile(path) => (CodeKind::Ptx, read(&path)?),
        Code::PtxText(text) => (CodeKind::Ptx, text.into_bytes()),
        Code::CubinFile(path) => (CodeKind::Cubin, read(&path)?),
    };
    Ok(Replacement::of(kind, bytes)?)
}

/// Writes the requested files, except memory, which the executor has written already.
pub fn write(outputs: &Outputs, outcome: Option<&BuildOutcome>) -> Result<(), SubmissionError> {
    let (texts, image) = match outcome {
        None => return Ok(()),
        Some(Ok((built, image))) => (&built.texts, Some(image)),
        Some(Err(not_built)) => (&*not_built.texts, None),
    };
    for (path, text, what) in [(&outputs.ir, &texts.ir, "IR"), (&outputs.ptx, &texts.ptx, "PTX")] {
        match (path, text) {
            (Some(path), Some(text)) => write_file(path, text.as_bytes())?,
            // A failed build is reported in its result.
            (Some(_), None) if image.is_some() => return Err(SubmissionError::NoText(what)),
            _ => {}
        }
    }
    outputs.image.as_deref().zip(image).map_or(Ok(()), |(path, image)| write_file(path, image))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), SubmissionError> {
    private::write(path, bytes).map_err(|source| SubmissionError::Unwritten { path: path.into(), source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    fn submitted(line: &str) -> Result<Job, SubmissionError> {
        let recorded = Configuration::recorded(Dim3::new(7, 1, 1), Dim3::new(32, 1, 1), 0);
        job(serde_json::from_str(line).unwrap(), &recorded, (3, 2), &[0, 2])
    }

    #[test]
    fn the_nearest_number_of_runs_counts() {
        let runs = |line: &str| submitted(line).map(|job| (job.run.iterations, job.run.warmup)).unwrap();
        assert_eq!(runs(r#"{"id":1}"#), (3, 2));
        assert_eq!(runs(r#"{"id":1,"iterations":9}"#), (9, 2));
        assert!(matches!(submitted(r#"{"id":1,"iterations":0}"#), Err(SubmissionError::NoRuns)));
        assert_eq!(runs(r#"{"id":1,"iterations":9,"config":{"iterations":5,"warmup":0}}"#), (5, 0));
    }

    #[test]
    fn a_configuration_that_says_how_often_it_is_run_is_run_so_often() {
        let rule = r#""stopping":{"long_ns":9,"long_runs":3,"near":{"ns":5.0,"runs":2,"within":0.1}}"#;
        let of = |line: &str| submitted(line).map(|job| job.run.stopping);
        assert_eq!(of(&format!(r#"{{"id":1,{rule}}}"#)).unwrap().unwrap().long_runs, 3);
        assert_eq!(of(&format!(r#"{{"id":1,{rule},"config":{{"iterations":5}}}}"#)).unwrap(), None);
        let wrong = of(&format!(r#"{{"id":1,{}}}"#, rule.replace("5.0", "0")));
        assert!(matches!(wrong, Err(SubmissionError::Near)));
    }

    #[test]
    fn a_device_has_to_be_one_of_those_at_work() {
        assert_eq!(submitted(r#"{"id":1,"device":2}"#).unwrap().schedule.device, Some(2));
        assert!(matches!(submitted(r#"{"id":1,"device":1}"#), Err(SubmissionError::Device { device: 1, .. })));
    }

    #[test]
    fn code_comes_in_several_ways() {
        let bytes = |line: &str| submitted(line).map(|job| job.build.replacement.map(|code| code.bytes().to_vec()));
        assert_eq!(bytes(r#"{"id":1,"code":{"bitcode":"QkM="}}"#).unwrap().unwrap(), b"BC");
        assert_eq!(bytes(r#"{"id":1,"code":{"ir-text":"; x"}}"#).unwrap().unwrap(), b"; x");
        assert!(matches!(bytes(r#"{"id":1,"code":{"bitcode":"?"}}"#), Err(SubmissionError::Base64(_))));
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none.ptx");
        let line = serde_json::json!({"id": 1, "code": {"ptx-file": missing}}).to_string();
        assert!(matches!(bytes(&line), Err(SubmissionError::Unread { path, .. }) if path == missing));
        assert_eq!(bytes(r#"{"id":1}"#).unwrap(), None);
    }
}
