//! Device attributes (`CUdevice_attribute`) by number.

use crate::execution::processors;

/// The compute capability of the architecture that device code is usually built for.
pub const CAPABILITY: (i32, i32) = (9, 0);
pub const MAX_THREADS: u32 = 1024;
pub const MAX_BLOCK: [u32; 3] = [1024, 1024, 64];
pub const MAX_GRID: [u32; 3] = [0x7fff_ffff, 65535, 65535];
/// Bytes of shared memory per block, without and with opting in.
pub const SHARED: u32 = 48 << 10;
pub const SHARED_OPT_IN: u32 = 227 << 10;
/// Bytes of shared memory per block of a kernel for an AMD processor. Such kernels need not opt in.
pub const SHARED_OF_AMD: u32 = 64 << 10;
/// Alignment of allocations, in bytes.
pub const ALIGNMENT: usize = 512;
/// Alignment of the pitch of textures, in bytes.
pub const PITCH_ALIGNMENT: i32 = 32;

/// The value of an attribute: 0 for a feature that the device lacks, `None` for a number that CUDA 12.9 does not
/// define.
pub fn value(attribute: u32) -> Option<i32> {
    Some(match attribute {
        1 => MAX_THREADS as i32,
        2..=4 => MAX_BLOCK[attribute as usize - 2] as i32,
        5..=7 => MAX_GRID[attribute as usize - 5] as i32,
        8 => SHARED as i32,
        // Constant memory, bytes.
        9 => 64 << 10,
        // Warp size.
        10 => 32,
        // Maximum pitch, bytes.
        11 => i32::MAX,
        // 32-bit registers of a block, and of a multiprocessor.
        12 | 82 => 65536,
        // Clock rate in kHz. Programs divide by it.
        13 => 1_000_000,
        14 => ALIGNMENT as i32,
        51 => PITCH_ALIGNMENT,
        // Longest axes of textures: 1D, 2D, 3D; layered 2D, and the number of layers; layered 1D; 2D textures for
        // gathers.
        21 | 22 => 131_072,
        23 => 65_536,
        24..=26 | 47..=49 => 16_384,
        27 | 28 | 42 | 45 | 46 => 32_768,
        29 | 43 => 2_048,
        // Cubes, and layers of cubes.
        52 | 53 => 32_768,
        54 => 2_046,
        // The same for surfaces.
        55 => 32_768,
        56 => 131_072,
        57 => 65_536,
        58..=60 => 16_384,
        61 | 63 | 64 | 66 | 67 => 32_768,
        62 | 65 => 2_048,
        68 => 2_046,
        // Textures in linear memory: 1D; 2D with their pitch in bytes.
        69 => 1 << 28,
        70 => 131_072,
        71 => 65_000,
        72 => 2_097_120,
        // Multiprocessors.
        16 => processors::count() as i32,
        // Copy overlap, host mapping, unified addressing.
        15 | 19 | 41 => 1,
        // Concurrent kernels, asynchronous engines: streams run one after another.
        31 | 40 => 1,
        // Memory clock in kHz and bus width in bits. Programs multiply them.
        36 => 1_000_000,
        37 => 64,
        // L2 cache, bytes.
        38 => 1 << 20,
        // Resident threads per multiprocessor: each runs one block at a time.
        39 => MAX_THREADS as i32,
        75 => CAPABILITY.0,
        76 => CAPABILITY.1,
        // Stream priorities, global and local L1.
        78..=80 => 1,
        // Shared memory of a multiprocessor, and of a block that opts in, bytes.
        81 => 228 << 10,
        97 => SHARED_OPT_IN as i32,
        // Cooperative launches, clusters.
        95 | 120 => 1,
        // Managed memory, pageable access, concurrent managed access: the device is the host.
        83 | 88 | 89 | 91 => 1,
        // Ratio of single to double precision.
        87 => 2,
        // Virtual memory management, shared by file descriptors.
        102 | 103 => 1,
        // Resident blocks per multiprocessor.
        106 => 1,
        // Reserved shared memory, bytes.
        111 => 1024,
        // Memory pools, host registration.
        115 | 99 => 1,
        _ if (1..=145).contains(&attribute) => 0,
        _ => return None,
    })
}
