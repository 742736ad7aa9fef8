//! An executor as the supervisor sees it.

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use mneme_core::device::Description;

use super::message::{Order, Report, Run};
use super::{Plan, serve};
use crate::child::{Child, Complaints};
use crate::frame::{self, Inbox};

/// How long a device may take to start, and the snapshot to be made resident.
const START_LIMIT: Duration = Duration::from_secs(300);

pub struct Executor {
    child: Child,
    stream: UnixStream,
    inbox: Inbox,
    pub description: Option<Description>,
    loading: bool,
    /// The snapshot is resident.
    pub ready: bool,
    deadline: Option<Instant>,
}

/// What the supervisor learns from reading.
pub enum News {
    /// Reports in their order, perhaps none.
    Reports(Vec<Report>),
    /// The process has closed its end: it is on its way out.
    Gone,
}

impl Executor {
    pub fn start(plan: &Plan<'_>) -> std::io::Result<Self> {
        let (ours, theirs) = UnixStream::pair()?;
        let child = Child::start(if plan.quiet { Complaints::Kept } else { Complaints::Shown }, || serve(plan, theirs))?;
        let deadline = Some(Instant::now() + START_LIMIT);
        Ok(Self { child, stream: ours, inbox: Inbox::default(), description: None, loading: false, ready: false, deadline })
    }

    pub fn fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }

    /// When the executor counts as hanging.
    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Lets it read the snapshot, if it has not been told before.
    pub fn load(&mut self) -> std::io::Result<()> {
        if self.loading {
            return Ok(());
        }
        self.loading = true;
        frame::write(&mut self.stream, &Order::Load, &[])
    }

    /// Hands over a code object. The executor must be ready and idle.
    pub fn run(&mut self, run: Run, image: &[u8], limit: Duration) -> std::io::Result<()> {
        self.deadline = Some(Instant::now() + limit);
        frame::write(&mut self.stream, &Order::Run(Box::new(run)), image)
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
    pub fn progress(&mut self) -> News {
        let mut buffer = [0; 64 * 1024];
        match self.stream.read(&mut buffer) {
            Ok(0) => return News::Gone,
            Ok(count) => self.inbox.push(&buffer[..count]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return News::Gone,
        }
        let mut reports = Vec::new();
        loop {
            match self.inbox.pop::<Report>() {
                Ok(None) => return News::Reports(reports),
                Ok(Some((report, _))) => {
                    self.note(&report);
                    reports.push(report);
                }
                Err(_) => return News::Gone,
            }
        }
    }

    fn note(&mut self, report: &Report) {
        match report {
            Report::Device(description) => self.description = Some(description.clone()),
            Report::Ready => {
                self.ready = true;
                self.deadline = None;
            }
            Report::Done(_) | Report::Unfit(_) => self.deadline = None,
        }
    }
}
