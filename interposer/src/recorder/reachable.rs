//! Determines the memory that a kernel can touch.
//!
//! Two kinds count only if an address leads there: page-locked memory for copies, because applications have much of it,
//! and memory that cannot be recorded, which makes the recorder refuse the kernel.

use std::collections::BTreeSet;

use mneme_model::tolerance::Tolerance;
use mneme_recording::leads::Leads;
use mneme_recording::manifest::{Allocation, AllocationKind, RecordedVariable};

use super::{Plan, images};
use crate::driver::{self, Status};
use crate::kernels::loaded_variables;
use crate::memory::allocations::{ALLOCATIONS, KernelAccess, LiveAllocation};
use crate::memory::annotations::ANNOTATIONS;
use crate::memory::sharing::physical;
use crate::snapshot::{self, SnapshotError};

/// The possible addresses of device memory: after the first page, and below the end of user space with five levels of
/// page tables.
const ADDRESSES: std::ops::Range<u64> = 1 << 16..1 << 57;

/// Every live allocation, and the variables of loaded code except `but`. Memory that the kernel has at two addresses is
/// marked.
fn everything(plan: &Plan, but: &[RecordedVariable]) -> Vec<LiveAllocation> {
    let mut all = ALLOCATIONS.all();
    let others = loaded_variables::all();
    let others = others.into_iter().filter(|other| but.iter().all(|variable| variable.address != other.address));
    all.extend(others.map(|variable| LiveAllocation {
        address: variable.address,
        size: variable.size,
        kind: AllocationKind::Vendor,
        access: if variable.is_managed { KernelAccess::Arguments } else { KernelAccess::Variable },
        device: plan.context.device,
        context: plan.context.handle,
        shared: false,
    }));
    all.sort_by_key(|live| live.address);
    all.dedup_by_key(|live| live.address);
    let is_mapped = |live: &&LiveAllocation| {
        matches!(live.access, KernelAccess::Mapped(_)) && live.is_accessible_from(plan.context)
    };
    let aliases = physical::aliases(all.iter().filter(is_mapped).map(|live| live.address));
    all.iter_mut().filter(|live| aliases.contains(&live.address)).for_each(|live| live.access = KernelAccess::Aliased);
    all
}

/// Whether a kernel can touch it only through an address.
fn needs_address(live: &LiveAllocation) -> bool {
    matches!(
        live.access,
        KernelAccess::Arguments | KernelAccess::Variable | KernelAccess::Multicast | KernelAccess::Aliased
    )
}

/// The addresses that lead to some of all memory.
fn leads(to: &[LiveAllocation], all: &[LiveAllocation]) -> Leads {
    let ranges = |live: &[LiveAllocation]| {
        live.iter().map(|live| live.address..live.address.saturating_add(live.size)).collect::<Vec<_>>()
    };
    Leads::to(&ranges(to), &ranges(all))
}

/// Arguments, and parts of them, that may be addresses, and those of texture objects.
fn words(plan: &Plan) -> impl Iterator<Item = u64> {
    let arguments = plan.arguments.iter().flat_map(|argument| argument.bytes.as_chunks::<8>().0);
    arguments.map(|word| u64::from_le_bytes(*word)).chain(images::addresses(plan))
}

/// All live memory that the kernel can touch according to its arguments, without its own variables.
pub fn through_arguments(plan: &Plan, variables: &[RecordedVariable]) -> Vec<LiveAllocation> {
    let all = everything(plan, variables);
    let addressed: Vec<LiveAllocation> = all.iter().filter(|live| needs_address(live)).copied().collect();
    let leads = leads(&addressed, &all);
    let led_to: BTreeSet<usize> = words(plan).flat_map(|word| leads.of(word)).copied().collect();
    let others = all.iter().filter(|live| !needs_address(live) && live.is_accessible_from(plan.context)).copied();
    let mut live: Vec<LiveAllocation> = led_to.into_iter().map(|index| addressed[index]).chain(others).collect();
    live.sort_unstable_by_key(|live| live.address);
    live
}

/// Further memory whose address is stored in memory that the kernel can access: in these variables and allocations, or
/// in memory found here. The current context must be idle.
pub fn through_memory(
    plan: &Plan,
    live: &[LiveAllocation],
    variables: &[RecordedVariable],
    allocations: &[Allocation],
) -> Result<Vec<LiveAllocation>, SnapshotError> {
    let known: BTreeSet<u64> = live.iter().map(|live| live.address).collect();
    let all = everything(plan, variables);
    let mut unreached: Vec<LiveAllocation> =
        all.iter().filter(|live| needs_address(live) && !known.contains(&live.address)).copied().collect();
    let mut reached: Vec<LiveAllocation> = Vec::new();
    let (mut variables, mut new) = (variables, allocations.to_vec());
    while !(unreached.is_empty() || variables.is_empty() && new.is_empty()) {
        let leads = leads(&unreached, &all);
        let found = snapshot::addresses_of(leads.ranges(), plan.context.handle, variables, &new)?;
        let ranges = found.into_iter().enumerate().filter(|(_, found)| *found).map(|(range, _)| range);
        let led_to: BTreeSet<usize> = ranges.flat_map(|range| leads.of_range(range)).copied().collect();
        let here: Vec<LiveAllocation> = led_to.iter().map(|index| unreached[*index]).collect();
        unreached = unreached
            .into_iter()
            .enumerate()
            .filter(|(index, _)| !led_to.contains(index))
            .map(|(_, live)| live)
            .collect();
        let is_readable =
            |live: &&LiveAllocation| matches!(live.access, KernelAccess::Arguments | KernelAccess::Variable);
        let readable: Vec<LiveAllocation> = here.iter().filter(is_readable).copied().collect();
        (variables, new) = (&[], self::allocations(&readable));
        reached.extend(here);
    }
    Ok(reached)
}

/// Live memory as recordings describe it.
pub fn allocations(live: &[LiveAllocation]) -> Vec<Allocation> {
    live.iter()
        .map(|live| {
            let (annotation, parts) = ANNOTATIONS.of(live.address, live.size);
            let annotation = annotation.unwrap_or_default();
            // The default means the same as no tolerance.
            let tolerance = Some(annotation.tolerance).filter(|tolerance| *tolerance != Tolerance::default());
            Allocation {
                address: live.address,
                size: live.size,
                kind: live.kind,
                tag: annotation.tag,
                tolerance,
                parts,
                shared: live.shared,
            }
        })
        .collect()
}

/// Memory that arguments point into and whose allocation was not hooked, as far as the vendor knows it: memory that a
/// graph has allocated, or variables that the kernel's code does not name.
pub fn unseen_allocations(plan: &Plan, variables: &[RecordedVariable], allocations: &[Allocation]) -> Vec<Allocation> {
    let mut known: Vec<(u64, u64)> = variables.iter().map(|variable| (variable.address, variable.size)).collect();
    known.extend(allocations.iter().map(|allocation| (allocation.address, allocation.size)));
    let mut found = Vec::new();
    for word in words(plan).filter(|word| ADDRESSES.contains(word)) {
        if known.iter().any(|(start, size)| (*start..start.saturating_add(*size)).contains(&word)) {
            continue;
        }
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: valid places; the driver returns an error for an unknown address.
        let status = unsafe { driver::hooked::cuMemGetAddressRange_v2::call(&mut address, &mut bytes, word) };
        let (end, size) = (address.saturating_add(bytes as u64), bytes as u64);
        let overlaps = |(start, size): &(u64, u64)| *start < end && address < start.saturating_add(*size);
        if status == Status::SUCCESS && !known.iter().any(overlaps) {
            known.push((address, size));
            found.push(Allocation { address, size, kind: AllocationKind::Vendor, ..Allocation::default() });
        }
    }
    found
}
