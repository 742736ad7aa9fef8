//! The supervisor's side of an executor.

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

/// Time limit for starting a device and loading the snapshot onto it.
const START_LIMIT: Duration = Duration::from_secs(300);
/// How long an idle executor may take to read a piece of a code object.
const WRITE_LIMIT: Duration = Duration::from_secs(10);

pub struct Executor {
    child: Child,
    stream: UnixStream,
    /// Sends files for the executor to write to.
    files: UnixDatagram,
    inbox: Inbox,
    pub description: Option<Description>,
    loading: bool,
    /// Whether the snapshot is resident.
    pub ready: bool,
    /// The time allowed for the current work.
    allowance: Option<Allowance>,
    /// Number of the last run order.
    order: u64,
    /// Whether that order has arrived.
    began: bool,
}

/// Events that the supervisor reads from an executor.
pub enum ExecutorEvents {
    /// Reports in order, possibly none.
    Reports(Vec<ExecutorReport>),
    /// The process has closed its end and is exiting.
    Gone,
}

impl Executor {
    pub fn start(plan: &ExecutorPlan<'_>) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let (files, their_files) = UnixDatagram::pair()?;
        let child = Child::start(if plan.quiet { ChildStderr::Kept } else { ChildStderr::Shown }, || {
            serve(plan, theirs, &their_files)
        })?;
        // An executor that does not read its orders hangs.
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

    /// When to check next whether it hangs.
    pub fn next_look(&self) -> Option<Instant> {
        self.allowance.as_ref().map(Allowance::next_look)
    }

    /// Whether the executor counts as hanging.
    pub fn hangs(&mut self) -> bool {
        self.allowance.as_mut().is_some_and(|allowance| self.child.is_late(allowance))
    }

    /// Tells it to read the snapshot, unless that was done before.
    pub fn load(&mut self) -> std::io::Result<()> {
        if self.loading {
            return Ok(());
        }
        self.loading = true;
        frame::write(&mut self.stream, &ExecutorRequest::Load, &[])
    }

    /// Whether the snapshot is resident and no run is active.
    pub fn is_free(&self) -> bool {
        self.ready && self.allowance.is_none()
    }

    /// Whether it has run something.
    pub fn has_run(&self) -> bool {
        self.order > 0
    }

    /// Whether the last order has arrived. If an executor ends before, someone else killed it while it was idle.
    pub fn began(&self) -> bool {
        self.began
    }

    /// Hands over a code object. The executor must be free. On an error the executor is unusable and is killed.
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

    /// Returns the process, to be waited for. Kills it first if `kill` is set.
    pub fn dismiss(mut self, kill: bool) -> Child {
        if kill {
            self.child.terminate();
        }
        self.child
    }

    /// Reads the messages that have arrived.
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
                // A late answer to an older order must not count for the current one.
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
