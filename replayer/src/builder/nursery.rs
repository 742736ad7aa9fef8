//! The nursery: a process that forks builders and watches over them.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_compiler::Target;
use mneme_compiler::instrument::Instrument;
use mneme_core::configuration::Configuration;
use mneme_core::exit;
use mneme_core::hash::chunk_id;
use mneme_core::recording::CodeKind;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde::{Deserialize, Serialize};

use super::preload::Preload;
use super::process::{Builder, Progress};
use super::{Built, Extras, NotBuilt, Outcome, Probe, assemblies::Assemblies};
use crate::child::{self, Child, Complaints};
use crate::frame::{Inbox, Outbox};
use crate::replacement::Replacement;
use crate::subject::Subject;
use crate::supervisor::Job;

/// A build that the supervisor asks for; other code than the recorded is the blob.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Order {
    number: u64,
    configuration: Configuration,
    /// Architecture, and whether it is the CPU device's code.
    arch: String,
    cpu: bool,
    replacement: Option<CodeKind>,
    keep_ir: bool,
    instrument: Option<Instrument>,
    probe: Probe,
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
    pub outcome: Option<Outcome>,
    /// An assembler ran for it; else its code is that of an earlier build.
    pub assembled: bool,
}

/// What all builds have in common.
#[derive(Clone, Copy)]
pub struct Plan<'a> {
    pub subject: &'a Subject,
    pub modules: &'a [Vec<u8>],
    pub extras: &'a Extras,
    /// Bounds the memory of a builder, bytes.
    pub memory: Option<u64>,
}

/// The nursery as the supervisor sees it.
pub struct Nursery {
    child: Child,
    stream: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    /// Number of the last order.
    last: u64,
    /// Its stream is closed: when the process has to be gone at the latest.
    closed: Option<Instant>,
}

/// How long a nursery that has closed its stream may take to be gone.
const GOING: Duration = Duration::from_secs(5);

/// What a nursery does for its builders before they are forked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Care {
    /// It has LLVM and the assembler warm, and the recorded IR in memory.
    Full,
    /// Nothing, so that what has ended a nursery happens to a builder, whose configuration's result it is.
    None,
}

impl Nursery {
    pub fn start(plan: &Plan<'_>, care: Care) -> std::io::Result<Self> {
        Self::fork(|supervisor| raise(plan, care, supervisor))
    }

    fn fork(life: impl FnOnce(UnixStream) -> i32) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Child::start(Complaints::Shown, || life(theirs))?;
        // Whoever waited for one that hangs would hang too.
        ours.set_nonblocking(true)?;
        Ok(Self { child, stream: ours, inbox: Inbox::default(), outbox: Outbox::default(), last: 0, closed: None })
    }

    /// Where it is heard, and what for; nothing more comes from one that is on its way out.
    pub fn fd(&self) -> Option<PollFd<'_>> {
        let telling = if self.outbox.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        self.closed.is_none().then(|| PollFd::new(self.stream.as_fd(), PollFlags::POLLIN | telling))
    }

    /// Whether it is on its way out, so that [`Nursery::progress`] is to be asked without being heard.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    /// Orders a build; its outcome comes under the number returned. Never waits for the nursery.
    pub fn build(&mut self, job: &Job, target: &Target, limit: Duration) -> std::io::Result<u64> {
        self.last += 1;
        let (arch, cpu) = match target {
            Target::Nvptx { arch } => (arch.clone(), false),
            Target::Cpu { arch } => (arch.clone(), true),
        };
        let (replacement, code) = job.replacement.as_ref().map_or((None, &[][..]), |code| (Some(code.kind()), code.bytes()));
        let configuration = job.configuration.clone();
        let (number, keep_ir, instrument, probe) = (self.last, job.keep_ir, job.instrument(), job.probe.clone());
        let order = Order { number, configuration, arch, cpu, replacement, keep_ir, instrument, probe, limit };
        self.outbox.push(&order, code)?;
        // One that is gone is heard of next.
        let _ = self.outbox.flush(&mut self.stream);
        Ok(self.last)
    }

    /// Reads what has arrived, and writes what could not be written before; never waits. An error means that the nursery is gone.
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
        let told = self.outbox.flush(&mut self.stream).is_ok();
        if !receive(&mut self.stream, &mut self.inbox).unwrap_or(false) || !told {
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
        Err(error) if matches!(error.kind(), std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock) => Ok(true),
        Err(error) => Err(error),
    }
}

/// The life of the nursery; returns the exit status.
fn raise(plan: &Plan<'_>, care: Care, supervisor: UnixStream) -> i32 {
    child::name(c"mneme-nursery");
    if care == Care::Full {
        mneme_compiler::warm_up();
    }
    let mut house = House {
        plan,
        supervisor,
        inbox: Inbox::default(),
        outbox: Outbox::default(),
        builders: Vec::new(),
        leaving: Vec::new(),
        assemblies: Assemblies::default(),
        preload: (care == Care::Full).then(Preload::default),
    };
    match house.supervisor.set_nonblocking(true).and_then(|()| house.keep()) {
        Ok(()) => exit::VERIFIED,
        Err(_) => exit::INTERNAL,
    }
}

/// A builder at work.
struct AtWork {
    /// Of its order.
    order: Order,
    /// Of the order.
    code: Vec<u8>,
    builder: Builder,
    /// An assembler has ended the builder before.
    again: bool,
    /// It compiles the recorded IR.
    of_recording: bool,
}

struct House<'a> {
    plan: &'a Plan<'a>,
    supervisor: UnixStream,
    inbox: Inbox,
    outbox: Outbox,
    builders: Vec<AtWork>,
    /// Builders that are done, and take their time to go: tearing down a process with LLVM in it takes milliseconds.
    leaving: Vec<Child>,
    assemblies: Assemblies,
    preload: Option<Preload>,
}

impl House<'_> {
    fn keep(&mut self) -> std::io::Result<()> {
        loop {
            self.outbox.flush(&mut self.supervisor)?;
            let ready = self.wait()?;
            let now = Instant::now();
            // From behind, so that those before keep their places.
            for at in (0..self.builders.len()).rev() {
                let AtWork { order, builder, .. } = &mut self.builders[at];
                match if ready[at + 1] || builder.is_closed() { builder.progress() } else { Progress::AtWork } {
                    Progress::AtWork if builder.deadline() <= now => {
                        let outcome = builder.time_out();
                        self.done(at, outcome)?;
                    }
                    Progress::AtWork => {}
                    Progress::Asks(ptx) => {
                        let assemble = self.assemblies.ask(order.number, ptx);
                        builder.answer(assemble);
                    }
                    Progress::Done(outcome) => self.done(at, *outcome)?,
                }
            }
            self.leaving.retain_mut(|child| child.end().is_none());
            if ready[0] && !receive(&mut self.supervisor, &mut self.inbox)? {
                return Ok(());
            }
            while let Some((order, code)) = self.inbox.pop::<Order>()? {
                self.start(order, code, None)?;
            }
        }
    }

    /// Starts a builder. `lost` says how another one was ended by its assembler, which this one is to do without.
    fn start(&mut self, order: Order, code: Vec<u8>, lost: Option<String>) -> std::io::Result<()> {
        let arch = order.arch.clone();
        let target = if order.cpu { Target::Cpu { arch } } else { Target::Nvptx { arch } };
        let configuration = &order.configuration;
        let assembler = (configuration.maxnreg, configuration.ptx_opt, &configuration.ptxas_options, configuration.fast_math);
        let assembler = chunk_id(&serde_json::to_vec(&assembler).expect("plain data serialises")).0;
        let options = u64::from_le_bytes(assembler[..8].try_into().expect("eight bytes"));
        let own = order.replacement.map(|kind| Replacement::of(kind, code.clone())).transpose().map_err(std::io::Error::other)?;
        let Plan { subject, modules, extras, memory } = *self.plan;
        let build = super::Order::new(subject, modules, extras, &target, configuration, own.as_ref(), order.keep_ir, order.instrument);
        let preloaded = self.preload.as_mut().and_then(|preload| preload.of(&build));
        let build = super::Order { preloaded, probe: &order.probe, lost: lost.as_deref(), ..build };
        let builder = Builder::start(&build, options, order.limit, memory)?;
        let of_recording = Preload::concerns(&build);
        let again = lost.is_some();
        self.builders.push(AtWork { order, code, builder, again, of_recording });
        Ok(())
    }

    /// A builder is done: answers its order, and those that waited for its code.
    fn done(&mut self, at: usize, outcome: Outcome) -> std::io::Result<()> {
        let AtWork { order, code, mut builder, again, of_recording } = self.builders.swap_remove(at);
        if let Some(how) = builder.lost_to_the_assembler().filter(|_| !again) {
            // Both together have the time of one.
            let limit = builder.deadline().saturating_duration_since(Instant::now());
            return self.start(Order { limit, ..order }, code, Some(how));
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
        let answering = if self.outbox.is_empty() { PollFlags::empty() } else { PollFlags::POLLOUT };
        let supervisor = PollFd::new(self.supervisor.as_fd(), PollFlags::POLLIN | answering);
        let heard: Vec<Option<BorrowedFd<'_>>> = self.builders.iter().map(|it| it.builder.fd()).collect();
        let builders = heard.iter().flatten().map(|fd| PollFd::new(*fd, PollFlags::POLLIN));
        let mut fds: Vec<PollFd<'_>> = std::iter::once(supervisor).chain(builders).collect();
        let going = !self.leaving.is_empty() || heard.iter().any(Option::is_none);
        let reaping = going.then(|| Instant::now() + Duration::from_millis(10));
        let next = self.builders.iter().map(|it| it.builder.deadline()).chain(reaping).min();
        let patience = next.map_or(PollTimeout::NONE, |next| {
            let left = next.saturating_duration_since(Instant::now()) + Duration::from_millis(1);
            PollTimeout::try_from(left).unwrap_or(PollTimeout::MAX)
        });
        match poll(&mut fds, patience) {
            Ok(_) => {
                let mut polled = fds.iter().map(|fd| fd.any().unwrap_or(false));
                let supervisor = polled.next();
                let builders = heard.iter().map(|fd| fd.is_some() && polled.next().unwrap_or(false));
                Ok(supervisor.into_iter().chain(builders).collect())
            }
            Err(nix::errno::Errno::EINTR) => Ok(vec![false; heard.len() + 1]),
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame;

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
    fn ask<T>(nursery: &mut Nursery, wanted: impl Fn(std::io::Result<Vec<Answer>>, &Nursery) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let asked = Instant::now();
            let answers = nursery.progress();
            assert!(asked.elapsed() < Duration::from_secs(1) && start.elapsed() < Duration::from_secs(20));
            if let Some(found) = wanted(answers, nursery) {
                return found;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A loop whose counter is 0 and then 1: nvPTXCompiler 13.0 asks for a table of minus 300 MB for it, and writes to where there is none.
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
    fn recording(folder: &std::path::Path) -> Subject {
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
        Subject::open(&path, None).unwrap()
    }

    #[test]
    fn an_assembler_that_is_ended_gives_way_to_the_next() {
        let folder = tempfile::tempdir().unwrap();
        let subject = recording(folder.path());
        let extras = Extras::default();
        let plan = Plan { subject: &subject, modules: &[], extras: &extras, memory: None };
        let mut nursery = Nursery::start(&plan, Care::None).unwrap();
        let replacement = Replacement::of(CodeKind::Ptx, ENDS_THE_ASSEMBLER.as_bytes().to_vec()).unwrap();
        let configuration = subject.recorded_configuration();
        let job = Job { replacement: Some(std::rc::Rc::new(replacement)), ..Job::new(1, configuration, 1, 0) };
        nursery.build(&job, &Target::Nvptx { arch: "sm_90".into() }, Duration::from_secs(60)).unwrap();
        let answer = ask(&mut nursery, |answers, _| answers.unwrap().pop());
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
        let mut nursery = Nursery::fork(|mut stream| {
            half(&mut stream);
            sleep()
        })
        .unwrap();
        ask(&mut nursery, |answers, nursery| {
            assert!(answers.unwrap().is_empty());
            (!nursery.inbox.is_empty()).then_some(())
        });
        assert!(nursery.fd().is_some(), "it may go on");
    }

    #[test]
    fn one_that_closes_its_stream_is_watched_until_it_is_gone() {
        let mut nursery = Nursery::fork(|mut stream| {
            half(&mut stream);
            drop(stream);
            std::thread::sleep(Duration::from_millis(300));
            17
        })
        .unwrap();
        ask(&mut nursery, |_, nursery| nursery.is_closed().then_some(()));
        assert!(nursery.fd().is_none());
        let error = ask(&mut nursery, |answers, _| answers.err());
        assert_eq!(error.to_string(), "the parent of the builders exited with status 17");
    }

    #[test]
    fn one_that_does_not_listen_is_told_later() {
        let mut nursery = Nursery::fork(|_| sleep()).unwrap();
        let start = Instant::now();
        // Much more than fits into a socket.
        nursery.outbox.push(&0, &vec![0; 16 << 20]).unwrap();
        nursery.progress().unwrap();
        assert!(start.elapsed() < Duration::from_secs(5) && !nursery.outbox.is_empty());
        assert!(nursery.fd().unwrap().events().contains(PollFlags::POLLOUT));
        assert!(matches!(nursery.dismiss().wait(Duration::from_secs(20)), Some(crate::child::End::Signalled(_))));
    }
}
