//! The profiling library's state: its phase, contexts, buffers and correlations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ffi::c_void;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use mneme_abi::hip::rocprofiler::*;

use crate::mistake::{Mistake, wrong};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// No tool has requested it.
    #[default]
    New,
    /// Asking the tool for its configuration.
    Configuring,
    /// The tool creates its contexts.
    Initializing,
    /// The configuration is final.
    Ready,
}

#[derive(Debug, Default)]
pub struct ProfilerContext {
    pub started: bool,
    /// The buffer of each service, by its kind.
    pub services: BTreeMap<u32, u64>,
}

#[derive(Debug)]
pub struct ProfilerBuffer {
    pub context: u64,
    pub callback: BufferCallback,
    pub data: *mut c_void,
    pub records: Vec<Vec<u8>>,
}

// SAFETY: the data belongs to the tool, and is only returned to it.
unsafe impl Send for ProfilerBuffer {}

#[derive(Debug, Default)]
pub struct ProfilerState {
    pub phase: Phase,
    pub contexts: BTreeMap<u64, ProfilerContext>,
    pub buffers: BTreeMap<u64, ProfilerBuffer>,
    /// Destroyed buffers.
    pub gone: HashSet<u64>,
    /// The correlations that a thread has pushed, by context and thread.
    pub correlations: HashMap<(u64, u64), Vec<u64>>,
    /// The number of noted kernels.
    pub kernels: u64,
}

static STATE: LazyLock<Mutex<ProfilerState>> = LazyLock::new(Mutex::default);

pub fn state() -> MutexGuard<'static, ProfilerState> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProfilerState {
    pub fn context(&mut self, context: ContextId) -> Result<&mut ProfilerContext, Mistake> {
        let handle = context.handle;
        self.contexts.get_mut(&handle).map_or_else(|| wrong(format!("{handle} is no context")), Ok)
    }

    pub fn check_buffer(&self, buffer: BufferId) -> Result<&ProfilerBuffer, Mistake> {
        let handle = buffer.handle;
        match self.buffers.get(&handle) {
            Some(buffer) => Ok(buffer),
            None if self.gone.contains(&handle) => wrong(format!("the buffer {handle} was destroyed before")),
            None => wrong(format!("{handle} is no buffer")),
        }
    }

    /// Checks that the tool is being initialised: only then may it create contexts and buffers.
    pub fn check_initializing(&self) -> Result<(), Mistake> {
        if self.phase == Phase::Initializing {
            Ok(())
        } else {
            wrong("it can only be called while the tool is initialised")
        }
    }

    /// Descriptions of the remaining objects.
    pub fn left(&self) -> Vec<String> {
        let count = |number: usize, what: &str| (number > 0).then(|| format!("{number} {what}"));
        [
            count(self.contexts.values().filter(|context| context.started).count(), "started contexts of the profiler"),
            count(self.buffers.len(), "buffers of the profiler"),
            count(self.correlations.values().map(Vec::len).sum(), "pushed correlations"),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}
