//! A builder: the forked process that compiles one configuration.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_compiler::progress::Progress as Place;
use mneme_core::hash::{ChunkId, chunk_id};
use mneme_core::result::Status;
use serde::{Deserialize, Serialize};

use super::compile::{Order, compile};
use super::{Built, NotBuilt, Outcome};
use crate::child::{Child, Complaints, End, lead, limit_files, limit_memory, volunteer_for_oom};
use crate::frame::{self, Inbox};

/// What a builder says: about its PTX before it is assembled, and at the end.
#[derive(Debug, Serialize, Deserialize)]
enum Word {
    /// PTX of this hash is there; it waits to be told whether to assemble it.
    Ptx([u8; 16]),
    Done(Box<Result<Built, NotBuilt>>),
}

/// Bytes that what a builder prints, which is kept in memory, and each file of its programs may have.
const SAID_AND_WRITTEN: u64 = 1 << 30;

/// What a builder is told of its PTX.
const ASSEMBLE: u8 = 1;
const KNOWN: u8 = 0;

/// A builder at work.
pub struct Builder {
    child: Child,
    /// What it is at.
    place: Place,
    stream: UnixStream,
    inbox: Inbox,
    limit: Duration,
    deadline: Instant,
}

/// What became of it.
pub enum Progress {
    AtWork,
    /// It asks whether PTX of this hash is to be assembled, see [`Builder::answer`].
    Asks(ChunkId),
    /// It is done; without an image where it was told that its PTX is known.
    Done(Box<Outcome>),
}

impl Builder {
    /// Forks a builder, to be killed after `limit`. `memory` bounds its memory, bytes.
    pub fn start(order: &Order<'_>, options: u64, limit: Duration, memory: Option<u64>) -> std::io::Result<Self> {
        let (stream, theirs) = UnixStream::pair()?;
        let place = Place::new()?;
        let child = Child::start(Complaints::Kept, || live(order, &place, options, memory, theirs))?.leading();
        Ok(Self { child, place, stream, inbox: Inbox::default(), limit, deadline: Instant::now() + limit })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Answers [`Progress::Asks`].
    pub fn answer(&mut self, assemble: bool) {
        // One that is gone is heard of next.
        let _ = self.stream.write_all(&[if assemble { ASSEMBLE } else { KNOWN }]);
    }

    /// The result of a builder that has run out of time.
    pub fn time_out(&self) -> Outcome {
        let (limit, place) = (self.limit.as_secs_f64(), self.place.place());
        let error = format!("the build took longer than {limit} s and was stopped{place}; --timeout raises the limit");
        Err(NotBuilt { place: self.place.last(), ..NotBuilt::new(Status::Timeout, error) })
    }

    /// Kills it and gives it away, to be waited for.
    pub fn dismiss(mut self) -> Child {
        self.child.terminate();
        self.child
    }

    /// Reads what it has said.
    pub fn progress(&mut self) -> Progress {
        let mut buffer = [0; 64 * 1024];
        let done = |outcome| Progress::Done(Box::new(outcome));
        match self.stream.read(&mut buffer) {
            Ok(0) => {
                let end = self.child.wait(Duration::from_secs(5));
                return done(self.ended(end));
            }
            Ok(count) => self.inbox.push(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                let end = self.child.wait(Duration::from_secs(5));
                return done(self.ended(end));
            }
            Err(error) => return done(Err(internal(&format!("a builder cannot be heard: {error}")))),
        }
        match self.inbox.pop::<Word>() {
            Ok(None) => Progress::AtWork,
            Ok(Some((Word::Ptx(hash), _))) => Progress::Asks(ChunkId(hash)),
            Ok(Some((Word::Done(result), image))) => done(result.map(|built| (self.with_what_was_said(built), image))),
            Err(error) => done(Err(internal(&format!("a builder cannot be understood: {error}")))),
        }
    }

    /// LLVM's own words, those of passes that print and of an external program included, are part of the build's log.
    fn with_what_was_said(&mut self, mut built: Built) -> Built {
        built.log.extend(self.child.said().unwrap_or_default().lines().map(str::to_owned));
        built
    }

    fn ended(&mut self, end: Option<End>) -> Outcome {
        let said = self.child.said().unwrap_or_default();
        let place = self.place.place();
        // As LLVM says it, and as Rust does.
        let error = if said.contains("out of memory") || said.contains("memory allocation of") {
            format!("the compiler ran out of memory{place}; --memory-limit sets what it may take")
        } else if end == Some(End::Signalled(nix::sys::signal::Signal::SIGXFSZ)) {
            format!("the compiler printed more than {} MiB and was stopped{place}", SAID_AND_WRITTEN >> 20)
        } else {
            let how = end.map_or_else(|| "did not answer".into(), |end| end.to_string());
            let said = self.child.complaint().map_or(String::new(), |complaint| format!(": {}", complaint.trim()));
            format!("the compiler {how}{place}{said}")
        };
        Err(NotBuilt { place: self.place.last(), ..NotBuilt::new(Status::CompileError, error) })
    }
}

fn internal(error: &str) -> NotBuilt {
    NotBuilt::new(Status::InternalError, error)
}

/// The life of the child. `options` tells assemblers' options apart: equal PTX under other options is other code.
fn live(order: &Order<'_>, place: &Place, options: u64, memory: Option<u64>, mut nursery: UnixStream) -> i32 {
    lead();
    volunteer_for_oom();
    limit_files(SAID_AND_WRITTEN);
    if let Some(memory) = memory {
        limit_memory(memory);
    }
    let mut ask = |ptx: &str| {
        let mut text = ptx.as_bytes().to_vec();
        text.extend(options.to_le_bytes());
        let mut answer = [ASSEMBLE];
        let asked = frame::write(&mut nursery, &Word::Ptx(chunk_id(&text).0), &[]).and_then(|()| nursery.read_exact(&mut answer));
        asked.is_ok() && answer == [KNOWN]
    };
    let (result, image) = match compile(&Order { progress: Some(place), ..*order }, &mut ask) {
        Ok((built, image)) => (Ok(built), image),
        Err(not_built) => (Err(not_built), Vec::new()),
    };
    match frame::write(&mut nursery, &Word::Done(Box::new(result)), &image) {
        Ok(()) => mneme_core::exit::VERIFIED,
        Err(_) => mneme_core::exit::INTERNAL,
    }
}
