//! A message about kept results, for users who end a program with Ctrl-C.

use std::ffi::c_int;
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, Ordering};

use nix::sys::signal::{SaFlags, SigAction, SigHandler, SigSet, Signal, raise, sigaction, signal};

/// The handler's message. It is never freed, because the handler may be using it.
static SENTENCE: AtomicPtr<String> = AtomicPtr::new(ptr::null_mut());
/// The process that prints the message; its forked children also receive the signal, and stay silent.
static SPEAKER: AtomicI32 = AtomicI32::new(0);

/// Prints `sentence` to standard error if the user interrupts this process (SIGINT); the process then ends by the
/// signal. A process that ignores SIGINT, as under `nohup` or in the background of a script, continues to ignore it.
pub fn on_interruption_say(sentence: &str) {
    SENTENCE.store(Box::into_raw(Box::new(format!("\n{sentence}\n"))), Ordering::Release);
    if SPEAKER.swap(std::process::id().cast_signed(), Ordering::AcqRel) != 0 {
        return;
    }
    let action = SigAction::new(SigHandler::Handler(interrupted), SaFlags::empty(), SigSet::empty());
    // SAFETY: the handler only loads atomics and calls `getpid`, `write`, `signal` and `raise`, which handlers may call.
    unsafe {
        if let Ok(before) = sigaction(Signal::SIGINT, &action)
            && matches!(before.handler(), SigHandler::SigIgn)
        {
            let _ = sigaction(Signal::SIGINT, &before);
        }
    }
}

extern "C" fn interrupted(_: c_int) {
    // SAFETY: takes no pointers.
    let own = unsafe { libc::getpid() } == SPEAKER.load(Ordering::Acquire);
    // SAFETY: the pointer was stored after its target was complete, and the target is never freed.
    if let Some(sentence) = unsafe { SENTENCE.load(Ordering::Acquire).as_ref() }.filter(|_| own) {
        // SAFETY: the sentence is never freed. A failed write is ignored, as a handler has no remedy.
        unsafe { libc::write(libc::STDERR_FILENO, sentence.as_ptr().cast(), sentence.len()) };
    }
    // SAFETY: sets a signal's default action.
    let _ = unsafe { signal(Signal::SIGINT, SigHandler::SigDfl) };
    let _ = raise(Signal::SIGINT);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::child::{Child, ChildStderr, ProcessEnd};
    use std::time::Duration;

    #[test]
    fn an_interrupted_process_says_what_it_kept() {
        let child = Child::start(ChildStderr::Kept, || {
            on_interruption_say("nothing was kept");
            on_interruption_say("two results were kept");
            let _ = raise(Signal::SIGINT);
            0
        });
        let mut child = child.unwrap();
        let end = child.wait(Duration::from_secs(60));
        assert_eq!(end, Some(ProcessEnd::Signalled(Signal::SIGINT)));
        assert_eq!(child.output().unwrap_or_default().trim(), "two results were kept");
    }

    #[test]
    fn a_process_that_ignores_interruptions_goes_on() {
        let child = Child::start(ChildStderr::Kept, || {
            // SAFETY: installs no handler.
            let _ = unsafe { signal(Signal::SIGINT, SigHandler::SigIgn) };
            on_interruption_say("nothing was kept");
            let _ = raise(Signal::SIGINT);
            7
        });
        let end = child.unwrap().wait(Duration::from_secs(60));
        assert_eq!(end, Some(ProcessEnd::Exited(7)));
    }
}
