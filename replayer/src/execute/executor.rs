//! An executor as the supervisor sees it.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::time::{Duration, Instant};

use mneme_model::device::Description;
use mneme_sandbox::allowance::Allowance;
use mneme_sandbox::child::{Child, ChildStderr};
use mneme_sandbox::frame::{self, Inbox};

use super::message::{ExecutorReport, ExecutorRequest, RunRequest};
use super::{ExecutorPlan, files, serve};

/// How long a device may take to start, and the snapshot to be made resident.
const START_LIMIT: Duration = Duration::from_secs(300);
/// How long an idle executor may take to read a piece of a code object.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

pub struct Executor {
    child: Child,
    stream: UnixStream,
    /// Where files go that it is to write.
    files: UnixDatagram,
    inbox: Inbox,
    pub description: Option<Description>,
    loading: bool,
    /// The snapshot is resident.
    pub ready: bool,
    /// For what it is at.
    allowance: Option<Allowance>,
    /// Number of the last order to run something.
    order: u64,
    /// That it has arrived.
    began: bool,
}

/// What the supervisor learns from reading.
pub enum ExecutorEvents {
    /// Reports in their order, perhaps none.
    Reports(Vec<ExecutorReport>),
    /// The process has closed its end: it is on its way out.
    Gone,
}

impl Executor {
    pub fn start(plan: &ExecutorPlan<'_>) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (files, their_files) = UnixDatagram::pair()?;
        let child = Child::start(if plan.quiet { ChildStderr::Kept } else { ChildStderr::Shown }, || {
            serve(plan, theirs, &their_files)
        })?;
        // One that does not read what it is told hangs.
        ours.set_write_timeout(Some(WRITE_LIMIT))?;
        let allowance = Some(Allowance::new(START_LIMIT));
        Ok(Self {
            child,
            stream: ours,
            files,
            inbox: Inbox::default(),
            description: None,
            loading: false,
            ready: false,
            allowance,
            order: 0,
            began: false,
        })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// When to ask whether it hangs.
    pub fn next_look(&self) -> Option<Instant> {
        self.allowance.as_ref().map(Allowance::next_look)
    }

    /// Whether the executor counts as hanging.
    pub fn hangs(&mut self) -> bool {
        self.allowance.as_mut().is_some_and(|allowance| self.child.is_late(allowance))
    }

    /// Lets it read the snapshot, if it has not been told before.
    pub fn load(&mut self) -> std::io::Result<()> {
        if self.loading {
            return Ok(());
        }
        self.loading = true;
        frame::write(&mut self.stream, &ExecutorRequest::Load, &[])
    }

    /// The snapshot is resident and nothing is being run.
    pub fn is_free(&self) -> bool {
        self.ready && self.allowance.is_none()
    }

    /// Whether the last order has arrived. An executor that goes before was killed by someone else, while it was idle.
    pub fn began(&self) -> bool {
        self.began
    }

    /// Hands over a code object. The executor must be free. An error means that it is of no use any more, and is
    /// killed.
    pub fn run(&mut self, run: RunRequest, image: &[u8], limit: Duration) -> std::io::Result<()> {
        self.allowance = Some(Allowance::new(limit));
        self.order += 1;
        self.began = false;
        let handed = run.spec.memory.as_deref().map_or(Ok(()), |path| files::send(&self.files, &files::create(path)));
        let written = handed
            .and_then(|()| frame::write(&mut self.stream, &ExecutorRequest::Run(self.order, Box::new(run)), image));
        if written.is_err() {
            (self.ready, self.allowance) = (false, None);
            self.child.terminate();
        }
        written
    }

    /// Ends it without waiting, see [`Child::abandon`].
    pub fn abandon(self) {
        self.child.abandon();
    }

    /// Gives the process away, to be waited for; it is killed first where `kill` says so.
    pub fn dismiss(mut self, kill: bool) -> Child {
        if kill {
            self.child.terminate();
        }
        self.child
    }

    /// Reads what has arrived.
    pub fn progress(&mut self) -> ExecutorEvents {
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => return ExecutorEvents::Gone,
            Ok(count) => self.inbox.push(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return ExecutorEvents::Gone,
        }
        let mut reports = Vec::new();
        loop {
            match self.inbox.pop::<ExecutorReport>() {
                Ok(None) => return ExecutorEvents::Reports(reports),
                // An answer to an order that nobody remembers must not pass for another's.
                Ok(Some((ExecutorReport::Done(order, _), _))) if order != self.order => {
                    self.child.terminate();
                    return ExecutorEvents::Gone;
                }
                Ok(Some((report, _))) => {
                    self.note(&report);
                    reports.push(report);
                }
                Err(_) => return ExecutorEvents::Gone,
            }
        }
    }

    fn note(&mut self, report: &ExecutorReport) {
        match report {
            ExecutorReport::Device(description, confined) => {
                self.description = Some(description.clone());
                if let Some(enforced) = confined {
                    tracing::debug!("the process that runs kernels is {enforced}");
                }
            }
            ExecutorReport::Ready => {
                self.ready = true;
                self.allowance = None;
            }
            ExecutorReport::Began(order) => self.began = *order == self.order,
            ExecutorReport::Done(..) | ExecutorReport::Unfit(_) => self.allowance = None,
        }
    }
}
