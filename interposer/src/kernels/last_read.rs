//! A cache of the last images that code was looked for in.
//!
//! Kernels of a program are met one after the other, and most are in one image: it is unpacked once, and its PTX split
//! once.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Arc, Mutex, TryLockError};

use mneme_core::image::fatbin::FatbinEntry;
use mneme_core::image::ptx::PtxModule;
use self_cell::self_cell;

/// Entries of images, and texts, that are kept.
const KEPT: usize = 4;
/// Bytes of one that is kept.
const MOST: usize = 8 << 20;

self_cell!(
    /// PTX, split.
    pub struct ParsedText {
        owner: String,
        #[covariant]
        dependent: PtxModule,
    }
);

/// A compressed entry of a fat binary: as it is stored, and what that holds.
pub struct Unpacked {
    stored: Vec<u8>,
    contents: Vec<u8>,
}

/// The last ones, newest first.
struct Last<T>(Mutex<VecDeque<Arc<T>>>);

impl<T> Last<T> {
    const fn new() -> Self {
        Self(Mutex::new(VecDeque::new()))
    }

    /// The one that `is_it`, else what `read` comes to, which is kept where that says so. Does not wait for another
    /// thread, which may be one of before a fork.
    fn of(&self, is_it: impl Fn(&T) -> bool, read: impl FnOnce() -> Option<(T, bool)>) -> Option<Arc<T>> {
        let mut last = match self.0.try_lock() {
            Ok(last) => Some(last),
            Err(TryLockError::Poisoned(last)) => Some(last.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(known) = last.as_ref().and_then(|last| last.iter().find(|known| is_it(known))) {
            return Some(known.clone());
        }
        let (found, is_kept) = read()?;
        let found = Arc::new(found);
        if let Some(last) = last.as_mut().filter(|_| is_kept) {
            last.truncate(KEPT - 1);
            last.push_front(found.clone());
        }
        Some(found)
    }
}

/// PTX, split.
pub fn split(text: &str) -> Arc<ParsedText> {
    static LAST: Last<ParsedText> = Last::new();
    let read = || Some((ParsedText::new(text.to_owned(), |text| PtxModule::parse(text)), text.len() <= MOST));
    LAST.of(|known| known.borrow_owner() == text, read).expect("any text can be split")
}

/// What an entry of a fat binary holds.
pub enum Contents<'a> {
    Stored(Cow<'a, [u8]>),
    Unpacked(Arc<Unpacked>),
}

impl Deref for Contents<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Stored(bytes) => bytes,
            Self::Unpacked(unpacked) => &unpacked.contents,
        }
    }
}

/// What an entry of a fat binary holds; `None` where it is damaged.
pub fn unpacked<'a>(entry: &'a FatbinEntry<'_>) -> Option<Contents<'a>> {
    static LAST: Last<Unpacked> = Last::new();
    if !entry.is_compressed() {
        return entry.contents().map(Contents::Stored);
    }
    let read = || {
        let contents = entry.contents()?.into_owned();
        let is_kept = contents.len() <= MOST;
        let stored = if is_kept { entry.stored().to_vec() } else { Vec::new() };
        Some((Unpacked { stored, contents }, is_kept))
    };
    LAST.of(|known| known.stored == entry.stored(), read).map(Contents::Unpacked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_split_once() {
        let text = |name: &str| format!(".version 8.0\n.target sm_90\n.visible .entry {name}()\n{{\n\tret;\n}}\n");
        let first = split(&text("first"));
        assert!(Arc::ptr_eq(&first, &split(&text("first"))));
        for number in 0..KEPT {
            let name = format!("other{number}");
            assert_eq!(split(&text(&name)).borrow_dependent().kernels().collect::<Vec<_>>(), [&name]);
        }
        assert!(!Arc::ptr_eq(&first, &split(&text("first"))), "others came after it");
        assert_eq!(first.borrow_dependent().kernels().collect::<Vec<_>>(), ["first"]);
    }

    #[test]
    fn what_is_not_kept_and_what_cannot_be_read_is_read_each_time() {
        let last = Last::new();
        let read = |text: &'static str, is_kept| last.of(|known: &&str| *known == text, || Some((text, is_kept)));
        assert!(!Arc::ptr_eq(&read("large", false).unwrap(), &read("large", false).unwrap()));
        assert!(last.of(|_| false, || None).is_none());
        let held = last.0.lock().unwrap();
        assert_eq!(read("busy", true).as_deref(), Some(&"busy"), "nobody is waited for");
        assert!(held.is_empty());
    }
}
