//! Work as data: launches, copies, fills and calls of the host, as a graph notes them down.

use std::ffi::c_void;
use std::sync::Arc;

use super::graph_memory;
use crate::abi::HostFunction;
use crate::status::Status;

/// The extents of a launch.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct LaunchExtents {
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory, bytes.
    pub shared: u32,
}

/// Whether an end must be memory that the device knows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum CopyEnd {
    Host(u64),
    Device(u64),
    /// Either; the address tells.
    Any(u64),
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy2d {
    pub from_x: usize,
    pub from_y: usize,
    pub from_type: u32,
    pub from_host: *const c_void,
    pub from_device: u64,
    pub from_array: *const c_void,
    pub from_pitch: usize,
    pub to_x: usize,
    pub to_y: usize,
    pub to_type: u32,
    pub to_host: *mut c_void,
    pub to_device: u64,
    pub to_array: *mut c_void,
    pub to_pitch: usize,
    pub width: usize,
    pub height: usize,
}

const _: () = assert!(size_of::<Copy2d>() == 128);

/// `CUmemorytype`: host 1, device 2, array 3, unified 4.
pub fn end(kind: u32) -> Result<fn(u64) -> CopyEnd, Status> {
    match kind {
        1 => Ok(CopyEnd::Host),
        2 => Ok(CopyEnd::Device),
        4 => Ok(CopyEnd::Any),
        3 => {
            crate::say!("arrays are not supported");
            Err(Status::NOT_SUPPORTED)
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Copy3d {
    pub from: Side,
    pub to: Side,
    pub width: usize,
    pub height: usize,
    pub depth: usize,
}

const _: () = assert!(size_of::<Copy3d>() == 200);

/// One end of a three-dimensional copy; offsets and pitch in bytes and rows.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Side {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    kind: u32,
    host: u64,
    device: u64,
    array: u64,
    reserved: u64,
    pitch: usize,
    rows: usize,
}

impl Side {
    fn new(kind: u32, address: u64, pitch: usize) -> Self {
        let (host, device) = if kind == 1 { (address, 0) } else { (0, address) };
        Self { x: 0, y: 0, z: 0, level: 0, kind, host, device, array: 0, reserved: 0, pitch, rows: 0 }
    }

    fn of(end: CopyEnd) -> Self {
        match end {
            CopyEnd::Host(address) => Self::new(1, address, 0),
            CopyEnd::Device(address) => Self::new(2, address, 0),
            CopyEnd::Any(address) => Self::new(4, address, 0),
        }
    }

    /// Pitched memory from a place on; `rows` are those of a slice.
    pub fn pitched(end: CopyEnd, [x, y, z]: [usize; 3], pitch: usize, rows: usize) -> Self {
        Self { x, y, z, pitch, rows, ..Self::of(end) }
    }

    pub fn row(&self, y: usize, z: usize, width: usize, height: usize) -> Result<CopyEnd, Status> {
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let rows = if self.rows == 0 { height } else { self.rows };
        let base = if self.kind == 1 { self.host } else { self.device };
        Ok(end(self.kind)?(base + (((z + self.z) * rows + y + self.y) * pitch + self.x) as u64))
    }
}

impl Copy3d {
    pub fn line(to: CopyEnd, from: CopyEnd, bytes: usize) -> Self {
        Self { from: Side::of(from), to: Side::of(to), width: bytes, height: 1, depth: 1 }
    }
}

impl From<Copy2d> for Copy3d {
    fn from(what: Copy2d) -> Self {
        let base = |kind: u32, host: u64, device: u64| if kind == 1 { host } else { device };
        let from =
            Side::new(what.from_type, base(what.from_type, what.from_host as u64, what.from_device), what.from_pitch);
        let to = Side::new(what.to_type, base(what.to_type, what.to_host as u64, what.to_device), what.to_pitch);
        Self {
            from: Side { x: what.from_x, y: what.from_y, ..from },
            to: Side { x: what.to_x, y: what.to_y, ..to },
            width: what.width,
            height: what.height,
            depth: 1,
        }
    }
}

/// `CUDA_MEMSET_NODE_PARAMS`: lengths in elements of 1, 2 or 4 bytes, the pitch in bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Fill {
    pub to: u64,
    pub pitch: usize,
    pub value: u32,
    pub element: u32,
    pub width: usize,
    pub height: usize,
}

/// `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Host {
    pub function: HostFunction,
    pub data: *mut c_void,
}

#[derive(Clone)]
pub struct KernelLaunch {
    pub function: usize,
    pub shape: LaunchExtents,
    /// The parameter buffer; shared, because callers are given pointers into it.
    pub buffer: Arc<Vec<u8>>,
    pub cooperative: bool,
}

/// What a node does.
#[derive(Clone)]
pub enum Work {
    Kernel(KernelLaunch),
    Copy(Copy3d),
    Fill(Fill),
    Host(Host),
    Nothing,
    Allocate(Arc<graph_memory::GraphAddresses>),
    /// Of what an earlier node has allocated.
    Free(u64),
}

// SAFETY: the pointers are the application's, which promises that they are good when the work is done, on whichever
// thread.
unsafe impl Send for Work {}

impl Work {
    /// `CUgraphNodeType`
    pub fn kind(&self) -> u32 {
        match self {
            Work::Kernel(_) => 0,
            Work::Copy(_) => 1,
            Work::Fill(_) => 2,
            Work::Host(_) => 3,
            Work::Nothing => 5,
            Work::Allocate(_) => 10,
            Work::Free(_) => 11,
        }
    }
}
