//! A builder: the forked process that compiles one configuration.

use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_builds::progress::{BuildProgress as Place, Stage};
use mneme_builds::{BuildOutcome, BuildText, BuildTexts, Built, NotBuilt, Target};
use mneme_model::hash::{ChunkId, chunk_id};
use mneme_model::result::ReplayStatus;
use mneme_sandbox::child::{Child, ChildStderr, ProcessEnd, lead, limit_files, limit_memory, name, volunteer_for_oom};
use mneme_sandbox::confinement::{self, AllowedResources};
use mneme_sandbox::frame::{self, Inbox};
use serde::{Deserialize, Serialize};

use super::compile::compile;
use super::inputs::Build;

/// A message from a builder: about its PTX before assembly, and at the end.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// The hash of its PTX. The builder waits for the answer whether to assemble it.
    Ptx([u8; 16]),
    /// A text of the build, which is in the blob.
    Text(BuildText),
    Done(Box<Result<Built, NotBuilt>>),
}

/// The limit in bytes of a builder's output, which is kept in memory, and of each file that its programs write.
const SAID_AND_WRITTEN: u64 = 1 << 30;

/// How long a builder that has closed its stream may take to exit.
const GOING: Duration = Duration::from_secs(5);

/// The answers to a builder about its PTX.
const ASSEMBLE: u8 = 1;
const KNOWN: u8 = 0;

/// A running builder.
pub struct Builder {
    child: Child,
    /// The place in the build that it has reached.
    place: Place,
    stream: UnixStream,
    inbox: Inbox,
    limit: Duration,
    deadline: Instant,
    /// The texts that it has sent.
    texts: BuildTexts,
    /// Whether a build that fails also keeps the compiler's messages.
    keeps_log: bool,
    /// After its stream was closed: when the process must have exited at the latest.
    closed: Option<Instant>,
}

/// The result of [`Builder::progress`].
pub enum BuilderProgress {
    AtWork,
    /// It asks whether to assemble PTX of this hash, see [`Builder::answer`].
    Asks(ChunkId),
    /// It is done. There is no image if the answer was that its PTX is known.
    Done(Box<BuildOutcome>),
}

impl Builder {
    /// Forks a builder, which is killed after `limit`. `memory` limits its memory, in bytes.
    pub fn start(build: &Build<'_>, options: u64, limit: Duration, memory: Option<u64>) -> std::io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let place = Place::new()?;
        let child = Child::start(ChildStderr::Kept, || live(build, &place, options, memory, theirs))?.leading();
        Ok(Self::new(child, place, stream, limit, build.reports_texts()))
    }

    fn new(child: Child, place: Place, stream: UnixStream, limit: Duration, keeps_log: bool) -> Self {
        let deadline = Instant::now() + limit;
        Self {
            child,
            place,
            stream,
            inbox: Inbox::default(),
            limit,
            deadline,
            texts: BuildTexts::default(),
            keeps_log,
            closed: None,
        }
    }

    /// The descriptor of its events. There are no more after it has closed its stream.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.closed.is_none().then(|| self.stream.as_fd())
    }

    /// Whether it has closed its stream. Call [`Builder::progress`] then without an event.
    pub fn is_closed(&self) -> bool {
        self.closed.is_some()
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Answers [`BuilderProgress::Asks`].
    pub fn answer(&mut self, assemble: bool) {
        // If it is gone, the next read reports that.
        let _ = self.stream.write_all(&[if assemble { ASSEMBLE } else { KNOWN }]);
    }

    /// The result of a builder that ran out of time.
    pub fn time_out(&mut self) -> BuildOutcome {
        let (limit, place) = (self.limit.as_secs_f64(), self.place.place());
        let error = format!(
            "the build took longer than {limit} s and was stopped{place}; --timeout (mneme-tune: --trial-timeout) raises the limit"
        );
        Err(self.not_built(NotBuilt { place: self.place.last(), ..NotBuilt::new(ReplayStatus::Timeout, error) }))
    }

    /// How an assembler's fault inside it ended it, if that happened. Known after it is done.
    pub fn lost_to_the_assembler(&mut self) -> Option<String> {
        use nix::sys::signal::Signal;
        let faults = [Signal::SIGSEGV, Signal::SIGBUS, Signal::SIGABRT, Signal::SIGFPE, Signal::SIGILL];
        let assembling = self.place.last().is_some_and(|place| place.stage == Stage::Assembly);
        self.child
            .end()
            .filter(|end| assembling && faults.iter().any(|fault| *end == ProcessEnd::Signalled(*fault)))
            .map(|end| end.to_string())
    }

    /// Kills it and returns the process, which the caller has to wait for.
    pub fn dismiss(mut self) -> Child {
        self.child.terminate();
        self.child
    }

    /// Reads its messages and checks whether it has ended. Never waits.
    pub fn progress(&mut self) -> BuilderProgress {
        let mut buffer = [0; 64 * 1024];
        let done = |outcome| BuilderProgress::Done(Box::new(outcome));
        if let Some(latest) = self.closed {
            return match self.child.end() {
                None if Instant::now() < latest => BuilderProgress::AtWork,
                end => done(self.ended(end)),
            };
        }
        match self.stream.read(&mut buffer) {
            Ok(count) if count > 0 => self.inbox.push(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            // A reset is an end too.
            Ok(_) => self.closed = Some(Instant::now() + GOING),
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                self.closed = Some(Instant::now() + GOING)
            }
            Err(error) => return done(Err(internal(&format!("the events of a builder cannot be read: {error}")))),
        }
        loop {
            return match self.inbox.pop::<Word>() {
                Ok(Some((Word::Text(text), contents))) => {
                    self.texts.add(text, String::from_utf8_lossy(&contents).into_owned());
                    continue;
                }
                Ok(None) => BuilderProgress::AtWork,
                Ok(Some((Word::Ptx(hash), _))) => BuilderProgress::Asks(ChunkId(hash)),
                Ok(Some((Word::Done(result), image))) => match *result {
                    Ok(built) => done(Ok((self.with_what_was_said(built), image))),
                    Err(not_built) => done(Err(self.not_built(not_built))),
                },
                Err(error) => done(Err(internal(&format!("a builder sent an invalid message: {error}")))),
            };
        }
    }

    /// Adds the texts and messages to a failed build's result.
    fn not_built(&mut self, not_built: NotBuilt) -> NotBuilt {
        if !self.keeps_log {
            return not_built;
        }
        let log = self.child.output().unwrap_or_default().lines().map(str::to_owned).collect();
        NotBuilt { texts: Box::new(std::mem::take(&mut self.texts)), log, ..not_built }
    }

    /// Adds the output of LLVM, of passes that print, and of an external program to the build's log.
    fn with_what_was_said(&mut self, mut built: Built) -> Built {
        built.log.extend(self.child.output().unwrap_or_default().lines().map(str::to_owned));
        built
    }

    fn ended(&mut self, end: Option<ProcessEnd>) -> BuildOutcome {
        let said = self.child.output().unwrap_or_default();
        let place = self.place.place();
        // The messages of LLVM and of Rust.
        let error = if said.contains("out of memory") || said.contains("memory allocation of") {
            format!("the compiler ran out of memory{place}; --memory-limit sets what it may take")
        } else if end == Some(ProcessEnd::Signalled(nix::sys::signal::Signal::SIGXFSZ)) {
            format!("the compiler printed more than {} MiB and was stopped{place}", SAID_AND_WRITTEN >> 20)
        } else {
            let how = end.map_or_else(|| "did not answer".into(), |end| end.to_string());
            let said = self.child.complaint().map_or(String::new(), |complaint| format!(": {}", complaint.trim()));
            format!("the compiler {how}{place}{said}")
        };
        Err(self.not_built(NotBuilt { place: self.place.last(), ..NotBuilt::new(ReplayStatus::CompileError, error) }))
    }
}

fn internal(error: &str) -> NotBuilt {
    NotBuilt::new(ReplayStatus::InternalError, error)
}

/// The main function of the child. `options` distinguishes assembler options, because equal PTX with other options is
/// other code.
fn live(build: &Build<'_>, place: &Place, options: u64, memory: Option<u64>, words: UnixStream) -> i32 {
    lead();
    name(c"mneme-builder");
    volunteer_for_oom();
    limit_files(SAID_AND_WRITTEN);
    if let Some(memory) = memory {
        limit_memory(memory);
    }
    if let Some(how) = build.lost {
        crate::assembler::do_without_library(how);
    }
    // Only the CPU device's builds are confined, because assemblers and the pipeline may be separate programs.
    if matches!(build.target, Target::Cpu { .. }) && build.inputs.plan.external.is_none() {
        // The application's own code is read from the recording.
        let readable =
            build.spec.configuration.original.then(|| build.inputs.plan.recorded.folder.clone()).into_iter().collect();
        let allowed =
            AllowedResources { readable, descriptors: vec![words.as_raw_fd()], ..AllowedResources::default() };
        confinement::enter(&allowed);
    }
    let mut ask = |ptx: &str| {
        let mut text = ptx.as_bytes().to_vec();
        text.extend(options.to_le_bytes());
        let mut answer = [ASSEMBLE];
        let answered = frame::write(&mut &words, &Word::Ptx(chunk_id(&text).0), &[])
            .and_then(|()| (&words).read_exact(&mut answer));
        answered.is_ok() && answer == [KNOWN]
    };
    // The texts are sent even if the builder crashes or is stopped later.
    let mut send_text = |text: BuildText, contents: &str| {
        let _ = frame::write(&mut &words, &Word::Text(text), contents.as_bytes());
    };
    let (result, image) = match compile(&Build { progress: Some(place), ..*build }, &mut ask, &mut send_text) {
        Ok((built, image)) => (Ok(built), image),
        Err(not_built) => (Err(not_built), Vec::new()),
    };
    match frame::write(&mut &words, &Word::Done(Box::new(result)), &image) {
        Ok(()) => mneme_system::exit::VERIFIED,
        Err(_) => mneme_system::exit::INTERNAL,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A builder that runs `work` instead.
    fn planted(work: impl FnOnce(UnixStream) -> i32) -> Builder {
        let (stream, theirs) = UnixStream::pair().unwrap();
        let child = Child::start(ChildStderr::Kept, || work(theirs)).unwrap();
        Builder::new(child, Place::new().unwrap(), stream, Duration::from_secs(60), true)
    }

    fn half(stream: &mut UnixStream) {
        let mut frame = Vec::new();
        frame::write(&mut frame, &Word::Text(BuildText::Ir), b"; after").unwrap();
        frame::write(&mut frame, &Word::Text(BuildText::Ptx), b"never to be").unwrap();
        stream.write_all(&frame[..frame.len() - 5]).unwrap();
    }

    fn sleep() -> i32 {
        std::thread::sleep(Duration::from_secs(60));
        0
    }

    #[test]
    fn half_a_message_is_waited_for_by_nobody() {
        let mut builder = planted(|mut stream| {
            half(&mut stream);
            sleep()
        });
        for _ in 0..200 {
            std::thread::sleep(Duration::from_millis(100));
            builder.stream.set_nonblocking(true).unwrap();
            let start = Instant::now();
            assert!(matches!(builder.progress(), BuilderProgress::AtWork | BuilderProgress::Done(_)));
            assert!(start.elapsed() < Duration::from_secs(30), "the server waits for the builder's end");
            if builder.texts.ir.is_some() {
                break;
            }
        }
        let Err(failed) = builder.time_out() else { panic!("it has no result") };
        assert_eq!((failed.texts.ir.as_deref(), failed.texts.ptx), (Some("; after"), None), "complete texts are kept");
    }

    #[test]
    fn one_that_closes_its_stream_is_watched_until_it_is_gone() {
        let (mut word, waits) = UnixStream::pair().unwrap();
        let mut builder = planted(move |mut stream| {
            half(&mut stream);
            drop(stream);
            // It lives until this message, or for a minute.
            waits.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let _ = std::io::Read::read(&mut &waits, &mut [0]);
            17
        });
        let mut ask = || (builder.progress(), builder.is_closed(), builder.fd().is_none());
        let (progress, is_unread) = loop {
            if let (progress, true, is_unread) = ask() {
                break (progress, is_unread);
            }
        };
        assert!(matches!(progress, BuilderProgress::AtWork) && is_unread);
        assert!(matches!(ask().0, BuilderProgress::AtWork), "progress does not wait for its end");
        word.write_all(b".").unwrap();
        let outcome = loop {
            if let BuilderProgress::Done(outcome) = ask().0 {
                break *outcome;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(outcome.unwrap_err().error.contains("exited with status 17"));
    }
}
