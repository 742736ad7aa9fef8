//! Writes snapshot files in the format of [`layout`](crate::upstream::layout).

use std::io::Write;

use mneme_model::tolerance::Annotation;

use crate::error::RecordingError;
use crate::manifest::{CHUNK, RecordedArgument, RecordedRegion, RecordedVariable};
use crate::store::Store;
use crate::upstream::DIFF_MAGIC;

/// The longest run of unchanged bytes between two changes that is cheaper to write than another range (offset and
/// length).
const GAP: u64 = 16;

/// The memory of both moments for one record of a file.
pub struct SnapshotPiece<'a> {
    /// The device variable; `None` for an allocation.
    pub variable: Option<&'a RecordedVariable>,
    pub address: u64,
    /// Bytes.
    pub size: u64,
    pub reserved: u64,
    pub annotation: Annotation,
    /// Offset in the piece, before, after; ascending. Bytes in between are zero.
    pub parts: Vec<(u64, RecordedRegion<'a>, RecordedRegion<'a>)>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SnapshotMoment {
    Before,
    After,
}

/// Writes files, and counts the bytes.
pub struct Writer<'a, W: Write> {
    pub store: &'a Store,
    pub out: W,
    pub written: u64,
    /// Converts an error of the output to one for the file.
    pub failed: &'a dyn Fn(std::io::Error) -> RecordingError,
}

impl<W: Write> Writer<'_, W> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), RecordingError> {
        self.written += bytes.len() as u64;
        self.out.write_all(bytes).map_err(self.failed)
    }

    fn number(&mut self, number: u64) -> Result<(), RecordingError> {
        self.bytes(&number.to_le_bytes())
    }

    fn text(&mut self, text: &str) -> Result<(), RecordingError> {
        self.number(text.len() as u64)?;
        self.bytes(text.as_bytes())
    }

    fn zeros(&mut self, mut count: u64) -> Result<(), RecordingError> {
        let zeros = [0; 4096];
        while count > 0 {
            let length = count.min(zeros.len() as u64);
            self.bytes(&zeros[..length as usize])?;
            count -= length;
        }
        Ok(())
    }

    fn annotation(&mut self, annotation: &Annotation) -> Result<(), RecordingError> {
        let tolerance = &annotation.tolerance;
        self.bytes(&[tolerance.dtype.code()])?;
        // An infinite threshold makes every comparison pass.
        let threshold = if tolerance.ignore { f64::INFINITY } else { tolerance.threshold };
        self.bytes(&threshold.to_le_bytes())?;
        self.bytes(&[tolerance.kind.code(), tolerance.norm.code()])?;
        self.text(&annotation.tag)
    }

    fn head(&mut self, piece: &SnapshotPiece<'_>) -> Result<(), RecordingError> {
        match piece.variable {
            Some(variable) => self.text(&variable.name)?,
            None => self.number(piece.reserved)?,
        }
        self.number(piece.size)?;
        self.number(piece.address)
    }

    /// All of memory at one moment.
    pub fn whole(
        &mut self,
        pieces: [&[SnapshotPiece<'_>]; 2],
        moment: SnapshotMoment,
        arguments: &[RecordedArgument],
    ) -> Result<(), RecordingError> {
        for list in pieces {
            self.number(list.len() as u64)?;
            for piece in list {
                self.head(piece)?;
                self.contents(piece, moment)?;
                if piece.variable.is_none() {
                    self.annotation(&piece.annotation)?;
                }
            }
        }
        self.number(arguments.len() as u64)?;
        for argument in arguments {
            self.number(argument.bytes.len() as u64)?;
            self.bytes(&argument.bytes)?;
        }
        Ok(())
    }

    fn contents(&mut self, piece: &SnapshotPiece<'_>, moment: SnapshotMoment) -> Result<(), RecordingError> {
        let mut buffer = vec![0; CHUNK as usize];
        let mut at = 0;
        for (offset, before, after) in &piece.parts {
            self.zeros(offset - at)?;
            let region = if moment == SnapshotMoment::Before { before } else { after };
            for (index, id) in region.chunks.iter().enumerate() {
                let out = &mut buffer[..region.extent(index).1 as usize];
                self.store.read_chunk(id, out)?;
                self.bytes(out)?;
            }
            at = offset + region.size;
        }
        self.zeros(piece.size - at)
    }

    /// The differences after the launch.
    pub fn diff(&mut self, pieces: [&[SnapshotPiece<'_>]; 2]) -> Result<(), RecordingError> {
        self.bytes(DIFF_MAGIC)?;
        for list in pieces {
            self.number(list.len() as u64)?;
            for piece in list {
                self.head(piece)?;
                if piece.variable.is_none() {
                    self.annotation(&piece.annotation)?;
                }
                self.ranges(piece)?;
            }
        }
        Ok(())
    }

    fn ranges(&mut self, piece: &SnapshotPiece<'_>) -> Result<(), RecordingError> {
        let mut ranges = Vec::new();
        for (part, (_, before, after)) in piece.parts.iter().enumerate() {
            for (offset, length) in changes(self.store, before, after)? {
                ranges.push((part, offset, length));
            }
        }
        self.number(ranges.len() as u64)?;
        let mut loaded = None;
        let mut buffer = vec![0; CHUNK as usize];
        for (part, offset, length) in ranges {
            let (start, _, after) = &piece.parts[part];
            self.number(start + offset)?;
            self.number(length)?;
            let (mut at, end) = (offset, offset + length);
            while at < end {
                let index = (at / CHUNK) as usize;
                let (first, size) = after.extent(index);
                if loaded != Some((part, index)) {
                    self.store.read_chunk(&after.chunks[index], &mut buffer[..size as usize])?;
                    loaded = Some((part, index));
                }
                let to = end.min(first + size);
                self.bytes(&buffer[(at - first) as usize..(to - first) as usize])?;
                at = to;
            }
        }
        Ok(())
    }
}

/// Ranges (offset, length) in which two moments of a region differ, ascending.
fn changes(
    store: &Store,
    before: &RecordedRegion<'_>,
    after: &RecordedRegion<'_>,
) -> Result<Vec<(u64, u64)>, RecordingError> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    let (mut old, mut new) = (vec![0; CHUNK as usize], vec![0; CHUNK as usize]);
    for (index, (before_id, after_id)) in before.chunks.iter().zip(after.chunks).enumerate() {
        if before_id == after_id {
            continue;
        }
        let (start, length) = before.extent(index);
        let (old, new) = (&mut old[..length as usize], &mut new[..length as usize]);
        store.read_chunk(before_id, old)?;
        store.read_chunk(after_id, new)?;
        for (at, _) in old.iter().zip(new.iter()).enumerate().filter(|(_, (old, new))| old != new) {
            let at = start + at as u64;
            match ranges.last_mut() {
                Some((first, length)) if at - (*first + *length) < GAP => *length = at + 1 - *first,
                _ => ranges.push((at, 1)),
            }
        }
    }
    Ok(ranges)
}
