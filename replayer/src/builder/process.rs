//! A builder: the forked process that compiles one configuration.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use mneme_compiler::progress::Progress;
use mneme_compiler::{Code, Recorded, Request, Target};
use mneme_core::configuration::Configuration;
use mneme_core::result::Status;

use super::{Built, Extras, NotBuilt, Outcome};
use crate::child::{Child, Complaints, End, pipe, volunteer_for_oom};
use crate::frame::{self, Inbox};
use crate::replacement::Replacement;
use crate::subject::Subject;

/// A builder at work.
pub struct Builder {
    child: Child,
    progress: Progress,
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
    pub extras: &'a Extras,
}

impl Builder {
    /// Forks a builder, to be killed after `limit`.
    pub fn start(order: &Order<'_>, limit: Duration) -> std::io::Result<Self> {
        let (reader, writer) = pipe()?;
        let progress = Progress::new()?;
        let child = Child::start(Complaints::Kept, || compile(order, &progress, writer))?;
        Ok(Self { child, progress, pipe: File::from(reader), inbox: Inbox::default(), limit, deadline: Instant::now() + limit })
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
            error: format!(
                "the build took longer than {} s and was stopped{}; --timeout raises the limit",
                self.limit.as_secs_f64(),
                self.progress.place()
            ),
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
        Err(NotBuilt { status: Status::CompileError, error: format!("the compiler {how}{}{said}", self.progress.place()) })
    }
}

fn internal(error: &str) -> NotBuilt {
    NotBuilt { status: Status::InternalError, error: error.into() }
}

/// The life of the child.
fn compile(order: &Order<'_>, progress: &Progress, writer: OwnedFd) -> i32 {
    volunteer_for_oom();
    let modules: Vec<&[u8]> = match &order.extras.replacement {
        Some(Replacement::Ir(bytes)) => vec![bytes],
        _ => order.modules.iter().map(Vec::as_slice).collect(),
    };
    let code = match &order.extras.replacement {
        Some(Replacement::Ptx(ptx)) => Code::Ptx(ptx),
        Some(Replacement::Cubin(cubin)) => Code::Cubin(cubin),
        _ => Code::Ir(&modules),
    };
    let header = &order.subject.prologue.header;
    let launches: Vec<&[u64]> = order.subject.kernel.instances.values().map(|instance| instance.args.as_slice()).collect();
    let mut request = Request::new(code, &order.subject.kernel.kernel_name, order.target, order.configuration);
    request.recorded = Recorded {
        arguments: &header.arguments,
        variables: &header.variables,
        allocations: &header.allocations,
        launches: &launches,
        signature: if order.extras.replacement.is_some() { &order.subject.kernel.ours.arguments } else { &[] },
    };
    request.keep = order.extras.keep;
    request.external = order.extras.external.as_ref();
    request.progress = Some(progress);
    let (message, image) = match mneme_compiler::build(&request) {
        Ok(artifact) => {
            let built = Built {
                entry: artifact.entry,
                preprocess: artifact.times.read + artifact.times.specialise,
                optimise: artifact.times.optimise,
                codegen: artifact.times.codegen + artifact.times.assemble,
                shared_is_static: artifact.shared_is_static,
                assembler: artifact.assembler,
                ptx: artifact.ptx,
                ir_before: artifact.ir_before,
                ir: artifact.ir,
                log: artifact.log,
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
