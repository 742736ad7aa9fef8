//! The `mneme-replay serve` child process.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use mneme_model::configuration::{Changes, Configuration};
use mneme_model::device::DeviceLimits;
use mneme_model::llvm_version;
use mneme_model::protocol::{self, Code, Examination, Hello, Reply, Request, StoppingRule, Submission};
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::files::private;

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
    /// Further options of `mneme-replay serve`.
    pub options: Vec<String>,
    /// Whether unproven results count as verified.
    pub accepts_unproven: bool,
    /// The file for the server's standard error.
    pub log: PathBuf,
}

/// How a configuration is run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Runs {
    /// Measured runs.
    pub iterations: u32,
    /// Warm-up runs before them.
    pub warmup: u32,
    /// The rule by which fewer runs are enough.
    pub stopping: Option<StoppingRule>,
    /// Run even if the same code was already run with the same launch.
    pub fresh: bool,
    /// Number of the device, if it matters.
    pub device: Option<i32>,
    /// Measure the energy of a launch as well.
    pub energy: bool,
    /// Hardware counters to count in one more launch.
    pub counters: Vec<String>,
    /// Instead of measuring, find the memory that the code reads and writes.
    pub touched: bool,
    /// Seeds of the fresh inputs to run on afterwards.
    pub fresh_inputs: Vec<u64>,
    /// Look for races, and for results that are kept between launches.
    pub thorough: bool,
    /// Code in place of the recorded code.
    pub code: Option<Code>,
    /// Earlier runs proved that the configuration and the code are right.
    pub proven: bool,
}

impl Runs {
    /// The same runs without energy and counters.
    #[must_use]
    pub fn of_time(self) -> Self {
        Self { energy: false, counters: Vec::new(), ..self }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error("{program} cannot be started: {source}", program = program.display())]
    Start { program: PathBuf, source: std::io::Error },
    #[error("the log of mneme-replay, {path}, cannot be written: {source}", path = path.display())]
    Log { path: PathBuf, source: std::io::Error },
    /// The server reported why it cannot work; `status` is one of [`mneme_system::exit`].
    #[error("{error}")]
    Fatal { status: i32, error: String },
    #[error(
        "mneme-replay uses protocol {found}, but this mneme-tune uses {}; install both from one release",
        protocol::VERSION
    )]
    Protocol { found: u32 },
    #[error("the replay server ended unexpectedly ({how})")]
    Died { how: String },
    #[error("the replay server sent an invalid reply: {line}")]
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

/// A server's greeting.
#[derive(Clone, Debug, Default)]
pub struct ServerGreeting {
    /// Name and driver of the first device.
    pub device: String,
    pub driver: String,
    /// The assembler; "" if an older server does not report it.
    pub assembler: String,
    /// The full version of the LLVM that compiles by default; "" if there is none, or if an older server does not
    /// report it.
    pub llvm: String,
    /// The full versions of LLVM that a configuration may name.
    pub compilers: Vec<String>,
    /// The timer; "" if an older server does not report it.
    pub timer: String,
    /// Numbers of the devices that it replays on.
    pub devices: Vec<i32>,
    /// Version of mneme-replay.
    pub version: String,
    /// Limits of the first device.
    pub limits: DeviceLimits,
    /// Number of concurrent builds; 0 if an older server does not report it.
    pub builders: u32,
}

/// The full version of LLVM with this major version.
pub fn compiler(versions: &[String], major: u32) -> Option<&str> {
    versions.iter().map(String::as_str).find(|version| llvm_version::major(version) == Some(major))
}

impl ServerCommand {
    /// Starts a server and waits until it is ready.
    pub fn start(&self) -> Result<Server, ServerError> {
        let failed = |source| ServerError::Start { program: self.program.clone(), source };
        let log = private::append(&self.log).map_err(|source| ServerError::Log { path: self.log.clone(), source })?;
        let mut command = Command::new(&self.program);
        command.arg("serve").arg("-rdb").arg(&self.database).arg("-rid").arg(&self.instance);
        command.args(&self.options);
        // Ctrl-C in a terminal must only reach the session, which ends its servers itself.
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
        let Runs { iterations, warmup, stopping, fresh, device, energy, counters, fresh_inputs, .. } = runs;
        let Runs { thorough, code, proven, touched, .. } = runs;
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
            touched,
            fresh_inputs,
            thorough,
            code,
            proven,
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

    /// Has the server examine the kernel and pipelines, before a build. Older servers find nothing. No replay may be in
    /// flight.
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
                // --accept-unproven accepts a weak recording, but not doubts about the code.
                let is_doubted = result.evidence.as_ref().is_some_and(|evidence| !evidence.doubts.is_empty());
                result.verified |= self.accepts_unproven && result.status == ReplayStatus::Unproven && !is_doubted;
                Ok((id, *result))
            }
            Reply::Fatal { status, error } => Err(ServerError::Fatal { status, error }),
            // Replies to requests that this session did not send.
            other => Err(ServerError::Garbled { line: format!("{other:?}") }),
        }
    }

    fn read(&mut self) -> Result<Reply, ServerError> {
        if self.output.buffer().is_empty()
            && let Err(interrupted) = interrupt::wait_for(self.output.get_ref().as_fd())
        {
            // The server may be busy for long, and its answers are no longer needed.
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
    /// Ends the server's input, which asks it to finish. Kills it if results are pending.
    fn drop(&mut self) {
        self.input = None;
        if self.pending > 0 {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}
