//! The fast path for launches that the recorder only counts, as it does most launches.
//!
//! The recorder only counts a launch if its kernel is not selected or was given up, if the launch repeats an instance,
//! or if the kernel already has as many instances as may be recorded.
//!
//! The recorder costs time mainly by cache misses: the driver evicts the recorder's data from the processor's caches
//! between launches. So this path reads little data in few places, and its code is short. It catches no panics because
//! its code cannot panic.

use std::sync::atomic::Ordering;

use crate::driver::gate::{self, Pass};
use crate::kernels::progress::KernelProgress;
use crate::kernels::recent;
use crate::kernels::request::LaunchRequest;
use crate::process::flags::{self, FLAGS};
use crate::process::reentrancy::{self, Restore};

/// Held while a counted launch is in the vendor's library.
pub struct CountedLaunch {
    // Dropped in this order.
    _pass: Pass<'static>,
    _inside: Restore<'static>,
}

/// Counts a launch that is only counted. On `None`, [`launch`](super::launch) must decide; it gives the same result for
/// every launch.
#[inline(always)]
pub fn pass(request: Option<LaunchRequest>) -> Option<CountedLaunch> {
    if !FLAGS.records.load(Ordering::Acquire) || FLAGS.leaves_out.load(Ordering::Relaxed) {
        return None;
    }
    let request = request?;
    let progress = &recent::kernel(request.function as usize)?.progress;
    let is_selected = *progress.selected.get()?;
    // SAFETY: the flags live as long as this thread. The result cannot leave the thread (it contains a cell), nor
    // outlive it, because it is dropped when the launch returns.
    let thread = unsafe { &*flags::this_thread() };
    let inside = reentrancy::enter(thread)?;
    let pass = gate::pass_open(thread)?;
    if is_selected && !is_only_counted(progress, &request) {
        return None;
    }
    progress.launches.fetch_add(1, Ordering::Relaxed);
    Some(CountedLaunch { _pass: pass, _inside: inside })
}

/// Whether a launch of a selected kernel repeats an instance or comes too late to be recorded; if so, counts it. Takes
/// no lock, does not call the driver, and does not allocate.
#[inline]
pub fn is_only_counted(progress: &KernelProgress, request: &LaunchRequest) -> bool {
    // SAFETY: the launch is of this kernel, and in progress.
    progress.tally.is_given_up()
        || progress.tally.counts(|key| unsafe { key.is_of(&request.launch, &request.arguments) })
}
