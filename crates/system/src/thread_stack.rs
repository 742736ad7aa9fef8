//! A thread's stack of items that stays usable until the very end of the thread.
//!
//! Programs use the GPU in destructors of static and thread-local objects and in exit handlers, when a `thread_local!`
//! with a destructor may be gone. This stack does not need a destructor: it frees its memory when it becomes empty, and
//! a single item does not use any.

use std::cell::RefCell;
use std::mem::ManuallyDrop;

pub struct ThreadStack<T>(ManuallyDrop<RefCell<Items<T>>>);

struct Items<T> {
    top: Option<T>,
    below: Vec<T>,
}

impl<T> ThreadStack<T> {
    pub const fn new() -> Self {
        Self(ManuallyDrop::new(RefCell::new(Items { top: None, below: Vec::new() })))
    }

    pub fn push(&self, item: T) {
        let mut items = self.0.borrow_mut();
        if let Some(below) = items.top.replace(item) {
            items.below.push(below);
        }
    }

    pub fn pop(&self) -> Option<T> {
        let mut items = self.0.borrow_mut();
        let next = items.below.pop();
        if items.below.is_empty() {
            items.below = Vec::new();
        }
        std::mem::replace(&mut items.top, next)
    }

    /// Passes the top item to `look`.
    pub fn with_top<R>(&self, look: impl FnOnce(Option<&mut T>) -> R) -> R {
        look(self.0.borrow_mut().top.as_mut())
    }
}

impl<T> Default for ThreadStack<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    #[test]
    fn the_last_comes_first() {
        let stack = ThreadStack::new();
        for item in [1, 2, 3] {
            stack.push(item);
        }
        stack.with_top(|top| *top.unwrap() = 4);
        assert_eq!([(); 4].map(|()| stack.pop()), [Some(4), Some(2), Some(1), None]);
        stack.with_top(|top| assert!(top.is_none()));
    }

    #[test]
    fn destructors_of_other_objects_of_the_thread_can_use_it() {
        thread_local! {
            static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
            static STACK: ThreadStack<Vec<u8>> = const { ThreadStack::new() };
        }
        struct Late(Sender<Option<Vec<u8>>>);
        impl Drop for Late {
            fn drop(&mut self) {
                STACK.with(|stack| stack.push(vec![2]));
                let _ = self.0.send(STACK.with(ThreadStack::pop));
                let _ = self.0.send(STACK.with(ThreadStack::pop));
            }
        }
        const { assert!(!std::mem::needs_drop::<ThreadStack<Vec<u8>>>()) };
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            LATE.set(Some(Late(sender)));
            STACK.with(|stack| stack.push(vec![1]));
        });
        thread.join().unwrap();
        assert_eq!(receiver.iter().collect::<Vec<_>>(), [Some(vec![2]), Some(vec![1])]);
    }
}
