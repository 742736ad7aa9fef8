//! Tuned code for a kernel of a graph, chosen once for all launches of the graph.

use std::sync::atomic::Ordering;

use mneme_winners::{LaunchDimensions, Winner};

use super::candidate::shape_of;
use super::{ELSEWHERE, Kept, KernelReplacement, UNTRIED, choose, of};
use crate::driver::{self, CUfunction};
use crate::kernels::handles;
use crate::kernels::kernel::FunctionHandle;
use crate::kernels::request::LaunchRequest;

/// A kernel of a graph that has winners.
#[derive(Clone)]
pub struct GraphKernel {
    function: FunctionHandle,
    /// Or the reason why it keeps the application's own code; `None` if all launches of the kernel share the reason.
    tuned: Result<Tuned, Option<&'static str>>,
}

#[derive(Clone, Copy)]
struct Tuned {
    function: CUfunction,
    shape: LaunchDimensions,
    winner: &'static Winner,
    is_reshaped: bool,
    is_variant: bool,
    kept: Option<&'static str>,
}

// SAFETY: a handle of the driver, which every thread may use.
unsafe impl Send for Tuned {}

impl GraphKernel {
    /// Chooses for a launch that a graph will make in the current context. `None` if its kernel is not tuned.
    pub fn choose(request: &LaunchRequest) -> Option<Self> {
        let function = handles::function(request.function)?;
        if !function.kernel.is_selected() {
            return None;
        }
        let tuned = match of(&function, request.function) {
            _ if function.kernel.progress.tally.is_given_up() => Err(None),
            None => Err(Some(ELSEWHERE)),
            Some(replacement) => tuned(replacement, request, &function),
        };
        Some(Self { function, tuned })
    }

    /// The function and dimensions to launch, unless it keeps the application's own code.
    pub fn tuned(&self) -> Option<(CUfunction, LaunchDimensions)> {
        self.tuned.as_ref().ok().map(|tuned| (tuned.function, tuned.shape))
    }

    /// Notes that it keeps the application's own code.
    pub fn keep(&mut self, reason: &'static str) {
        self.tuned = Err(Some(reason));
    }

    /// Counts a launch.
    pub fn count(&self) {
        let kernel = &self.function.kernel;
        kernel.progress.launches.fetch_add(1, Ordering::Relaxed);
        let Some(replacement) = kernel.progress.replacement.get().and_then(|it| it.downcast_ref::<KernelReplacement>())
        else {
            return;
        };
        match self.tuned {
            Ok(tuned) => replacement.count(tuned.winner, tuned.is_reshaped, tuned.is_variant, tuned.kept),
            Err(Some(reason)) => replacement.count_kept(reason),
            Err(None) => {}
        }
    }
}

fn tuned(
    replacement: &KernelReplacement,
    request: &LaunchRequest,
    function: &FunctionHandle,
) -> Result<Tuned, Option<&'static str>> {
    let context = driver::current_context().ok_or(Some(ELSEWHERE))?;
    let choice = choose(replacement, request, function, context).map_err(|kept| match kept {
        Kept::For(reason) => Some(reason),
        Kept::Untried(..) => Some(UNTRIED),
        Kept::Captured | Kept::GivenUp => None,
    })?;
    Ok(Tuned {
        function: choice.loaded.function,
        shape: choice.requested(),
        winner: choice.candidate.winner(),
        is_reshaped: choice.shape != shape_of(&request.launch),
        is_variant: choice.candidate.is_variant,
        kept: choice.kept,
    })
}
