//! Finds out what a launch did to memory, and undoes it.
//!
//! Both compare all memory with the recording, and trust nothing.
//!
//! A GPU hashes all memory in place, because reading a chunk back over the bus costs a hundred times as much as hashing
//! it. It restores memory from copies that kernels cannot write to. The CPU device has no bus and runs no PTX, so its
//! memory is compared directly. AMD's GPUs run no PTX either, so their memory is read back.

use std::ops::Range;

use mneme_device::{Device, DeviceError};
use mneme_model::tolerance::Norm;
use mneme_model::tolerance::measure::Errors;
use mneme_recording::manifest::CHUNK;

use super::kernels::{InspectionKernels, InspectionMode};
use super::pieces::{Cut, Piece};
use crate::recording::snapshot::Snapshot;
use crate::verify::comparison::Comparison;

/// The part of the device's memory, and the most bytes, that copies leave free for code objects and launches.
const RESERVE_FRACTION: u64 = 32;
const RESERVE: u64 = 512 << 20;
/// A flag in the device's answer: the piece is right but has no copy.
const RIGHT: u32 = 1 << 31;

/// The result of an inspection.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InspectionResult {
    /// Pieces with wrong contents, ascending.
    pub wrong: Vec<usize>,
    /// Pieces with right contents that have to be restored from the snapshot, ascending.
    pub unrestored: Vec<usize>,
}

/// Two ways to inspect.
pub enum Inspector {
    Device(DeviceInspector),
    Host,
}

impl Inspector {
    /// Inspects all pieces. Leaves wrong pieces unchanged, unless `mode` restores everything.
    pub fn inspect(
        &self,
        device: &dyn Device,
        snapshot: &Snapshot,
        pieces: &[Piece],
        mode: InspectionMode,
    ) -> Result<InspectionResult, DeviceError> {
        match self {
            Self::Device(inspector) => inspector.inspect(device, pieces.len(), mode),
            Self::Host => by_reading(device, snapshot, pieces, mode),
        }
    }
}

fn by_reading(
    device: &dyn Device,
    snapshot: &Snapshot,
    pieces: &[Piece],
    mode: InspectionMode,
) -> Result<InspectionResult, DeviceError> {
    let mut found = InspectionResult::default();
    let mut buffer = vec![0; CHUNK as usize];
    for (number, piece) in pieces.iter().enumerate() {
        let current = &mut buffer[..piece.length as usize];
        device.read(piece.address, current)?;
        match mode {
            InspectionMode::Settle if current != piece.after(snapshot) => found.wrong.push(number),
            InspectionMode::Settle if piece.changes(snapshot) => device.write(piece.address, piece.before(snapshot))?,
            InspectionMode::Look if current != piece.before(snapshot) => found.wrong.push(number),
            InspectionMode::Restore if current != piece.before(snapshot) => {
                device.write(piece.address, piece.before(snapshot))?
            }
            _ => {}
        }
    }
    Ok(found)
}

/// Inspects on the device.
pub struct DeviceInspector {
    kernels: InspectionKernels,
    /// Tables on the device, see inspect.ptx.
    table: u64,
    out: u64,
    /// Addresses of the recorded bytes after the launch on the device, by piece. 0 if a piece has none.
    references: Vec<u64>,
    /// Copies of recorded memory, as address and size.
    copies: Vec<(u64, u64)>,
}

impl DeviceInspector {
    pub fn new(device: &dyn Device) -> Result<Self, DeviceError> {
        Ok(Self {
            kernels: InspectionKernels::load(device)?,
            table: 0,
            out: 0,
            references: Vec::new(),
            copies: Vec::new(),
        })
    }

    /// Copies the pieces that the recorded launch changes, as space permits. Memory must hold the contents before the
    /// launch.
    pub fn prepare(&mut self, device: &dyn Device, snapshot: &Snapshot, pieces: &[Piece]) -> Result<(), DeviceError> {
        let copies = copy_changed(device, snapshot, pieces, &mut self.copies)?;
        let mut table = Vec::with_capacity(pieces.len() * 64);
        for (piece, copy) in pieces.iter().zip(copies) {
            let (before, after) = piece.ids(snapshot);
            for word in [piece.address, piece.length, copy, 0] {
                table.extend_from_slice(&word.to_le_bytes());
            }
            table.extend_from_slice(&before.0);
            table.extend_from_slice(&after.0);
        }
        let page = device.page_size();
        let bytes = (table.len() as u64).next_multiple_of(page).max(page);
        self.table = device.map_anywhere(bytes)?;
        device.write(self.table, &table)?;
        device.protect(self.table, bytes)?;
        self.out = device.allocate(8 + 4 * pieces.len() as u64)?;
        self.references = vec![0; pieces.len()];
        Ok(())
    }

    /// Denies or allows kernels to read the copies.
    pub fn hide(&self, device: &dyn Device, is_hidden: bool) -> Result<(), DeviceError> {
        let set = |(address, size): &(u64, u64)| match is_hidden {
            true => device.hide(*address, *size),
            false => device.protect(*address, *size),
        };
        self.copies.iter().try_for_each(set)
    }

    fn inspect(
        &self,
        device: &dyn Device,
        pieces: usize,
        mode: InspectionMode,
    ) -> Result<InspectionResult, DeviceError> {
        if pieces == 0 {
            return Ok(InspectionResult::default());
        }
        device.zero(self.out, 8)?;
        self.kernels.inspect(device, pieces, self.table, mode, self.out)?;
        let mut count = [0; 4];
        device.read(self.out, &mut count)?;
        let count = u32::from_le_bytes(count) as usize;
        let mut found = InspectionResult::default();
        if count == 0 {
            return Ok(found);
        }
        let mut list = vec![0; count.min(pieces) * 4];
        device.read(self.out + 8, &mut list)?;
        for entry in list.as_chunks::<4>().0 {
            match u32::from_le_bytes(*entry) {
                piece if piece & RIGHT != 0 => found.unrestored.push((piece & !RIGHT) as usize),
                piece => found.wrong.push(piece as usize),
            }
        }
        // Pieces restored from elsewhere are right now.
        if mode == InspectionMode::Restore {
            found.unrestored.append(&mut found.wrong);
        }
        found.wrong.sort_unstable();
        found.unrestored.sort_unstable();
        Ok(found)
    }

    /// Measures errors of buffers on the device. Each group is the comparison of a buffer and the bytes to measure. It
    /// may need only bytes that are on the device. Returns the measurements, and leaves in `groups` the bytes that it
    /// could not measure.
    pub fn measure(
        &mut self,
        device: &dyn Device,
        snapshot: &Snapshot,
        pieces: &[Piece],
        groups: &mut [(Comparison, Vec<Cut>)],
    ) -> Result<Vec<Errors>, DeviceError> {
        let (mut jobs, mut bounds, mut count) = (Vec::new(), Vec::new(), 0);
        for (number, (comparison, members)) in groups.iter_mut().enumerate() {
            let tolerance = comparison.tolerance;
            for word in [tolerance.dtype.code(), tolerance.kind.code(), tolerance.norm.code(), 0] {
                bounds.extend_from_slice(&u32::from(word).to_le_bytes());
            }
            bounds.extend_from_slice(&tolerance.threshold.to_le_bytes());
            bounds.extend_from_slice(&comparison.slack.to_le_bytes());
            self.bring_references(device, snapshot, pieces, members)?;
            members.retain(|cut| {
                let (first, length) = (cut.bytes.start as u64, cut.bytes.len() as u64);
                let (address, reference) = (pieces[cut.piece].address + first, self.references[cut.piece]);
                let fits = reference != 0 && address.is_multiple_of(tolerance.dtype.size() as u64);
                if fits {
                    count += 1;
                    for word in [address, reference + first, length, number as u64] {
                        jobs.extend_from_slice(&word.to_le_bytes());
                    }
                }
                !fits
            });
        }
        if count == 0 {
            return Ok(vec![Errors::default(); groups.len()]);
        }
        let sums_size = groups.len() as u64 * 32;
        let base = device.allocate(jobs.len() as u64 + bounds.len() as u64 + sums_size)?;
        let measured = self.measure_at(device, base, count, &jobs, &bounds, sums_size);
        device.free(base)?;
        Ok(measured?
            .as_chunks::<32>()
            .0
            .iter()
            .map(|sums| {
                let word = |at: usize| u64::from_le_bytes(*sums[at..].first_chunk().expect("within the record"));
                Errors::found(word(0), f64::from_bits(word(8)), f64::from_bits(word(16)))
            })
            .collect())
    }

    fn measure_at(
        &self,
        device: &dyn Device,
        base: u64,
        count: usize,
        jobs: &[u8],
        bounds: &[u8],
        size: u64,
    ) -> Result<Vec<u8>, DeviceError> {
        let (bounds_at, sums_at) = (base + jobs.len() as u64, base + (jobs.len() + bounds.len()) as u64);
        device.write(base, jobs)?;
        device.write(bounds_at, bounds)?;
        device.zero(sums_at, size)?;
        self.kernels.compare(device, count, base, bounds_at, sums_at)?;
        let mut sums = vec![0; size as usize];
        device.read(sums_at, &mut sums)?;
        Ok(sums)
    }

    /// Copies the recorded bytes of changed pieces to the device, once, as space permits.
    fn bring_references(
        &mut self,
        device: &dyn Device,
        snapshot: &Snapshot,
        pieces: &[Piece],
        wanted: &[Cut],
    ) -> Result<(), DeviceError> {
        let missing: Vec<usize> = wanted
            .iter()
            .map(|cut| cut.piece)
            .filter(|piece| self.references[*piece] == 0 && pieces[*piece].changes(snapshot))
            .collect();
        let size = |piece: usize| pieces[piece].length.next_multiple_of(512);
        let total: u64 = missing.iter().map(|piece| size(*piece)).sum();
        let page = device.page_size();
        let total = total.next_multiple_of(page);
        if missing.is_empty() || total > room(device)? {
            return Ok(());
        }
        let base = device.map_anywhere(total)?;
        let mut place = base;
        for piece in missing {
            device.write(place, pieces[piece].after(snapshot))?;
            self.references[piece] = place;
            place += size(piece);
        }
        self.copies.push((base, total));
        device.protect(base, total)
    }
}

/// Bytes that copies may take.
fn room(device: &dyn Device) -> Result<u64, DeviceError> {
    let (free, total) = device.memory()?;
    Ok(free.saturating_sub(RESERVE.min(total / RESERVE_FRACTION)))
}

/// Copies pieces that the recorded launch changes, as many as fit, to memory that kernels cannot write to. Adds the
/// copies (address and size) to `mapped`. Returns the address of each piece's copy, congruent to the piece's address
/// modulo 512, or 0 without a copy.
fn copy_changed(
    device: &dyn Device,
    snapshot: &Snapshot,
    pieces: &[Piece],
    mapped: &mut Vec<(u64, u64)>,
) -> Result<Vec<u64>, DeviceError> {
    const ALIGNMENT: u64 = 512;
    let mut copies = vec![0; pieces.len()];
    let mut left = room(device)?;
    // Runs of neighbours: first piece, number of pieces, start, size, place.
    let mut runs: Vec<(usize, usize, u64, u64, u64)> = Vec::new();
    let mut end = 0;
    for (number, piece) in pieces.iter().enumerate().filter(|(_, piece)| piece.changes(snapshot)) {
        if piece.length + 2 * ALIGNMENT > left {
            break;
        }
        match runs.last_mut() {
            Some((first, count, start, size, _)) if *first + *count == number && *start + *size == piece.address => {
                (*count, *size) = (*count + 1, *size + piece.length);
                end += piece.length;
                left -= piece.length;
            }
            _ => {
                let place = u64::next_multiple_of(end, ALIGNMENT) + piece.address % ALIGNMENT;
                runs.push((number, 1, piece.address, piece.length, place));
                left -= place + piece.length - end;
                end = place + piece.length;
            }
        }
    }
    if runs.is_empty() {
        return Ok(copies);
    }
    let bytes = end.next_multiple_of(device.page_size());
    let base = device.map_anywhere(bytes)?;
    for (first, count, start, size, place) in runs {
        device.copy(base + place, start, size)?;
        for number in first..first + count {
            copies[number] = base + place + (pieces[number].address - start);
        }
    }
    device.protect(base, bytes)?;
    mapped.push((base, bytes));
    Ok(copies)
}

/// The magnitudes of a region's elements in `bytes`, for relative norms.
pub fn reference(
    comparison: &Comparison,
    snapshot: &Snapshot,
    pieces: &[Piece],
    region: usize,
    bytes: &Range<u64>,
) -> Errors {
    use rayon::prelude::*;
    let tolerance = comparison.tolerance;
    if tolerance.norm == Norm::None {
        return Errors::default();
    }
    let own = pieces.par_iter().filter_map(|piece| {
        let (number, chunk) = piece.chunk?;
        let start = chunk as u64 * CHUNK;
        let (from, to) = (bytes.start.max(start), bytes.end.min(start + piece.length));
        let within = (number == region && from < to).then(|| (from - start) as usize..(to - start) as usize)?;
        Some(&piece.after(snapshot)[within])
    });
    own.map(|recorded| Errors::of(&tolerance, recorded, recorded))
        .reduce(Errors::default, |one, other| one.and(other, tolerance.norm))
}
