//! Works on several items at a time, for work that mostly waits for files.
//!
//! All threads have ended when it returns, so later signals only reach threads that wait for them.

use std::thread::{self, ScopedJoinHandle};

/// Limit on threads.
const MOST: usize = 4;

/// The results of `work` on each item, in their order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let each = items.len().div_ceil(MOST).max(1);
    if items.len() < 2 {
        return items.iter().map(work).collect();
    }
    let part = &|part: &[T]| part.iter().map(&work).collect::<Vec<R>>();
    thread::scope(|scope| {
        // If no thread can be started, this one does the work.
        let parts: Vec<_> = items
            .chunks(each)
            .map(|of| thread::Builder::new().spawn_scoped(scope, move || part(of)).map_err(move |_| part(of)))
            .collect();
        let end = |begun: Result<ScopedJoinHandle<'_, Vec<R>>, Vec<R>>| match begun {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(done) => done,
        };
        parts.into_iter().flat_map(end).collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_in_the_order_of_the_items() {
        for count in [0, 1, 2, 15, 16, 17, 100] {
            let items: Vec<usize> = (0..count).collect();
            assert_eq!(in_parallel(&items, |item| 2 * item), items.iter().map(|item| 2 * item).collect::<Vec<_>>());
        }
    }
}
