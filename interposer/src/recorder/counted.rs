//! The short way of a launch that is only counted, as most are.
//!
//! Such a launch is not selected, repeats an instance, or is one too many.
//!
//! What a launch costs more with the recorder is what has to be brought into the processor's caches again after the
//! driver has used them for itself. So little is asked here, in few places, and the code is short. No panic is caught
//! on this way: nothing on it panics.

use std::sync::atomic::Ordering;

use crate::driver::gate::{self, Pass};
use crate::kernels::progress::KernelProgress;
use crate::kernels::recent;
use crate::kernels::request::LaunchRequest;
use crate::process::flags::{self, FLAGS};
use crate::process::reentrancy::{self, Restore};

/// While a counted launch is in the vendor's library.
pub struct CountedLaunch {
    // Dropped in this order.
    _pass: Pass<'static>,
    _inside: Restore<'static>,
}

/// Counts a launch that is only counted. Where there is no pass for it, [`launch`](super::launch) has to decide; it
/// comes to the same for every launch.
#[inline(always)]
pub fn pass(request: Option<LaunchRequest>) -> Option<CountedLaunch> {
    if !FLAGS.records.load(Ordering::Acquire) || FLAGS.leaves_out.load(Ordering::Relaxed) {
        return None;
    }
    let request = request?;
    let progress = &recent::kernel(request.function as usize)?.progress;
    let is_selected = *progress.selected.get()?;
    // SAFETY: it lives as long as this thread, which the result cannot leave (a cell is in it) and does not outlive: it
    // is dropped when the launch returns.
    let thread = unsafe { &*flags::this_thread() };
    let inside = reentrancy::enter(thread)?;
    let pass = gate::pass_open(thread)?;
    if is_selected && !is_only_counted(progress, &request) {
        return None;
    }
    progress.launches.fetch_add(1, Ordering::Relaxed);
    Some(CountedLaunch { _pass: pass, _inside: inside })
}

/// Whether a launch of a selected kernel is like an earlier one, or too late to be recorded; it is counted then.
/// Nothing is locked, asked of the driver or allocated for it.
#[inline]
pub fn is_only_counted(progress: &KernelProgress, request: &LaunchRequest) -> bool {
    // SAFETY: it is this kernel's launch, and under way.
    progress.tally.is_given_up()
        || progress.tally.counts(|key| unsafe { key.is_of(&request.launch, &request.arguments) })
}
