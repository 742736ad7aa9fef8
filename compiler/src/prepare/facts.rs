//! Attributes that state facts about a kernel's parameters, proved by the recording.
//!
//! docs/how-it-works/compiling.md gives the proofs. They hold for the recorded launch and for any other shape of it,
//! because the arguments and the memory are the same.

use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use mneme_recording::manifest::AllocationKind;

use super::provenance;
use crate::ir::{Value, attributes, parameters};
use crate::request::RecordedLaunch;

/// The largest alignment to state. Allocators promise no more, so a larger alignment is chance, and the code would fit
/// this recording only.
const MOST_ALIGNMENT: u64 = 256;
/// The size of a pointer in bytes.
const WORD: usize = 8;

/// Adds the attributes and notes them in `log`. The parameters must be unchanged since the recording.
pub fn state(
    module: &Module<'_>,
    kernel: Value<'_>,
    recorded: &RecordedLaunch<'_>,
    machine: &TargetMachine,
    log: &mut Vec<String>,
) {
    let mut closed = None;
    for (index, layout) in (0..).zip(parameters::of(module, kernel)) {
        let mut note = |what: String| log.push(format!("fact: argument {index} ({}) {what}", layout.name));
        if layout.is_pointer() {
            let Some(address) = word(recorded, index) else { continue };
            let Some(region) = region(recorded, address) else { continue };
            let alignment = (1 << address.trailing_zeros().min(63)).min(MOST_ALIGNMENT);
            let bytes = region.end - address;
            attributes::add(module, kernel, index, "align", alignment);
            attributes::add(module, kernel, index, "dereferenceable", bytes);
            attributes::add(module, kernel, index, "noundef", 0);
            note(format!("is aligned to {alignment} bytes and points at {bytes} bytes of memory"));
            let alone = region.own
                && pointers(recorded, Some(index)).all(|other| !(region.start..=region.end).contains(&other));
            if alone && *closed.get_or_insert_with(|| provenance::is_closed(module, &kernel.name(), machine)) {
                attributes::add(module, kernel, index, "noalias", 0);
                note("is the only way to its memory".into());
            }
        } else if let Some(bits) = width(&layout.kind) {
            let launches = recorded.launches.iter().filter_map(|launch| launch.get(index as usize).copied());
            let Some(here) = number(recorded, index, bits) else { continue };
            let (low, high) = launches
                .chain([here])
                .map(|value| signed(value, bits))
                .fold((0, 0), |(low, high), value| (value.min(low), value.max(high)));
            let mask = u64::MAX >> (64 - bits);
            let (first, end) = (low as u64 & mask, (high as u64).wrapping_add(1) & mask);
            // Equal bounds would mean every value, or none.
            if first != end {
                attributes::add_range(module, kernel, index, bits, first, end);
                note(format!("is between {low} and {high}"));
            }
        }
    }
}

/// A range of recorded memory, in bytes.
struct Region {
    start: u64,
    end: u64,
    /// Whether only pointers into it lead to it: no variable's name, no second mapping.
    own: bool,
}

fn region(recorded: &RecordedLaunch<'_>, address: u64) -> Option<Region> {
    let overlaps = |start: u64, end: u64| {
        recorded
            .variables
            .iter()
            .any(|variable| variable.address < end && start < variable.address.saturating_add(variable.size))
    };
    let allocations = recorded.allocations.iter().map(|allocation| {
        let end = allocation.address.saturating_add(allocation.size);
        // Only memory in the recorder's arena is known to be mapped once.
        let own = allocation.kind == AllocationKind::Arena && !overlaps(allocation.address, end);
        Region { start: allocation.address, end, own }
    });
    let variables = recorded.variables.iter().map(|variable| Region {
        start: variable.address,
        end: variable.address.saturating_add(variable.size),
        own: false,
    });
    allocations.chain(variables).find(|region| region.start <= address && address < region.end)
}

/// Every aligned word of the arguments that may be a pointer, except those of one argument.
fn pointers<'a>(recorded: &'a RecordedLaunch<'_>, without: Option<u32>) -> impl Iterator<Item = u64> + 'a {
    let others = (0..).zip(recorded.arguments).filter(move |(index, _)| without != Some(*index));
    others.flat_map(|(_, argument)| {
        let offset = argument.offset as usize;
        let first = offset.next_multiple_of(WORD) - offset;
        argument
            .bytes
            .get(first..)
            .unwrap_or_default()
            .as_chunks::<WORD>()
            .0
            .iter()
            .map(|bytes| u64::from_le_bytes(*bytes))
    })
}

/// An argument that is a pointer.
fn word(recorded: &RecordedLaunch<'_>, index: u32) -> Option<u64> {
    number(recorded, index, 64)
}

/// An argument that is a number of `bits` bits.
fn number(recorded: &RecordedLaunch<'_>, index: u32, bits: u32) -> Option<u64> {
    let size = bits as usize / 8;
    let bytes = &recorded.arguments.get(index as usize)?.bytes;
    let mut word = [0; WORD];
    word[..size].copy_from_slice(bytes.get(..size)?);
    Some(u64::from_le_bytes(word))
}

fn width(kind: &str) -> Option<u32> {
    match kind {
        "i8" => Some(8),
        "i16" => Some(16),
        "i32" => Some(32),
        "i64" => Some(64),
        _ => None,
    }
}

fn signed(value: u64, bits: u32) -> i64 {
    let shift = 64 - bits;
    ((value << shift) as i64) >> shift
}
