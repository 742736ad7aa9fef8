//! The `mneme-replay serve` child process, and its replacement when it dies.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mneme_core::configuration::Configuration;
use mneme_core::device::DeviceLimits;
use mneme_core::files::private;
use mneme_core::image::bitcode;
use mneme_core::protocol::{self, Changes, Examination, Hello, Reply, Request, StoppingRule, Submission};
use mneme_core::result::{ReplayResult, ReplayStatus};

use crate::interrupt::{self, Interrupted};

/// How to start a server.
#[derive(Clone, Debug)]
pub struct ServerCommand {
    /// `mneme-replay`.
    pub program: PathBuf,
    /// `<static-hash>.json`.
    pub database: PathBuf,
    /// Dynamic hash.
    pub instance: String,
    /// Options of `mneme-replay serve` beside these.
    pub options: Vec<String>,
    /// Results count whose memory is as recorded, whatever that shows.
    pub accepts_unproven: bool,
    /// Where the server's standard error goes.
    pub log: PathBuf,
}

/// How often a configuration is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Measured ones.
    pub iterations: u32,
    /// Before them.
    pub warmup: u32,
    /// When fewer are enough.
    pub stopping: Option<StoppingRule>,
    /// Also where the same code was run with the same launch already.
    pub fresh: bool,
    /// Number of the device, where not any will do.
    pub device: Option<i32>,
    /// Measure the energy of a launch as well.
    pub energy: bool,
    /// Count a launch with these hardware counters as well.
    pub counters: Vec<String>,
    /// Seeds of the fresh inputs to run on afterwards.
    pub fresh_inputs: Vec<u64>,
    /// Look for races, and for results that are kept.
    pub thorough: bool,
}

impl Runs {
    /// The same for times alone.
    #[must_use]
    pub fn of_time(self) -> Self {
        Self { energy: false, counters: Vec::new(), ..self }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{program} cannot be started: {source}", program = program.display())]
    Start { program: PathBuf, source: std::io::Error },
    #[error("{path}, the log of mneme-replay, cannot be written: {source}", path = path.display())]
    Log { path: PathBuf, source: std::io::Error },
    /// The server said why it cannot work; `status` is one of [`mneme_core::exit`].
    #[error("{error}")]
    Fatal { status: i32, error: String },
    #[error(
        "mneme-replay speaks protocol {found}, this mneme-tune {}; install both from one release",
        protocol::VERSION
    )]
    Protocol { found: u32 },
    #[error("the replay server ended unexpectedly ({how})")]
    Died { how: String },
    #[error("the replay server sent a line that is no reply: {line}")]
    Garbled { line: String },
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    greeting: ServerGreeting,
    accepts_unproven: bool,
    /// Configurations submitted and not answered.
    pending: usize,
}

/// What a server says of itself.
#[derive(Clone, Debug, Default)]
pub struct ServerGreeting {
    /// Name and driver of the first device.
    pub device: String,
    pub driver: String,
    /// What makes machine code for it; "" where an older server does not say.
    pub assembler: String,
    /// The whole version of the LLVM before it where a configuration names none; "" where there is none, or an older
    /// server does not say.
    pub llvm: String,
    /// The whole versions of all that a configuration may name.
    pub compilers: Vec<String>,
    /// What times kernels there; "" where an older server does not say.
    pub timer: String,
    /// Numbers of the devices that it replays on.
    pub devices: Vec<i32>,
    /// Version of mneme-replay.
    pub version: String,
    /// What the first device can take.
    pub limits: DeviceLimits,
    /// Builds that are made at a time; 0 where an older server does not say.
    pub builders: u32,
}

/// That of the versions of LLVM, as [`ServerGreeting::compilers`] has them, which begins with this number.
pub fn compiler(versions: &[String], major: u32) -> Option<&str> {
    versions.iter().map(String::as_str).find(|version| bitcode::major(version) == Some(major))
}

impl ServerCommand {
    /// Starts a server and waits until it is ready.
    pub fn start(&self) -> Result<Server, ServerError> {
        let failed = |source| ServerError::Start { program: self.program.clone(), source };
        let log = private::append(&self.log).map_err(|source| ServerError::Log { path: self.log.clone(), source })?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("-rdb").arg(&self.database).arg("-rid").arg(&self.instance);
        command.args(&self.options);
        // Ctrl-C in a terminal is for the session, which ends its servers itself.
        command.process_group(0);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log).spawn().map_err(failed)?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().expect("standard output is a pipe"));
        let accepts_unproven = self.accepts_unproven;
        let mut server =
            Server { child, input, output, greeting: ServerGreeting::default(), accepts_unproven, pending: 0 };
        match server.read()? {
            Reply::Hello(hello) if hello.protocol > protocol::VERSION => {
                Err(ServerError::Protocol { found: hello.protocol })
            }
            Reply::Hello(hello) => {
                let Hello { device, driver, assembler, llvm, timer, devices, .. } = *hello;
                let Hello { compilers, version, limits, builders, .. } = *hello;
                server.greeting = ServerGreeting {
                    device,
                    driver,
                    assembler,
                    llvm,
                    compilers,
                    timer,
                    devices,
                    version,
                    limits,
                    builders,
                };
                Ok(server)
            }
            Reply::Fatal { status, error } => Err(ServerError::Fatal { status, error }),
            other => Err(ServerError::Garbled { line: format!("{other:?} before the greeting") }),
        }
    }
}

impl Server {
    pub fn greeting(&self) -> &ServerGreeting {
        &self.greeting
    }

    /// Submits a configuration. An error means that the server is gone.
    pub fn submit(&mut self, id: u64, config: &Configuration, runs: Runs) -> Result<(), ServerError> {
        let Runs { iterations, warmup, stopping, fresh, device, energy, counters, fresh_inputs, thorough } = runs;
        let config = Changes::from(config);
        let (iterations, warmup) = (Some(iterations), Some(warmup));
        let submission = Submission {
            id,
            config,
            iterations,
            warmup,
            stopping,
            fresh,
            device,
            energy,
            counters,
            fresh_inputs,
            thorough,
            ..Submission::default()
        };
        self.send(&Request::Submit(Box::new(submission)))?;
        self.pending += 1;
        Ok(())
    }

    fn send(&mut self, request: &Request) -> Result<(), ServerError> {
        let mut line = serde_json::to_string(request).expect("plain data serialises");
        line.push('\n');
        let written = match &mut self.input {
            Some(input) => input.write_all(line.as_bytes()),
            None => Err(std::io::ErrorKind::BrokenPipe.into()),
        };
        written.map_err(|_| self.died())
    }

    /// Has the server examine the kernel and pipelines before a build; a server of an earlier version knows nothing. No
    /// replay may be under way.
    pub fn examine(&mut self, passes: Vec<String>) -> Result<Examination, ServerError> {
        self.send(&Request::Examine { passes })?;
        match self.read()? {
            Reply::Examined(found) => Ok(found),
            Reply::Error { .. } => Ok(Examination::default()),
            Reply::Fatal { status, error } => Err(ServerError::Fatal { status, error }),
            other => Err(ServerError::Garbled { line: format!("{other:?}") }),
        }
    }

    /// Waits for the next result.
    pub fn next_result(&mut self) -> Result<(u64, ReplayResult), ServerError> {
        match self.read()? {
            Reply::Result { id, mut result } => {
                self.pending = self.pending.saturating_sub(1);
                // --accept-unproven accepts a weak recording, but no doubts about the code.
                let is_doubted = result.evidence.as_ref().is_some_and(|evidence| !evidence.doubts.is_empty());
                result.verified |= self.accepts_unproven && result.status == ReplayStatus::Unproven && !is_doubted;
                Ok((id, *result))
            }
            Reply::Fatal { status, error } => Err(ServerError::Fatal { status, error }),
            // Nothing was asked that they would answer.
            other => Err(ServerError::Garbled { line: format!("{other:?}") }),
        }
    }

    fn read(&mut self) -> Result<Reply, ServerError> {
        if self.output.buffer().is_empty()
            && let Err(interrupted) = interrupt::wait_for(self.output.get_ref().as_fd())
        {
            // It may be busy for long, and nobody waits for its answers any more.
            let _ = self.child.kill();
            return Err(interrupted.into());
        }
        let mut line = String::new();
        match self.output.read_line(&mut line) {
            Ok(0) | Err(_) => Err(self.died()),
            Ok(_) => serde_json::from_str(&line).map_err(|_| ServerError::Garbled { line: line.trim_end().into() }),
        }
    }

    fn died(&mut self) -> ServerError {
        self.input = None;
        let _ = self.child.kill();
        let how = self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
        ServerError::Died { how }
    }
}

impl Drop for Server {
    /// End of input asks the server to finish; one that is still at work is not waited for.
    fn drop(&mut self) {
        self.input = None;
        if self.pending > 0 {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
