//! A builder: the forked process that compiles one configuration.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mneme_compiler::{Request, Target};
use mneme_core::configuration::Configuration;
use mneme_core::result::Status;

use super::{Built, NotBuilt, Outcome};
use crate::child::{Child, Complaints, End, pipe, volunteer_for_oom};
use crate::frame::{self, Inbox};
use crate::subject::Subject;

/// A builder at work.
pub struct Builder {
    child: Child,
    pipe: File,
    inbox: Inbox,
    limit: Duration,
    deadline: Instant,
}

/// What to compile.
pub struct Order<'a> {
    pub subject: &'a Subject,
    pub modules: &'a [Vec<u8>],
    pub target: &'a Target,
    pub configuration: &'a Configuration,
    /// Return the IR after the pipeline too.
    pub keep_ir: bool,
}

impl Builder {
    /// Forks a builder, to be killed after `limit`.
    pub fn start(order: &Order<'_>, limit: Duration) -> std::io::Result<Self> {
        let (reader, writer) = pipe()?;
        let child = Child::start(Complaints::Kept, || compile(order, writer))?;
        Ok(Self { child, pipe: File::from(reader), inbox: Inbox::default(), limit, deadline: Instant::now() + limit })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.pipe.as_fd()
    }

    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Ends a builder that has run out of time.
    pub fn time_out(&mut self) -> Outcome {
        self.child.kill();
        Err(NotBuilt {
            status: Status::Timeout,
            error: format!("the build took longer than {} s and was stopped; --timeout raises the limit", self.limit.as_secs_f64()),
        })
    }

    /// Reads what the pipe holds; the outcome when the builder is done.
    pub fn progress(&mut self) -> Option<Outcome> {
        let mut buffer = [0; 64 * 1024];
        match self.pipe.read(&mut buffer) {
            Ok(0) => {
                let end = self.child.wait(Duration::from_secs(5));
                return Some(self.ended(end));
            }
            Ok(count) => self.inbox.push(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Some(Err(internal(&format!("a builder cannot be heard: {error}")))),
        }
        match self.inbox.pop::<Result<Built, NotBuilt>>() {
            Ok(None) => None,
            Ok(Some((Ok(built), image))) => Some(Ok((built, image))),
            Ok(Some((Err(not_built), _))) => Some(Err(not_built)),
            Err(error) => Some(Err(internal(&format!("a builder cannot be understood: {error}")))),
        }
    }

    fn ended(&mut self, end: Option<End>) -> Outcome {
        let how = end.map_or_else(|| "did not answer".into(), |end| end.to_string());
        let said = self.child.complaint().map_or(String::new(), |complaint| format!(": {}", complaint.trim()));
        Err(NotBuilt { status: Status::CompileError, error: format!("the compiler {how} under this configuration{said}") })
    }
}

fn internal(error: &str) -> NotBuilt {
    NotBuilt { status: Status::InternalError, error: error.into() }
}

/// The life of the child.
fn compile(order: &Order<'_>, writer: OwnedFd) -> i32 {
    volunteer_for_oom();
    let modules: Vec<&[u8]> = order.modules.iter().map(Vec::as_slice).collect();
    let request = Request {
        modules: &modules,
        kernel: &order.subject.kernel.kernel_name,
        target: order.target,
        configuration: order.configuration,
        arguments: &order.subject.prologue.header.arguments,
        variables: &order.subject.prologue.header.variables,
        keep_ir: order.keep_ir,
    };
    let (message, image) = match mneme_compiler::build(&request) {
        Ok(artifact) => {
            let built = Built {
                entry: artifact.entry,
                preprocess: artifact.times.preprocess,
                optimise: artifact.times.optimise,
                codegen: artifact.times.codegen,
                assembler: artifact.assembler,
                ptx: artifact.ptx,
                ir: artifact.ir,
            };
            (Ok(built), artifact.image)
        }
        Err(error) => {
            let status = if error.is_usage() { Status::InvalidConfig } else { Status::CompileError };
            (Err(NotBuilt { status, error: error.to_string() }), Vec::new())
        }
    };
    match frame::write(&mut File::from(writer), &message, &image) {
        Ok(()) => mneme_core::exit::VERIFIED,
        Err(_) => mneme_core::exit::INTERNAL,
    }
}
