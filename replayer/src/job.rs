//! A job: a configuration to replay, with its priority and the way to build and run it.

use std::time::Duration;

use mneme_builds::instrument::Instrument;
use mneme_builds::{BuildSpec, Built, NotBuilt};
use mneme_model::configuration::{Configuration, Specialize};
use mneme_model::observation::Observe;
use mneme_model::result::ReplayStatus;

use crate::context::ReplayContext;
use crate::execute::message::{InstrumentedCode, RunRequest, RunSpec};

/// A configuration to replay.
#[derive(Clone, Debug)]
pub struct Job {
    pub schedule: JobSchedule,
    /// Passed to a builder unchanged.
    pub build: BuildSpec,
    /// Passed to an executor unchanged.
    pub run: RunSpec,
}

/// The scheduling of a configuration in the supervisor.
#[derive(Clone, Copy, Debug, Default)]
pub struct JobSchedule {
    pub id: u64,
    /// Greater ones run first.
    pub priority: i32,
    /// Run it even if an equal one has run.
    pub fresh: bool,
    /// The number of the device on which it must run.
    pub device: Option<i32>,
}

impl Job {
    /// A plain replay of a configuration. The configuration's own numbers of runs take precedence.
    pub fn new(id: u64, configuration: Configuration, iterations: u32, warmup: u32) -> Self {
        let run = RunSpec {
            iterations: configuration.iterations.unwrap_or(iterations),
            warmup: configuration.warmup.unwrap_or(warmup),
            cache: configuration.cache,
            tolerance: configuration.tolerance,
            ..RunSpec::default()
        };
        Self { schedule: JobSchedule { id, ..JobSchedule::default() }, build: BuildSpec::new(configuration), run }
    }

    /// Instruments the code to observe what it does.
    pub fn observing(mut self, observe: Option<Observe>) -> Self {
        self.run.observe = observe;
        self.build.instrument = observe.map(|observe| match observe {
            Observe::Faults => Instrument::Faults,
            Observe::Writes { .. } => Instrument::Writes,
            Observe::Touched => Instrument::Touched,
        });
        self
    }

    /// Whether it may also run on fresh inputs if the recorded one proves too little.
    pub fn may_have_fresh_inputs(&self) -> bool {
        let RunSpec { fresh_inputs, survey, digest, calibrate, memory, observe, alone, proven, .. } = &self.run;
        let is_plain = !survey && !digest && calibrate.is_none() && memory.is_none() && observe.is_none();
        is_plain && fresh_inputs.is_empty() && alone.is_none() && !proven
    }

    pub fn configuration(&self) -> &Configuration {
        &self.build.configuration
    }

    /// Checks that any launch of the kernel could have this configuration.
    ///
    /// # Errors
    /// One sentence that names the field, or the missing program that would build it.
    pub fn check(&self, context: &ReplayContext) -> Result<(), NotBuilt> {
        let count = context.recorded.kernel.ours.arguments.len();
        let configuration = self.configuration();
        configuration.check().map_err(|error| NotBuilt::new(ReplayStatus::InvalidConfig, error))?;
        check_arguments(&configuration.specialize, count)
            .map_err(|error| NotBuilt::new(ReplayStatus::InvalidConfig, error))?;
        context.llvm_of(&self.build)?;
        Ok(())
    }

    /// Names the version of LLVM that builds the job, unless it is the session's, so equal builds compare as equal.
    /// Returns the job and that version, or the session's if there is none (see [`Job::check`]). If a version is given
    /// for code that LLVM does not compile unless it is lifted, it is kept: the job is then refused, or the code
    /// lifted.
    pub fn with_llvm(mut self, context: &ReplayContext) -> (Self, u32) {
        let Ok(version) = context.llvm_of(&self.build) else { return (self, context.llvm) };
        if context.is_ir(&self.build) && !self.configuration().original {
            self.build.configuration.llvm = (version != context.llvm).then_some(version);
        }
        (self, version)
    }

    /// The time limit of the build.
    pub fn limit(&self, context: &ReplayContext) -> Duration {
        let own = self.configuration().timeout_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        own.unwrap_or(context.limit)
    }

    /// The time limit of all runs.
    pub fn run_limit(&self, context: &ReplayContext) -> Duration {
        self.run.limit.unwrap_or_else(|| self.limit(context))
    }

    /// The request to an executor to run the code.
    pub fn run(&self, built: &Built, context: &ReplayContext) -> RunRequest {
        let configuration = self.configuration();
        RunRequest {
            entry: built.entry.clone(),
            grid: configuration.grid,
            block: configuration.block,
            shared_mem: if built.shared_is_static { 0 } else { configuration.shared_mem },
            attributes: context.recorded.attributes(),
            oracle: None,
            pipelines: Vec::new(),
            own_process: false,
            folds_arguments: configuration.specialize != Specialize::None || configuration.facts,
            is_compiled: built.lifted || (context.is_ir(&self.build) && !configuration.original),
            dump: context.dump.clone(),
            watch: built.instrumented.as_ref().map(|instrumented| InstrumentedCode {
                sites: instrumented.sites.len() as u64,
                static_shared: instrumented.shared_bytes,
                has_shared: instrumented.has_shared,
            }),
            spec: RunSpec {
                survey: context.survey || self.run.survey,
                further_inputs: context.may_lose_more(),
                ..self.run.clone()
            },
        }
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("specialize names argument {argument}; the kernel has {count}, counted from 0")]
struct NoSuchArgument {
    argument: u32,
    count: usize,
}

/// `count` is the kernel's number of arguments, or 0 if it is unknown.
fn check_arguments(specialize: &Specialize, count: usize) -> Result<(), NoSuchArgument> {
    let Specialize::Arguments(arguments) = specialize else { return Ok(()) };
    match arguments.iter().find(|argument| count > 0 && **argument as usize >= count) {
        None => Ok(()),
        Some(&argument) => Err(NoSuchArgument { argument, count }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_not_there_are_named() {
        let check = |arguments: &[u32], count| check_arguments(&Specialize::Arguments(arguments.to_vec()), count);
        assert!(check(&[0, 2], 3).is_ok() && check(&[9], 0).is_ok());
        assert_eq!(check(&[0, 3], 3), Err(NoSuchArgument { argument: 3, count: 3 }));
        assert!(check_arguments(&Specialize::All, 0).is_ok());
    }
}
