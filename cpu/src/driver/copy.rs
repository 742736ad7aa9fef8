//! Copies and fills.
//!
//! Host and device share one address space, so a copy in any direction is a `memmove`. Directions differ only in which
//! ends are checked.

use mneme_abi::cuda::structures::{Copy2d, Copy3d, CopySide, Fill, memory_type};

use super::allocations::MemoryKind;
use super::lanes::{self, Place, Task};
use super::virtual_memory::HostAccess;
use super::work::{self, CopyEnd, Line, Work};
use super::{allocations, context, graph, memory, stream};
use crate::abi::In;
use crate::status::{Status, StatusResult};

/// Returns the address of an end. If the memory is known, all the bytes have to lie in it, whichever end it is.
fn address_of(end: CopyEnd, bytes: u64, access: HostAccess) -> Result<u64, Status> {
    match end {
        CopyEnd::Host(0) | CopyEnd::Any(0) => Err(Status::INVALID_VALUE),
        CopyEnd::Host(address) | CopyEnd::Any(address) if allocations::find(address).is_none() => Ok(address),
        CopyEnd::Host(address) | CopyEnd::Any(address) | CopyEnd::Device(address) => {
            memory::check(address, bytes, access).map(|()| address)
        }
    }
}

fn check(to: CopyEnd, from: CopyEnd, bytes: usize) -> StatusResult {
    address_of(to, bytes as u64, HostAccess::Write)?;
    address_of(from, bytes as u64, HostAccess::Read).map(|_| ())
}

/// Whether an end is host memory that the device does not know. CUDA allows a copy to use such memory only during the
/// call.
fn is_pageable(end: CopyEnd) -> bool {
    match end {
        CopyEnd::Device(_) => false,
        CopyEnd::Host(address) | CopyEnd::Any(address) => allocations::find(address).is_none(),
    }
}

/// Whether an address lies in memory that belongs to devices alone.
fn is_of_device(address: u64) -> bool {
    let is_of_host = |kind| matches!(kind, MemoryKind::Host | MemoryKind::Registered | MemoryKind::Managed);
    allocations::find(address).is_some_and(|found| !is_of_host(found.kind))
}

/// The behaviour of a call after it has submitted work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    Waits,
    GoesOn,
}

fn submit(place: &Place, task: Task, then: Then) -> StatusResult {
    let moment = lanes::submit(place, &[], task)?;
    if then == Then::Waits {
        lanes::wait(moment.as_slice())?;
    }
    // A call without any wait does not report the faults of kernels that ended before it.
    if moment.is_some() && then == Then::Waits { context::fault() } else { Ok(()) }
}

fn move_bytes(to: u64, from: u64, bytes: usize) {
    // SAFETY: device ends are ranges that were known when the copy was submitted, and whoever frees them waits for it.
    // The application promises that host ends are valid. They may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
}

/// Copies bytes and waits for them, unless both ends are device memory.
pub fn copy(to: CopyEnd, from: CopyEnd, bytes: usize) -> StatusResult {
    context::usable()?;
    if bytes == 0 {
        return Ok(());
    }
    let to = address_of(to, bytes as u64, HostAccess::Write)?;
    let from = address_of(from, bytes as u64, HostAccess::Read)?;
    let then = if is_of_device(to) && is_of_device(from) { Then::GoesOn } else { Then::Waits };
    let work = move || {
        move_bytes(to, from, bytes);
        Ok(())
    };
    submit(&stream::place(0)?, Task::quick(work), then)
}

pub fn copy_on(to: CopyEnd, from: CopyEnd, bytes: usize, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Copy(work::line(to, from, bytes))))? {
        return Ok(());
    }
    context::usable()?;
    if bytes == 0 {
        return Ok(());
    }
    let (target, source) =
        (address_of(to, bytes as u64, HostAccess::Write)?, address_of(from, bytes as u64, HostAccess::Read)?);
    let place = stream::place(stream)?;
    let staged = (is_pageable(from) && !lanes::before(&place).is_empty()).then(|| {
        let mut staged = vec![0u8; bytes];
        move_bytes(staged.as_mut_ptr() as u64, source, bytes);
        staged
    });
    let waits = is_pageable(to) || is_pageable(from) && staged.is_none();
    let work = move || {
        move_bytes(target, staged.as_ref().map_or(source, |staged| staged.as_ptr() as u64), bytes);
        Ok(())
    };
    submit(&place, Task::quick(work), if waits { Then::Waits } else { Then::GoesOn })
}

pub fn copy_2d(what: In<Copy2d>) -> StatusResult {
    context::usable()?;
    copy_3d(In::from(&checked_rows(what)?))
}

/// Checks that the rows do not overlap.
fn checked_rows(what: In<Copy2d>) -> Result<Copy3d, Status> {
    let what = what.get()?;
    let overlaps = |kind: u32, x: usize, pitch: usize| {
        let pitch = if pitch == 0 { what.width } else { pitch };
        kind != memory_type::ARRAY && x.checked_add(what.width).is_none_or(|end| end > pitch)
    };
    if what.height > 1
        && (overlaps(what.from_type, what.from_x, what.from_pitch) || overlaps(what.to_type, what.to_x, what.to_pitch))
    {
        return Err(Status::INVALID_VALUE);
    }
    Ok(work::of_rows(&what))
}

pub fn copy_2d_on(what: In<Copy2d>, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Copy(work::of_rows(&what.get()?))))? {
        return Ok(());
    }
    context::usable()?;
    copy_3d_on(In::from(&checked_rows(what)?), stream)
}

/// Copies consecutive bytes, on a stream or at once.
pub fn copy_line(to: Line, from: Line, bytes: usize, stream: Option<usize>) -> StatusResult {
    let what = Line::copied(to, from, bytes);
    match stream {
        None => copy_3d(In::from(&what)),
        Some(stream) => copy_3d_on(In::from(&what), stream),
    }
}

/// Calls a function with both ends of each row.
fn each_row(what: &Copy3d, call: impl Fn(CopyEnd, CopyEnd, usize) -> StatusResult) -> StatusResult {
    (0..what.depth).flat_map(|z| (0..what.height).map(move |y| (y, z))).try_for_each(|(y, z)| {
        let row = |side: &CopySide| work::row_of(side, y, z, what.width, what.height);
        call(row(&what.to)?, row(&what.from)?, what.width)
    })
}

/// The work of copying rows. The parameters must have been checked.
pub fn task(what: Copy3d) -> Result<Task, Status> {
    if what.width == 0 {
        return Ok(Task::nothing());
    }
    each_row(&what, check)?;
    Ok(Task::quick(move || {
        each_row(&what, |to, from, bytes| {
            move_bytes(to.address(), from.address(), bytes);
            Ok(())
        })
    }))
}

/// Whether a condition holds for a side of a copy, judged by its first row.
fn side_is(side: &CopySide, what: &Copy3d, is: impl FnOnce(CopyEnd) -> bool) -> bool {
    side.kind != memory_type::ARRAY && work::row_of(side, 0, 0, what.width, what.height).is_ok_and(is)
}

pub fn copy_3d(what: In<Copy3d>) -> StatusResult {
    context::usable()?;
    let what = what.get()?;
    let is_of_host = |side| side_is(side, &what, |end| !is_of_device(end.address()));
    let then = if is_of_host(&what.to) || is_of_host(&what.from) { Then::Waits } else { Then::GoesOn };
    submit(&stream::place(0)?, task(what)?, then)
}

pub fn copy_3d_on(what: In<Copy3d>, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Copy(what.get()?)))? {
        return Ok(());
    }
    context::usable()?;
    let what = what.get()?;
    let waits = [&what.to, &what.from].into_iter().any(|side| side_is(side, &what, is_pageable));
    submit(&stream::place(stream)?, task(what)?, if waits { Then::Waits } else { Then::GoesOn })
}

/// An element of a fill: 1, 2 or 4 bytes.
pub trait Pattern: Copy + Into<u32> + Send + 'static {}

impl<T: Copy + Into<u32> + Send + 'static> Pattern for T {}

/// A fill of host memory waits; a fill of device memory does not.
fn then_of(address: u64) -> Then {
    if is_of_device(address) { Then::GoesOn } else { Then::Waits }
}

/// Fills `count` elements.
pub fn fill<T: Pattern>(address: u64, value: T, count: usize) -> StatusResult {
    fill_2d(address, 0, value, count, 1)
}

/// The work of filling rows. The parameters must have been checked.
pub fn fill_task<T: Pattern>(
    address: u64,
    pitch: usize,
    value: T,
    width: usize,
    height: usize,
) -> Result<Task, Status> {
    let bytes = width.checked_mul(size_of::<T>()).ok_or(Status::INVALID_VALUE)?;
    if height > 1 && bytes > pitch {
        return Err(Status::INVALID_VALUE);
    }
    if bytes == 0 {
        return Ok(Task::nothing());
    }
    let row = move |row: usize| address.wrapping_add(row.wrapping_mul(pitch) as u64);
    // Addresses ascend, so the first row outside of the memory stops the loop.
    (0..height).try_for_each(|number| {
        if !row(number).is_multiple_of(size_of::<T>() as u64) {
            return Err(Status::INVALID_VALUE);
        }
        memory::check(row(number), bytes as u64, HostAccess::Write)
    })?;
    Ok(Task::quick(move || {
        for number in 0..height {
            // SAFETY: the range was known memory when the fill was submitted, and whoever frees it waits for it. It is
            // aligned for `T`.
            unsafe { std::slice::from_raw_parts_mut(row(number) as *mut T, width) }.fill(value);
        }
        Ok(())
    }))
}

fn filling<T: Pattern>(to: u64, pitch: usize, value: T, width: usize, height: usize) -> Work {
    Work::Fill(Fill { to, pitch, value: value.into(), element: size_of::<T>() as u32, width, height })
}

pub fn fill_on<T: Pattern>(address: u64, value: T, count: usize, stream: usize) -> StatusResult {
    fill_2d_on(address, 0, value, count, 1, stream)
}

pub fn fill_2d<T: Pattern>(address: u64, pitch: usize, value: T, width: usize, height: usize) -> StatusResult {
    context::usable()?;
    submit(&stream::place(0)?, fill_task(address, pitch, value, width, height)?, then_of(address))
}

pub fn fill_2d_on<T: Pattern>(
    address: u64,
    pitch: usize,
    value: T,
    width: usize,
    height: usize,
    stream: usize,
) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(filling(address, pitch, value, width, height)))? {
        return Ok(());
    }
    context::usable()?;
    submit(&stream::place(stream)?, fill_task(address, pitch, value, width, height)?, Then::GoesOn)
}

/// Accepts prefetches and advice, which have no effect because all memory is the host's.
pub fn accept_hint(address: u64, bytes: usize) -> StatusResult {
    context::usable()?;
    memory::check(address, bytes as u64, HostAccess::Read)
}

/// The same for several ranges. Discarded memory may keep its contents.
pub fn accept_hints(addresses: In<u64>, sizes: In<usize>, count: usize) -> StatusResult {
    (0..count).try_for_each(|index| accept_hint(addresses.at(index)?, sizes.at(index)?))
}
