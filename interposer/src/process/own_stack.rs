//! A separate stack for the recorder's work, because threads of the application may have small ones.

use corosensei::stack::DefaultStack;

/// Bytes. Untouched pages cost nothing, and a handler of the application may run here.
const BYTES: usize = 1 << 20;

/// Runs `work` on a new stack, or on the caller's if the system has no memory for one.
pub fn on_own_stack<R>(work: impl FnOnce() -> R) -> R {
    match DefaultStack::new(BYTES) {
        Ok(stack) => corosensei::on_stack(stack, work),
        Err(_) => work(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deep(levels: usize) -> usize {
        let frame = std::hint::black_box([levels; 256]);
        if levels == 0 { 0 } else { 1 + deep(levels - 1) + std::hint::black_box(frame)[7] - levels }
    }

    #[test]
    fn a_thread_with_a_small_stack_has_room_for_our_work() {
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        let depth = thread.spawn(|| on_own_stack(|| deep(60))).unwrap().join().unwrap();
        assert_eq!(depth, 60);
    }
}
