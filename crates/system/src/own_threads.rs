//! Mneme's threads in an application's process.
//!
//! They block all signals, because the application's handlers may expect one of its own threads.
//!
//! If a thread's first allocation fails, the process ends, because the C library registers destructors for it. A thread
//! is therefore started only if the limit on the address space leaves room for it, and its creator, which could fill
//! that room, waits until it runs.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread::{Builder, Scope, ScopedJoinHandle};
use std::time::Duration;

use nix::sys::signal::{SigSet, SigmaskHow};

use crate::address_space;

/// Address space for a thread's heap, beside its stack.
const HEAP: usize = 16 << 20;
/// The longest wait for a thread to begin running.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts a thread with a stack of `stack` bytes.
///
/// # Errors
/// The system has no room for another thread.
pub fn start(name: &str, stack: usize, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    with_room(stack, |builder, runs| {
        builder.name(name.to_owned()).spawn(move || {
            runs();
            work();
        })
    })?;
    Ok(())
}

/// Starts a thread that ends within a scope.
///
/// # Errors
/// See [`start`].
pub fn start_in<'scope, R: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    stack: usize,
    work: impl FnOnce() -> R + Send + 'scope,
) -> io::Result<ScopedJoinHandle<'scope, R>> {
    with_room(stack, |builder, runs| {
        builder.spawn_scoped(scope, move || {
            runs();
            work()
        })
    })
}

/// Passes on what the new thread calls first.
fn with_room<R>(stack: usize, start: impl FnOnce(Builder, Box<dyn FnOnce() + Send>) -> io::Result<R>) -> io::Result<R> {
    if !address_space::has_room(stack + HEAP) {
        return Err(io::ErrorKind::OutOfMemory.into());
    }
    let (sender, runs) = sync_channel(1);
    let running = Box::new(move || _ = sender.send(()));
    let thread = without_signals(|| start(Builder::new().stack_size(stack), running))?;
    let _ = runs.recv_timeout(PATIENCE);
    Ok(thread)
}

/// Runs `work` with all signals blocked: a thread inherits the mask of its creator.
fn without_signals<R>(work: impl FnOnce() -> R) -> R {
    /// Restores the mask even if starting the thread fails.
    struct Restore(SigSet);
    impl Drop for Restore {
        fn drop(&mut self) {
            let _ = self.0.thread_set_mask();
        }
    }
    let _restore = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK).map(Restore);
    work()
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::signal::Signal;
    use std::sync::mpsc::channel;

    #[test]
    fn threads_block_all_signals_and_the_caller_does_not() {
        let own = || SigSet::thread_get_mask().unwrap();
        let (sender, mask) = channel();
        start("test", 64 << 10, move || sender.send(own()).unwrap()).unwrap();
        let scoped = std::thread::scope(|scope| start_in(scope, 64 << 10, own).unwrap().join().unwrap());
        for mask in [mask.recv().unwrap(), scoped] {
            assert!(mask.contains(Signal::SIGUSR1) && mask.contains(Signal::SIGTERM));
        }
        assert!(!own().contains(Signal::SIGUSR1));
    }

    #[test]
    fn a_thread_without_room_is_not_started() {
        assert!(start("test", usize::MAX / 4, || ()).is_err());
    }
}
