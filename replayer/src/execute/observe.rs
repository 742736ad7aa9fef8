//! Runs of instrumented code, which return its notes.
//!
//! The driver places its buffers outside of recorded memory, because the recorded addresses are already reserved. The
//! shadow of shared memory would be large for a large grid, so the code watches a window of blocks at a time. Each
//! window is a separate run from the recorded memory.

use mneme_builds::instrument::layout::{self, word};
use mneme_device::{Device, DeviceError, DeviceFunction, DeviceModule};
use mneme_model::launch::Launch;
use mneme_model::observation::{Arithmetic, Fault, Observe, Traffic};
use mneme_model::result::ReplayStatus;

use super::fma::Width;
use super::launch::{launch_once, repaired};
use super::message::{InstrumentedCode, Noted, NotedExample, NotedFault, NotedRange, NotedWrite, RunOutcome};
use super::report::{self, MOST_TOLD};
use super::resident::{MemoryVerdict, ResidentMemory};
use super::speed;
use super::variables::MovedVariables;
use crate::verify::comparison::RegionComparison;

/// The most shadow memory, in bytes. On a GPU a further run costs more than memory; on the CPU device the first touch
/// of memory costs most. Also the largest part of the device's free memory to use.
const MOST_SHADOW: u64 = 512 << 20;
const MOST_SHADOW_CPU: u64 = 64 << 20;
const SHADOW_PART: u64 = 4;
/// Recorded memory above this has marks for granules, because those for sectors take a sixteenth of it.
const MOST_IN_SECTORS: u64 = 4 << 30;
/// From this many windows on, runs cost more than memory on the CPU device as well.
const MANY_WINDOWS: u64 = 8;
const WORD: usize = 8;

/// Instrumented code and its launch.
pub struct Observer<'a> {
    pub device: &'a dyn Device,
    /// Whether it is the CPU device.
    pub is_cpu: bool,
    pub observe: Observe,
    pub watch: &'a InstrumentedCode,
    pub moved: &'a MovedVariables,
    pub module: DeviceModule,
    pub function: DeviceFunction,
    pub launch: &'a Launch,
}

/// Device allocations, freed on drop.
struct Buffers<'a> {
    device: &'a dyn Device,
    addresses: Vec<u64>,
}

impl Buffers<'_> {
    fn add(&mut self, bytes: usize) -> Result<u64, DeviceError> {
        let address = self.device.allocate(bytes.max(WORD) as u64)?;
        self.addresses.push(address);
        self.device.zero(address, bytes.max(WORD) as u64)?;
        Ok(address)
    }
}

impl Drop for Buffers<'_> {
    fn drop(&mut self) {
        for address in &self.addresses {
            // If freeing fails here, the next run fails too and reports the error.
            let _ = self.device.free(*address);
        }
    }
}

impl Observer<'_> {
    /// Runs the code and adds its notes to `done`. Memory must be as recorded before the launch, and is so again on
    /// return, unless `done` says that the context is broken.
    pub fn run(
        &self,
        memory: &mut ResidentMemory<'_>,
        comparisons: &[RegionComparison],
        done: &mut RunOutcome,
    ) -> Result<(), DeviceError> {
        let device = self.device;
        let mut buffers = Buffers { device, addresses: Vec::new() };
        let mut state = [0u64; layout::WORDS];
        let table = memory.live();
        let bytes: Vec<u8> = table.iter().flat_map(|(start, end)| [*start, *end]).flat_map(u64::to_le_bytes).collect();
        state[word::TABLE] = buffers.add(bytes.len())?;
        state[word::TABLE_LENGTH] = table.len() as u64;
        device.write(state[word::TABLE], &bytes)?;
        state[word::SINK] = buffers.add(2 * layout::SINK)?;
        state[word::DYNAMIC_SHARED] = u64::from(self.launch.shared_mem);
        let notes = self.watch.sites as usize * layout::FAULTS * layout::ENTRY;
        let live: u64 = table.iter().map(|(start, end)| end - start).sum();
        let unit = if live <= MOST_IN_SECTORS { layout::SECTOR } else { layout::GRANULE };
        match self.observe {
            Observe::Faults => state[word::NOTES] = buffers.add(notes)?,
            Observe::Writes { address, bytes } => {
                state[word::WATCH] = address;
                state[word::WATCH_END] = address.saturating_add(u64::from(bytes.clamp(1, WORD as u32)));
                state[word::WRITES] = buffers.add(WORD + layout::RING * layout::WRITE_WORDS * WORD)?;
            }
            Observe::Touched => {
                let (firsts, units) = first_units(&table, unit);
                state[word::MARKED] = buffers.add(units as usize * layout::MARKS)?;
                state[word::FIRST_MARKS] = buffers.add(firsts.len() * WORD)?;
                state[word::MARK_SHIFT] = unit.ilog2().into();
                state[word::PERFORMED] = buffers.add(layout::COUNTS * layout::COUNT_WORDS * WORD)?;
                let firsts: Vec<u8> = firsts.into_iter().flat_map(u64::to_le_bytes).collect();
                device.write(state[word::FIRST_MARKS], &firsts)?;
            }
        }
        let blocks = self.launch.grid.count();
        let (stride, clocks) = self.shadow();
        let window = self.window(stride + clocks)?.min(blocks).max(1);
        let shadow_bytes = (window * (stride + clocks)) as usize;
        state[word::SHADOW] = buffers.add(shadow_bytes)?;
        state[word::SHADOW_STRIDE] = stride;
        state[word::CLOCKS] = state[word::SHADOW] + window * stride;

        let mut verified = true;
        let mut first = 0;
        while first < blocks {
            if first > 0 {
                device.zero(state[word::SHADOW], shadow_bytes as u64)?;
            }
            state[word::FIRST_BLOCK] = first;
            state[word::BLOCKS] = window.min(blocks - first);
            self.set(&state)?;
            done.mapped_addresses = self.moved.bring(device)?;
            launch_once(device, self.function, self.launch, self.moved.arguments(), memory, done)?;
            repaired(self.moved.take_back(device), done)?;
            let MemoryVerdict { failures, .. } = repaired(memory.settle(comparisons, None), done)?;
            if verified && !failures.is_empty() {
                verified = false;
                done.differing_buffers = failures.len() as u64;
                done.mismatches = failures.into_iter().take(MOST_TOLD).map(|failure| failure.mismatch).collect();
                done.error = report::text(&done.mismatches, done.differing_buffers);
            }
            first += window;
        }
        done.noted = Some(match self.observe {
            Observe::Faults => Noted::Faults(self.faults(state[word::NOTES], notes)?),
            Observe::Writes { .. } => self.writes(state[word::WRITES])?,
            Observe::Touched => {
                let marks = self.marks(&table, unit, state[word::MARKED])?;
                let performed = self.performed(state[word::PERFORMED])?;
                drop(buffers);
                Noted::Touched {
                    ranges: ranges(&table, unit, &marks),
                    traffic: if unit == layout::SECTOR { self.traffic(&table, &marks)? } else { None },
                    arithmetic: self.arithmetic(performed)?,
                }
            }
        });
        done.status = if verified { ReplayStatus::Verified } else { ReplayStatus::FailedVerification };
        Ok(())
    }

    /// Bytes of a block's shadow, and of the clocks of its threads and warps.
    fn shadow(&self) -> (u64, u64) {
        if !self.watch.has_shared {
            return (0, 0);
        }
        let shared = (self.watch.static_shared + u64::from(self.launch.shared_mem)).next_multiple_of(4);
        (shared / 4 * layout::SHADOW_WORD, (self.launch.block.count().next_multiple_of(2) + layout::WARPS as u64) * 4)
    }

    /// The number of blocks whose shadows fit.
    fn window(&self, bytes: u64) -> Result<u64, DeviceError> {
        let (free, _) = self.device.memory()?;
        let few = MOST_SHADOW_CPU * MANY_WINDOWS;
        let is_small = self.is_cpu && self.launch.grid.count().saturating_mul(bytes) <= few;
        let room = (free / SHADOW_PART).min(if is_small { MOST_SHADOW_CPU } else { MOST_SHADOW });
        match bytes {
            0 => Ok(u64::MAX),
            bytes if bytes > room => Err(DeviceError::OutOfMemory { size: bytes }),
            bytes => Ok(room / bytes),
        }
    }

    fn set(&self, state: &[u64; layout::WORDS]) -> Result<(), DeviceError> {
        // A kernel without instrumentation lacks this variable.
        let Some((address, _)) = self.device.variable(self.module, layout::STATE)? else { return Ok(()) };
        self.device.write(address, &state.map(u64::to_le_bytes).concat())
    }

    fn faults(&self, address: u64, bytes: usize) -> Result<Vec<NotedFault>, DeviceError> {
        let mut notes = vec![0; bytes];
        self.device.read(address, &mut notes)?;
        let mut found = Vec::new();
        for (number, entry) in notes.chunks_exact(layout::ENTRY).enumerate() {
            let words = words(entry);
            if words[0] == 0 {
                continue;
            }
            let examples =
                words[1..].chunks_exact(layout::EXAMPLE_WORDS).take(words[0].min(layout::EXAMPLES as u64) as usize);
            let example =
                |it: &[u64]| NotedExample { block: it[0], thread: it[1], address: it[2], bytes: it[3], detail: it[4] };
            found.push(NotedFault {
                site: (number / layout::FAULTS) as u32,
                fault: Fault::ALL[number % layout::FAULTS],
                count: words[0],
                examples: examples.map(example).collect(),
            });
        }
        Ok(found)
    }

    fn marks(&self, stretches: &[(u64, u64)], unit: u64, address: u64) -> Result<Vec<u8>, DeviceError> {
        let (_, units) = first_units(stretches, unit);
        let mut marks = vec![0; units as usize * layout::MARKS];
        self.device.read(address, &mut marks)?;
        Ok(marks)
    }

    /// The sectors that have to be moved, and the time in which the device copies as many.
    fn traffic(&self, stretches: &[(u64, u64)], marks: &[u8]) -> Result<Option<Traffic>, DeviceError> {
        let (read, written) = moved_bytes(stretches, marks);
        let time = speed::copying(self.device, self.is_cpu, read + written)?;
        Ok(time.map(|copy_time| Traffic { read, written, copy_time }))
    }

    /// The floating-point operations of each width.
    fn performed(&self, address: u64) -> Result<[u64; layout::WIDTHS], DeviceError> {
        let mut slots = vec![0; layout::COUNTS * layout::COUNT_WORDS * WORD];
        self.device.read(address, &mut slots)?;
        let words = words(&slots);
        let sum = |width| words.chunks_exact(layout::COUNT_WORDS).map(|slot: &[u64]| slot[width]).sum();
        Ok(std::array::from_fn(sum))
    }

    /// The time in which the device performs as many operations.
    fn arithmetic(&self, performed: [u64; layout::WIDTHS]) -> Result<Arithmetic, DeviceError> {
        let mut fma_time = Some(0.0);
        for (width, flops) in Width::ALL.into_iter().zip(performed).filter(|(_, flops)| *flops > 0) {
            let rate = speed::flops_per_ns(self.device, self.is_cpu, width)?;
            fma_time = fma_time.zip(rate).map(|(sum, rate)| sum + flops as f64 / rate);
        }
        let [f16, f32, f64] = performed;
        Ok(Arithmetic { f16, f32, f64, fma_time })
    }

    fn writes(&self, address: u64) -> Result<Noted, DeviceError> {
        let mut ring = vec![0; WORD + layout::RING * layout::WRITE_WORDS * WORD];
        self.device.read(address, &mut ring)?;
        let words = words(&ring);
        let last =
            words[1..].chunks_exact(layout::WRITE_WORDS).max_by_key(|record| record[0]).filter(|record| record[0] > 0);
        let last = last.map(|it| NotedWrite {
            site: it[1] as u32,
            block: it[2],
            thread: it[3],
            address: it[4],
            bytes: it[5],
            value: it[6].to_le_bytes(),
        });
        Ok(Noted::Writes { count: words[0], last })
    }
}

/// The number of the first unit of each stretch, and the units of all.
fn first_units(stretches: &[(u64, u64)], unit: u64) -> (Vec<u64>, u64) {
    let mut units = 0;
    let mut first = |(start, end): &(u64, u64)| {
        let first = units;
        units += (end - start).div_ceil(unit);
        first
    };
    (stretches.iter().map(&mut first).collect(), units)
}

/// The bytes of sectors that are read before they are written, and of those that are written.
fn moved_bytes(stretches: &[(u64, u64)], marks: &[u8]) -> (u64, u64) {
    let mut marks = marks.as_chunks::<{ layout::MARKS }>().0.iter();
    let (mut all_read, mut all_written) = (0, 0);
    for &(start, end) in stretches {
        for (address, [read, written]) in (start..end).step_by(layout::SECTOR as usize).zip(&mut marks) {
            let bytes = layout::SECTOR.min(end - address);
            all_read += if read & layout::READ_FIRST != 0 { bytes } else { 0 };
            all_written += if *written != 0 { bytes } else { 0 };
        }
    }
    (all_read, all_written)
}

/// The accesses in each granule of each stretch, from the marks of its units.
fn ranges(stretches: &[(u64, u64)], unit: u64, marks: &[u8]) -> Vec<NotedRange> {
    let mut marks = marks.as_chunks::<{ layout::MARKS }>().0.iter();
    let mut found = Vec::<NotedRange>::new();
    for &(start, end) in stretches {
        for address in (start..end).step_by(layout::GRANULE as usize) {
            let bytes = layout::GRANULE.min(end - address);
            let marks = marks.by_ref().take(bytes.div_ceil(unit) as usize);
            let (read, written) =
                marks.fold((false, false), |(read, written), marks| (read || marks[0] != 0, written || marks[1] != 0));
            match found.last_mut() {
                _ if !(read || written) => {}
                Some(last) if last.address + last.bytes == address && (last.read, last.written) == (read, written) => {
                    last.bytes += bytes;
                }
                _ => found.push(NotedRange { address, bytes, read, written }),
            }
        }
    }
    found
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks::<WORD>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_ranges() {
        let granule = layout::GRANULE;
        let stretches = [(0x1000, 0x1000 + 2 * granule + 8), (0x900_0000, 0x900_0010)];
        assert_eq!(first_units(&stretches, granule), (vec![0, 3], 4));
        let range = |address, bytes, read, written| NotedRange { address, bytes, read, written };
        assert_eq!(
            ranges(&stretches, granule, &[1, 0, 1, 0, 1, 1, 0, 1]),
            [
                range(0x1000, 2 * granule, true, false),
                range(0x1000 + 2 * granule, 8, true, true),
                range(0x900_0000, 16, false, true)
            ]
        );
        assert_eq!(ranges(&stretches, granule, &[0; 8]), []);
        let (_, sectors) = first_units(&stretches, layout::SECTOR);
        let mut marks = vec![0; sectors as usize * layout::MARKS];
        // The second sector is read, the third is written and then read, and both parts of sectors are updated.
        marks[2] = 3;
        marks[4..6].copy_from_slice(&[1, 1]);
        let last = marks.len() - 4;
        marks[last..].copy_from_slice(&[3, 1, 3, 1]);
        assert_eq!(
            ranges(&stretches, layout::SECTOR, &marks),
            [
                range(0x1000, granule, true, true),
                range(0x1000 + 2 * granule, 8, true, true),
                range(0x900_0000, 16, true, true)
            ]
        );
        assert_eq!(moved_bytes(&stretches, &marks), (32 + 8 + 16, 32 + 8 + 16));
    }
}
