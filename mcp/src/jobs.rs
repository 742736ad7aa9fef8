//! Jobs: runs of `mneme` that a tool has started.
//!
//! Each job has a thread. A [supervisor](processes) runs its programs, and ends all of its processes when the job or the
//! server ends. Everything that they print is read; the beginning of standard output is kept for the
//! result, and the end of both streams for people and models.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_system::console::plain;
use mneme_system::install;
use serde_json::Value;
use tokio::sync::watch;

use crate::error::ToolError;
use crate::processes;

/// The most jobs at a time, and the most that are remembered.
const MOST_RUNNING: usize = 8;
const MOST_KEPT: usize = 200;
/// The most of standard output that a result is made from, bytes.
const LONGEST_OUTPUT: usize = 16 << 20;
/// The end of the output that is kept, bytes.
const TAIL: usize = 3000;
/// The time in which a cancelled program may finish what it writes.
const GRACE: Duration = Duration::from_secs(1);
/// The time to wait for the rest of the output after all processes have ended.
const REST: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(10);

/// A run of `mneme`.
pub struct Step {
    pub command: &'static str,
    pub arguments: Vec<OsString>,
    /// Where it starts.
    pub folder: PathBuf,
    /// Whether the result can be made after this exit status and this output.
    pub accepts: fn(i32, &[u8]) -> bool,
    /// Whether standard output is text for people.
    pub is_text: bool,
}

/// Makes a job's result from the standard output of its steps.
pub type Finish = Box<dyn FnOnce(&[Vec<u8>]) -> Result<Value, ToolError> + Send>;

pub struct Plan {
    /// The folder with results, whose name is the job's.
    pub folder: Option<PathBuf>,
    pub steps: Vec<Step>,
    pub finish: Finish,
}

pub type JobEnd = Arc<Result<Value, ToolError>>;

pub struct Job {
    pub id: String,
    pub tool: &'static str,
    pub folder: Option<PathBuf>,
    is_cancelled: AtomicBool,
    tail: Mutex<Vec<u8>>,
    end: watch::Sender<Option<JobEnd>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Job {
    /// The result, if it has ended.
    pub fn end(&self) -> Option<JobEnd> {
        self.end.borrow().clone()
    }

    /// Returns when it has ended.
    pub async fn ended(&self) {
        // The sender is part of this job, so it is there.
        let _ = self.end.subscribe().wait_for(Option::is_some).await;
    }

    /// Has all its processes end within a few seconds.
    pub fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// The end of what its programs have printed.
    pub fn output(&self) -> String {
        let tail = lock(&self.tail);
        plain(&String::from_utf8_lossy(&tail)).trim().to_owned()
    }

    fn print(&self, bytes: &[u8]) {
        let mut tail = lock(&self.tail);
        tail.extend_from_slice(bytes);
        let extra = tail.len().saturating_sub(TAIL);
        tail.drain(..extra);
    }

    fn run(self: &Arc<Self>, plan: Plan, limit: Duration) -> Result<Value, ToolError> {
        let start = Instant::now();
        let mut printed = Vec::new();
        for step in &plan.steps {
            printed.push(self.execute(step, start, limit)?);
        }
        (plan.finish)(&printed)
    }

    fn execute(self: &Arc<Self>, step: &Step, start: Instant, limit: Duration) -> Result<Vec<u8>, ToolError> {
        let path = install::locate("mneme").ok_or(ToolError::Incomplete)?;
        let mut command = Command::new("/proc/self/exe");
        command.arg(processes::COMMAND).arg(&path).arg(step.command).args(&step.arguments).current_dir(&step.folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().map_err(|source| ToolError::Start { path, source })?;
        let text = step.is_text;
        let output = self.read(child.stdout.take().expect("standard output is a pipe"), LONGEST_OUTPUT, text);
        let complaints = self.read(child.stderr.take().expect("standard error is a pipe"), 1 << 20, true);

        let status = self.wait(&mut child, start, limit);
        let output = output.recv_timeout(REST).unwrap_or_default();
        let complaints = complaints.recv_timeout(REST).unwrap_or_default();
        let status = status?.map_or(mneme_system::exit::INTERNAL, |status| {
            status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
        });
        if !(step.accepts)(status, &output) {
            return Err(ToolError::Failed { command: step.command, status, said: said(&complaints) });
        }
        if output.len() >= LONGEST_OUTPUT {
            let (what, limit) = ("the output of the program", "16 MiB");
            return Err(ToolError::TooLarge { what, limit, remedy: "name one kernel and one instance" });
        }
        Ok(output)
    }

    /// Waits until the supervisor ends, or has to.
    fn wait(
        &self,
        child: &mut Child,
        start: Instant,
        limit: Duration,
    ) -> Result<std::io::Result<ExitStatus>, ToolError> {
        let mut asked: Option<(Instant, ToolError)> = None;
        loop {
            let ended = !matches!(child.try_wait(), Ok(None));
            let is_late = asked.as_ref().is_some_and(|(at, _)| at.elapsed() > GRACE);
            if ended || is_late {
                // Closes its standard input.
                let status = child.wait();
                return asked.map_or(Ok(status), |(_, why)| Err(why));
            }
            let why = if self.is_cancelled.load(Ordering::Relaxed) {
                Some(ToolError::Cancelled)
            } else {
                (start.elapsed() > limit).then_some(ToolError::TooLong(limit.as_secs()))
            };
            if let Some(why) = why.filter(|_| asked.is_none()) {
                // Sessions write what they have found.
                let _ = child.stdin.as_mut().map(|input| input.write_all(b"."));
                asked = Some((Instant::now(), why));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Reads a pipe to its end, and sends the first bytes of it.
    fn read(self: &Arc<Self>, mut pipe: impl Read + Send + 'static, most: usize, is_text: bool) -> Receiver<Vec<u8>> {
        let (sender, receiver) = channel();
        let job = self.clone();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            let mut buffer = [0; 8192];
            while let Ok(count) = pipe.read(&mut buffer) {
                if count == 0 {
                    break;
                }
                if is_text {
                    job.print(&buffer[..count]);
                }
                kept.extend_from_slice(&buffer[..count.min(most - kept.len())]);
            }
            let _ = sender.send(kept);
        });
        receiver
    }
}

/// The sentence in which a program said why it failed: its last line that begins with its name.
fn said(complaints: &[u8]) -> String {
    let text = String::from_utf8_lossy(complaints);
    let lines = || text.lines().rev().filter(|line| !line.trim().is_empty());
    let line = lines().find(|line| line.starts_with("mneme") || line.starts_with("error:")).or_else(|| lines().next());
    let line = plain(line.unwrap_or("it printed no reason")).into_owned();
    let sentence = line.split_once(": ").filter(|(name, _)| name.starts_with("mneme")).map_or(&*line, |(_, rest)| rest);
    sentence.trim_end_matches('.').chars().take(800).collect()
}

/// All jobs of a server.
pub struct Jobs {
    limit: Duration,
    known: Mutex<Vec<Arc<Job>>>,
    count: AtomicU64,
}

impl Jobs {
    pub fn new(limit: Duration) -> Self {
        Self { limit, known: Mutex::default(), count: AtomicU64::new(0) }
    }

    /// # Errors
    /// Too many jobs are running.
    pub fn check(&self) -> Result<(), ToolError> {
        let running = lock(&self.known).iter().filter(|job| job.end().is_none()).count();
        if running < MOST_RUNNING { Ok(()) } else { Err(ToolError::Busy(running)) }
    }

    pub fn start(&self, tool: &'static str, plan: Plan) -> Arc<Job> {
        let name = plan.folder.as_ref().and_then(|folder| Some(folder.file_name()?.to_str()?.to_owned()));
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let job = Arc::new(Job {
            id: name.unwrap_or_else(|| format!("{tool}.{number}")),
            tool,
            folder: plan.folder.clone(),
            is_cancelled: AtomicBool::new(false),
            tail: Mutex::default(),
            end: watch::Sender::new(None),
        });
        let mut known = lock(&self.known);
        if known.len() >= MOST_KEPT
            && let Some(oldest) = known.iter().position(|job| job.end().is_some())
        {
            known.remove(oldest);
        }
        known.push(job.clone());
        let (running, limit) = (job.clone(), self.limit);
        std::thread::spawn(move || {
            let end = running.run(plan, limit);
            running.end.send_replace(Some(Arc::new(end)));
        });
        job
    }

    pub fn get(&self, id: &str) -> Result<Arc<Job>, ToolError> {
        let found = lock(&self.known).iter().find(|job| job.id == id).cloned();
        found.ok_or_else(|| ToolError::NoJob(id.chars().take(100).collect()))
    }

    /// All jobs, oldest first.
    pub fn all(&self) -> Vec<Arc<Job>> {
        lock(&self.known).clone()
    }

    /// Ends all jobs.
    pub async fn end(&self) {
        let all = self.all();
        all.iter().for_each(|job| job.cancel());
        for job in all {
            job.ended().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_s_reason_is_its_last_sentence() {
        assert_eq!(said(b"mneme: a remark\nmneme-tune: no such kernel.\n  hint\n"), "no such kernel");
        assert_eq!(said(b"plain\n\n"), "plain");
        assert_eq!(said(b""), "it printed no reason");
        assert!(said("mneme: \u{1b}[31m".as_bytes()).starts_with("\\u001b"));
        assert!(said(&[b'x'; 5000]).len() <= 800);
    }
}
