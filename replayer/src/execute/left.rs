//! The memory that a run left, where it differs from the recording.
//!
//! A launch may change many GB, so contents are held only up to a limit. Of the pieces behind, hashes are held.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, Write};

use mneme_model::hash::{ChunkId, chunk_id};
use nix::sys::memfd::{MFdFlags, memfd_create};

/// Contents of pieces, by their numbers.
pub type Contents = BTreeMap<usize, Vec<u8>>;

/// The pieces that a run left, as hashes.
pub type Digest = BTreeMap<usize, ChunkId>;

/// Contents to hold of a run, bytes.
const HELD: usize = 256 << 20;
/// Contents to store of a run, bytes. There may be dozens of runs.
const STORED: usize = 16 << 20;

#[derive(Clone, Debug)]
pub struct Left {
    /// The pieces that are held.
    pub pieces: Contents,
    /// The first piece that is not held, and the hashes of all differing pieces from there on.
    end: usize,
    rest: Digest,
    /// Bytes that may still be held.
    room: usize,
}

impl Default for Left {
    fn default() -> Self {
        Self::with_room(HELD)
    }
}

impl Left {
    fn with_room(room: usize) -> Self {
        Self { pieces: Contents::new(), end: usize::MAX, rest: Digest::new(), room }
    }

    /// Adds a piece. Their numbers ascend.
    pub fn add(&mut self, piece: usize, bytes: Vec<u8>) {
        match self.room.checked_sub(bytes.len()).filter(|_| self.rest.is_empty()) {
            Some(room) => {
                self.room = room;
                self.pieces.insert(piece, bytes);
            }
            None => {
                self.end = self.end.min(piece);
                self.rest.insert(piece, chunk_id(&bytes));
            }
        }
    }

    pub fn digest(&self) -> Digest {
        let held = self.pieces.iter().map(|(piece, bytes)| (*piece, chunk_id(bytes)));
        held.chain(self.rest.iter().map(|(piece, hash)| (*piece, *hash))).collect()
    }

    /// Leaves only the pieces that both hold, if all others are equal. Returns whether they are.
    pub fn align(&mut self, other: &mut Self) -> bool {
        let end = self.end.min(other.end);
        for left in [&mut *self, &mut *other] {
            left.end = end;
            let behind = left.pieces.split_off(&end);
            left.rest.extend(behind.into_iter().map(|(piece, bytes)| (piece, chunk_id(&bytes))));
        }
        self.rest == other.rest
    }

    /// Whether contents of this piece are held, or it is as recorded.
    pub fn holds(&self, piece: usize) -> bool {
        piece < self.end
    }

    /// Wipes the contents from memory.
    pub fn wipe(mut self) {
        for bytes in self.pieces.values_mut() {
            bytes.fill(0);
            std::hint::black_box(bytes);
        }
    }

    /// Copies the contents to a file in memory that is mapped nowhere. `None` if they are too large, or if this process
    /// may create no files.
    pub fn store(&self) -> Option<StoredLeft> {
        if self.pieces.values().map(Vec::len).sum::<usize>() > STORED {
            return None;
        }
        let mut file = File::from(memfd_create(c"results", MFdFlags::MFD_CLOEXEC).ok()?);
        self.pieces.values().try_for_each(|bytes| file.write_all(bytes)).ok()?;
        let sizes = self.pieces.iter().map(|(piece, bytes)| (*piece, bytes.len())).collect();
        let outline = Self { pieces: Contents::new(), end: self.end, rest: self.rest.clone(), room: self.room };
        Some(StoredLeft { file, sizes, outline })
    }
}

/// The result of a run, in a file that this process does not map, so code under test cannot find it.
#[derive(Debug)]
pub struct StoredLeft {
    file: File,
    /// The stored pieces and their sizes in bytes.
    sizes: Vec<(usize, usize)>,
    /// All but the pieces.
    outline: Left,
}

impl StoredLeft {
    /// # Errors
    /// If the file cannot be read.
    pub fn read(&self) -> io::Result<Left> {
        let mut left = self.outline.clone();
        let mut file = &self.file;
        file.rewind()?;
        for (piece, size) in &self.sizes {
            let mut bytes = vec![0; *size];
            file.read_exact(&mut bytes)?;
            left.pieces.insert(*piece, bytes);
        }
        Ok(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(room: usize, pieces: &[(usize, u8)]) -> Left {
        let mut left = Left::with_room(room);
        pieces.iter().for_each(|(piece, byte)| left.add(*piece, vec![*byte; 4]));
        left
    }

    #[test]
    fn pieces_beyond_the_limit_are_compared_by_their_hashes() {
        let all = [(1, 10), (3, 30), (5, 50), (7, 70)];
        let mut one = left(8, &all);
        assert_eq!(one.pieces.keys().copied().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(one.digest(), left(100, &all).digest());
        assert!(one.holds(4) && !one.holds(5), "a piece between them is as recorded");
        let stored = one.store().unwrap();
        assert_eq!(
            (stored.read().unwrap().digest(), stored.read().unwrap().pieces),
            (one.digest(), one.pieces.clone())
        );
        // The other differs in a piece that is held, and holds one more.
        let mut other = left(100, &[(1, 11), (3, 30), (5, 50), (7, 70)]);
        assert!(one.align(&mut other));
        assert_eq!(other.pieces.keys().copied().collect::<Vec<_>>(), [1, 3]);
        for behind in
            [&[(1, 10), (3, 30), (5, 50), (7, 71)][..], &all[..3], &[(1, 10), (2, 0), (3, 30), (5, 50), (7, 70)]]
        {
            let is_equal = behind.len() > all.len();
            assert_eq!(left(8, &all).align(&mut left(8, behind)), is_equal, "{behind:?}");
        }
    }
}
