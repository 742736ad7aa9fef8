//! What the supervisor is asked for, and why it gives up.

use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use mneme_compiler::instrument::Instrument;
use mneme_core::configuration::{Configuration, Specialize};
use mneme_core::exit;
use mneme_core::observation::Observe;

use crate::builder::{Built, Probe};
use crate::executor::message::{self, Run};
use crate::replacement::Replacement;
use crate::scene::Scene;

/// A configuration to replay.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: u64,
    pub configuration: Configuration,
    pub iterations: u32,
    pub warmup: u32,
    /// Greater ones first.
    pub priority: i32,
    /// Run it even where an equal one has run.
    pub fresh: bool,
    /// Number of the device that it has to run on.
    pub device: Option<i32>,
    /// Measure the energy of a launch as well.
    pub energy: bool,
    /// Code in the recorded kernel's place.
    pub replacement: Option<Rc<Replacement>>,
    /// Ask for the IR after the pipeline, and for what a build that fails had come to.
    pub keep_ir: bool,
    /// File for all recorded memory as the last run leaves it.
    pub memory: Option<PathBuf>,
    /// Instrument the code, and tell what it does.
    pub observe: Option<Observe>,
    /// What is special about its build.
    pub probe: Probe,
    /// Tell how its runs differ from each other, in place of stopping at the first that differs from the recording.
    pub survey: bool,
    /// Tell a digest of what the run leaves in place of comparing it.
    pub digest: bool,
}

impl Job {
    /// Whether the configuration can be that of any launch of the kernel.
    ///
    /// # Errors
    /// One sentence, which names the field.
    pub fn check(&self, scene: &Scene) -> Result<(), String> {
        self.configuration.check()?;
        check_arguments(&self.configuration.specialize, scene.subject.kernel.ours.arguments.len())
    }

    /// A configuration without anything special; runs that it asks for itself take precedence.
    pub fn new(id: u64, configuration: Configuration, iterations: u32, warmup: u32) -> Self {
        let (iterations, warmup) = (configuration.iterations.unwrap_or(iterations), configuration.warmup.unwrap_or(warmup));
        Self {
            id,
            configuration,
            iterations,
            warmup,
            priority: 0,
            fresh: false,
            device: None,
            energy: false,
            replacement: None,
            keep_ir: false,
            memory: None,
            observe: None,
            probe: Probe::default(),
            survey: false,
            digest: false,
        }
    }

    /// For the build, and for all runs.
    pub fn limit(&self, scene: &Scene) -> Duration {
        let own = self.configuration.timeout_s.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        own.unwrap_or(scene.limit)
    }

    /// The order for an executor.
    pub fn run(&self, built: &Built, scene: &Scene) -> Run {
        Run {
            entry: built.entry.clone(),
            grid: self.configuration.grid,
            block: self.configuration.block,
            shared_mem: if built.shared_is_static { 0 } else { self.configuration.shared_mem },
            attributes: scene.subject.attributes(),
            iterations: self.iterations,
            warmup: self.warmup,
            cache: self.configuration.cache,
            tolerance: self.configuration.tolerance,
            survey: scene.survey || self.survey,
            digest: self.digest,
            energy: self.energy,
            dump: scene.dump.clone(),
            memory: self.memory.clone(),
            observe: self.observe.zip(built.instrumented.as_ref()).map(|(observe, instrumented)| message::Watch {
                observe,
                sites: instrumented.sites.len() as u64,
                static_shared: instrumented.shared_bytes,
                has_shared: instrumented.has_shared,
            }),
        }
    }

    /// What the code is to be instrumented for.
    pub fn instrument(&self) -> Option<Instrument> {
        self.observe.map(|observe| match observe {
            Observe::Faults => Instrument::Faults,
            Observe::Writes { .. } => Instrument::Writes,
        })
    }
}

/// `count` is the kernel's number of arguments, 0 where it is not known.
fn check_arguments(specialize: &Specialize, count: usize) -> Result<(), String> {
    let Specialize::Arguments(arguments) = specialize else { return Ok(()) };
    match arguments.iter().find(|argument| count > 0 && **argument as usize >= count) {
        None => Ok(()),
        Some(argument) => Err(format!("specialize names argument {argument}; the kernel has {count}, counted from 0")),
    }
}

/// Why the supervisor cannot go on.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Fatal {
    pub status: i32,
    pub error: String,
    /// Another process, with another address space, may succeed.
    pub clash: bool,
}

impl Fatal {
    pub fn new(status: i32, error: impl Into<String>) -> Self {
        Self { status, error: error.into(), clash: false }
    }
}

impl From<std::io::Error> for Fatal {
    fn from(error: std::io::Error) -> Self {
        Self::new(exit::INTERNAL, format!("a process or a pipe of ours failed: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_are_not_there_are_named() {
        let check = |arguments: &[u32], count| check_arguments(&Specialize::Arguments(arguments.to_vec()), count);
        assert!(check(&[0, 2], 3).is_ok() && check(&[9], 0).is_ok());
        assert!(check(&[0, 3], 3).unwrap_err().contains("argument 3"));
        assert!(check_arguments(&Specialize::All, 0).is_ok());
    }
}
