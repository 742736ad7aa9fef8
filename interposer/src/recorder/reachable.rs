//! The memory that a kernel can touch.

use mneme_core::recording::manifest::{Allocation, AllocationKind, Variable};
use mneme_core::tolerance::Tolerance;

use super::Plan;
use crate::memory::allocations::{ALLOCATIONS, Reach};
use crate::memory::annotations::ANNOTATIONS;
use crate::vendor::{self, SUCCESS};

/// Where device memory can be: not in the first page, and below the end of user space with five levels of page tables.
const ADDRESSES: std::ops::Range<u64> = 1 << 16..1 << 57;

/// All live memory that the kernel can touch: of its device and of those that it reaches, and page-locked host memory that is
/// mapped for kernels or that an argument points into; of the rest a kernel sees nothing and host threads change it at any time.
pub fn allocations(plan: &Plan) -> Vec<Allocation> {
    let pointed_at = |address: u64, size: u64| {
        plan.arguments.iter().flat_map(|argument| argument.bytes.chunks_exact(8)).any(|word| {
            let word = word.try_into().map_or(0, u64::from_le_bytes);
            (address..address + size).contains(&word)
        })
    };
    ALLOCATIONS
        .all()
        .into_iter()
        .filter(|live| match live.reach {
            Reach::Arguments => pointed_at(live.address, live.size),
            Reach::Device => plan.devices.contains(&live.device),
            Reach::Everywhere => true,
        })
        .map(|live| {
            let annotation = ANNOTATIONS.of(live.address, live.size).unwrap_or_default();
            // All zero is what is done without one.
            let tolerance = Some(annotation.tolerance).filter(|tolerance| *tolerance != Tolerance::default());
            Allocation { address: live.address, size: live.size, kind: live.kind, tag: annotation.tag, tolerance }
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
            found.push(Allocation { address, size, kind: AllocationKind::Vendor, tag: String::new(), tolerance: None });
        }
    }
    found
}
