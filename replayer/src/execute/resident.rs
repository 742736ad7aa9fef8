//! The snapshot on the device.
//!
//! It is loaded to its recorded addresses, verified, and restored between runs.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::ops::Range;
use std::path::Path;

use mneme_device::{Device, DeviceError, RESERVATION};
use mneme_model::result::Largest;
use mneme_model::tolerance::Threshold;
use mneme_model::tolerance::measure::Errors;
use mneme_recording::manifest::CHUNK;
use mneme_recording::numbers;
use rayon::prelude::*;

use super::ExecutorPlan;
use super::inspector::{self, DeviceInspector, Inspector};
use super::kernels::InspectionMode;
use super::left::{Contents, Left};
use super::pieces::{Cut, Piece};
use super::report::{BufferFailure, MismatchLocation};
use crate::recording::snapshot::{Snapshot, SnapshotRegion, coalesce};
use crate::verify::comparison::{Comparison, ElementTally, Part, RegionComparison};

/// Recorded memory on a device.
pub struct ResidentMemory<'a> {
    device: &'a dyn Device,
    snapshot: &'a Snapshot,
    /// Whether constants are at their recorded addresses, as on the CPU device. Otherwise they are in the module.
    absolute_constants: bool,
    pieces: Vec<Piece>,
    inspector: Inspector,
    /// Memory that displaces everything else from the level 2 cache: address and size. Allocated on first use.
    flusher: Option<(u64, u64)>,
    /// Whether kernels run in this process, and could read all of its memory.
    is_here: bool,
    /// Whether copies of recorded memory are out of reach while a kernel runs.
    hides: bool,
    holders: OnceCell<AddressHolders>,
}

/// The lowest address in a module that a replay looks for: smaller words are numbers.
pub const LOWEST: u64 = 1 << 32;

/// Pieces that hold addresses in the recorded module before or after the launch.
#[derive(Debug)]
struct AddressHolders {
    /// Of functions.
    functions: Vec<usize>,
    /// Of functions or variables.
    all: Vec<usize>,
}

/// The recorded contents of all pieces, shared by several threads.
#[derive(Clone, Copy)]
pub struct RecordedPieces<'s> {
    snapshot: &'s Snapshot,
    pieces: &'s [Piece],
}

impl<'s> RecordedPieces<'s> {
    /// The bytes of a piece at the start of a run.
    pub fn before(&self, piece: usize) -> &'s [u8] {
        self.pieces[piece].before(self.snapshot)
    }

    /// The recorded bytes of a piece after the launch.
    pub fn after(&self, piece: usize) -> &'s [u8] {
        self.pieces[piece].after(self.snapshot)
    }

    pub fn address(&self, piece: usize) -> u64 {
        self.pieces[piece].address
    }

    /// The region and the chunk of a piece, unless it is a gap.
    pub fn chunk(&self, piece: usize) -> Option<(usize, usize)> {
        self.pieces[piece].chunk
    }

    /// Whether runs may change it.
    pub fn may_change(&self, piece: usize) -> bool {
        !std::ptr::eq(self.before(piece), self.after(piece))
    }
}

/// The result of comparing a run's memory.
#[derive(Debug, Default)]
pub struct MemoryVerdict {
    /// Buffers that differ by more than the rules allow.
    pub failures: Vec<BufferFailure>,
    /// The largest errors in buffers with a tolerance.
    pub largest: Largest,
    /// Why the dump of differing memory failed, in one sentence.
    pub unwritten: Option<String>,
}

/// The page-aligned ranges that hold all stretches (address, size): start and size.
fn spans(stretches: impl IntoIterator<Item = (u64, u64)>, page: u64) -> Vec<(u64, u64)> {
    let mut aligned: Vec<(u64, u64)> = stretches
        .into_iter()
        .map(|(address, size)| {
            let start = address / page * page;
            (start, (address + size).next_multiple_of(page) - start)
        })
        .collect();
    aligned.sort_unstable();
    coalesce(aligned)
}

impl<'a> ResidentMemory<'a> {
    /// Reserves and maps the recorded addresses. Needs only the layout, so it can run while the snapshot is decoded.
    pub fn map(device: &'a dyn Device, plan: &ExecutorPlan<'a>) -> Result<Self, DeviceError> {
        let (snapshot, absolute_constants) = (plan.snapshot, plan.has_absolute_constants());
        let inspector =
            if plan.is_nvidia() { Inspector::Device(DeviceInspector::new(device)?) } else { Inspector::Host };
        let mut memory = Self {
            device,
            snapshot,
            absolute_constants,
            pieces: Vec::new(),
            inspector,
            flusher: None,
            is_here: plan.is_cpu,
            hides: false,
            holders: OnceCell::new(),
        };
        let stretches = || memory.mapped_regions().map(|(_, region)| (region.address, region.size));
        for (start, size) in spans(stretches(), RESERVATION) {
            device.reserve_at(start, size)?;
        }
        let pages = spans(stretches(), device.page_size());
        for (start, size) in &pages {
            device.map_at(*start, *size)?;
        }
        memory.pieces = Piece::all(memory.mapped_regions(), &pages);
        Ok(memory)
    }

    /// Fills the mapped memory, copies the parts that the kernel will change, and makes arrays and objects.
    pub fn upload(&mut self) -> Result<(), DeviceError> {
        for (_, region) in self.mapped_regions() {
            for (offset, length) in region.nonzero_runs() {
                self.device.write(region.address + offset, self.snapshot.before(region, offset, length))?;
            }
        }
        let is_elsewhere = |piece: &&Piece| piece.chunk.is_none() || piece.is_poisoned(self.snapshot);
        for piece in self.pieces.iter().filter(is_elsewhere) {
            self.device.write(piece.address, piece.before(self.snapshot))?;
        }
        match &mut self.inspector {
            Inspector::Device(inspector) => inspector.prepare(self.device, self.snapshot, &self.pieces)?,
            Inspector::Host => {}
        }
        self.device.make_images(&self.snapshot.layout.images)
    }

    /// Whether kernels run in this process.
    pub fn is_here(&self) -> bool {
        self.is_here
    }

    /// Sets whether the copies of recorded memory are hidden while kernels run.
    pub fn hide_copies(&mut self, hides: bool) {
        self.hides = hides;
    }

    /// Hides copies of recorded memory from kernels, or makes them accessible again.
    pub fn hide(&self, is_hidden: bool) -> Result<(), DeviceError> {
        if !self.hides {
            return Ok(());
        }
        if let Inspector::Device(inspector) = &self.inspector {
            return inspector.hide(self.device, is_hidden);
        }
        let set = if is_hidden { Snapshot::hide } else { Snapshot::seal };
        if self.is_here { set(self.snapshot).map_err(|error| broken(error.to_string())) } else { Ok(()) }
    }

    pub fn device(&self) -> &'a dyn Device {
        self.device
    }

    /// The recorded bytes of a region before the launch.
    pub fn recorded_bytes(&self, region: &SnapshotRegion, offset: u64, length: u64) -> &'a [u8] {
        self.snapshot.before(region, offset, length)
    }

    /// Whether a region is at its recorded address.
    pub fn is_mapped(&self, region: &SnapshotRegion) -> bool {
        self.absolute_constants || !region.constant
    }

    /// The pieces (address and size) that hold addresses of functions in the recorded module, or of its variables too.
    /// The first call reads the whole recording.
    pub fn holders(&self, has_variables: bool) -> Vec<(u64, u64)> {
        let holders = self.holders.get_or_init(|| self.find_holders());
        let pieces = if has_variables { &holders.all } else { &holders.functions };
        pieces.iter().map(|piece| (self.pieces[*piece].address, self.pieces[*piece].length)).collect()
    }

    fn find_holders(&self) -> AddressHolders {
        let variables = self.regions().iter().filter(|region| region.variable.is_some());
        let mut ranges: Vec<Range<u64>> =
            variables.map(|region| region.address..region.address + region.size).collect();
        ranges.sort_unstable_by_key(|range| range.start);
        let functions: BTreeSet<u64> = self.functions().collect();
        let RecordedPieces { snapshot, pieces } = self.recorded_pieces();
        let found = |number: usize| {
            let (mut function, mut variable) = (false, false);
            for word in pieces[number].contents(snapshot).flat_map(|bytes| bytes.as_chunks::<8>().0) {
                variable |= numbers::is_address(word, &ranges);
                function |= functions.contains(&u64::from_le_bytes(*word));
            }
            (number, function, function || variable)
        };
        let all = 0..pieces.len();
        let found: Vec<_> = all.into_par_iter().map(found).filter(|(_, _, any)| *any).collect();
        AddressHolders {
            functions: found.iter().filter(|(_, function, _)| *function).map(|(number, ..)| *number).collect(),
            all: found.iter().map(|(number, ..)| *number).collect(),
        }
    }

    /// The recorded addresses of functions that variables refer to from the start.
    fn functions(&self) -> impl Iterator<Item = u64> {
        let words = self.regions().iter().flat_map(|region| {
            let words = region.function_words().into_iter();
            words.filter_map(|offset| self.snapshot.before(region, offset, 8).first_chunk())
        });
        words.map(|word| u64::from_le_bytes(*word)).filter(|word| *word >= LOWEST)
    }

    /// Compares all memory with the recorded epilogue, and restores its state before the launch.
    ///
    /// It restores what the comparison found changed, and after a failure it compares all memory with the prologue.
    ///
    /// # Errors
    /// If the device fails, or memory cannot be restored. The context is then unusable.
    pub fn settle(
        &mut self,
        comparisons: &[RegionComparison],
        dump: Option<&Path>,
    ) -> Result<MemoryVerdict, DeviceError> {
        let found = self.inspector.inspect(self.device, self.snapshot, &self.pieces, InspectionMode::Settle)?;
        if found.wrong.is_empty() {
            self.write_before(&found.unrestored)?;
            return Ok(MemoryVerdict::default());
        }
        let mut settled = self.judge(&found.wrong, comparisons)?;
        if let Some(folder) = dump
            && !settled.failures.is_empty()
        {
            let written =
                super::dump::write(folder, self.device, self.snapshot, &self.pieces, &found.wrong, &settled.failures);
            let why = |error| format!("the differing memory cannot be written to {}: {error}", folder.display());
            settled.unwritten = written.err().map(why);
        }
        self.restore()?;
        Ok(settled)
    }

    /// Restores all memory, wherever a kernel has written, and verifies it.
    pub fn restore(&self) -> Result<(), DeviceError> {
        let left = self.inspector.inspect(self.device, self.snapshot, &self.pieces, InspectionMode::Restore)?;
        self.write_before(&left.unrestored)?;
        match self.inspector.inspect(self.device, self.snapshot, &self.pieces, InspectionMode::Look)?.wrong.first() {
            None => Ok(()),
            Some(piece) => Err(broken(format!("memory at 0x{:x} cannot be restored", self.pieces[*piece].address))),
        }
    }

    /// Returns the memory that differs from the recording, by piece, and restores everything.
    pub fn take_differing(&mut self) -> Result<Contents, DeviceError> {
        let mut taken = Contents::new();
        self.each_differing(|piece, bytes| drop(taken.insert(piece, bytes)))?;
        Ok(taken)
    }

    /// The same, but holds no more than memory has room for.
    pub fn take_left(&mut self) -> Result<Left, DeviceError> {
        let mut left = Left::default();
        self.each_differing(|piece, bytes| left.add(piece, bytes))?;
        Ok(left)
    }

    fn each_differing(&mut self, mut each: impl FnMut(usize, Vec<u8>)) -> Result<(), DeviceError> {
        let mut found = self.inspector.inspect(self.device, self.snapshot, &self.pieces, InspectionMode::Settle)?;
        found.wrong.sort_unstable();
        for piece in found.wrong {
            each(piece, self.read_piece(piece)?);
        }
        self.restore()
    }

    pub fn recorded_pieces(&self) -> RecordedPieces<'_> {
        RecordedPieces { snapshot: self.snapshot, pieces: &self.pieces }
    }

    /// Pieces of regions.
    pub fn region_pieces(&self) -> impl Iterator<Item = (usize, usize)> {
        self.pieces.iter().enumerate().filter_map(|(number, piece)| Some((number, piece.chunk?.0)))
    }

    /// Whether a kernel may read memory before it writes it: not all of it is filled when a run starts.
    pub fn has_input(&self) -> bool {
        self.region_pieces().any(|(piece, region)| {
            let region = &self.snapshot.layout.regions[region];
            let filled = self.chunk(piece).and_then(|(_, chunk)| region.poison_of(chunk));
            let length = self.pieces[piece].length;
            region.can_be_poisoned() && filled.is_none_or(|filled| filled.mask.count(0..length as usize) < length)
        })
    }

    /// Writes to a piece, until the next restoration.
    pub fn write(&self, piece: usize, bytes: &[u8]) -> Result<(), DeviceError> {
        self.device.write(self.pieces[piece].address, bytes)
    }

    /// The bytes of a piece at the start of a run.
    pub fn before(&self, piece: usize) -> &'a [u8] {
        self.pieces[piece].before(self.snapshot)
    }

    /// The bytes of a piece before the recorded launch.
    pub fn recorded(&self, piece: usize) -> &'a [u8] {
        self.pieces[piece].recorded(self.snapshot)
    }

    /// Copies those bytes of a piece that are filled at the start of a run from `with`.
    pub fn fill(&self, piece: usize, bytes: &mut [u8], with: &[u8]) {
        let Some((region, chunk)) = self.pieces[piece].chunk else { return };
        let Some(poisoned) = self.snapshot.layout.regions[region].poison_of(chunk) else { return };
        poisoned.mask.copy(bytes, with);
    }

    pub fn address(&self, piece: usize) -> u64 {
        self.pieces[piece].address
    }

    /// The region and the chunk of a piece, unless it is a gap.
    pub fn chunk(&self, piece: usize) -> Option<(usize, usize)> {
        self.pieces[piece].chunk
    }

    pub fn regions(&self) -> &'a [SnapshotRegion] {
        &self.snapshot.layout.regions
    }

    /// The recorded bytes of a piece after the launch.
    pub fn after(&self, piece: usize) -> &'a [u8] {
        self.pieces[piece].after(self.snapshot)
    }

    /// The magnitudes of a region's recorded elements in a part, for norms.
    pub fn reference(&self, region: usize, comparison: &RegionComparison, part: usize) -> Errors {
        let size = self.snapshot.layout.regions[region].size;
        let bytes = comparison.range(part, size);
        inspector::reference(comparison.part(part), self.snapshot, &self.pieces, region, &bytes)
    }

    /// The region of a piece, if any, and its offset there. A gap is given by its address.
    pub fn place(&self, piece: usize) -> (MismatchLocation<'a>, u64) {
        let piece = self.pieces[piece];
        match piece.chunk {
            Some((number, chunk)) => {
                (MismatchLocation::Region(number, &self.snapshot.layout.regions[number]), chunk as u64 * CHUNK)
            }
            None => (MismatchLocation::Outside(piece.address, piece.length), 0),
        }
    }

    /// Writes the current contents of all recorded memory to a file, each region at its offset in the shared snapshot.
    /// Returns the reason if the file is at fault.
    pub fn save(&self, file: &File) -> Result<Option<String>, DeviceError> {
        let why = |error: std::io::Error| Ok(Some(error.to_string()));
        // Clears older contents between the regions.
        if let Err(error) = file.set_len(0).and_then(|()| file.set_len(self.snapshot.layout.prologue_bytes())) {
            return why(error);
        }
        let write = |bytes: &[u8], place| std::os::unix::fs::FileExt::write_all_at(file, bytes, place);
        for (number, piece) in self.pieces.iter().enumerate() {
            let Some((region, chunk)) = piece.chunk else { continue };
            let region = &self.snapshot.layout.regions[region];
            let bytes = self.read_piece(number)?;
            if let Err(error) = write(&bytes, region.file_offset() + region.extent(chunk).0) {
                return why(error);
            }
        }
        // Constants in the module are missing from this memory, and keep their values.
        for region in self.snapshot.layout.regions.iter().filter(|region| region.constant && !self.absolute_constants) {
            if let Err(error) = write(self.snapshot.before(region, 0, region.size), region.file_offset()) {
                return why(error);
            }
        }
        Ok(None)
    }

    /// Removes the recorded memory from the level 2 cache.
    pub fn flush_cache(&mut self) -> Result<(), DeviceError> {
        let size = 2 * self.device.cache_bytes();
        if size == 0 {
            return Ok(());
        }
        let (address, size) = match self.flusher {
            Some(flusher) => flusher,
            None => *self.flusher.insert((self.device.allocate(size)?, size)),
        };
        // Filling them later would bring them into the cache again.
        self.device.fill_arrays()?;
        self.device.zero(address, size)
    }

    fn read_piece(&self, number: usize) -> Result<Vec<u8>, DeviceError> {
        let piece = &self.pieces[number];
        let mut bytes = vec![0; piece.length as usize];
        self.device.read(piece.address, &mut bytes)?;
        Ok(bytes)
    }

    fn read_cut(&self, cut: &Cut) -> Result<Vec<u8>, DeviceError> {
        let mut bytes = vec![0; cut.bytes.len()];
        self.device.read(self.pieces[cut.piece].address + cut.bytes.start as u64, &mut bytes)?;
        Ok(bytes)
    }

    fn write_before(&self, pieces: &[usize]) -> Result<(), DeviceError> {
        pieces.iter().try_for_each(|number| {
            self.device.write(self.pieces[*number].address, self.pieces[*number].before(self.snapshot))
        })
    }

    /// Judges which of the differing pieces exceed their region's tolerance.
    fn judge(&mut self, wrong: &[usize], comparisons: &[RegionComparison]) -> Result<MemoryVerdict, DeviceError> {
        // By region and part.
        let mut parts: BTreeMap<Part, Vec<Cut>> = BTreeMap::new();
        let mut outside = Vec::new();
        for number in wrong {
            let piece = self.pieces[*number];
            let Some((region, chunk)) = piece.chunk else {
                outside.push(*number);
                continue;
            };
            for (part, bytes) in comparisons[region].cuts(chunk as u64 * CHUNK, piece.length) {
                parts.entry((region, part)).or_default().push(Cut { piece: *number, bytes });
            }
        }
        let comparison = |(region, part): Part| comparisons[region].part(part);
        parts.retain(|part, _| !comparison(*part).tolerance.ignore);
        let (exact, tolerant): (Vec<_>, Vec<_>) = parts.into_iter().partition(|(part, _)| comparison(*part).is_exact());
        let mut failing: Vec<(Part, Vec<Cut>, Option<f64>)> =
            exact.into_iter().map(|(part, own)| (part, own, None)).collect();
        let compared: Vec<_> = tolerant.into_iter().map(|(part, own)| (part, *comparison(part), own)).collect();
        let measured = self.measure(&compared)?;
        let mut all = Largest::default();
        for ((part, comparison, own), (errors, largest)) in compared.into_iter().zip(measured) {
            all = all.and(largest);
            let whole = self.reference(part.0, &comparisons[part.0], part.1);
            if !comparison.passes(&errors, || whole) {
                failing.push((part, own, Some(errors.within(&whole).value(&comparison.tolerance))));
            }
        }
        failing.sort_unstable_by_key(|(part, ..)| *part);
        let mut failures = Vec::new();
        for (part, own, error) in failing {
            let (region, comparison) = (part.0, comparison(part));
            let tally = self.tally(&own, comparison)?;
            // A piece may differ only in another part.
            if tally.differing > 0 || error.is_some() {
                let place = MismatchLocation::Region(region, &self.snapshot.layout.regions[region]);
                failures.push(BufferFailure::of(place, comparison, &tally, error));
            }
        }
        for number in outside {
            let whole = Cut { piece: number, bytes: 0..self.pieces[number].length as usize };
            let tally = self.tally(&[whole], &Comparison::default())?;
            let piece = &self.pieces[number];
            failures.push(BufferFailure::of(
                MismatchLocation::Outside(piece.address, piece.length),
                &Comparison::default(),
                &tally,
                None,
            ));
        }
        Ok(MemoryVerdict { failures, largest: all, unwritten: None })
    }

    /// The errors of each part's bytes in the unit of its tolerance, and the largest errors in every unit. Measured on
    /// the device if the recorded bytes fit there.
    fn measure(&mut self, compared: &[(Part, Comparison, Vec<Cut>)]) -> Result<Vec<(Errors, Largest)>, DeviceError> {
        let mut groups: Vec<(Comparison, Vec<Cut>)> = Vec::new();
        for (_, comparison, own) in compared {
            let comparison = *comparison;
            // The comparison itself measures the largest error in its own unit.
            let kinds = Threshold::ALL
                .map(|kind| if kind == comparison.tolerance.kind { comparison } else { comparison.in_unit(kind) });
            groups.extend(kinds.map(|comparison| (comparison, own.clone())));
        }
        let mut errors = match &mut self.inspector {
            Inspector::Device(inspector) if !groups.is_empty() => {
                inspector.measure(self.device, self.snapshot, &self.pieces, &mut groups)?
            }
            _ => vec![Errors::default(); groups.len()],
        };
        for ((comparison, left), errors) in groups.iter().zip(&mut errors) {
            for batch in left.chunks(BATCH) {
                let read: Vec<Vec<u8>> = batch.iter().map(|cut| self.read_cut(cut)).collect::<Result<_, _>>()?;
                let (pieces, snapshot) = (&self.pieces, self.snapshot);
                let of = |(cut, replayed): (&Cut, &Vec<u8>)| {
                    comparison.measure(&pieces[cut.piece].after(snapshot)[cut.bytes.clone()], replayed)
                };
                let norm = comparison.tolerance.norm;
                *errors = batch
                    .par_iter()
                    .zip(&read)
                    .map(of)
                    .reduce(Errors::default, |one, other| one.and(other, norm))
                    .and(*errors, norm);
            }
        }
        let by_part = compared.iter().zip(errors.as_chunks::<{ Threshold::ALL.len() }>().0);
        Ok(by_part
            .map(|((_, comparison, _), by_kind)| {
                let [absolute, relative, ulp] = by_kind.map(|errors| errors.largest);
                (by_kind[usize::from(comparison.tolerance.kind.code())], Largest { absolute, relative, ulp })
            })
            .collect())
    }

    /// Compares every element of these bytes of one region, ascending.
    fn tally(&self, cuts: &[Cut], comparison: &Comparison) -> Result<ElementTally, DeviceError> {
        let mut tally = ElementTally::default();
        for batch in cuts.chunks(BATCH) {
            let read: Vec<Vec<u8>> = batch.iter().map(|cut| self.read_cut(cut)).collect::<Result<_, _>>()?;
            let (pieces, snapshot) = (&self.pieces, self.snapshot);
            let of = |(cut, replayed): (&Cut, &Vec<u8>)| {
                let piece = &pieces[cut.piece];
                let offset = piece.chunk.map_or(0, |(_, chunk)| chunk as u64 * CHUNK) + cut.bytes.start as u64;
                comparison.tally(&piece.after(snapshot)[cut.bytes.clone()], replayed, offset)
            };
            let parts: Vec<ElementTally> = batch.par_iter().zip(&read).map(of).collect();
            tally = parts.into_iter().fold(tally, ElementTally::and);
        }
        Ok(tally)
    }

    /// Ranges of live memory (first and last + 1 address), ascending. Overlapping regions are merged, adjacent ones are
    /// not.
    pub fn live(&self) -> Vec<(u64, u64)> {
        let mut stretches: Vec<(u64, u64)> =
            self.mapped_regions().map(|(_, region)| (region.address, region.address + region.size)).collect();
        stretches.sort_unstable();
        stretches.dedup_by(|next, before| {
            let overlap = next.0 < before.1;
            if overlap {
                before.1 = before.1.max(next.1);
            }
            overlap
        });
        stretches
    }

    /// Ranges of words that no input may change, ascending: addresses of live memory and of functions, and the handles
    /// of objects.
    pub fn meaningful(&self) -> Vec<(u64, u64)> {
        let objects = self.snapshot.layout.images.objects.iter().map(|object| object.handle);
        let words = objects.chain(self.functions()).map(|word| (word, word));
        let mut all: Vec<(u64, u64)> = self.live().into_iter().chain(words).collect();
        all.sort_unstable();
        all
    }

    /// Regions at their recorded addresses, with their numbers.
    fn mapped_regions(&self) -> impl Iterator<Item = (usize, &'a SnapshotRegion)> {
        let absolute = self.absolute_constants;
        self.snapshot.layout.regions.iter().enumerate().filter(move |(_, region)| absolute || !region.constant)
    }
}

/// Pieces to read back at a time.
const BATCH: usize = 256;

/// An internal failure that ends this executor.
fn broken(text: String) -> DeviceError {
    DeviceError::Call { function: "mneme", code: 0, name: "the executor".into(), text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = 2 << 20;

    #[test]
    fn allocations_of_one_page_share_it() {
        assert_eq!(spans([(PAGE + 512, 100), (PAGE + 1024, 100)], PAGE), [(PAGE, PAGE)]);
    }

    #[test]
    fn neighbouring_pages_are_one_span_and_distant_ones_are_not() {
        let stretches = [(10 * PAGE, 5), (2 * PAGE - 1, 2), (3 * PAGE, PAGE)];
        assert_eq!(spans(stretches, PAGE), [(PAGE, 3 * PAGE), (10 * PAGE, PAGE)]);
    }
}
