//! The fork server: a process of `mneme-build-NN` that forks builders and watches over them.

use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_builds::process::child::Child;
use mneme_builds::process::frame::{Inbox, Outbox};
use mneme_builds::program::{BuildProcess, BuildProgram, Preparation, ProgramError};
use mneme_builds::protocol::{BuildOrder, BuildReply, CodeParts, Greeted, Opening};
use mneme_builds::{BuildOutcome, BuildPlan, BuildSpec, Replacement, Target};
use nix::poll::PollFlags;

/// The answer to an order.
pub struct FinishedBuild {
    pub number: u64,
    /// `None` where the order is to come again: it relied on another, which came to nothing.
    pub outcome: Option<BuildOutcome>,
    /// An assembler ran for it; else its code is that of an earlier build.
    pub assembled: bool,
}

/// What a fork server is started with.
pub struct ForkServerPlan<'a> {
    pub program: &'a BuildProgram,
    pub builds: BuildPlan,
    /// The recorded bitcode, the kernel's own unit first.
    pub modules: &'a [Vec<u8>],
    /// Code in the recorded modules' place, which a configuration may have other code for.
    pub replacement: Option<&'a Replacement>,
}

/// The fork server as the supervisor sees it.
pub struct ForkServer<'a> {
    program: &'a BuildProgram,
    child: Child,
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    /// It has said that it is there.
    greeted: bool,
    /// Number of the last order.
    last: u64,
    /// Its stream is closed: when the process has to be gone at the latest.
    closed: Option<Instant>,
}

/// How long a fork server that has closed its stream may take to be gone.
const GOING: Duration = Duration::from_secs(5);

impl<'a> ForkServer<'a> {
    /// Makes a process the fork server: with [`Preparation::Full`] the one that was started with the program. Never
    /// waits for it.
    ///
    /// # Errors
    /// The system has no room for a process.
    pub fn start(plan: &ForkServerPlan<'a>, preparation: Preparation) -> Result<Self, ProgramError> {
        let process = plan.program.process(preparation)?;
        let server = Self::of(plan.program, process, false).and_then(|server| server.with(plan));
        server.map_err(|error| plan.program.failed(error))
    }

    fn of(program: &'a BuildProgram, process: BuildProcess, greeted: bool) -> std::io::Result<Self> {
        let BuildProcess { child, stream } = process;
        // Whoever waited for one that hangs would hang too.
        stream.set_nonblocking(true)?;
        let (inbox, outbox) = (Inbox::default(), Outbox::default());
        Ok(Self { program, child, stream, inbox, outbox, greeted, last: 0, closed: None })
    }

    fn with(mut self, plan: &ForkServerPlan<'a>) -> std::io::Result<Self> {
        let (parts, blob) = CodeParts::join(plan.modules, plan.replacement);
        self.outbox.push(&Opening::Plan(Box::new(plan.builds.clone()), parts), &blob)?;
        // That it is gone shows at the next read.
        let _ = self.outbox.flush(&mut self.stream);
        Ok(self)
    }

    /// The version of its LLVM. Waits until a process of the program has said so.
    ///
    /// # Errors
    /// It does not.
    pub fn llvm(&mut self) -> Result<&'a str, ProgramError> {
        if self.program.known_llvm().is_none() && !self.greeted {
            let blocking = |blocks: bool, stream: &UnixStream| {
                stream.set_nonblocking(!blocks).map_err(|error| self.program.failed(error))
            };
            blocking(true, &self.stream)?;
            self.program.wait_for_greeting(&mut self.child, &mut self.stream, &mut self.inbox)?;
            blocking(false, &self.stream)?;
            self.greeted = true;
        }
        Ok(self.program.known_llvm().unwrap_or_default())
    }

    /// The descriptor of its events; there are no more once it is on its way out.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.closed.is_none().then(|| self.stream.as_fd())
    }

    /// The events to wait for: answers, and that it takes what is still to be written.
    pub fn interest(&self) -> PollFlags {
        self.outbox.interest()
    }

    /// Whether it is on its way out, so that [`ForkServer::progress`] is to be called without an event.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Orders a build; its outcome comes under the number returned. Never waits for the server.
    pub fn build(&mut self, spec: &BuildSpec, target: &Target, limit: Duration) -> std::io::Result<u64> {
        self.last += 1;
        let order = BuildOrder { number: self.last, target: target.clone(), spec: spec.clone(), limit };
        self.outbox.push(&order, &[])?;
        // That it is gone shows at the next read.
        let _ = self.outbox.flush(&mut self.stream);
        Ok(self.last)
    }

    /// Reads what has arrived, and writes what could not be written before; never waits. An error means that the fork
    /// server is gone.
    pub fn progress(&mut self) -> std::io::Result<Vec<FinishedBuild>> {
        if let Some(latest) = self.closed {
            return match self.child.end() {
                None if Instant::now() < latest => Ok(Vec::new()),
                end => Err(self.lost(end.map_or_else(|| "does not answer".into(), |end| end.to_string()))),
            };
        }
        // A reset is an end as well: of a stream on which an order was under way.
        let flushed = self.outbox.flush(&mut self.stream).is_ok();
        if !self.inbox.receive(&mut self.stream).unwrap_or(false) || !flushed {
            self.closed = Some(Instant::now() + GOING);
        }
        if !self.greeted {
            let Some((greeted, _)) = self.inbox.pop::<Greeted>()? else { return Ok(Vec::new()) };
            self.program.check(greeted).map_err(std::io::Error::other)?;
            self.greeted = true;
        }
        let mut answers = Vec::new();
        while let Some((reply, image)) = self.inbox.pop::<BuildReply>()? {
            let outcome = reply.outcome.map(|outcome| outcome.map(|built| (built, image)));
            answers.push(FinishedBuild { number: reply.number, outcome, assembled: reply.assembled });
        }
        Ok(answers)
    }

    /// That it is gone, or as good as gone.
    pub fn lost(&self, how: String) -> std::io::Error {
        match self.program.known_llvm() {
            Some(llvm) => std::io::Error::other(format!("the fork server of LLVM {llvm} {how}")),
            // No process of it has ever worked.
            None => std::io::Error::other(self.program.useless(how)),
        }
    }

    /// Kills it and gives it away, to be waited for.
    pub fn dismiss(mut self) -> Child {
        self.child.terminate();
        self.child
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_builds::process::child::{ChildStderr, ProcessEnd};
    use mneme_builds::process::frame;
    use mneme_builds::protocol::BuilderGreeting;

    /// A fork server that does something else.
    fn planted(life: impl FnOnce(UnixStream) -> i32) -> ForkServer<'static> {
        let program = Box::leak(Box::new(BuildProgram::at("mneme-build-19".into())));
        let greeting = BuilderGreeting::of("19.1.7".into());
        program.check(Ok(greeting)).unwrap();
        let (stream, theirs) = UnixStream::pair().unwrap();
        let child = Child::start(ChildStderr::Shown, || life(theirs)).unwrap();
        ForkServer::of(program, BuildProcess { child, stream }, true).unwrap()
    }

    fn sleep() -> i32 {
        std::thread::sleep(Duration::from_secs(60));
        0
    }

    fn half(stream: &mut UnixStream) {
        let mut frame = Vec::new();
        frame::write(&mut frame, &BuildReply { number: 1, outcome: None, assembled: false }, &[]).unwrap();
        std::io::Write::write_all(stream, &frame[..frame.len() / 2]).unwrap();
    }

    /// Asks until something is `wanted`; fails if a question waits for the child, which may live for a minute.
    fn ask<T>(
        server: &mut ForkServer<'_>,
        wanted: impl Fn(std::io::Result<Vec<FinishedBuild>>, &ForkServer<'_>) -> Option<T>,
    ) -> T {
        let start = Instant::now();
        loop {
            let called = Instant::now();
            let answers = server.progress();
            assert!(called.elapsed() < Duration::from_secs(30) && start.elapsed() < Duration::from_secs(120));
            if let Some(found) = wanted(answers, server) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn half_an_answer_is_waited_for_by_nobody() {
        let mut server = planted(|mut stream| {
            half(&mut stream);
            sleep()
        });
        ask(&mut server, |answers, server| {
            assert!(answers.unwrap().is_empty());
            (!server.inbox.is_empty()).then_some(())
        });
        assert!(server.fd().is_some(), "it may go on");
    }

    #[test]
    fn one_that_closes_its_stream_is_watched_until_it_is_gone() {
        let mut server = planted(|mut stream| {
            half(&mut stream);
            drop(stream);
            std::thread::sleep(Duration::from_millis(300));
            17
        });
        ask(&mut server, |_, server| server.is_closed().then_some(()));
        assert!(server.fd().is_none());
        let error = ask(&mut server, |answers, _| answers.err());
        assert_eq!(error.to_string(), "the fork server of LLVM 19.1.7 exited with status 17");
    }

    #[test]
    fn one_that_does_not_listen_is_told_later() {
        let mut server = planted(|_| sleep());
        let start = Instant::now();
        // Much more than fits into a socket.
        server.outbox.push(&0, &vec![0; 16 << 20]).unwrap();
        server.progress().unwrap();
        assert!(start.elapsed() < Duration::from_secs(30) && !server.outbox.is_empty());
        assert!(server.interest().contains(PollFlags::POLLOUT));
        assert!(matches!(server.dismiss().wait(Duration::from_secs(20)), Some(ProcessEnd::Signalled(_))));
    }
}
