//! The addresses that a kernel's database names, `VAddr` and `VASize`.
//!
//! The existing Mneme maps all of them as memory in one allocation before it loads anything. A GPU must have this range
//! free, and memory outside it cannot be replayed.

use std::ops::Range;
use std::path::Path;

use super::chunks::File;
use crate::database::KernelRecord;
use crate::error::{NoPlace, RecordingError};
use crate::manifest::is_manifest;

/// Granularity at which the existing Mneme maps memory, bytes.
pub const PAGE: u64 = 2 << 20;
/// More memory than any GPU has, bytes. Arenas of two devices are twice as far apart.
const MOST: u64 = 1 << 40;

/// The whole pages around memory at these places (address, bytes); `None` if there are none.
pub fn around(memory: impl IntoIterator<Item = (u64, u64)>) -> Option<Range<u64>> {
    let pages = memory.into_iter().filter(|(_, size)| *size > 0).map(|(address, size)| {
        let end = address.saturating_add(size);
        address / PAGE * PAGE..end.checked_next_multiple_of(PAGE).unwrap_or(u64::MAX)
    });
    pages.reduce(|all, one| all.start.min(one.start)..all.end.max(one.end))
}

/// The addresses of the allocations in a snapshot, in whole pages; `None` if there are none.
pub fn of(path: &Path) -> Result<Option<Range<u64>>, RecordingError> {
    let file = File::open(path)?;
    Ok(around(file.layout.blobs.iter().map(|blob| (blob.address, blob.size.max(blob.reserved)))))
}

/// The smallest range that contains both.
pub fn joined(one: Option<Range<u64>>, other: Option<Range<u64>>) -> Option<Range<u64>> {
    around(one.into_iter().chain(other).map(|range| (range.start, range.end - range.start)))
}

/// Makes a record, before it is written to a folder, name the memory of all its instances there and of new ones.
pub fn include(folder: &Path, record: &mut KernelRecord, new: Option<Range<u64>>) -> Result<(), RecordingError> {
    let mut all = new;
    for instance in record.instances.values() {
        let path = folder.join(&instance.prologue);
        // The existing Mneme does not read instances in Mneme's own format.
        if !is_manifest(&path)? {
            let one = of(&path)?;
            all = joined(all, one);
        }
    }
    // Without memory, use one page, because an empty range cannot be mapped.
    let (start, size) = match all {
        Some(all) => (all.start, all.end - all.start),
        None => (address(&record.arena_address) / PAGE * PAGE, PAGE),
    };
    if size > MOST {
        let what = NoPlace::Span(size);
        return Err(RecordingError::NotUpstreams { path: folder.join(record.file_name()), what });
    }
    record.arena_address = format!("{start:#018x}");
    record.arena_size = size;
    Ok(())
}

fn address(text: &str) -> u64 {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).unwrap_or(0)
}
