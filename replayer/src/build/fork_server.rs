//! The fork server: a process that forks builders and watches over them.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_compiler::Target;
use mneme_core::configuration::Configuration;
use mneme_core::exit;
use mneme_core::hash::chunk_id;
use nix::poll::PollFlags;
use serde::{Deserialize, Serialize};

use super::assemblies::Assemblies;
use super::builder::{Builder, BuilderProgress};
use super::inputs::{Build, Inputs};
use super::outcome::{BuildOutcome, Built, NotBuilt};
use super::preload::Preload;
use super::spec::BuildSpec;
use crate::process::child::{self, Child, ChildStderr};
use crate::process::frame::{Inbox, Outbox};
use crate::process::readiness::Waiting;

/// A build that the supervisor asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    number: u64,
    target: Target,
    spec: BuildSpec,
    limit: Duration,
}

/// The answer; the code object is the blob.
#[derive(Debug, Serialize, Deserialize)]
struct Reply {
    number: u64,
    /// `None` for an order that is to come again.
    outcome: Option<Result<Built, NotBuilt>>,
    assembled: bool,
}

/// The answer to an order.
pub struct Answer {
    pub number: u64,
    /// `None` where the order is to come again: it relied on another, which came to nothing.
    pub outcome: Option<BuildOutcome>,
    /// An assembler ran for it; else its code is that of an earlier build.
    pub assembled: bool,
}

/// What a fork server is started with.
#[derive(Clone, Copy)]
pub struct ForkServerPlan<'a> {
    pub inputs: Inputs<'a>,
    /// Bounds the memory of a builder, bytes.
    pub memory: Option<u64>,
}

/// The fork server as the supervisor sees it.
pub struct ForkServer {
    child: Child,
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    /// Number of the last order.
    last: u64,
    /// Its stream is closed: when the process has to be gone at the latest.
    closed: Option<Instant>,
}

/// How long a fork server that has closed its stream may take to be gone.
const GOING: Duration = Duration::from_secs(5);

/// What a fork server does for its builders before they are forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// It has LLVM and the assembler warm, and the recorded IR in memory.
    Full,
    /// Nothing, so that what has ended a fork server happens to a builder, whose configuration's result it is.
    None,
}

impl ForkServer {
    pub fn start(plan: &ForkServerPlan<'_>, preparation: Preparation) -> std::io::Result<Self> {
        Self::fork(|supervisor| serve(plan, preparation, supervisor))
    }

    fn fork(life: impl FnOnce(UnixStream) -> i32) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Child::start(ChildStderr::Shown, || life(theirs))?;
        // Whoever waited for one that hangs would hang too.
        ours.set_nonblocking(true)?;
        Ok(Self { child, stream: ours, inbox: Inbox::default(), outbox: Outbox::default(), last: 0, closed: None })
    }

    /// The descriptor of its events; there are no more once it is on its way out.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.closed.is_none().then(|| self.stream.as_fd())
    }

    /// The events to wait for: answers, and that it takes what is still to be written.
    pub fn interest(&self) -> PollFlags {
        interest(&self.outbox)
    }

    /// Whether it is on its way out, so that [`ForkServer::progress`] is to be called without an event.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Orders a build; its outcome comes under the number returned. Never waits for the server.
    pub fn build(&mut self, spec: &BuildSpec, target: &Target, limit: Duration) -> std::io::Result<u64> {
        self.last += 1;
        let order = Order { number: self.last, target: target.clone(), spec: spec.clone(), limit };
        self.outbox.push(&order, &[])?;
        // That it is gone shows at the next read.
        let _ = self.outbox.flush(&mut self.stream);
        Ok(self.last)
    }

    /// Reads what has arrived, and writes what could not be written before; never waits. An error means that the fork
    /// server is gone.
    pub fn progress(&mut self) -> std::io::Result<Vec<Answer>> {
        if let Some(latest) = self.closed {
            return match self.child.end() {
                None if Instant::now() < latest => Ok(Vec::new()),
                end => {
                    let end = end.map_or_else(|| "does not answer".into(), |end| end.to_string());
                    Err(std::io::Error::other(format!("the parent of the builders {end}")))
                }
            };
        }
        // A reset is an end as well: of a stream on which an order was under way.
        let flushed = self.outbox.flush(&mut self.stream).is_ok();
        if !receive(&mut self.stream, &mut self.inbox).unwrap_or(false) || !flushed {
            self.closed = Some(Instant::now() + GOING);
        }
        let mut answers = Vec::new();
        while let Some((reply, image)) = self.inbox.pop::<Reply>()? {
            let outcome = reply.outcome.map(|outcome| outcome.map(|built| (built, image)));
            answers.push(Answer { number: reply.number, outcome, assembled: reply.assembled });
        }
        Ok(answers)
    }

    /// Kills it and gives it away, to be waited for.
    pub fn dismiss(mut self) -> Child {
        self.child.terminate();
        self.child
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
        Err(error) if matches!(error.kind(), std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock) => {
            Ok(true)
        }
        Err(error) => Err(error),
    }
}

/// The life of a fork server; returns the exit status.
fn serve(plan: &ForkServerPlan<'_>, preparation: Preparation, supervisor: UnixStream) -> i32 {
    child::name(c"mneme-forksrv");
    if preparation == Preparation::Full {
        mneme_compiler::warm_up();
    }
    let mut server = Server {
        plan,
        supervisor,
        inbox: Inbox::default(),
        outbox: Outbox::default(),
        builders: Vec::new(),
        leaving: Vec::new(),
        assemblies: Assemblies::default(),
        preload: (preparation == Preparation::Full).then(Preload::default),
    };
    match server.supervisor.set_nonblocking(true).and_then(|()| server.run()) {
        Ok(()) => exit::VERIFIED,
        Err(_) => exit::INTERNAL,
    }
}

/// A builder at work.
struct AtWork {
    order: Order,
    builder: Builder,
    /// An assembler has ended the builder before.
    again: bool,
    /// It compiles the recorded IR.
    of_recording: bool,
}

struct Server<'a> {
    plan: &'a ForkServerPlan<'a>,
    supervisor: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    builders: Vec<AtWork>,
    /// Builders that are done, and take their time to go: tearing down a process with LLVM in it takes milliseconds.
    leaving: Vec<Child>,
    assemblies: Assemblies,
    preload: Option<Preload>,
}

impl Server<'_> {
    fn run(&mut self) -> std::io::Result<()> {
        loop {
            self.outbox.flush(&mut self.supervisor)?;
            let ready = self.wait()?;
            let now = Instant::now();
            // From behind, so that those before keep their places.
            for at in (0..self.builders.len()).rev() {
                let AtWork { order, builder, .. } = &mut self.builders[at];
                match if ready[at + 1] || builder.is_closed() { builder.progress() } else { BuilderProgress::AtWork } {
                    BuilderProgress::AtWork if builder.deadline() <= now => {
                        let outcome = builder.time_out();
                        self.done(at, outcome)?;
                    }
                    BuilderProgress::AtWork => {}
                    BuilderProgress::Asks(ptx) => {
                        let assemble = self.assemblies.ask(order.number, ptx);
                        builder.answer(assemble);
                    }
                    BuilderProgress::Done(outcome) => self.done(at, *outcome)?,
                }
            }
            self.leaving.retain_mut(|child| child.end().is_none());
            if ready[0] && !receive(&mut self.supervisor, &mut self.inbox)? {
                return Ok(());
            }
            while let Some((order, _)) = self.inbox.pop::<Order>()? {
                self.start(order, None)?;
            }
        }
    }

    /// Starts a builder. `lost` says how another one was ended by its assembler, which this one is to do without.
    fn start(&mut self, order: Order, lost: Option<String>) -> std::io::Result<()> {
        let ForkServerPlan { inputs, memory } = *self.plan;
        let build = Build::new(inputs, &order.target, &order.spec);
        let preloaded = self.preload.as_mut().and_then(|preload| preload.of(&build));
        let build = Build { preloaded, lost: lost.as_deref(), ..build };
        let builder = Builder::start(&build, assembler_options(&order.spec.configuration), order.limit, memory)?;
        let of_recording = Preload::concerns(&build);
        let again = lost.is_some();
        self.builders.push(AtWork { order, builder, again, of_recording });
        Ok(())
    }

    /// A builder is done: answers its order, and those that waited for its code.
    fn done(&mut self, at: usize, outcome: BuildOutcome) -> std::io::Result<()> {
        let AtWork { order, mut builder, again, of_recording } = self.builders.swap_remove(at);
        if let Some(how) = builder.lost_to_the_assembler().filter(|_| !again) {
            // Both together have the time of one.
            let limit = builder.deadline().saturating_duration_since(Instant::now());
            return self.start(Order { limit, ..order }, Some(how));
        }
        self.leaving.push(builder.dismiss());
        if let (Ok(_), true, Some(preload)) = (&outcome, of_recording, &mut self.preload) {
            preload.proved();
        }
        for (number, outcome, assembled) in self.assemblies.settle(order.number, outcome) {
            let (outcome, image) = match outcome {
                Some(Ok((built, image))) => (Some(Ok(built)), image),
                Some(Err(not_built)) => (Some(Err(not_built)), Vec::new()),
                None => (None, Vec::new()),
            };
            self.outbox.push(&Reply { number, outcome, assembled }, &image)?;
        }
        Ok(())
    }

    /// Waits for the supervisor, a builder or a deadline; which of them can be read, the supervisor first.
    fn wait(&self) -> std::io::Result<Vec<bool>> {
        let mut waiting = Waiting::default();
        let supervisor = waiting.on(Some(self.supervisor.as_fd()), interest(&self.outbox));
        let builders =
            self.builders.iter().map(|it| waiting.on(it.builder.fd(), PollFlags::POLLIN)).collect::<Vec<_>>();
        let going = !self.leaving.is_empty() || self.builders.iter().any(|it| it.builder.is_closed());
        waiting.until(going.then(|| Instant::now() + Duration::from_millis(10)));
        waiting.until(self.builders.iter().map(|it| it.builder.deadline()));
        let ready = waiting.wait()?;
        Ok(std::iter::once(supervisor).chain(builders).map(|source| ready.is(source)).collect())
    }
}

/// Reading, and writing where something waits to be written.
fn interest(outbox: &Outbox) -> PollFlags {
    if outbox.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLIN | PollFlags::POLLOUT }
}

/// Tells the options of assemblers apart: equal PTX under other options is other code.
fn assembler_options(configuration: &Configuration) -> u64 {
    let options = (configuration.maxnreg, configuration.ptx_opt, &configuration.ptxas_options, configuration.fast_math);
    let hash = chunk_id(&serde_json::to_vec(&options).expect("plain data serialises")).0;
    u64::from_le_bytes(hash[..8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::build::replacement::Replacement;
    use crate::process::frame;
    use crate::recording::instance::RecordedInstance;
    use mneme_compiler::Keep;
    use mneme_core::recording::CodeKind;

    fn sleep() -> i32 {
        std::thread::sleep(Duration::from_secs(60));
        0
    }

    fn half(stream: &mut UnixStream) {
        let mut frame = Vec::new();
        frame::write(&mut frame, &Reply { number: 1, outcome: None, assembled: false }, &[]).unwrap();
        std::io::Write::write_all(stream, &frame[..frame.len() / 2]).unwrap();
    }

    /// Asks until something is `wanted`; fails where a question takes a time that nobody has.
    fn ask<T>(server: &mut ForkServer, wanted: impl Fn(std::io::Result<Vec<Answer>>, &ForkServer) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let called = Instant::now();
            let answers = server.progress();
            assert!(called.elapsed() < Duration::from_secs(1) && start.elapsed() < Duration::from_secs(20));
            if let Some(found) = wanted(answers, server) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A loop whose counter is 0 and then 1: nvPTXCompiler 13.0 asks for a table of minus 300 MB for it, and writes to
    /// where there is none.
    const ENDS_THE_ASSEMBLER: &str = ".version 8.5\n\
        .target sm_90\n\
        .address_size 64\n\
        .visible .entry k(.param .u64 out, .param .align 2 .b8 a[2])\n\
        {\n\
        .reg .pred %p<2>;\n\
        .reg .b32 %r<4>;\n\
        .reg .b64 %rd<8>;\n\
        mov.b64 %rd1, a;\n\
        mov.u64 %rd2, %rd1;\n\
        ld.param.u64 %rd3, [out];\n\
        mov.u32 %r1, 31;\n\
        mov.u64 %rd4, 0;\n\
        mov.u64 %rd5, 1;\n\
        $L__BB0_1:\n\
        add.s64 %rd6, %rd2, %rd4;\n\
        ld.param.u8 %r2, [%rd6];\n\
        mad.lo.s32 %r1, %r1, 31, %r2;\n\
        setp.eq.s64 %p1, %rd4, 0;\n\
        mov.u64 %rd4, %rd5;\n\
        @%p1 bra $L__BB0_1;\n\
        st.global.u32 [%rd3], %r1;\n\
        ret;\n\
        }\n";

    /// A recording of a kernel without arguments and memory.
    fn recording(folder: &std::path::Path) -> RecordedInstance {
        use mneme_core::recording::database::KernelRecord;
        use mneme_core::recording::manifest::{Moment, State, pair};
        let (mut before, mut after) = (State::default(), State::default());
        (before.header.moment, after.header.moment) = (Moment::Prologue, Moment::Epilogue);
        pair(&mut before, &mut after);
        before.save(&folder.join("p")).unwrap();
        after.save(&folder.join("e")).unwrap();
        let record = serde_json::json!({
            "StaticHash": 5, "VAddr": "0x0", "VASize": 0, "KernelName": "k", "DemangledName": "k", "Modules": [], "BinaryBlobs": [],
            "ArgNames": [], "Specializations": [], "instances": {"1": {
                "Prologue": "p", "Epilogue": "e", "BlockDims": {"x": 1}, "GridDims": {"x": 1}, "SharedMem": 0, "Args": [], "Occurrences": 1
            }}
        });
        let path = folder.join("5.json");
        serde_json::from_value::<KernelRecord>(record).unwrap().save(&path).unwrap();
        RecordedInstance::open(&path, None).unwrap()
    }

    #[test]
    fn an_assembler_that_is_ended_gives_way_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let recorded = recording(folder.path());
        let inputs = Inputs {
            recorded: &recorded,
            modules: &[],
            replacement: None,
            external: None,
            keep: Keep::default(),
            texts: false,
        };
        let plan = ForkServerPlan { inputs, memory: None };
        let mut server = ForkServer::start(&plan, Preparation::None).unwrap();
        let replacement = Replacement::of(CodeKind::Ptx, ENDS_THE_ASSEMBLER.as_bytes().to_vec()).unwrap();
        let replacement = Some(std::rc::Rc::new(replacement));
        let spec = BuildSpec { replacement, ..BuildSpec::new(recorded.recorded_configuration()) };
        server.build(&spec, &Target::Nvptx { arch: "sm_90".into() }, Duration::from_secs(60)).unwrap();
        let answer = ask(&mut server, |answers, _| answers.unwrap().pop());
        let (built, image) = answer.outcome.unwrap().unwrap();
        assert!(!image.is_empty() && answer.assembled);
        // Others have no such loop to fear.
        if mneme_compiler::assembler::Assembler::find().name().starts_with("nvPTXCompiler 13.0") {
            assert!(built.assembler.ends_with("(nvPTXCompiler 13.0 was ended by SIGSEGV)"), "{}", built.assembler);
            assert!(!built.assembler.starts_with("nvPTXCompiler"), "{}", built.assembler);
        }
    }

    #[test]
    fn half_an_answer_is_waited_for_by_nobody() {
        let mut server = ForkServer::fork(|mut stream| {
            half(&mut stream);
            sleep()
        })
        .unwrap();
        ask(&mut server, |answers, server| {
            assert!(answers.unwrap().is_empty());
            (!server.inbox.is_empty()).then_some(())
        });
        assert!(server.fd().is_some(), "it may go on");
    }

    #[test]
    fn one_that_closes_its_stream_is_watched_until_it_is_gone() {
        let mut server = ForkServer::fork(|mut stream| {
            half(&mut stream);
            drop(stream);
            std::thread::sleep(Duration::from_millis(300));
            17
        })
        .unwrap();
        ask(&mut server, |_, server| server.is_closed().then_some(()));
        assert!(server.fd().is_none());
        let error = ask(&mut server, |answers, _| answers.err());
        assert_eq!(error.to_string(), "the parent of the builders exited with status 17");
    }

    #[test]
    fn one_that_does_not_listen_is_told_later() {
        let mut server = ForkServer::fork(|_| sleep()).unwrap();
        let start = Instant::now();
        // Much more than fits into a socket.
        server.outbox.push(&0, &vec![0; 16 << 20]).unwrap();
        server.progress().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5) && !server.outbox.is_empty());
        assert!(server.interest().contains(PollFlags::POLLOUT));
        assert!(matches!(
            server.dismiss().wait(Duration::from_secs(20)),
            Some(crate::process::child::ProcessEnd::Signalled(_))
        ));
    }
}
