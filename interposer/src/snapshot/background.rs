//! Threads that compress and write while the application continues.
//!
//! Buffers with new chunks go to writer threads, each with its own pack. Finishing an instance (sync, manifests,
//! database) is a task. Tasks run one after the other, each when everything submitted before it has been written. All
//! threads block every signal, so the application's handlers do not run on them, and a file-size limit is an error
//! instead of a signal.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_model::hash::{ChunkId, recorded_id};
use mneme_recording::store::StoreWriter;
use mneme_system::files::progress;

use super::buffers::Buffer;
use crate::process::threads;

/// How long to wait for the end of writing without any [step](progress). The longest step is to sync 64 MiB to a disk
/// that others use too.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A chunk in a buffer, claimed under its identity.
pub struct Chunk {
    pub id: ChunkId,
    pub range: Range<usize>,
    /// Its memory may have been written between hashing and copying. Stored under a wrong identity, it would be used
    /// for the chunk with that identity, in other instances too.
    pub is_doubtful: bool,
}

/// A buffer with claimed chunks.
pub struct ChunkBatch {
    pub buffer: Buffer,
    pub chunks: Vec<Chunk>,
    /// Counts the bytes on disk.
    pub written: Arc<AtomicU64>,
}

type Task = Box<dyn FnOnce() + Send>;

pub struct Background {
    store: Arc<StoreWriter>,
    state: Mutex<State>,
    /// Signals work for a writer (`work`) or for the finisher (`progress`).
    work: Condvar,
    progress: Condvar,
    /// The first error of writing.
    failure: Mutex<Option<String>>,
}

#[derive(Default)]
struct State {
    batches: VecDeque<(u64, ChunkBatch)>,
    /// Numbers of the unwritten batches.
    unwritten: BTreeSet<u64>,
    submitted: u64,
    /// Each with the number of the last batch submitted before it.
    tasks: VecDeque<(u64, Task)>,
    task_runs: bool,
    writers: usize,
    idle_writers: usize,
    finisher: bool,
}

/// Unfinished tasks, for signal handlers, which cannot take a lock.
static UNFINISHED: AtomicUsize = AtomicUsize::new(0);

/// Whether an instance is being written.
pub fn is_busy() -> bool {
    UNFINISHED.load(Ordering::Acquire) > 0
}

impl Background {
    pub fn new(store: Arc<StoreWriter>) -> Arc<Self> {
        let (work, progress) = (Condvar::new(), Condvar::new());
        Arc::new(Self { store, state: Mutex::default(), work, progress, failure: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first error of writing.
    pub fn failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Submits a batch for writing. The number of buffers bounds the memory.
    pub fn submit(self: &Arc<Self>, batch: ChunkBatch) {
        let mut state = self.lock();
        state.submitted += 1;
        let number = state.submitted;
        state.unwritten.insert(number);
        state.batches.push_back((number, batch));
        if state.batches.len() > state.idle_writers && state.writers < self.store.writers() {
            let writer = state.writers;
            let background = self.clone();
            if threads::start("mneme-write", threads::SMALL, move || background.write_batches(writer)) {
                state.writers += 1;
            } else if state.writers == 0 {
                // If no thread can be started, the application writes and waits.
                let batch = state.batches.pop_back();
                drop(state);
                batch.into_iter().for_each(|(number, batch)| self.write(0, number, batch));
                return;
            }
        }
        drop(state);
        self.work.notify_one();
    }

    /// The number of the last batch submitted.
    pub fn submitted(&self) -> u64 {
        self.lock().submitted
    }

    /// Whether all batches up to this number have been written.
    pub fn has_written(&self, last: u64) -> bool {
        self.lock().unwritten.first().is_none_or(|first| *first > last)
    }

    /// Runs a task after all earlier tasks, when everything submitted so far has been written.
    pub fn then(self: &Arc<Self>, task: impl FnOnce() + Send + 'static) {
        UNFINISHED.fetch_add(1, Ordering::AcqRel);
        let mut state = self.lock();
        let after = state.submitted;
        state.tasks.push_back((after, Box::new(task)));
        if !state.finisher {
            let background = self.clone();
            state.finisher = threads::start("mneme-finish", threads::SMALL, move || background.run_tasks());
        }
        let finisher = state.finisher;
        drop(state);
        if finisher { self.progress.notify_all() } else { while self.run_task(false) {} }
    }

    /// Waits until everything has been written and every task has run. Returns false if writing makes no progress for
    /// [`PATIENCE`].
    pub fn drain(&self) -> bool {
        self.drain_within(PATIENCE)
    }

    fn drain_within(&self, patience: Duration) -> bool {
        let mut state = self.lock();
        let (mut steps, mut since) = (progress::steps(), Instant::now());
        while !state.unwritten.is_empty() || !state.tasks.is_empty() || state.task_runs {
            state = self.progress.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner).0;
            let now = progress::steps();
            if now != steps {
                (steps, since) = (now, Instant::now());
            } else if since.elapsed() >= patience {
                return false;
            }
        }
        true
    }

    fn write_batches(self: Arc<Self>, writer: usize) {
        loop {
            let mut state = self.lock();
            let (number, batch) = loop {
                match state.batches.pop_front() {
                    Some(batch) => break batch,
                    None => {
                        state.idle_writers += 1;
                        state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
                        state.idle_writers -= 1;
                    }
                }
            };
            drop(state);
            self.write(writer, number, batch);
        }
    }

    fn write(&self, writer: usize, number: u64, batch: ChunkBatch) {
        // SAFETY: the device has filled the buffer, and fills it again only after it has been returned.
        let bytes = unsafe { batch.buffer.bytes() };
        let mut done = 0;
        let append = || {
            for Chunk { id, range, is_doubtful } in &batch.chunks {
                let chunk = &bytes[range.clone()];
                if *is_doubtful && recorded_id(chunk) != *id {
                    self.store.lose([id]);
                } else {
                    let stored = self.store.append(writer, id, chunk).map_err(|error| error.to_string())?;
                    batch.written.fetch_add(stored, Ordering::Relaxed);
                }
                done += 1;
                progress::note_step();
            }
            Ok(())
        };
        let outcome = catch_unwind(AssertUnwindSafe(append))
            .unwrap_or_else(|_| Err("an internal error of the recorder".to_owned()));
        if let Err(reason) = outcome {
            self.store.lose(batch.chunks[done..].iter().map(|chunk| &chunk.id));
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        }
        drop(batch);
        self.lock().unwritten.remove(&number);
        self.progress.notify_all();
    }

    fn run_tasks(self: Arc<Self>) {
        while self.run_task(true) {}
    }

    /// Runs the next task. Without `wait`, returns false if there is none. Waits without a limit for batches submitted
    /// before the task: their writers make progress or fail.
    fn run_task(&self, wait: bool) -> bool {
        let mut state = self.lock();
        loop {
            let ready = state.tasks.front().map(|(after, _)| state.unwritten.first().is_none_or(|first| first > after));
            match ready {
                Some(true) => break,
                None if !wait => return false,
                _ => state = self.progress.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
        let task = state.tasks.pop_front();
        state.task_runs = true;
        drop(state);
        if let Some((_, task)) = task {
            let _ = catch_unwind(AssertUnwindSafe(task));
        }
        self.lock().task_runs = false;
        progress::note_step();
        UNFINISHED.fetch_sub(1, Ordering::AcqRel);
        self.progress.notify_all();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_writing_is_waited_for_while_it_makes_progress() {
        let folder = tempfile::tempdir().unwrap();
        let background = Background::new(Arc::new(StoreWriter::open(folder.path(), 1).unwrap()));
        let pause = Duration::from_millis(20);
        for _ in 0..20 {
            background.then(move || std::thread::sleep(pause));
        }
        assert!(background.drain_within(10 * pause), "each task is a step");
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        background.then(move || _ = receiver.recv());
        assert!(!background.drain_within(pause), "a task that hangs");
        drop(sender);
        assert!(background.drain_within(Duration::from_secs(60)));
    }
}
