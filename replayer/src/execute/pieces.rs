//! The pieces in which memory is inspected.
//!
//! They are all chunks of all regions, and the gaps between regions in the same pages.

use std::sync::{LazyLock, OnceLock};

use mneme_model::hash::{ChunkId, chunk_id};
use mneme_recording::manifest::CHUNK;

use crate::recording::snapshot::{Snapshot, SnapshotRegion};

static ZEROS: [u8; CHUNK as usize] = [0; CHUNK as usize];

/// Stretches of the filler. The address of a gap selects one.
const FILLERS: usize = 1024;
const BETWEEN: usize = CHUNK as usize / FILLERS;

/// The contents of gaps. They are not zeros, because a kernel that overruns its buffers may expect and write zeros
/// there. They vary, because a kernel may copy one gap to another.
static FILLER: LazyLock<Box<[u8]>> = LazyLock::new(|| {
    let mut word = 0x243f_6a88_85a3_08d3u64;
    let words = (0..2 * CHUNK / 8).flat_map(|_| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    });
    words.collect()
});

fn filler_number(address: u64) -> usize {
    (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - FILLERS.ilog2())) as usize
}

fn filler(address: u64, length: u64) -> &'static [u8] {
    &FILLER[filler_number(address) * BETWEEN..][..length as usize]
}

fn filler_id(address: u64, length: u64) -> ChunkId {
    static WHOLE: [OnceLock<ChunkId>; FILLERS] = [const { OnceLock::new() }; FILLERS];
    let id = || chunk_id(filler(address, length));
    if length == CHUNK { *WHOLE[filler_number(address)].get_or_init(id) } else { id() }
}

/// Some bytes of a piece.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Number of the piece.
    pub piece: usize,
    /// Range within the piece.
    pub bytes: std::ops::Range<usize>,
}

/// A stretch of memory of at most a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Numbers of the region and of its chunk. `None` for a gap, which must keep its filler.
    pub chunk: Option<(usize, usize)>,
    pub address: u64,
    /// Bytes, 1 to [`CHUNK`].
    pub length: u64,
}

impl Piece {
    /// All pieces of regions (with their numbers) that lie in mapped `spans` (start, size), ascending by region. Gaps
    /// follow.
    pub fn all<'a>(regions: impl Iterator<Item = (usize, &'a SnapshotRegion)>, spans: &[(u64, u64)]) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut taken = Vec::new();
        for (number, region) in regions {
            taken.push((region.address, region.size));
            pieces.extend((0..region.chunks.len()).map(|chunk| {
                let (offset, length) = region.extent(chunk);
                Self { chunk: Some((number, chunk)), address: region.address + offset, length }
            }));
        }
        taken.sort_unstable();
        for (start, size) in gaps(&taken, spans) {
            let cuts = (0..size).step_by(CHUNK as usize);
            pieces.extend(cuts.map(|offset| Self {
                chunk: None,
                address: start + offset,
                length: CHUNK.min(size - offset),
            }));
        }
        pieces
    }

    /// The contents at the start of a run.
    pub fn before<'a>(&self, snapshot: &'a Snapshot) -> &'a [u8] {
        match self.chunk {
            Some((region, chunk)) => snapshot.start(&snapshot.layout.regions[region], chunk),
            None => filler(self.address, self.length),
        }
    }

    /// The contents before the recorded launch.
    pub fn recorded<'a>(&self, snapshot: &'a Snapshot) -> &'a [u8] {
        match self.chunk {
            Some((number, chunk)) => {
                let region = &snapshot.layout.regions[number];
                let (offset, length) = region.extent(chunk);
                snapshot.before(region, offset, length)
            }
            None => filler(self.address, self.length),
        }
    }

    /// The recorded contents, before and after the launch. Zeros are left out, because reading them takes memory.
    pub fn contents<'a>(&self, snapshot: &'a Snapshot) -> impl Iterator<Item = &'a [u8]> {
        let place = self.chunk.map(|(region, chunk)| (&snapshot.layout.regions[region], chunk));
        let before = place.filter(|(region, chunk)| !region.chunks[*chunk].is_zero()).map(|_| self.recorded(snapshot));
        let changed = |(region, chunk): &(&SnapshotRegion, usize)| {
            region.change_of(*chunk).is_some_and(|changed| !changed.id.is_zero())
        };
        before.into_iter().chain(place.filter(changed).map(|_| self.after(snapshot)))
    }

    pub fn after<'a>(&self, snapshot: &'a Snapshot) -> &'a [u8] {
        match self.chunk {
            Some((region, chunk)) => snapshot.after(&snapshot.layout.regions[region], chunk),
            None => filler(self.address, self.length),
        }
    }

    /// Hashes of the contents at the start of a run and after the launch. Zeros are hashed like other bytes.
    pub fn ids(&self, snapshot: &Snapshot) -> (ChunkId, ChunkId) {
        let Some((region, chunk)) = self.chunk else {
            let id = filler_id(self.address, self.length);
            return (id, id);
        };
        let region = &snapshot.layout.regions[region];
        let before = match region.poison_of(chunk) {
            Some(_) => chunk_id(self.before(snapshot)),
            None => self.computed(region.chunks[chunk]),
        };
        (before, self.computed(region.id_after(chunk)))
    }

    /// The recording uses one name for zeros of any length.
    fn computed(&self, id: ChunkId) -> ChunkId {
        if id.is_zero() { zeros(self.length) } else { id }
    }

    /// Whether a run changes it: the recorded launch did, or some of its bytes are filled.
    pub fn changes(&self, snapshot: &Snapshot) -> bool {
        self.is_poisoned(snapshot)
            || self.chunk.is_some_and(|(region, chunk)| snapshot.layout.regions[region].change_of(chunk).is_some())
    }

    /// Whether some of its bytes are filled at the start of a run.
    pub fn is_poisoned(&self, snapshot: &Snapshot) -> bool {
        self.chunk.is_some_and(|(region, chunk)| snapshot.layout.regions[region].poison_of(chunk).is_some())
    }
}

fn zeros(length: u64) -> ChunkId {
    static WHOLE: OnceLock<ChunkId> = OnceLock::new();
    match length {
        CHUNK => *WHOLE.get_or_init(|| chunk_id(&ZEROS)),
        _ => chunk_id(&ZEROS[..length as usize]),
    }
}

/// The parts of the spans outside of all regions. Both inputs are ascending.
fn gaps(taken: &[(u64, u64)], spans: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    for (start, size) in spans {
        let (mut at, end) = (*start, start + size);
        let first = taken.partition_point(|(address, size)| address + size <= *start);
        for (address, size) in taken[first..].iter().take_while(|(address, _)| *address < end) {
            if *address > at {
                gaps.push((at, address - at));
            }
            at = at.max(address + size);
        }
        if at < end {
            gaps.push((at, end - at));
        }
    }
    gaps
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_what_nobody_takes() {
        let spans = [(100, 100), (1000, 50)];
        assert_eq!(gaps(&[(100, 100)], &spans), [(1000, 50)]);
        assert_eq!(
            gaps(&[(110, 5), (115, 5), (190, 10), (1020, 10)], &spans),
            [(100, 10), (120, 70), (1000, 20), (1030, 20)]
        );
        assert_eq!(gaps(&[], &spans), spans);
    }

    #[test]
    fn fillers_differ_and_keep_their_identities() {
        let page = 2u64 << 20;
        for length in [CHUNK, 24, 1] {
            assert_eq!(filler_id(page, length), chunk_id(filler(page, length)));
        }
        let last = (0..).map(|index| index * CHUNK).find(|address| filler_number(*address) == FILLERS - 1).unwrap();
        assert_eq!(filler(last, CHUNK).len() as u64, CHUNK);
        let words = filler(page, CHUNK).as_chunks::<8>().0;
        assert!(
            words.iter().all(|word| *word != [0; 8]) && words.iter().ne(filler(2 * page, CHUNK).as_chunks::<8>().0)
        );
    }

    #[test]
    fn zeros_have_an_identity_of_their_length() {
        assert_eq!(zeros(CHUNK), chunk_id(&ZEROS));
        assert_eq!(zeros(5), chunk_id(&[0; 5]));
    }
}
