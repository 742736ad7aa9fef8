//! The context of a running thread: its position in the grid.
//!
//! Kernels read it by offset (docs/reference/cpu-code-objects.md).

/// The thread context that the compiler's contract defines.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ThreadContext {
    pub tid: [u32; 3],
    pub ntid: [u32; 3],
    pub ctaid: [u32; 3],
    pub nctaid: [u32; 3],
    pub lane: u32,
    pub warp: u32,
    pub dynamic_shared_bytes: u32,
    pub total_shared_bytes: u32,
    pub shared: *mut u8,
    /// Blocks of a cluster along each axis, and whether the launch set them.
    pub cluster: [u32; 3],
    pub explicit_cluster: u32,
    /// The limits of the stack that holds the thread's variables.
    pub stack: [usize; 2],
}

const _: () =
    assert!(std::mem::offset_of!(ThreadContext, lane) == 48 && std::mem::offset_of!(ThreadContext, shared) == 64);
const _: () =
    assert!(std::mem::offset_of!(ThreadContext, cluster) == 72 && std::mem::offset_of!(ThreadContext, stack) == 88);

impl ThreadContext {
    /// Sets the thread's position in the block from its linear index (x varies fastest, as in a warp) and the warp
    /// size.
    pub fn place(&mut self, linear: u32, width: u32) {
        let [x, y, _] = self.ntid;
        self.tid = [linear % x, linear / x % y, linear / x / y];
        self.lane = linear % width;
        self.warp = linear / width;
    }

    /// The block's rank in its cluster; x varies fastest.
    pub fn cluster_rank(&self) -> u32 {
        let [x, y, z] = [0, 1, 2].map(|axis| self.ctaid[axis] % self.cluster[axis]);
        x + self.cluster[0] * (y + self.cluster[1] * z)
    }

    /// " in thread (…) of block (…)"
    pub fn description(&self) -> String {
        let [x, y, z] = self.tid;
        let [block_x, block_y, block_z] = self.ctaid;
        format!(" in thread ({x}, {y}, {z}) of block ({block_x}, {block_y}, {block_z})")
    }
}
