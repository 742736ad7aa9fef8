//! The recording folder of this process: its chunk store, its threads, and how instances end there.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use mneme_core::recording::RecordingError;
use mneme_core::recording::database::{InstanceRecord, KernelRecord};
use mneme_core::recording::draft::Draft;
use mneme_core::recording::manifest::{MemoryState, pair};
use mneme_core::recording::store::{self, StoreWriter};

use super::signals;
use crate::kernels::code::KernelCode;
use crate::kernels::kernel::Kernel;
use crate::process::log::{info, warning};
use crate::process::settings::settings;
use crate::snapshot::background::Background;

pub struct Output {
    pub store: Arc<StoreWriter>,
    pub background: Arc<Background>,
}

#[derive(Default)]
enum Stage {
    #[default]
    Unopened,
    Open(Arc<Output>),
    Closed,
}

static STAGE: Mutex<Stage> = Mutex::new(Stage::Unopened);
/// Why nothing more can be written.
static BROKEN: OnceLock<String> = OnceLock::new();

fn stage() -> MutexGuard<'static, Stage> {
    STAGE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The output of this process, opened at its first use; `None` when it has been closed.
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
            let output = Arc::new(Output { background: Background::new(store.clone()), store });
            *stage = Stage::Open(output.clone());
            signals::outlast();
            Ok(Some(output))
        }
    }
}

/// Waits until what was recorded is on disk, runs `last` where failing to write is no signal, and closes the packs.
pub fn close(last: impl FnOnce() + Send + 'static) {
    let Stage::Open(output) = std::mem::replace(&mut *stage(), Stage::Closed) else { return };
    let store = output.store.clone();
    output.background.then(move || {
        last();
        if let Err(error) = store.finish()
            && BROKEN.get().is_none()
        {
            warning!("the packs could not be closed (their recordings stay readable): {error}");
        }
    });
    if !output.background.drain() {
        give_up(STALLED);
    }
}

/// Why the end of writing is not waited for any more.
const STALLED: &str = "nothing could be written for minutes; what was not on disk is lost";

/// Waits until what was recorded is on disk; false if the output is not open, or nothing more could be written.
pub fn settle() -> bool {
    let background = match &*stage() {
        Stage::Open(output) => output.background.clone(),
        _ => return false,
    };
    background.drain()
}

/// Why nothing more can be written, if so.
pub fn broken() -> Option<&'static str> {
    BROKEN.get().map(String::as_str)
}

/// Stops recording, once and for all, with one warning. The application goes on.
pub fn give_up(reason: &str) {
    if BROKEN.set(reason.to_owned()).is_ok() {
        warning!("nothing more is recorded: {reason}");
    }
}

/// An instance whose memory has been taken, and is being written.
pub struct PendingInstance {
    pub kernel: Arc<Kernel>,
    pub code: Arc<KernelCode>,
    pub record: KernelRecord,
    pub dynamic_hash: u64,
    pub instance: InstanceRecord,
    pub prologue: MemoryState,
    pub epilogue: MemoryState,
    /// Bytes of its chunks on disk.
    pub written: Arc<AtomicU64>,
}

impl Output {
    /// Completes an instance when its chunks have been written; `MNEME_SYNC` waits for that.
    pub fn complete(&self, mut pending: PendingInstance) {
        let (store, background) = (self.store.clone(), self.background.clone());
        self.background.then(move || {
            let outcome = pending.complete(&store, &background);
            if let Err(Lost { reason, ends_all: true }) = &outcome {
                give_up(reason);
            }
            pending.kernel.progress.completed(pending.dynamic_hash, outcome.map_err(|lost| lost.reason));
        });
        if settings().synchronous && !self.background.drain() {
            give_up(STALLED);
        }
    }
}

/// Why an instance is not on disk.
struct Lost {
    reason: String,
    /// Nothing else could be written either.
    ends_all: bool,
}

impl From<RecordingError> for Lost {
    fn from(error: RecordingError) -> Self {
        Self { reason: error.to_string(), ends_all: true }
    }
}

impl PendingInstance {
    /// Chunks durable, then the manifests, then the database: whatever happens in between, what is named is whole.
    /// Gives the bytes that it takes, `None` where another process was first.
    fn complete(&mut self, store: &StoreWriter, background: &Background) -> Result<Option<u64>, Lost> {
        let ids = || self.prologue.chunks.iter().chain(&self.epilogue.chunks).flatten();
        store.sync()?;
        if store.lost(ids()) {
            let failure = background.failure();
            let ends_all = failure.is_some();
            let reason = failure.unwrap_or_else(|| {
                "memory changed while it was recorded (a host thread writes to it), or could not be read".to_owned()
            });
            return Err(Lost { reason, ends_all });
        }
        pair(&mut self.prologue, &mut self.epilogue);
        let folder = &settings().folder;
        let mut draft = Draft::new(folder);
        draft.add_state(&self.instance.prologue, &self.prologue)?;
        draft.add_state(&self.instance.epilogue, &self.epilogue)?;
        let id = self.dynamic_hash.to_string();
        let Some(bytes) = draft.publish(&self.record, &id, self.instance.clone(), |there| {
            self.code.write_modules(folder, !there.instances.is_empty())
        })?
        else {
            info!("another process recorded {} as instance {id} first", self.kernel.demangled);
            return Ok(None);
        };
        info!("recorded {} as instance {} of {}", self.kernel.demangled, self.dynamic_hash, self.code.static_hash);
        Ok(Some(self.written.load(Ordering::Relaxed) + bytes))
    }
}
