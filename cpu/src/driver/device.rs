//! Attributes and properties of the device.

use std::ffi::c_char;

use mneme_abi::cuda::structures::LegacyProperties;
use mneme_model::device::CPU_DEVICE;

use super::{VERSION, attributes, context};
use crate::abi::{CStringArgument, Out};
use crate::status::{Status, StatusResult};

/// The first device's UUID, the same on every machine and in every run, so a recording's device can be recognised.
pub const UUID: [u8; 16] = *b"mneme-cpu-device";

/// The machine's physical memory and how much of it is free, in bytes.
pub fn memory() -> (usize, usize) {
    // SAFETY: zeroed is a valid sysinfo, and it is a valid place to write.
    let info = unsafe {
        let mut info: libc::sysinfo = std::mem::zeroed();
        libc::sysinfo(&mut info);
        info
    };
    let unit = info.mem_unit.max(1) as usize;
    let available = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        line.split_whitespace().nth(1)?.parse::<usize>().ok()
    });
    let total = info.totalram as usize * unit;
    (total, available.map_or(info.freeram as usize * unit, |kilobytes| kilobytes << 10).min(total))
}

pub fn driver_version(out: Out<i32>) -> StatusResult {
    out.put(VERSION)
}

pub fn get(out: Out<i32>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    out.put(ordinal)
}

pub fn count(out: Out<i32>) -> StatusResult {
    context::initialised()?;
    out.put(context::devices())
}

/// Copies a string into a C buffer, truncated to its length.
pub fn put_text(out: Out<c_char>, length: i32, text: &str) -> StatusResult {
    let length = usize::try_from(length).ok().filter(|length| *length > 0).ok_or(Status::INVALID_VALUE)?;
    let kept = &text.as_bytes()[..text.len().min(length - 1)];
    for (index, byte) in kept.iter().chain(&[0]).enumerate() {
        out.at(index).put(*byte as c_char)?;
    }
    Ok(())
}

pub fn name(out: Out<c_char>, length: i32, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    put_text(out, length, CPU_DEVICE)
}

pub fn uuid(out: Out<[u8; 16]>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    let mut uuid = UUID;
    // Device 0 keeps the UUID that recordings contain.
    uuid[15] = uuid[15].wrapping_add(ordinal as u8);
    out.put(uuid)
}

pub fn luid(_out: Out<c_char>, _mask: Out<u32>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    Err(Status::NOT_SUPPORTED)
}

pub fn total_memory(out: Out<usize>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    out.put(memory().0)
}

pub fn attribute(out: Out<i32>, attribute: u32, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    out.put(attributes::value(attribute).ok_or(Status::INVALID_VALUE)?)
}

pub fn compute_capability(major: Out<i32>, minor: Out<i32>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    major.put(attributes::CAPABILITY.0)?;
    minor.put(attributes::CAPABILITY.1)
}

fn bus_name(ordinal: i32) -> String {
    format!("0000:00:{ordinal:02x}.0")
}

pub fn bus_id(out: Out<c_char>, length: i32, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    put_text(out, length, &bus_name(ordinal))
}

pub fn by_bus_id(out: Out<i32>, id: CStringArgument) -> StatusResult {
    context::initialised()?;
    let id = id.get()?;
    let found = (0..context::devices()).find(|ordinal| bus_name(*ordinal) == id).ok_or(Status::INVALID_DEVICE)?;
    out.put(found)
}

pub fn properties(out: Out<LegacyProperties>, ordinal: i32) -> StatusResult {
    context::device(ordinal)?;
    let value = |attribute| attributes::value(attribute).unwrap_or(0);
    out.put(LegacyProperties {
        threads_per_block: value(1),
        threads: [2, 3, 4].map(value),
        grid: [5, 6, 7].map(value),
        shared_bytes: value(8),
        constant_bytes: value(9),
        warp: value(10),
        pitch: value(11),
        registers: value(12),
        clock: value(13),
        texture_alignment: value(14),
    })
}

pub fn can_access_peer(out: Out<i32>, ordinal: i32, peer: i32) -> StatusResult {
    context::device(ordinal)?;
    context::device(peer)?;
    out.put(i32::from(ordinal != peer))
}

/// `CUdevice_P2PAttribute`: access is supported (2), atomics are native (3), the ranks are equal.
pub fn peer_attribute(out: Out<i32>, attribute: u32, from: i32, to: i32) -> StatusResult {
    context::device(from)?;
    context::device(to)?;
    out.put(i32::from(from != to && matches!(attribute, 2 | 3)))
}

pub fn put_zero(out: Out<i32>) -> StatusResult {
    context::initialised()?;
    out.put(0)
}

pub fn accept() -> StatusResult {
    context::initialised()
}
