//! The snapshot on the device: made resident at its recorded addresses, restored between runs, compared after them.

use mneme_core::device::{Device, DeviceError, Module, RESERVATION};
use mneme_core::recording::manifest::CHUNK;
use mneme_core::result::Mismatch;
use rayon::prelude::*;

use super::hasher::{self, Hasher};
use crate::snapshot::{Region, Snapshot, coalesce};
use crate::verify::{Elements, Tally, Tolerance, compare};

/// Bytes that are read back from the device at a time; a multiple of the chunk size.
const WINDOW: u64 = 256 * CHUNK;

/// Recorded memory on a device.
pub struct Memory<'a> {
    device: &'a dyn Device,
    snapshot: &'a Snapshot,
    /// How each region is compared.
    elements: &'a [Elements],
    tolerance: Option<Tolerance>,
    /// Whether constants are at their recorded addresses, as on the CPU device; else they are the module's.
    absolute_constants: bool,
    /// Where the device keeps what the recorded launch changes, as it was before.
    pristine: Vec<Pristine>,
    /// Compares on the device, where it can.
    hasher: Option<Hasher>,
    window: Vec<u8>,
}

/// A copy on the device of a stretch that the kernel changes.
struct Pristine {
    address: u64,
    copy: u64,
    size: u64,
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

impl<'a> Memory<'a> {
    /// Reserves and maps the recorded addresses. Needs the layout only, so that it can be done while the snapshot is decoded.
    pub fn map(
        device: &'a dyn Device,
        snapshot: &'a Snapshot,
        elements: &'a [Elements],
        tolerance: Option<Tolerance>,
        absolute_constants: bool,
    ) -> Result<Self, DeviceError> {
        let mut memory = Self {
            device,
            snapshot,
            elements,
            tolerance,
            absolute_constants,
            pristine: Vec::new(),
            hasher: None,
            window: vec![0; WINDOW as usize],
        };
        let stretches = || memory.mapped_regions().map(|region| (region.address, region.size));
        for (start, size) in spans(stretches(), RESERVATION) {
            device.reserve_at(start, size)?;
        }
        for (start, size) in spans(stretches(), device.page_size()) {
            device.map_at(start, size)?;
        }
        if !absolute_constants {
            let numbered = snapshot.layout.regions.iter().enumerate().filter(|(_, region)| memory.is_mapped(region));
            memory.hasher = Some(Hasher::new(device, numbered)?);
        }
        Ok(memory)
    }

    /// Fills the mapped memory, and keeps copies of what the kernel is going to change.
    pub fn upload(&mut self) -> Result<(), DeviceError> {
        self.write_all()?;
        let stretches = |region: &Region| {
            let address = region.address;
            region.changed_runs().into_iter().map(move |(offset, size)| (address + offset, size)).collect::<Vec<_>>()
        };
        let changed: Vec<_> = self.mapped_regions().flat_map(stretches).collect();
        // Copies are aligned like their originals, which the device's copy engine likes.
        let places = changed.iter().scan(0, |end, (_, size)| {
            let start = *end;
            *end = (start + size).next_multiple_of(512);
            Some(start)
        });
        let places: Vec<u64> = places.collect();
        let total = places.last().map_or(0, |start| start + changed.last().map_or(0, |(_, size)| *size));
        if total == 0 {
            return Ok(());
        }
        let base = self.device.allocate(total)?;
        for ((address, size), place) in changed.into_iter().zip(places) {
            self.device.copy(base + place, address, size)?;
            self.pristine.push(Pristine { address, copy: base + place, size });
        }
        Ok(())
    }

    /// Undoes what the recorded launch changes.
    pub fn restore(&self) -> Result<(), DeviceError> {
        self.pristine.iter().try_for_each(|stretch| self.device.copy(stretch.address, stretch.copy, stretch.size))
    }

    /// Undoes everything, wherever a kernel has written.
    pub fn restore_all(&self) -> Result<(), DeviceError> {
        for region in self.mapped_regions() {
            self.device.zero(region.address, region.size)?;
        }
        self.write_all()
    }

    fn write_all(&self) -> Result<(), DeviceError> {
        for region in self.mapped_regions() {
            for (offset, length) in region.nonzero_runs() {
                self.device.write(region.address + offset, self.snapshot.before(region, offset, length))?;
            }
        }
        Ok(())
    }

    /// Gives the constants of a module their recorded values.
    pub fn fill_constants(&self, module: Module) -> Result<(), DeviceError> {
        for region in &self.snapshot.layout.regions {
            if let Some(name) = &region.variable
                && region.constant
                && !self.absolute_constants
                && let Some((address, size)) = self.device.variable(module, name)?
            {
                self.device.write(address, self.snapshot.before(region, 0, region.size.min(size)))?;
            }
        }
        Ok(())
    }

    /// Compares all memory with the recorded epilogue; `None` where it matches.
    pub fn verify(&mut self) -> Result<Option<Mismatch>, DeviceError> {
        let suspects = match &self.hasher {
            Some(hasher) => Some(hasher.differing(self.device)?),
            None => None,
        };
        let mut window = std::mem::take(&mut self.window);
        let mut found: Option<(&Region, Tally)> = None;
        for (number, (region, elements)) in self.snapshot.layout.regions.iter().zip(self.elements).enumerate() {
            let runs = match &suspects {
                _ if !self.is_mapped(region) => continue,
                Some(suspects) if hasher::is_suitable(region) => {
                    let own = &suspects[suspects.partition_point(|(suspect, _)| *suspect < number)..];
                    coalesce(own.iter().take_while(|(suspect, _)| *suspect == number).map(|(_, chunk)| region.extent(*chunk)))
                }
                _ => vec![(0, region.size)],
            };
            let tally = self.compare_runs(region, *elements, &runs, &mut window)?;
            found = match found {
                Some((first, earlier)) => Some((first, earlier.and(tally))),
                None if tally.differing > 0 => Some((region, tally)),
                None => None,
            };
        }
        self.window = window;
        Ok(found.and_then(|(region, tally)| mismatch(region, tally)))
    }

    /// Compares stretches (offset, length) of a region, which begin with a chunk each.
    fn compare_runs(&self, region: &Region, elements: Elements, runs: &[(u64, u64)], window: &mut [u8]) -> Result<Tally, DeviceError> {
        let mut tally = Tally::default();
        for (start, run) in runs {
            let mut offset = *start;
            while offset < start + run {
                let length = WINDOW.min(start + run - offset);
                let replayed = &mut window[..length as usize];
                self.device.read(region.address + offset, replayed)?;
                tally = tally.and(compare_window(self.snapshot, region, elements, self.tolerance, offset, replayed));
                offset += length;
            }
        }
        Ok(tally)
    }

    /// Regions that are at their recorded addresses.
    fn mapped_regions(&self) -> impl Iterator<Item = &'a Region> {
        let absolute = self.absolute_constants;
        self.snapshot.layout.regions.iter().filter(move |region| absolute || !region.constant)
    }

    fn is_mapped(&self, region: &Region) -> bool {
        self.absolute_constants || !region.constant
    }
}

/// Compares what was read back from `offset` of a region on, on all cores.
fn compare_window(
    snapshot: &Snapshot,
    region: &Region,
    elements: Elements,
    tolerance: Option<Tolerance>,
    offset: u64,
    replayed: &[u8],
) -> Tally {
    let first = (offset / CHUNK) as usize;
    let compare_chunk = |(index, replayed): (usize, &[u8])| {
        let recorded = snapshot.after(region, first + index);
        compare(recorded, replayed, region.extent(first + index).0, elements, tolerance)
    };
    let parts: Vec<Tally> = replayed.par_chunks(CHUNK as usize).enumerate().map(compare_chunk).collect();
    parts.into_iter().fold(Tally::default(), Tally::and)
}

fn mismatch(region: &Region, tally: Tally) -> Option<Mismatch> {
    let first = tally.first?;
    Some(Mismatch {
        region: region.variable.clone().unwrap_or_else(|| "allocation".into()),
        address: format!("0x{:x}", region.address),
        offset: first.offset,
        recorded: first.recorded,
        replayed: first.replayed,
        differing: tally.differing,
        element_size: first.element_size,
        // JSON has no infinity.
        largest_error: tally.largest_error.map(|error| error.min(f64::MAX)),
    })
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
