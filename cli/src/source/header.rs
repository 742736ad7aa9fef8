//! Writes the C++ header with launch dimensions and launch bounds.

use std::collections::BTreeMap;

use mneme_model::launch::Dim3;

use super::{TunedKernel, TunedLaunch, provenance};

/// The text before the kernels. It is C++11, which every compiler of device code accepts.
const HEAD: &str = "// Launch dimensions that mneme tune found, written by mneme export --header.
//
// #include it where kernels are launched:
//
//     const mneme_tuned::Launch *tuned = mneme_tuned::find(mneme_tuned::KERNEL, 90, grid, block);
//     if (tuned) { grid = dim3(tuned->grid[0], tuned->grid[1], tuned->grid[2]); ... }
//
// and where they are defined: __global__ void MNEME_TUNED_BOUNDS_KERNEL kernel(...)
#ifndef MNEME_TUNED_HPP
#define MNEME_TUNED_HPP

#include <cstddef>

namespace mneme_tuned {

// A recorded launch with its tuned dimensions.
struct Launch {
    int capability; // 90 for sm_90; 0 if the device is not NVIDIA's
    unsigned recorded_grid[3], recorded_block[3], recorded_shared;
    unsigned grid[3], block[3], shared; // shared: dynamic shared memory, bytes
};

// The entry for a device and a launch's dimensions; null if there is none. Dim3 is dim3, or a type with its members.
template <std::size_t N, class Dim3>
inline const Launch *find(const Launch (&launches)[N], int capability, const Dim3 &grid, const Dim3 &block) {
    for (std::size_t i = 0; i < N; ++i) {
        const Launch &it = launches[i];
        if (it.capability == capability && it.recorded_grid[0] == grid.x && it.recorded_grid[1] == grid.y &&
            it.recorded_grid[2] == grid.z && it.recorded_block[0] == block.x && it.recorded_block[1] == block.y &&
            it.recorded_block[2] == block.z)
            return &it;
    }
    return nullptr;
}
";

pub fn text(kernels: &[TunedKernel]) -> String {
    let mut text = HEAD.to_owned();
    for kernel in kernels {
        text += &format!("\n// {}\nconst Launch {}[] = {{\n", comment(&kernel.launches[0].kernel), kernel.identifier);
        for launch in &kernel.launches {
            let (recorded, tuned) = (&launch.recorded, &launch.configuration);
            text += &format!(
                "    // {}: {}\n    {{{}, {}, {}, {}, {}, {}, {}}},\n",
                comment(&launch.architecture),
                comment(&provenance(launch)),
                capability(&launch.architecture),
                dimensions(recorded.grid),
                dimensions(recorded.block),
                recorded.shared_mem,
                dimensions(tuned.grid),
                dimensions(tuned.block),
                tuned.shared_mem
            );
        }
        text += "};\n";
    }
    text += "\n} // namespace mneme_tuned\n";
    for kernel in kernels {
        text += &bounds(kernel);
    }
    text + "\n#endif\n"
}

/// A single line, without a backslash that would continue it.
fn comment(text: &str) -> String {
    text.chars().map(|it| if it.is_control() || it == '\\' { ' ' } else { it }).collect()
}

/// 90 for sm_90; 0 if the device is not NVIDIA's.
pub fn capability(architecture: &str) -> u32 {
    let digits = architecture.strip_prefix("sm_").unwrap_or_default();
    digits.trim_end_matches(|it: char| it.is_ascii_lowercase()).parse().unwrap_or(0)
}

fn dimensions(of: Dim3) -> String {
    format!("{{{}, {}, {}}}", of.x, of.y, of.z)
}

/// A macro for the kernel's definition, with launch bounds that hold for all its launches on a GPU.
fn bounds(kernel: &TunedKernel) -> String {
    let mut by_capability = BTreeMap::<u32, Vec<&TunedLaunch>>::new();
    for launch in &kernel.launches {
        by_capability.entry(capability(&launch.architecture)).or_default().push(launch);
    }
    let name = format!("MNEME_TUNED_BOUNDS_{}", kernel.identifier);
    let mut branches = String::new();
    for (capability, launches) in by_capability.into_iter().filter(|(capability, _)| *capability > 0) {
        // If one launch has no bounds, the kernel gets none.
        let Some(all) = launches.iter().map(|launch| bounds_of(launch)).collect::<Option<Vec<_>>>() else { continue };
        let threads = all.iter().map(|(threads, _)| *threads).max().unwrap_or(0);
        let blocks = all.iter().map(|(_, blocks)| *blocks).min().unwrap_or(0);
        let blocks = if blocks > 0 { format!(", {blocks}") } else { String::new() };
        let word = if branches.is_empty() { "#if" } else { "#elif" };
        branches += &format!(
            "{word} defined(__CUDA_ARCH__) && __CUDA_ARCH__ == {}\n#define {name} __launch_bounds__({threads}{blocks})\n",
            capability * 10
        );
    }
    if branches.is_empty() {
        format!("\n#define {name}\n")
    } else {
        format!("\n{branches}#else\n#define {name}\n#endif\n")
    }
}

/// The launch bounds of a winner: maximum threads of a block, and minimum blocks per multiprocessor.
fn bounds_of(launch: &TunedLaunch) -> Option<(u64, u32)> {
    let tuned = &launch.configuration;
    let threads = tuned.max_threads.filter(|threads| *threads > 0).map_or(tuned.block.count(), u64::from);
    tuned.set_launch_bounds.then_some((threads, tuned.min_blocks_per_sm))
}

#[cfg(test)]
mod tests {
    use mneme_model::configuration::Configuration;

    use super::super::grouped;
    use super::super::tests::{launch, plain};
    use super::*;

    fn tuned(threads: u32, blocks: u32) -> Configuration {
        Configuration {
            set_launch_bounds: true,
            min_blocks_per_sm: blocks,
            ..Configuration::recorded(Dim3::new(80, 1, 1), Dim3::new(threads, 1, 1), 0)
        }
    }

    #[test]
    fn every_launch_is_an_entry_and_bounds_hold_for_all() {
        let kernels = grouped(vec![
            launch("step(int)", "sm_90", tuned(128, 4)),
            launch("step(int)", "sm_90", tuned(256, 2)),
            launch("step(int)", "sm_80", plain()),
            launch("step(int)", "cpu", tuned(64, 0)),
        ]);
        let text = text(&kernels);
        assert!(text.contains("const Launch step[] = {\n"), "{text}");
        let entry = "{90, {40, 1, 1}, {256, 1, 1}, 0, {80, 1, 1}, {128, 1, 1}, 0},\n";
        assert!(text.contains(entry), "{text}");
        assert!(text.contains("// sm_90: 209.2 us, before 238.8 us; from /home/user/results\n"), "{text}");
        let bounds = "\n#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ == 900\n#define MNEME_TUNED_BOUNDS_step \
                      __launch_bounds__(256, 2)\n#else\n#define MNEME_TUNED_BOUNDS_step\n#endif\n";
        assert!(text.contains(bounds), "{text}");
    }

    #[test]
    fn architectures_have_their_numbers() {
        for (architecture, expected) in [("sm_90", 90), ("sm_90a", 90), ("sm_121", 121), ("gfx90a", 0), ("cpu", 0)] {
            assert_eq!(capability(architecture), expected, "{architecture}");
        }
    }

    #[test]
    fn comments_are_lines() {
        assert_eq!(comment("a\nb\\"), "a b ");
    }
}
