//! Graphs that are built by hand, node by node.

use super::copy::Copy3d;
use super::graph::{self, Fill, Host, KernelParameters, Work};
use super::graph_memory::Place;
use super::memory;
use crate::abi::{In, Out};
use crate::status::{Done, Status};

/// Where a node goes: its graph, and an array of the nodes that it comes after.
#[derive(Clone, Copy)]
pub struct At {
    pub graph: usize,
    pub after: In<usize>,
    pub count: usize,
}

impl At {
    fn add(self, out: Out<usize>, work: Work) -> Done {
        let after = (0..self.count).map(|index| self.after.at(index)).collect::<Result<Vec<_>, _>>()?;
        out.put(graph::add(self.graph, work, after)?)
    }
}

pub fn kernel(out: Out<usize>, at: At, parameters: In<KernelParameters>) -> Done {
    at.add(out, graph::kernel_of(parameters, false)?)
}

pub fn copy(out: Out<usize>, at: At, what: In<Copy3d>) -> Done {
    at.add(out, Work::Copy(what.get()?))
}

pub fn fill(out: Out<usize>, at: At, what: In<Fill>) -> Done {
    at.add(out, Work::Fill(what.get()?))
}

pub fn host(out: Out<usize>, at: At, what: In<Host>) -> Done {
    at.add(out, Work::Host(what.get()?))
}

pub fn empty(out: Out<usize>, at: At) -> Done {
    at.add(out, Work::Nothing)
}

/// `CUDA_MEM_ALLOC_NODE_PARAMS`, and the runtime's `cudaMemAllocNodeParams`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Allocation {
    /// `CUmemPoolProps`: allocation type (1: pinned), handle types, kind of location (1: device), device, and what matters to others.
    pool: [u32; 22],
    accesses: u64,
    access_count: usize,
    bytes: usize,
    /// Written: the address.
    address: u64,
}

const _: () = assert!(size_of::<Allocation>() == 120);

pub fn allocation(out: Out<usize>, at: At, parameters: Out<Allocation>) -> Done {
    let wanted = In::<Allocation>::of_place(parameters.address()).get()?;
    let [kind, handles, location, device, ..] = wanted.pool;
    if kind != 1 || handles != 0 || location != 1 {
        return Err(Status::INVALID_VALUE);
    }
    let place = Place::new(memory::known_device(device as i32)?, wanted.bytes)?;
    let address = place.start();
    at.add(out, Work::Allocate(place))?;
    parameters.put(Allocation { address, ..wanted })
}

pub fn free(out: Out<usize>, at: At, address: u64) -> Done {
    at.add(out, Work::Free(address))
}
