//! The properties of a launch that its kernel can query, and the memory that its blocks share.
//!
//! Hidden arguments and the dispatch packet are for AMD's kernels, the workspace for CUDA's cooperative launches.
//!
//! Hidden arguments have the layout of code objects from version 5 on, the packet that of the HSA standard. Addresses
//! of host services are null: the compiler lowers code that needs them to something else, or refuses it.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::heap::Heap;
use super::images::{Image, Images};

/// All values are little endian.
#[repr(C, align(64))]
pub struct Dispatch {
    hidden_arguments: [u8; 256],
    packet: [u8; 64],
    /// In cooperative launches: the workspace's size in bytes and the barrier of all blocks. Kernels write to it.
    workspace: Option<[AtomicU32; 2]>,
    /// The textures and surfaces that existed when the launch began.
    images: Arc<Images>,
    /// The heap of the launch's context.
    heap: Arc<Heap>,
    /// Whether the call that launched it returned before the launch was done.
    continues: AtomicBool,
    /// The kernel's code, and whether workers may abandon it when they are asked to.
    code: Range<usize>,
    left: AtomicBool,
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

impl Dispatch {
    /// Creates the properties of a launch that is not cooperative. Takes blocks and threads along each axis, bytes of a
    /// block's dynamic and of all its shared memory, the address of the parameter buffer, textures and surfaces, and
    /// the addresses of the code.
    pub fn new(
        grid: [u32; 3],
        block: [u32; 3],
        dynamic_shared: u32,
        shared: u32,
        parameters: u64,
        images: Arc<Images>,
        code: Range<usize>,
    ) -> Self {
        let (mut hidden_arguments, mut packet) = ([0; 256], [0; 64]);
        for axis in 0..3 {
            let (blocks, threads) = (grid[axis], block[axis]);
            put(&mut hidden_arguments, 4 * axis, blocks.to_le_bytes());
            put(&mut hidden_arguments, 12 + 2 * axis, (threads as u16).to_le_bytes());
            put(&mut packet, 4 + 2 * axis, (threads as u16).to_le_bytes());
            // HIP launches grids with more work items than the packet can express, so the number saturates.
            put(&mut packet, 12 + 4 * axis, blocks.saturating_mul(threads).to_le_bytes());
        }
        // The number of dimensions, in both structures. HIP always launches with three.
        put(&mut hidden_arguments, 64, 3u16.to_le_bytes());
        put(&mut packet, 2, 3u16.to_le_bytes());
        put(&mut hidden_arguments, 120, dynamic_shared.to_le_bytes());
        put(&mut packet, 28, shared.to_le_bytes());
        put(&mut packet, 40, parameters.to_le_bytes());
        Self {
            hidden_arguments,
            packet,
            workspace: None,
            images,
            heap: Arc::default(),
            continues: AtomicBool::new(false),
            code,
            left: AtomicBool::new(false),
        }
    }

    /// Lets kernels allocate from this heap.
    pub fn with_heap(self, heap: Arc<Heap>) -> Self {
        Self { heap, ..self }
    }

    /// Makes the launch cooperative.
    pub fn cooperative(self) -> Self {
        Self { workspace: Some([AtomicU32::new(8), AtomicU32::new(0)]), ..self }
    }

    /// Marks that the call that launched it returns before the launch is done.
    pub fn note_continuing(&self) {
        self.continues.store(true, Ordering::Relaxed);
    }

    /// Whether the call that launched it returned before the launch was done.
    pub fn continues(&self) -> bool {
        self.continues.load(Ordering::Relaxed)
    }

    /// Allows workers that are asked to abandon the kernel's code to do so.
    pub fn let_leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    /// Whether a worker may now abandon the code at this address. For the signal handler.
    pub fn may_leave(&self, instruction: usize) -> bool {
        self.left.load(Ordering::Acquire) && self.code.contains(&instruction)
    }

    /// The workspace in which blocks of a cooperative launch wait for each other; null in other launches.
    pub fn workspace(&self) -> *const AtomicU32 {
        self.workspace.as_ref().map_or(std::ptr::null(), |words| words.as_ptr())
    }

    /// The texture or surface object of a handle.
    pub fn image(&self, handle: u64) -> Option<&Image> {
        self.images.get(&handle).map(Arc::as_ref)
    }

    /// The heap of the launch's context.
    pub fn heap(&self) -> &Heap {
        &self.heap
    }

    pub fn hidden_arguments(&self) -> *const u8 {
        self.hidden_arguments.as_ptr()
    }

    pub fn packet(&self) -> *const u8 {
        self.packet.as_ptr()
    }
}
