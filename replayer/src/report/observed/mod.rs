//! The observations of an instrumented replay, by instruction, allocation and line of source.

mod text;

use mneme_builds::instrument::{Instrumented, layout};
use mneme_model::configuration::Configuration;
use mneme_model::observation::{
    Arithmetic, Example, Fault, Faults, Finding, Index, LastWrite, Observe, Other, Site, Touched, TouchedRange, Traffic,
};

use crate::execute::message::{NotedExample, NotedFault, NotedRange, NotedWrite};
use crate::recording::snapshot::SnapshotRegion;

pub use text::{last_write as last_write_text, text, touched as touched_text};

/// An address that is further from memory than this is unrelated to it, bytes.
const FAR: u64 = 1 << 30;

/// The last write of a launch of this shape.
pub fn last_write(
    configuration: &Configuration,
    observe: Observe,
    instrumented: &Instrumented,
    noted: &NotedWrite,
    writes: u64,
) -> Option<LastWrite> {
    let Observe::Writes { bytes, .. } = observe else { return None };
    let site = instrumented.sites.get(noted.site as usize)?.clone();
    Some(LastWrite {
        block: Index::of(noted.block, configuration.grid),
        thread: Index::of(noted.thread, configuration.block),
        site,
        address: hexadecimal(noted.address),
        written_bytes: noted.bytes,
        value: noted.value[..(bytes as usize).clamp(1, noted.value.len())].to_vec(),
        writes,
    })
}

/// The faults of a launch of this shape in memory with these regions.
pub fn faults(
    configuration: &Configuration,
    instrumented: &Instrumented,
    noted: &[NotedFault],
    regions: &[SnapshotRegion],
) -> Faults {
    let teller = Teller { configuration, instrumented, regions };
    // A read of a local variable that is also out of bounds has two sites. The code's order is by line, then by number.
    let findings = noted.iter().filter_map(|noted| teller.finding(noted)).collect();
    Faults {
        findings,
        watched: instrumented.sites.len() as u64,
        unwatched: instrumented.unwatched.clone(),
        has_source: instrumented.sites.iter().any(|site| !site.source.is_empty()),
    }
}

/// The memory that a launch read and wrote, and its arithmetic.
pub fn touched(
    instrumented: &Instrumented,
    noted: &[NotedRange],
    traffic: Option<Traffic>,
    arithmetic: Arithmetic,
) -> Touched {
    let range = |noted: &NotedRange| TouchedRange {
        address: hexadecimal(noted.address),
        bytes: noted.bytes,
        read: noted.read,
        written: noted.written,
    };
    Touched {
        granule: layout::GRANULE,
        ranges: noted.iter().map(range).collect(),
        traffic,
        arithmetic: Some(arithmetic),
        unwatched: instrumented.unwatched.clone(),
    }
}

struct Teller<'a> {
    configuration: &'a Configuration,
    instrumented: &'a Instrumented,
    regions: &'a [SnapshotRegion],
}

impl Teller<'_> {
    fn finding(&self, noted: &NotedFault) -> Option<Finding> {
        let site = self.instrumented.sites.get(noted.site as usize)?;
        let examples = noted.examples.iter().map(|example| self.example(noted.fault, site, example)).collect();
        Some(Finding { fault: noted.fault, site: site.clone(), count: noted.count, examples })
    }

    fn example(&self, fault: Fault, site: &Site, noted: &NotedExample) -> Example {
        let thread = |linear| Index::of(linear, self.configuration.block);
        let other = (fault == Fault::Race).then(|| {
            let number = (noted.detail & u64::from(u32::MAX), (noted.detail >> 32) as usize);
            Other { thread: thread(number.0), site: self.instrumented.sites.get(number.1).cloned().unwrap_or_default() }
        });
        Example {
            block: Index::of(noted.block, self.configuration.grid),
            thread: thread(noted.thread),
            address: hexadecimal(noted.address),
            bytes: if noted.bytes == 0 { site.bytes } else { noted.bytes },
            place: self.place(fault, site, noted),
            // If several threads have read, the last of them may be this one.
            other: other.filter(|other| other.thread != thread(noted.thread)),
        }
    }

    fn place(&self, fault: Fault, site: &Site, noted: &NotedExample) -> String {
        let variable = || site.variable.clone().unwrap_or_else(|| "a shared variable".into());
        match (fault, noted.detail) {
            (Fault::OutOfBounds, layout::NO_MEMORY) => nearest(self.regions, noted.address, noted.bytes),
            (Fault::OutOfBounds, layout::NO_SHARED) => "shared memory, outside all shared variables".into(),
            (Fault::OutOfBounds, offset) => match offset as i64 {
                offset if offset < 0 => format!("{} before {}", bytes(offset.unsigned_abs()), variable()),
                offset => format!("byte {offset} of {}", variable()),
            },
            (Fault::Misaligned, alignment) => format!("not a multiple of {alignment}"),
            (Fault::Race, _) => variable(),
            (Fault::Uninitialised, _) => variable(),
        }
    }
}

/// Describes an address outside of all memory by the nearest region.
pub fn nearest(regions: &[SnapshotRegion], address: u64, length: u64) -> String {
    let distance = |region: &&SnapshotRegion| {
        let end = region.address + region.size;
        if address < region.address { region.address - address } else { address.saturating_sub(end) }
    };
    let Some(region) = regions.iter().min_by_key(distance) else { return "the recording has no memory".into() };
    let named = match (&region.variable, region.tag.as_str()) {
        (Some(name), _) => format!("the device variable {name} ({})", bytes(region.size)),
        (None, "") => format!("the allocation at 0x{:x} ({})", region.address, bytes(region.size)),
        (None, tag) => format!("{tag} (the allocation at 0x{:x}, {})", region.address, bytes(region.size)),
    };
    let end = region.address + region.size;
    if distance(&region) > FAR {
        format!("far from all recorded memory; the nearest is {named}")
    } else if address < region.address {
        format!("{} before {named}", bytes(region.address - address))
    } else if address < end {
        format!("its last {} behind the end of {named}", bytes(address.saturating_add(length).saturating_sub(end)))
    } else if address == end {
        format!("right behind the end of {named}")
    } else {
        format!("{} behind the end of {named}", bytes(address - end))
    }
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".into() } else { format!("{count} bytes") }
}

fn hexadecimal(address: u64) -> String {
    format!("0x{address:x}")
}

#[cfg(test)]
mod tests;
