//! The recording folder of this process: its chunk store, its threads, and the completion of instances.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mneme_recording::RecordingError;
use mneme_recording::database::{Databases, InstanceRecord, KernelRecord};
use mneme_recording::draft::Draft;
use mneme_recording::manifest::{MemoryState, pair};
use mneme_recording::publication::{self, NewInstance, Publication};
use mneme_recording::store::{self, StoreWriter};
use mneme_system::files::progress;

use super::signals;
use crate::kernels::files::KernelFiles;
use crate::kernels::handles;
use crate::kernels::kernel::Kernel;
use crate::process::log::{info, warning};
use crate::process::settings::settings;
use crate::snapshot::background::{self, Background};

pub struct Output {
    pub store: Arc<StoreWriter>,
    pub background: Arc<Background>,
    /// Instances whose memory has been taken, in order, each with the number of the last batch of its chunks.
    pending: Mutex<VecDeque<(u64, PendingInstance)>>,
    databases: Mutex<Databases>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Unopened,
    Open(Arc<Output>),
    Closed,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::Unopened);
/// Why no more can be written.
static BROKEN: OnceLock<String> = OnceLock::new();

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of this process, opened at its first use. `None` after it has been closed.
pub fn open() -> Result<Option<Arc<Output>>, RecordingError> {
    let mut stage = stage();
    match &*stage {
        Stage::Closed => Ok(None),
        Stage::Open(output) => Ok(Some(output.clone())),
        Stage::Unopened => {
            let settings = settings();
            if !settings.folder.is_dir() {
                store::create_private_folder(&settings.folder)?;
            }
            let store = Arc::new(StoreWriter::open(&settings.folder, settings.compression_level)?);
            let background = Background::new(store.clone());
            let (pending, databases) = (Mutex::default(), Mutex::default());
            let output = Arc::new(Output { store, background, pending, databases });
            *stage = Stage::Open(output.clone());
            signals::outlast();
            Ok(Some(output))
        }
    }
}

/// Waits until everything recorded is on disk, runs `last` on a thread where a file-size limit raises no signal, and
/// closes the packs.
pub fn close(last: impl FnOnce() + Send + 'static) {
    let Stage::Open(output) = std::mem::replace(&mut *stage(), Stage::Closed) else { return };
    let store = output.store.clone();
    output.background.then(move || {
        last();
        if let Err(error) = store.finish()
            && BROKEN.get().is_none()
        {
            warning!("cannot close the packs (their recordings stay readable): {error}");
        }
    });
    if !output.background.drain() {
        let reason = stalled();
        handles::kernels().iter().for_each(|kernel| kernel.progress.lose_unwritten(&reason));
        give_up(&reason);
    }
}

/// The reason for giving up the wait for the end of writing.
fn stalled() -> String {
    format!(
        "writing to its folder made no progress for {} s; recordings that were not on disk then are lost",
        background::PATIENCE.as_secs()
    )
}

/// Waits until everything recorded is on disk. Returns false if the output is not open, or writing has failed.
pub fn settle() -> bool {
    let background = match &*stage() {
        Stage::Open(output) => output.background.clone(),
        _ => return false,
    };
    background.drain()
}

/// The reason if no more can be written.
pub fn broken() -> Option<&'static str> {
    BROKEN.get().map(String::as_str)
}

/// Stops recording permanently, with one warning. The application continues.
pub fn give_up(reason: &str) {
    if BROKEN.set(reason.to_owned()).is_ok() {
        warning!("recording stops: {reason}");
    }
}

/// An instance whose memory has been taken and is being written.
pub struct PendingInstance {
    pub kernel: Arc<Kernel>,
    pub static_hash: u64,
    pub files: Arc<KernelFiles>,
    pub record: KernelRecord,
    pub dynamic_hash: u64,
    pub instance: InstanceRecord,
    /// It replaces an earlier instance of this hash, which changed no memory.
    pub replaces: bool,
    pub prologue: MemoryState,
    pub epilogue: MemoryState,
    /// Bytes of its chunks on disk.
    pub written: Arc<AtomicU64>,
}

impl Output {
    /// Completes an instance when its chunks have been written. With `MNEME_SYNC`, waits for that.
    pub fn complete(self: &Arc<Self>, pending: PendingInstance) {
        self.pending().push_back((self.background.submitted(), pending));
        let output = self.clone();
        self.background.then(move || output.complete_written());
        if settings().synchronous && !self.background.drain() {
            give_up(&stalled());
        }
    }

    fn pending(&self) -> MutexGuard<'_, VecDeque<(u64, PendingInstance)>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Completes all instances whose chunks have been written together, because syncing one takes long enough for
    /// others to arrive.
    fn complete_written(&self) {
        let mut batch = Vec::new();
        {
            let mut pending = self.pending();
            while batch.len() < publication::MOST
                && pending.front().is_some_and(|(last, _)| self.background.has_written(*last))
            {
                batch.extend(pending.pop_front().map(|(_, next)| next));
            }
        }
        if batch.is_empty() {
            return;
        }
        for (pending, outcome) in self.write(batch) {
            if let Err(Lost { reason, ends_all: true }) = &outcome {
                give_up(reason);
            }
            let (progress, dynamic_hash) = (&pending.kernel.progress, pending.dynamic_hash);
            match outcome {
                Ok(bytes) => progress.completed(dynamic_hash, bytes),
                Err(lost) => progress.failed(dynamic_hash, &lost.reason, true, true),
            }
        }
    }

    /// Makes the chunks durable, then writes the manifests, then the databases. If this is interrupted, everything that
    /// a database lists is complete. Returns the bytes that each instance takes, or `None` if another process was
    /// first.
    fn write(&self, mut batch: Vec<PendingInstance>) -> Vec<(PendingInstance, Result<Option<u64>, Lost>)> {
        let synced = self.store.sync().map_err(Lost::from);
        progress::note_step();
        let folder = &settings().folder;
        let mut outcomes: Vec<Option<Lost>> = Vec::new();
        let mut drafts = Vec::new();
        for pending in &mut batch {
            let draft = synced.clone().and_then(|()| pending.draft(folder, &self.store, &self.background));
            let (lost, draft) = draft.map_or_else(|lost| (Some(lost), None), |draft| (None, Some(draft)));
            outcomes.push(lost);
            drafts.push(draft);
            progress::note_step();
        }
        let written: Vec<usize> = (0..batch.len()).filter(|index| drafts[*index].is_some()).collect();
        let new = written.iter().filter_map(|index| {
            let pending = &batch[*index];
            Some(NewInstance {
                draft: drafts[*index].take()?,
                kernel: &pending.record,
                id: pending.dynamic_hash.to_string(),
                instance: pending.instance.clone(),
                replaces: pending.replaces,
            })
        });
        let new = new.collect();
        let mut databases = self.databases.lock().unwrap_or_else(PoisonError::into_inner);
        let (published, failure) = publication::publish(folder, &mut databases, new, |there, indices, files| {
            let is_recorded = !there.instances.is_empty();
            let code = indices.first().map(|index| &batch[written[*index]].files);
            code.map_or(Ok(0), |code| code.add_to(files, is_recorded))
        });
        progress::note_step();
        let reason = failure.map(|failure| failure.to_string()).unwrap_or_default();
        let mut published = published.into_iter();
        let outcome = |(pending, lost): (PendingInstance, Option<Lost>)| {
            let outcome = match lost {
                Some(lost) => Err(lost),
                None => match published.next() {
                    Some(Publication::Added(bytes)) => Ok(Some(pending.written.load(Ordering::Relaxed) + bytes)),
                    Some(Publication::Known) => Ok(None),
                    Some(Publication::Failed) | None => Err(Lost { reason: reason.clone(), ends_all: true }),
                },
            };
            pending.tell(&outcome);
            (pending, outcome)
        };
        batch.into_iter().zip(outcomes).map(outcome).collect()
    }
}

/// Why an instance is not on disk.
#[derive(Clone)]
struct Lost {
    reason: String,
    /// Other instances could not be written either.
    ends_all: bool,
}

impl From<RecordingError> for Lost {
    fn from(error: RecordingError) -> Self {
        Self { reason: error.to_string(), ends_all: true }
    }
}

impl PendingInstance {
    /// Writes the manifests, whose chunks must be durable.
    fn draft<'a>(&mut self, folder: &'a Path, store: &StoreWriter, background: &Background) -> Result<Draft<'a>, Lost> {
        if store.lost(self.prologue.chunks.iter().chain(&self.epilogue.chunks).flatten()) {
            let failure = background.failure();
            let ends_all = failure.is_some();
            let reason = failure.unwrap_or_else(|| {
                "memory changed while it was recorded (a host thread writes to it), or reading it failed".to_owned()
            });
            return Err(Lost { reason, ends_all });
        }
        pair(&mut self.prologue, &mut self.epilogue);
        let mut draft = Draft::new(folder);
        draft.add_state(&self.instance.prologue, &self.prologue)?;
        draft.add_state(&self.instance.epilogue, &self.epilogue)?;
        Ok(draft)
    }

    fn tell(&self, outcome: &Result<Option<u64>, Lost>) {
        let (kernel, id) = (&self.kernel.demangled, self.dynamic_hash);
        match outcome {
            Ok(Some(_)) => info!("recorded {kernel} as instance {id} of {}", self.static_hash),
            Ok(None) => info!("another process recorded {kernel} as instance {id} first"),
            Err(_) => {}
        }
    }
}
