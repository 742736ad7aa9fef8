//! The buffers between the device and the writing threads.
//!
//! Their number is bounded, so recording waits instead of using more memory.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mneme_recording::manifest::CHUNK;

use super::SnapshotError;
use super::pinned::Pinned;
use crate::process::settings::settings;

/// The size of a buffer, bytes: large enough for the bus, small enough to keep all threads busy.
pub const SIZE: usize = 64 * CHUNK as usize;
/// How many buffers a context has at least, regardless of the limit: one is filled while another is written.
const LEAST: usize = 2;
/// How long writing a buffer may take while the application waits.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// The buffers of one context.
pub struct Pool {
    state: Mutex<State>,
    returned: Condvar,
    most: usize,
}

#[derive(Default)]
struct State {
    idle: Vec<Pinned>,
    made: usize,
}

static POOLS: LazyLock<Mutex<HashMap<usize, Arc<Pool>>>> = LazyLock::new(Mutex::default);

fn pools() -> MutexGuard<'static, HashMap<usize, Arc<Pool>>> {
    POOLS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The buffers of a context.
pub fn of_context(context: usize) -> Arc<Pool> {
    let mut pools = pools();
    let most = (settings().buffer_bytes as usize / SIZE).max(LEAST);
    pools.entry(context).or_insert_with(|| Arc::new(Pool::new(most))).clone()
}

/// Forgets the buffers of a dead context. Buffers in use live until they are returned.
pub fn forget_context(context: usize) {
    pools().remove(&context);
}

/// Forgets the buffers of every context, if it is unknown which one has died.
pub fn forget_all_contexts() {
    pools().clear();
}

impl Pool {
    fn new(most: usize) -> Self {
        Self { state: Mutex::default(), returned: Condvar::new(), most }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a buffer, registered in the current context, which must be the pool's. `None` if all are in use and `wait`
    /// is false. A thread that waits must not hold buffers that only it can return.
    pub fn take(self: &Arc<Self>, wait: bool) -> Result<Option<Buffer>, SnapshotError> {
        let mut state = self.lock();
        if let Some(memory) = state.idle.pop() {
            return Ok(Some(self.lend(memory)));
        }
        if state.made >= self.most {
            return if wait { self.next_returned(state, PATIENCE).map(Some) } else { Ok(None) };
        }
        state.made += 1;
        drop(state);
        match Pinned::new(SIZE) {
            Ok(memory) => Ok(Some(self.lend(memory))),
            Err(status) => {
                let mut state = self.lock();
                state.made -= 1;
                // If the system provides no more memory, fewer buffers will do.
                if state.made < LEAST {
                    Err(SnapshotError::Staging(status))
                } else if wait {
                    self.next_returned(state, PATIENCE).map(Some)
                } else {
                    Ok(None)
                }
            }
        }
    }

    /// Waits for a buffer to be returned.
    fn next_returned(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        limit: Duration,
    ) -> Result<Buffer, SnapshotError> {
        let deadline = Instant::now() + limit;
        loop {
            if let Some(memory) = state.idle.pop() {
                return Ok(self.lend(memory));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(SnapshotError::Stalled);
            }
            state = self.returned.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lend(self: &Arc<Self>, memory: Pinned) -> Buffer {
        Buffer { memory: Some(memory), pool: self.clone() }
    }
}

/// A borrowed buffer, which returns to its pool when dropped.
pub struct Buffer {
    memory: Option<Pinned>,
    pool: Arc<Pool>,
}

impl Deref for Buffer {
    type Target = Pinned;
    fn deref(&self) -> &Pinned {
        self.memory.as_ref().expect("present until dropped")
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.pool.lock().idle.extend(self.memory.take());
        self.pool.returned.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn whoever_wants_more_than_the_limit_waits_for_one_that_is_returned() {
        let pool = Arc::new(Pool::new(3));
        let mut taken: Vec<Buffer> = (0..3).map(|_| pool.take(false).unwrap().unwrap()).collect();
        assert!(pool.take(false).unwrap().is_none(), "the limit");
        let waited = pool.next_returned(pool.lock(), Duration::from_millis(10));
        assert!(matches!(waited, Err(SnapshotError::Stalled)), "whoever writes does not return any");
        let address = taken[1].as_ptr().addr();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pool.take(true).unwrap().unwrap().as_ptr().addr());
            std::thread::sleep(Duration::from_millis(20));
            assert!(!waiting.is_finished());
            drop(taken.remove(1));
            assert_eq!(waiting.join().unwrap(), address, "the same memory, used again");
        });
        let state = pool.lock();
        assert_eq!((state.made, state.idle.len()), (3, 1));
    }
}
