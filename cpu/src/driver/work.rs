//! Work as data: launches, copies, fills and host calls, as graphs store them.

use std::sync::Arc;

use mneme_abi::cuda::structures::{Copy2d, Copy3d, CopySide, Fill, HostCall, memory_type};

use super::{arrays, graph_memory};
use crate::status::{Status, StatusResult};

/// The extents of a launch.
#[derive(Clone, Copy)]
pub struct LaunchExtents {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u32,
}

/// An end of a copy, with the kind of memory that it must be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CopyEnd {
    Host(u64),
    Device(u64),
    /// Either kind, depending on the address.
    Any(u64),
}

impl CopyEnd {
    pub fn address(self) -> u64 {
        let (CopyEnd::Host(address) | CopyEnd::Device(address) | CopyEnd::Any(address)) = self;
        address
    }
}

/// The end for a [`memory_type`].
pub fn end(kind: u32) -> Result<fn(u64) -> CopyEnd, Status> {
    match kind {
        memory_type::HOST => Ok(CopyEnd::Host),
        memory_type::DEVICE => Ok(CopyEnd::Device),
        memory_type::UNIFIED => Ok(CopyEnd::Any),
        _ => Err(Status::INVALID_VALUE),
    }
}

fn side(kind: u32, address: u64, pitch: usize) -> CopySide {
    let (host, device) = if kind == memory_type::HOST { (address, 0) } else { (0, address) };
    CopySide { x: 0, y: 0, z: 0, level: 0, kind, host, device, array: 0, reserved: 0, pitch, rows: 0 }
}

fn side_of(end: CopyEnd) -> CopySide {
    match end {
        CopyEnd::Host(address) => side(memory_type::HOST, address, 0),
        CopyEnd::Device(address) => side(memory_type::DEVICE, address, 0),
        CopyEnd::Any(address) => side(memory_type::UNIFIED, address, 0),
    }
}

/// Pitched memory from a position on; `rows` are those of a slice.
pub fn pitched(end: CopyEnd, [x, y, z]: [usize; 3], pitch: usize, rows: usize) -> CopySide {
    CopySide { x, y, z, pitch, rows, ..side_of(end) }
}

/// The bytes of an array from a position on; x is in bytes.
pub fn of_array(array: u64, [x, y, z]: [usize; 3]) -> CopySide {
    CopySide { x, y, z, array, ..side(memory_type::ARRAY, 0, 0) }
}

/// An end of a copy of consecutive bytes.
pub struct Line(CopySide);

impl Line {
    pub fn host(address: u64) -> Self {
        Self(side_of(CopyEnd::Host(address)))
    }

    pub fn device(address: u64) -> Self {
        Self(side_of(CopyEnd::Device(address)))
    }

    /// A position in an array of one row.
    pub fn of(array: u64, byte: usize) -> Self {
        Self(of_array(array, [byte, 0, 0]))
    }

    /// The copy of a number of bytes.
    pub fn copied(to: Self, from: Self, bytes: usize) -> Copy3d {
        Copy3d { from: from.0, to: to.0, width: bytes, height: 1, depth: 1 }
    }
}

/// A row of a side of a copy with that width and height.
pub fn row_of(side: &CopySide, y: usize, z: usize, width: usize, height: usize) -> Result<CopyEnd, Status> {
    if side.kind == memory_type::ARRAY {
        return arrays::address_of(side, y, z, width).map(CopyEnd::Host);
    }
    let pitch = if side.pitch == 0 { width } else { side.pitch };
    let rows = if side.rows == 0 { height } else { side.rows };
    let base = if side.kind == memory_type::HOST { side.host } else { side.device };
    let row = z.wrapping_add(side.z).wrapping_mul(rows).wrapping_add(y).wrapping_add(side.y);
    Ok(end(side.kind)?(base.wrapping_add(row.wrapping_mul(pitch).wrapping_add(side.x) as u64)))
}

/// A copy of consecutive bytes.
pub fn line(to: CopyEnd, from: CopyEnd, bytes: usize) -> Copy3d {
    Copy3d { from: side_of(from), to: side_of(to), width: bytes, height: 1, depth: 1 }
}

/// A copy of rows as a 3D copy of one slice.
pub fn of_rows(what: &Copy2d) -> Copy3d {
    let base = |kind: u32, host: u64, device: u64| if kind == memory_type::HOST { host } else { device };
    let from = side(what.from_type, base(what.from_type, what.from_host as u64, what.from_device), what.from_pitch);
    let to = side(what.to_type, base(what.to_type, what.to_host as u64, what.to_device), what.to_pitch);
    Copy3d {
        from: CopySide { x: what.from_x, y: what.from_y, array: what.from_array as u64, ..from },
        to: CopySide { x: what.to_x, y: what.to_y, array: what.to_array as u64, ..to },
        width: what.width,
        height: what.height,
        depth: 1,
    }
}

/// The attributes of a launch that matter here.
#[derive(Clone, Copy, Default)]
pub struct LaunchKind {
    /// Whether its blocks may all wait for each other.
    pub cooperative: bool,
    /// Blocks of a cluster along each axis, if the launch has this attribute.
    pub cluster: Option<[u32; 3]>,
}

#[derive(Clone)]
pub struct KernelLaunch {
    pub function: usize,
    pub shape: LaunchExtents,
    /// The parameter buffer. It is shared, because callers get pointers into it.
    pub buffer: Arc<Vec<u8>>,
    pub kind: LaunchKind,
}

/// The work of a node.
#[derive(Clone)]
pub enum Work {
    Kernel(KernelLaunch),
    Copy(Copy3d),
    Fill(Fill),
    Host(HostCall),
    /// A graph that the node owns. Its own nodes do its work.
    Child(usize),
    Nothing,
    Wait(usize),
    Record(usize),
    Allocate(Arc<graph_memory::GraphAddresses>),
    /// Frees memory that an earlier node has allocated.
    Free(u64),
}

// SAFETY: the application promises that its pointers are valid when the work runs, on any thread.
unsafe impl Send for Work {}

impl Work {
    /// Takes on other work of the same kind.
    pub fn replace(&mut self, new: Self) -> StatusResult {
        if self.kind() != new.kind() {
            return Err(Status::INVALID_VALUE);
        }
        *self = new;
        Ok(())
    }

    /// `CUgraphNodeType`
    pub fn kind(&self) -> u32 {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Fill(_) => 2,
            Work::Host(_) => 3,
            Work::Child(_) => 4,
            Work::Nothing => 5,
            Work::Wait(_) => 6,
            Work::Record(_) => 7,
            Work::Allocate(_) => 10,
            Work::Free(_) => 11,
        }
    }
}
