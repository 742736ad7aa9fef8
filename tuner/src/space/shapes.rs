//! Block shapes to try, and the grid for each.
//!
//! The rules are upstream's, with two additions: blocks of the usual shapes are tried even if the recorded one is
//! small, and for AMD GPUs blocks are whole waves if the recorded one is.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use mneme_model::launch::Dim3;

use super::{BlockAxes, LaunchSafety};

/// CUDA's and HIP's limits on the threads of a block along x, y and z.
const AXIS_LIMITS: [u32; 3] = [1024, 1024, 64];
/// CUDA's and HIP's limit on the threads of a block.
const BLOCK_LIMIT: u64 = 1024;
/// Threads of the usual blocks: at least a warp, and at most what every kernel has registers for.
const USUAL_THREADS: RangeInclusive<u64> = 32..=256;
/// CUDA's limits on the blocks of a grid along x, y and z.
const GRID_LIMITS: [u64; 3] = [i32::MAX as u64, 65_535, 65_535];
/// Limit on the divisors of an axis' work.
const LARGEST_DIVISOR: u64 = 2048;
/// Factors for recorded extents, as fractions.
const FACTORS: [(u64, u64); 5] = [(1, 2), (3, 4), (5, 4), (3, 2), (2, 1)];

/// Which of the axes x, y and z of the block's shape vary.
pub fn active_axes(dimensions: BlockAxes, grid: Dim3, block: Dim3) -> [bool; 3] {
    match dimensions {
        BlockAxes::None => [false; 3],
        BlockAxes::X => [true, false, false],
        BlockAxes::Xy => [true, true, false],
        BlockAxes::Xyz => [true; 3],
        BlockAxes::Auto => {
            let (grid, block) = (grid.as_array(), block.as_array());
            std::array::from_fn(|axis| grid[axis] > 1 || block[axis] > 1)
        }
    }
}

/// The block shapes to try, ascending by z, y, x, including the recorded shape.
///
/// `keeps_grid` says that candidates with the recorded grid are tried, as for a grid of one block. Their blocks may have
/// more threads than the recorded launch. `wave` is the number of threads that run in step. If it divides the recorded
/// block, it divides every other.
pub fn block_shapes(
    grid: Dim3,
    block: Dim3,
    axes: [bool; 3],
    safety: LaunchSafety,
    keeps_grid: bool,
    wave: u32,
) -> Vec<Dim3> {
    let keeps_grid = keeps_grid || grid.count() == 1;
    let budget = thread_budget(block, safety);
    let unit = whole_waves(block, wave).unwrap_or(1);
    let candidates: [BTreeSet<u32>; 3] = std::array::from_fn(|axis| {
        let recorded = block.as_array()[axis];
        if axes[axis] {
            extents(grid.as_array()[axis], recorded, AXIS_LIMITS[axis], keeps_grid)
        } else {
            BTreeSet::from([recorded])
        }
    });
    let mut shapes = Vec::new();
    for z in &candidates[2] {
        for y in &candidates[1] {
            for x in &candidates[0] {
                let shape = Dim3::new(*x, *y, *z);
                let is_whole = shape.count().is_multiple_of(unit.into());
                let is_small = shape.count() <= budget || is_usual(shape, axes);
                let fits = is_whole && is_small && grid_for(grid, block, shape, axes).is_some();
                if fits || shape == block {
                    shapes.push(shape);
                }
            }
        }
    }
    shapes
}

/// The grid for another block shape: as many blocks along each active axis as cover the recorded threads. `None` if
/// devices do not allow that many.
pub fn grid_for(grid: Dim3, block: Dim3, shape: Dim3, axes: [bool; 3]) -> Option<Dim3> {
    let (recorded, old, new) = (grid.as_array(), block.as_array(), shape.as_array());
    let mut extents = recorded;
    for axis in (0..3).filter(|axis| axes[*axis]) {
        let blocks = work(recorded[axis], old[axis]).div_ceil(u64::from(new[axis]));
        if blocks > GRID_LIMITS[axis] {
            return None;
        }
        extents[axis] = blocks as u32;
    }
    Some(extents.into())
}

/// The wave, if the recorded block consists of whole waves.
pub fn whole_waves(block: Dim3, wave: u32) -> Option<u32> {
    block.count().is_multiple_of(wave.into()).then_some(wave)
}

/// Whether a shape is usual: powers of two, with some warps of threads.
fn is_usual(shape: Dim3, axes: [bool; 3]) -> bool {
    let extents = shape.as_array();
    USUAL_THREADS.contains(&shape.count()) && (0..3).all(|axis| !axes[axis] || extents[axis].is_power_of_two())
}

/// Limit on the threads of a block, besides the usual shapes.
fn thread_budget(block: Dim3, safety: LaunchSafety) -> u64 {
    let threads = match safety {
        LaunchSafety::Conservative => block.count(),
        LaunchSafety::Balanced => 2 * block.count(),
        LaunchSafety::Aggressive => BLOCK_LIMIT,
    };
    threads.min(BLOCK_LIMIT)
}

/// Threads along one axis of the whole launch.
fn work(blocks: u32, threads: u32) -> u64 {
    u64::from(blocks) * u64::from(threads)
}

/// Candidates for the block's extent along one axis.
fn extents(blocks: u32, recorded: u32, limit: u32, keeps_grid: bool) -> BTreeSet<u32> {
    let work = work(blocks, recorded);
    // A grid that follows the block has no use for blocks larger than the launch.
    let largest = if keeps_grid { limit.into() } else { u64::from(limit).min(work) };
    let powers = (0..u32::BITS).map(|exponent| 1u64 << exponent);
    let scaled = FACTORS.iter().map(|(numerator, denominator)| u64::from(recorded) * numerator / denominator);
    let mut found: BTreeSet<u32> = powers
        .chain(scaled)
        .chain(divisors(work))
        .filter(|extent| (1..=largest).contains(extent))
        .map(|extent| extent as u32)
        .collect();
    found.insert(recorded);
    found
}

/// Divisors of `work` up to its square root or [`LARGEST_DIVISOR`], and their cofactors.
fn divisors(work: u64) -> impl Iterator<Item = u64> {
    let end = work.isqrt().min(LARGEST_DIVISOR);
    (1..=end).filter(move |divisor| work.is_multiple_of(*divisor)).flat_map(move |divisor| [divisor, work / divisor])
}

#[cfg(test)]
mod tests {
    use super::*;
    use LaunchSafety::{Aggressive, Balanced, Conservative};

    const X: [bool; 3] = [true, false, false];

    fn widths(grid: u32, block: u32, safety: LaunchSafety) -> Vec<u32> {
        widths_of(block_shapes(Dim3::new(grid, 1, 1), Dim3::new(block, 1, 1), X, safety, false, 1))
    }

    fn widths_of(shapes: Vec<Dim3>) -> Vec<u32> {
        shapes.into_iter().map(|shape| shape.x).collect()
    }

    #[test]
    fn with_the_recorded_grid_blocks_may_be_larger_than_the_launch() {
        let kept = |grid, block, safety| {
            widths_of(block_shapes(Dim3::new(grid, 1, 1), Dim3::new(block, 1, 1), X, safety, true, 1))
        };
        assert_eq!(kept(64, 2, Conservative), [1, 2, 32, 64, 128, 256]);
        assert_eq!(kept(64, 2, Balanced), [1, 2, 3, 4, 32, 64, 128, 256]);
        assert_eq!(kept(64, 2, Aggressive), [1, 2, 3, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
        assert_eq!(widths(64, 2, Aggressive).last(), Some(&128));
        assert_eq!(widths(1, 32, Balanced).last(), Some(&256), "a grid of one block stays in any case");
    }

    #[test]
    fn a_small_launch_by_hand() {
        // Work 4 * 6 = 24: powers 1 2 4 8 16; of 6: 3, 4, 7, 9, 12; divisors 1 2 3 4 and cofactors 24 12 8 6.
        assert_eq!(widths(4, 6, Aggressive), [1, 2, 3, 4, 6, 7, 8, 9, 12, 16, 24]);
        assert_eq!(widths(4, 6, Balanced), [1, 2, 3, 4, 6, 7, 8, 9, 12]);
        assert_eq!(widths(4, 6, Conservative), [1, 2, 3, 4, 6]);
    }

    #[test]
    fn a_small_recorded_block_has_the_usual_ones_for_company() {
        assert_eq!(widths(4096, 1, Conservative), [1, 32, 64, 128, 256]);
        assert_eq!(widths(4096, 1, Balanced), [1, 2, 32, 64, 128, 256]);
        assert_eq!(widths(512, 8, Conservative), [1, 2, 4, 6, 8, 32, 64, 128, 256]);
        let flat = [true, true, false];
        let (grid, block) = (Dim3::new(512, 512, 1), Dim3::new(1, 1, 1));
        let shapes = block_shapes(grid, block, flat, Balanced, false, 1);
        for usual in [Dim3::new(32, 8, 1), Dim3::new(16, 16, 1), Dim3::new(128, 1, 1), Dim3::new(1, 32, 1)] {
            assert!(shapes.contains(&usual), "{usual}");
        }
        assert!(shapes.iter().all(|shape| shape.count() <= 256), "{shapes:?}");
    }

    #[test]
    fn blocks_are_whole_waves_where_the_recorded_one_is() {
        let shapes =
            |block, wave| block_shapes(Dim3::new(100, 1, 1), block, [true, true, false], Balanced, false, wave);
        for wave in [32, 64] {
            let block = Dim3::new(16, 8, 1);
            let (whole, all) = (shapes(block, wave), shapes(block, 1));
            let expected: Vec<Dim3> =
                all.iter().filter(|shape| shape.count().is_multiple_of(wave.into())).copied().collect();
            assert_eq!(whole, expected, "{wave}");
            assert!(whole.contains(&block) && 2 < whole.len() && whole.len() < all.len());
        }
        let odd = Dim3::new(96, 1, 1);
        assert_eq!(shapes(odd, 64), shapes(odd, 1), "one wave and a half");
        assert!(shapes(odd, 32).iter().all(|shape| shape.count().is_multiple_of(32)));
    }

    #[test]
    fn a_prime_amount_of_work_still_has_powers_of_two() {
        let found = widths(10_007, 1, Aggressive);
        assert_eq!(found, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]);
    }

    #[test]
    fn the_recorded_shape_is_in_whatever_the_limits() {
        let (grid, block) = (Dim3::new(7, 1, 1), Dim3::new(1, 1, 100));
        let shapes = block_shapes(grid, block, [true; 3], Conservative, false, 1);
        assert!(shapes.contains(&block), "{shapes:?}");
        assert!(shapes.iter().filter(|shape| **shape != block).all(|shape| shape.z <= 64 && shape.count() <= 256));
    }

    #[test]
    fn no_shape_exceeds_a_thousand_and_twenty_four_threads() {
        let shapes = block_shapes(Dim3::new(64, 64, 64), Dim3::new(16, 16, 4), [true; 3], Balanced, false, 1);
        assert!(shapes.len() > 50);
        assert!(shapes.iter().all(|shape| shape.count() <= 1024));
    }

    #[test]
    fn inactive_axes_stay_as_recorded() {
        let (grid, block) = (Dim3::new(10, 20, 1), Dim3::new(8, 4, 1));
        assert_eq!(active_axes(BlockAxes::Auto, grid, block), [true, true, false]);
        assert_eq!(block_shapes(grid, block, active_axes(BlockAxes::None, grid, block), Aggressive, false, 1), [block]);
        for shape in block_shapes(grid, block, X, Aggressive, false, 1) {
            assert_eq!((shape.y, shape.z), (4, 1));
            assert_eq!(grid_for(grid, block, shape, X).unwrap().y, 20);
        }
    }

    #[test]
    fn the_grid_covers_the_recorded_threads_and_no_more_blocks_than_that_takes() {
        let (grid, block) = (Dim3::new(40_000, 1, 1), Dim3::new(256, 1, 1));
        for shape in block_shapes(grid, block, X, Aggressive, false, 1) {
            let blocks = u64::from(grid_for(grid, block, shape, X).unwrap().x);
            assert!(blocks * u64::from(shape.x) >= 10_240_000);
            assert!((blocks - 1) * u64::from(shape.x) < 10_240_000);
        }
        assert_eq!(
            grid_for(Dim3::new(1, 65_535, 1), Dim3::new(1, 2, 1), Dim3::new(1, 1, 1), [false, true, false]),
            None
        );
    }
}
