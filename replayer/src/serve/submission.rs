//! Submissions of clients: turns a request into a job, and its outcome into files.

use std::path::Path;
use std::rc::Rc;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use mneme_builds::BuildOutcome;
use mneme_builds::BuildSpec;
use mneme_builds::Replacement;
use mneme_model::configuration::Configuration;
use mneme_model::protocol::{Code, Near, Outputs, StoppingRule, Submission};
use mneme_recording::CodeKind;
use mneme_system::files::{private, trust};

use crate::execute::message::RunSpec;
use crate::job::{Job, JobSchedule};

/// The job of a submission. `runs` are iterations and warm-ups if the submission does not set them, `devices` the
/// numbers of the devices in use.
pub fn job(submission: Submission, recorded: &Configuration, runs: (u32, u32), devices: &[i32]) -> Result<Job, String> {
    if let Some(device) = submission.device.filter(|device| !devices.contains(device)) {
        return Err(format!("device {device} is not in use here; configurations run on {devices:?}"));
    }
    let configuration = submission.config.apply(recorded)?;
    if submission.iterations == Some(0) {
        return Err("iterations is 0; at least one run is measured".into());
    }
    let runs = (submission.iterations.unwrap_or(runs.0), submission.warmup.unwrap_or(runs.1));
    let replacement = submission.code.map(replacement).transpose()?.map(Rc::new);
    let is_foreign = replacement.is_some();
    if is_foreign && configuration.original {
        return Err("the submission has code, and original means the application's own; leave one of them out".into());
    }
    // The configuration's own numbers of runs take precedence.
    let stopping = submission.stopping.filter(|_| configuration.iterations.is_none() && configuration.warmup.is_none());
    if let Some(problem) = stopping.and_then(|rule| problem(&rule)) {
        return Err(problem);
    }
    let job = Job::new(submission.id, configuration, runs.0, runs.1);
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
            thorough: submission.thorough || is_foreign,
            needs_fresh_input: is_foreign,
            counters: submission.counters,
            memory: submission.outputs.memory,
            ..job.run
        },
    })
}

/// Returns the reason if a stopping rule is invalid.
fn problem(rule: &StoppingRule) -> Option<String> {
    let is_sound = |near: &Near| near.ns.is_finite() && near.ns > 0.0 && near.within.is_finite() && near.within > 0.0;
    let sound = rule.near.as_ref().is_none_or(is_sound);
    (!sound).then(|| "stopping.near is invalid: ns and within must be numbers above 0".into())
}

fn replacement(code: Code) -> Result<Replacement, String> {
    let read = |path: &Path| trust::read(path).map_err(|error| format!("{} cannot be read: {error}", path.display()));
    let (kind, bytes) = match code {
        Code::IrFile(path) => (CodeKind::Bitcode, read(&path)?),
        Code::IrText(text) => (CodeKind::Bitcode, text.into_bytes()),
        Code::Bitcode(text) => (
            CodeKind::Bitcode,
            BASE64_STANDARD.decode(text).map_err(|error| format!("the bitcode is not base64: {error}"))?,
        ),
        Code::PtxFile(path) => (CodeKind::Ptx, read(&path)?),
        Code::PtxText(text) => (CodeKind::Ptx, text.into_bytes()),
        Code::CubinFile(path) => (CodeKind::Cubin, read(&path)?),
    };
    Replacement::of(kind, bytes)
}

/// Writes the requested files, except memory, which the executor has written already.
pub fn write(outputs: &Outputs, outcome: Option<&BuildOutcome>) -> Result<(), String> {
    let (texts, image) = match outcome {
        None => return Ok(()),
        Some(Ok((built, image))) => (&built.texts, Some(image)),
        Some(Err(not_built)) => (&*not_built.texts, None),
    };
    for (path, text, what) in [(&outputs.ir, &texts.ir, "IR"), (&outputs.ptx, &texts.ptx, "PTX")] {
        match (path, text) {
            (Some(path), Some(text)) => write_file(path, text.as_bytes())?,
            // A failed build is reported in its result.
            (Some(_), None) if image.is_some() => return Err(format!("this build has no {what} to write")),
            _ => {}
        }
    }
    outputs.image.as_deref().zip(image).map_or(Ok(()), |(path, image)| write_file(path, image))
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), String> {
    private::write(path, bytes).map_err(|error| format!("{} cannot be written: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    fn submitted(line: &str) -> Result<Job, String> {
        let recorded = Configuration::recorded(Dim3::new(7, 1, 1), Dim3::new(32, 1, 1), 0);
        job(serde_json::from_str(line).unwrap(), &recorded, (3, 2), &[0, 2])
    }

    #[test]
    fn the_nearest_number_of_runs_counts() {
        let runs = |line: &str| submitted(line).map(|job| (job.run.iterations, job.run.warmup)).unwrap();
        assert_eq!(runs(r#"{"id":1}"#), (3, 2));
        assert_eq!(runs(r#"{"id":1,"iterations":9}"#), (9, 2));
        assert!(submitted(r#"{"id":1,"iterations":0}"#).unwrap_err().contains("iterations"));
        assert_eq!(runs(r#"{"id":1,"iterations":9,"config":{"iterations":5,"warmup":0}}"#), (5, 0));
    }

    #[test]
    fn a_configuration_that_says_how_often_it_is_run_is_run_so_often() {
        let rule = r#""stopping":{"long_ns":9,"long_runs":3,"near":{"ns":5.0,"runs":2,"within":0.1}}"#;
        let of = |line: &str| submitted(line).map(|job| job.run.stopping);
        assert_eq!(of(&format!(r#"{{"id":1,{rule}}}"#)).unwrap().unwrap().long_runs, 3);
        assert_eq!(of(&format!(r#"{{"id":1,{rule},"config":{{"iterations":5}}}}"#)), Ok(None));
        let error = of(&format!(r#"{{"id":1,{}}}"#, rule.replace("5.0", "0"))).unwrap_err();
        assert!(error.starts_with("stopping.near"), "{error}");
    }

    #[test]
    fn a_device_has_to_be_one_of_those_at_work() {
        assert_eq!(submitted(r#"{"id":1,"device":2}"#).unwrap().schedule.device, Some(2));
        assert!(submitted(r#"{"id":1,"device":1}"#).unwrap_err().contains("device 1"));
    }

    #[test]
    fn code_comes_in_several_ways() {
        let bytes = |line: &str| submitted(line).map(|job| job.build.replacement.map(|code| code.bytes().to_vec()));
        assert_eq!(bytes(r#"{"id":1,"code":{"bitcode":"QkM="}}"#).unwrap().unwrap(), b"BC");
        assert_eq!(bytes(r#"{"id":1,"code":{"ir-text":"; x"}}"#).unwrap().unwrap(), b"; x");
        assert!(bytes(r#"{"id":1,"code":{"bitcode":"?"}}"#).unwrap_err().contains("base64"));
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none.ptx");
        let line = serde_json::json!({"id": 1, "code": {"ptx-file": missing}}).to_string();
        assert!(bytes(&line).unwrap_err().contains(missing.to_str().unwrap()));
        assert_eq!(bytes(r#"{"id":1}"#).unwrap(), None);
    }
}
