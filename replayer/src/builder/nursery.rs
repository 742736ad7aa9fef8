//! The nursery: a process that forks builders and watches over them.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_compiler::Target;
use mneme_core::configuration::Configuration;
use mneme_core::exit;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::process::{self, Builder};
use super::{Built, Extras, NotBuilt, Outcome};
use crate::child::{Child, Complaints};
use crate::frame::{self, Inbox};
use crate::subject::Subject;

/// A build that the supervisor asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    number: u64,
    configuration: Configuration,
    /// Architecture, and whether it is the CPU device's code.
    arch: String,
    cpu: bool,
}

/// The answer; the code object is the blob.
#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    number: u64,
    outcome: Result<Built, NotBuilt>,
}

/// What all builds have in common.
pub struct Plan<'a> {
    pub subject: &'a Subject,
    pub modules: &'a [Vec<u8>],
    pub extras: &'a Extras,
    /// For one build.
    pub limit: Duration,
}

/// The nursery as the supervisor sees it.
pub struct Nursery {
    child: Child,
    stream: UnixStream,
    inbox: Inbox,
    /// Number of the last order.
    last: u64,
}

impl Nursery {
    pub fn start(plan: &Plan<'_>) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Child::start(Complaints::Shown, || raise(plan, theirs))?;
        Ok(Self { child, stream: ours, inbox: Inbox::default(), last: 0 })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// Orders a build; its outcome comes under the number returned.
    pub fn build(&mut self, configuration: &Configuration, target: &Target) -> std::io::Result<u64> {
        self.last += 1;
        let (arch, cpu) = match target {
            Target::Nvptx { arch } => (arch.clone(), false),
            Target::Cpu { arch } => (arch.clone(), true),
        };
        let order = Order { number: self.last, configuration: configuration.clone(), arch, cpu };
        frame::write(&mut self.stream, &order, &[])?;
        Ok(self.last)
    }

    /// Reads what has arrived: outcomes by number. An error means that the nursery is gone.
    pub fn progress(&mut self) -> std::io::Result<Vec<(u64, Outcome)>> {
        if !receive(&mut self.stream, &mut self.inbox)? {
            let end = self.child.wait(Duration::from_secs(5)).map_or_else(String::new, |end| format!(", which {end}"));
            return Err(std::io::Error::other(format!("the parent of the builders is gone{end}")));
        }
        let mut outcomes = Vec::new();
        while let Some((answer, image)) = self.inbox.pop::<Answer>()? {
            outcomes.push((answer.number, answer.outcome.map(|built| (built, image))));
        }
        Ok(outcomes)
    }

    /// Ends it without waiting, see [`Child::abandon`].
    pub fn abandon(self) {
        self.child.abandon();
    }
}

/// Moves what can be read into the inbox; false at the end of the stream.
fn receive(stream: &mut UnixStream, inbox: &mut Inbox) -> std::io::Result<bool> {
    let mut buffer = [0; 64 * 1024];
    match stream.read(&mut buffer) {
        Ok(count) => {
            inbox.push(&buffer[..count]);
            Ok(count > 0)
        }
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => Ok(true),
        Err(error) => Err(error),
    }
}

/// The life of the nursery; returns the exit status.
fn raise(plan: &Plan<'_>, mut supervisor: UnixStream) -> i32 {
    mneme_compiler::warm_up();
    match watch(plan, &mut supervisor) {
        Ok(()) => exit::VERIFIED,
        Err(_) => exit::INTERNAL,
    }
}

fn watch(plan: &Plan<'_>, supervisor: &mut UnixStream) -> std::io::Result<()> {
    let mut inbox = Inbox::default();
    let mut builders: Vec<(u64, Builder)> = Vec::new();
    loop {
        let ready = wait(supervisor, &builders)?;
        let now = Instant::now();
        // From behind, so that those before keep their places.
        for at in (0..builders.len()).rev() {
            let outcome = if ready[at + 1] { builders[at].1.progress() } else { None };
            let outcome = match outcome {
                None if builders[at].1.deadline() <= now => Some(builders[at].1.time_out()),
                outcome => outcome,
            };
            if let Some(outcome) = outcome {
                let (number, _) = builders.swap_remove(at);
                answer(supervisor, number, outcome)?;
            }
        }
        if ready[0] && !receive(supervisor, &mut inbox)? {
            return Ok(());
        }
        while let Some((order, _)) = inbox.pop::<Order>()? {
            let target = if order.cpu { Target::Cpu { arch: order.arch } } else { Target::Nvptx { arch: order.arch } };
            let build = process::Order {
                subject: plan.subject,
                modules: plan.modules,
                target: &target,
                configuration: &order.configuration,
                extras: plan.extras,
            };
            builders.push((order.number, Builder::start(&build, plan.limit)?));
        }
    }
}

/// Waits for the supervisor, a builder or a deadline; which of them can be read, the supervisor first.
fn wait(supervisor: &UnixStream, builders: &[(u64, Builder)]) -> std::io::Result<Vec<bool>> {
    let fds = std::iter::once(supervisor.as_fd()).chain(builders.iter().map(|(_, builder)| builder.fd()));
    let mut fds: Vec<PollFd<'_>> = fds.map(|fd| PollFd::new(fd, PollFlags::POLLIN)).collect();
    let next = builders.iter().map(|(_, builder)| builder.deadline()).min();
    let patience = next.map_or(PollTimeout::NONE, |next| {
        let left = next.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
        PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
    });
    match poll(&mut fds, patience) {
        Ok(_) => Ok(fds.iter().map(|fd| fd.any().unwrap_or(false)).collect()),
        Err(nix::errno::Errno::EINTR) => Ok(vec![false; fds.len()]),
        Err(error) => Err(error.into()),
    }
}

fn answer(supervisor: &mut UnixStream, number: u64, outcome: Outcome) -> std::io::Result<()> {
    let (outcome, image) = match outcome {
        Ok((built, image)) => (Ok(built), image),
        Err(not_built) => (Err(not_built), Vec::new()),
    };
    frame::write(supervisor, &Answer { number, outcome }, &image)
}
