//! The memory that a kernel can touch.

use mneme_core::recording::manifest::{Allocation, AllocationKind, Variable};
use mneme_core::tolerance::Tolerance;

use super::Plan;
use crate::memory::access::Access;
use crate::memory::allocations::{ALLOCATIONS, Live};
use crate::memory::annotations::ANNOTATIONS;
use crate::snapshot::{self, SnapshotError};
use crate::vendor::{self, SUCCESS};

/// Where device memory can be: not in the first page, and below the end of user space with five levels of page tables.
const ADDRESSES: std::ops::Range<u64> = 1 << 16..1 << 57;

/// All live memory that the kernel can touch.
pub fn live(plan: &Plan) -> Vec<Live> {
    let pointed_at = |address: u64, size: u64| {
        plan.arguments.iter().flat_map(|argument| argument.bytes.chunks_exact(8)).any(|word| {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            (address..address + size).contains(&word)
        })
    };
    ALLOCATIONS
        .all()
        .into_iter()
        .filter(|live| live.is_accessible_from(plan.context) && (live.access != Access::Arguments || pointed_at(live.address, live.size)))
        .collect()
}

/// Page-locked memory, and mappings of multicast objects, whose address is in memory that the kernel can touch: these variables and allocations, or other such memory. The
/// current context must be idle.
pub fn through_memory(plan: &Plan, live: &[Live], variables: &[Variable], allocations: &[Allocation]) -> Result<Vec<Live>, SnapshotError> {
    let known = |it: &Live| live.iter().any(|live| live.address == it.address);
    let is_told = |live: &Live| matches!(live.access, Access::Arguments | Access::Multicast);
    let mut unreached: Vec<Live> = ALLOCATIONS.all().into_iter().filter(|live| is_told(live) && !known(live)).collect();
    let mut reached: Vec<Live> = Vec::new();
    let (mut variables, mut new) = (variables, allocations.to_vec());
    while !(unreached.is_empty() || variables.is_empty() && new.is_empty()) {
        let ranges: Vec<_> = unreached.iter().map(|live| live.address..live.address + live.size).collect();
        let found = snapshot::addresses_of(&ranges, plan.context.handle, variables, &new)?;
        let (here, rest): (Vec<_>, Vec<_>) = unreached.into_iter().zip(found).partition(|(_, found)| *found);
        let here: Vec<Live> = here.into_iter().map(|(live, _)| live).collect();
        unreached = rest.into_iter().map(|(live, _)| live).collect();
        let readable: Vec<Live> = here.iter().filter(|live| live.access != Access::Multicast).copied().collect();
        (variables, new) = (&[], self::allocations(&readable));
        reached.extend(here);
    }
    Ok(reached)
}

/// What is recorded of live memory.
pub fn allocations(live: &[Live]) -> Vec<Allocation> {
    live.iter()
        .map(|live| {
            let annotation = ANNOTATIONS.of(live.address, live.size).unwrap_or_default();
            // All zero is what is done without one.
            let tolerance = Some(annotation.tolerance).filter(|tolerance| *tolerance != Tolerance::default());
            Allocation { address: live.address, size: live.size, kind: live.kind, tag: annotation.tag, tolerance, shared: live.shared }
        })
        .collect()
}

/// Memory that arguments point into and that no hook has seen being allocated, as far as the vendor knows it: what a graph has allocated,
/// or variables that the kernel does not know by name.
pub fn unseen_allocations(plan: &Plan, variables: &[Variable], allocations: &[Allocation]) -> Vec<Allocation> {
    let mut known: Vec<(u64, u64)> = variables.iter().map(|variable| (variable.address, variable.size)).collect();
    known.extend(allocations.iter().map(|allocation| (allocation.address, allocation.size)));
    let mut found = Vec::new();
    let words = plan.arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0).map(|word| u64::from_le_bytes(*word));
    for word in words.filter(|word| ADDRESSES.contains(word)) {
        if known.iter().any(|(start, size)| (*start..start.saturating_add(*size)).contains(&word)) {
            continue;
        }
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: valid places; the driver answers with an error for what is no address of its.
        let status = unsafe { vendor::hooked::cuMemGetAddressRange_v2::call(&mut address, &mut bytes, word) };
        let (end, size) = (address.saturating_add(bytes as u64), bytes as u64);
        let overlaps = |(start, size): &(u64, u64)| *start < end && address < start.saturating_add(*size);
        if status == SUCCESS && !known.iter().any(overlaps) {
            known.push((address, size));
            found.push(Allocation { address, size, kind: AllocationKind::Vendor, tag: String::new(), tolerance: None, shared: false });
        }
    }
    found
}
