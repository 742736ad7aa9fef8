//! Copies and fills.
//!
//! One address space: every direction is the same `memmove`, what differs is which end is checked.

use mneme_abi::cuda::structures::{Copy2d, Copy3d, CopySide, Fill, memory_type};

use super::virtual_memory::HostAccess;
use super::work::{self, CopyEnd, Line, Work};
use super::{allocations, context, graph, memory, stream};
use crate::abi::In;
use crate::status::{Status, StatusResult};

/// Memory that is known has to hold all the bytes, whichever end it is.
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

pub fn copy(to: CopyEnd, from: CopyEnd, bytes: usize) -> StatusResult {
    context::usable()?;
    if bytes == 0 {
        return Ok(());
    }
    let to = address_of(to, bytes as u64, HostAccess::Write)?;
    let from = address_of(from, bytes as u64, HostAccess::Read)?;
    // SAFETY: device ends are known ranges, and the application promises the host ends; they may overlap.
    unsafe { std::ptr::copy(from as *const u8, to as *mut u8, bytes) };
    Ok(())
}

pub fn copy_on(to: CopyEnd, from: CopyEnd, bytes: usize, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Copy(work::line(to, from, bytes))))? {
        return Ok(());
    }
    copy(to, from, bytes)
}

pub fn copy_2d(what: In<Copy2d>) -> StatusResult {
    context::usable()?;
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
    copy_3d(In::from(&work::of_rows(&what)))
}

pub fn copy_2d_on(what: In<Copy2d>, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Copy(work::of_rows(&what.get()?))))? {
        return Ok(());
    }
    copy_2d(what)
}

/// Copies bytes that follow one another, on a stream or at once.
pub fn copy_line(to: Line, from: Line, bytes: usize, stream: Option<usize>) -> StatusResult {
    let what = Line::copied(to, from, bytes);
    match stream {
        None => copy_3d(In::from(&what)),
        Some(stream) => copy_3d_on(In::from(&what), stream),
    }
}

pub fn copy_3d(what: In<Copy3d>) -> StatusResult {
    context::usable()?;
    let what = what.get()?;
    if what.width == 0 {
        return Ok(());
    }
    let each = |copy: fn(CopyEnd, CopyEnd, usize) -> StatusResult| {
        (0..what.depth).flat_map(|z| (0..what.height).map(move |y| (y, z))).try_for_each(|(y, z)| {
            let row = |side: &CopySide| work::row_of(side, y, z, what.width, what.height);
            copy(row(&what.to)?, row(&what.from)?, what.width)
        })
    };
    each(check)?;
    each(copy)
}

pub fn copy_3d_on(what: In<Copy3d>, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(Work::Copy(what.get()?)))? {
        return Ok(());
    }
    copy_3d(what)
}

/// Fills `count` elements with a pattern of 1, 2 or 4 bytes.
pub fn fill<T: Copy>(address: u64, value: T, count: usize) -> StatusResult {
    context::usable()?;
    if count == 0 {
        return Ok(());
    }
    let bytes = count.checked_mul(size_of::<T>()).ok_or(Status::INVALID_VALUE)?;
    if !address.is_multiple_of(size_of::<T>() as u64) {
        return Err(Status::INVALID_VALUE);
    }
    memory::check(address, bytes as u64, HostAccess::Write)?;
    // SAFETY: the range is known memory, aligned for `T`; kernels do not run meanwhile on this stream.
    unsafe { std::slice::from_raw_parts_mut(address as *mut T, count) }.fill(value);
    Ok(())
}

fn filling<T: Copy + Into<u32>>(to: u64, pitch: usize, value: T, width: usize, height: usize) -> Work {
    Work::Fill(Fill { to, pitch, value: value.into(), element: size_of::<T>() as u32, width, height })
}

pub fn fill_on<T: Copy + Into<u32>>(address: u64, value: T, count: usize, stream: usize) -> StatusResult {
    stream::check(stream)?;
    if graph::capture(stream, || Ok(filling(address, 0, value, count, 1)))? {
        return Ok(());
    }
    fill(address, value, count)
}

pub fn fill_2d<T: Copy>(address: u64, pitch: usize, value: T, width: usize, height: usize) -> StatusResult {
    context::usable()?;
    let bytes = width.checked_mul(size_of::<T>()).ok_or(Status::INVALID_VALUE)?;
    if height > 1 && bytes > pitch {
        return Err(Status::INVALID_VALUE);
    }
    if bytes == 0 {
        return Ok(());
    }
    let row = |row: usize| address.wrapping_add(row.wrapping_mul(pitch) as u64);
    // Rows ascend, so that the first one outside of memory ends this.
    (0..height).try_for_each(|number| memory::check(row(number), bytes as u64, HostAccess::Write))?;
    (0..height).try_for_each(|number| fill(row(number), value, width))
}

pub fn fill_2d_on<T: Copy + Into<u32>>(
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
    fill_2d(address, pitch, value, width, height)
}

/// Prefetches and advice: memory is where it is.
pub fn accept_hint(address: u64, bytes: usize) -> StatusResult {
    context::usable()?;
    memory::check(address, bytes as u64, HostAccess::Read)
}

/// Of several ranges: memory is where it is, and what is discarded may stay as it was.
pub fn accept_hints(addresses: In<u64>, sizes: In<usize>, count: usize) -> StatusResult {
    (0..count).try_for_each(|index| accept_hint(addresses.at(index)?, sizes.at(index)?))
}
