//! Writes recorded memory to one file, and keeps the layout.

use std::io::Write;

use mneme_recording::Moments;
use mneme_recording::manifest::{MemoryState, RecordedRegion};
use mneme_recording::store::Store;

use super::pointers::{Pointer, VariablePointers};
use crate::error::CommandError;

/// Bytes of a region in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPiece {
    /// Index of the region, in the order of [`regions`].
    pub region: usize,
    /// Offset in the region, bytes.
    pub offset: u64,
    pub bytes: u64,
    /// Offset in the file, bytes.
    pub file: u64,
}

/// Size of a pointer, bytes.
const WORD: usize = size_of::<u64>();

/// The layout of the file.
#[derive(Debug, Default)]
pub struct KeptMemory {
    /// The nonzero memory before the launch.
    pub before: Vec<MemoryPiece>,
    /// The memory that the launch changed.
    pub after: Vec<MemoryPiece>,
    /// Size of the file.
    pub bytes: u64,
    /// A word that may be a pointer beside a variable.
    pub doubtful: Option<Pointer>,
}

/// The regions of a state by address.
pub fn regions(state: &MemoryState) -> Vec<RecordedRegion<'_>> {
    let mut regions: Vec<_> = state.regions().collect();
    regions.sort_by_key(|region| region.address);
    regions
}

impl KeptMemory {
    /// Writes both moments, checking every chunk against its hash.
    ///
    /// # Errors Memory cannot be read or is damaged, the file cannot be written, or memory has a pointer to a variable,
    /// which has another address in the program.
    pub fn write(
        moments: &Moments,
        store: &Store,
        mut file: impl Write,
        failed: impl Fn(std::io::Error) -> CommandError,
    ) -> Result<Self, CommandError> {
        let mut memory = Self::default();
        let (before, after) = (regions(&moments.prologue), regions(&moments.epilogue));
        let pointers = VariablePointers::of(&before);
        for (number, region) in before.iter().enumerate() {
            let wanted = |index: usize| !region.chunks[index].is_zero();
            memory.append(&mut file, &failed, (store, &pointers), (number, region), wanted, false)?;
        }
        for (number, (before, after)) in before.iter().zip(&after).enumerate() {
            let wanted = |index: usize| before.chunks[index] != after.chunks[index];
            memory.append(&mut file, &failed, (store, &pointers), (number, after), wanted, true)?;
        }
        file.flush().map_err(failed)?;
        Ok(memory)
    }

    /// Adds the wanted chunks of a region. Adjacent chunks become one piece.
    fn append(
        &mut self,
        file: &mut impl Write,
        failed: &impl Fn(std::io::Error) -> CommandError,
        (store, pointers): (&Store, &VariablePointers),
        (number, region): (usize, &RecordedRegion<'_>),
        wanted: impl Fn(usize) -> bool,
        is_after: bool,
    ) -> Result<(), CommandError> {
        let is_table = region.variable.is_some_and(|variable| variable.code);
        let (mut bytes, mut end) = (Vec::new(), None);
        for index in (0..region.chunks.len()).filter(|index| wanted(*index)) {
            let (offset, length) = region.extent(index);
            // In an unaligned region, a word can lie in two chunks.
            let kept = if end == Some(offset) { bytes.len().min(WORD - 1) } else { 0 };
            bytes.drain(..bytes.len() - kept);
            bytes.resize(kept + length as usize, 0);
            store.read_chunk(&region.chunks[index], &mut bytes[kept..])?;
            end = Some(offset + length);
            if let Some(found) = pointers.find(region.address + offset - kept as u64, &bytes).filter(|_| !is_table) {
                if found.is_inside {
                    let Pointer { at, variable, .. } = found;
                    let moment = if is_after { " after the launch" } else { "" };
                    return Err(CommandError::Usage(format!(
                        "memory at {at:#x}{moment} contains a pointer to the variable {variable}, but in the exported \
                         program the variable has another address"
                    )));
                }
                self.doubtful.get_or_insert(found);
            }
            file.write_all(&bytes[kept..]).map_err(failed)?;
            let pieces = if is_after { &mut self.after } else { &mut self.before };
            match pieces.last_mut() {
                Some(last) if last.region == number && last.offset + last.bytes == offset => last.bytes += length,
                _ => pieces.push(MemoryPiece { region: number, offset, bytes: length, file: self.bytes }),
            }
            self.bytes += length;
        }
        Ok(())
    }
}
