//! Writes Kernel Launcher's wisdom files: the blocks of winners, by GPU and problem size.
//!
//! The format is version 1.0, as read by `src/wisdom.cpp` of KernelTuner/kernel_launcher: a file of JSON lines for each
//! kernel. The first line names the kernel and its tunable parameters, and each other line is a configuration. The
//! format does not define units; Kernel Tuner's times are in ms.

use std::collections::BTreeMap;

use mneme_model::launch::Dim3;
use serde_json::json;

use super::header::capability;
use super::{TunedKernel, TunedLaunch, provenance, qualified_name};

const VERSION: &str = "1.0";
/// The name of the objective, and of its member in each configuration.
const OBJECTIVE: &str = "time";
const NS_PER_MS: f64 = 1e6;
/// Kernel Tuner's default names for the block's parameters.
const PARAMETERS: [&str; 3] = ["block_size_x", "block_size_y", "block_size_z"];

/// The file for one kernel.
pub struct WisdomFile {
    pub name: String,
    pub text: String,
    /// Number of launches. Those without a time are left out, because a configuration needs its objective.
    pub launches: usize,
}

/// The files for kernels. Kernels with the same name share one, because Kernel Launcher identifies kernels by name.
pub fn files(kernels: &[TunedKernel]) -> Vec<WisdomFile> {
    let mut by_key = BTreeMap::<String, Vec<(&TunedLaunch, f64)>>::new();
    for launch in kernels.iter().flat_map(|kernel| &kernel.launches) {
        let Some(time) = launch.after else { continue };
        by_key.entry(qualified_name(&launch.kernel)).or_default().push((launch, time));
    }
    by_key.into_iter().map(|(key, launches)| file(&key, &launches)).collect()
}

fn file(key: &str, launches: &[(&TunedLaunch, f64)]) -> WisdomFile {
    let blocks = launches.iter().flat_map(|(launch, _)| [launch.recorded.block, launch.configuration.block]);
    let axes = blocks.map(used_axes).max().unwrap_or(1);
    let header = json!({
        "version": VERSION,
        "objective": OBJECTIVE,
        "tunable_parameters": PARAMETERS[..axes],
        "key": key,
    });
    let mut text = format!("{header}\n");
    for (launch, time) in launches {
        let recorded = &launch.recorded;
        let mut environment = json!({"device_name": launch.device});
        if let capability @ 1.. = capability(&launch.architecture) {
            environment["compute_capability"] = capability.into();
        }
        let record = json!({
            "config": by_axis(launch.configuration.block)[..axes],
            "problem_size": threads(recorded.grid, recorded.block),
            OBJECTIVE: time / NS_PER_MS,
            "environment": environment,
        });
        let comment = format!("{}: {}", launch.kernel, provenance(launch)).replace(['\n', '\r'], " ");
        text += &format!("# {comment}\n{record}\n");
    }
    WisdomFile { name: format!("{}.wisdom", file_stem(key)), text, launches: launches.len() }
}

/// The file name in which Kernel Launcher looks for a kernel.
fn file_stem(key: &str) -> String {
    key.chars().map(|it| if it.is_ascii_alphanumeric() || "_-.".contains(it) { it } else { '_' }).collect()
}

fn by_axis(of: Dim3) -> [u32; 3] {
    [of.x, of.y, of.z]
}

/// The number of used axes: x, and the others up to the last one that is not 1.
fn used_axes(block: Dim3) -> usize {
    by_axis(block).iter().rposition(|size| *size > 1).map_or(1, |last| last + 1)
}

/// The recorded launch's threads along each axis, as 32-bit problem sizes.
fn threads(grid: Dim3, block: Dim3) -> [u32; 3] {
    let (grid, block) = (by_axis(grid), by_axis(block));
    std::array::from_fn(|axis| grid[axis].saturating_mul(block[axis]))
}

#[cfg(test)]
mod tests {
    use mneme_model::configuration::Configuration;
    use serde_json::Value;

    use super::super::grouped;
    use super::super::tests::{launch, plain};
    use super::*;

    fn lines(file: &WisdomFile) -> Vec<Value> {
        let lines = file.text.lines().filter(|line| !line.starts_with('#'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    fn tuned(block: Dim3) -> Configuration {
        Configuration::recorded(Dim3::new(80, 1, 1), block, 0)
    }

    /// Asserts the members and types that Kernel Launcher requires.
    #[test]
    fn a_launch_is_a_line_that_kernel_launcher_reads() {
        let files = files(&grouped(vec![
            launch("void ns::step<float>(float*)", "sm_90", tuned(Dim3::new(128, 1, 1))),
            launch("void ns::step<double>(double*)", "cpu", tuned(Dim3::new(32, 4, 1))),
        ]));
        let [file] = &files[..] else { panic!("{} files", files.len()) };
        assert_eq!((file.name.as_str(), file.launches), ("ns__step.wisdom", 2));
        let provenance = "\n# void ns::step<float>(float*): 209.2 us, before 238.8 us; from /home/user/results\n";
        assert!(file.text.contains(provenance), "{}", file.text);
        let parameters = ["block_size_x", "block_size_y"];
        let header =
            json!({"version": "1.0", "objective": "time", "tunable_parameters": parameters, "key": "ns::step"});
        let line = |block: [u32; 2], environment: Value| json!({"config": block, "problem_size": [10240, 1, 1], "time": 0.2092, "environment": environment});
        let expected = [
            header,
            line([128, 1], json!({"device_name": "NVIDIA H200", "compute_capability": 90})),
            line([32, 4], json!({"device_name": "NVIDIA H200"})),
        ];
        assert_eq!(lines(file), expected);
    }

    #[test]
    fn what_was_not_timed_is_left_out() {
        let timed = launch("step(int)", "sm_90", plain());
        let not_timed = TunedLaunch { after: None, ..launch("other(int)", "sm_90", plain()) };
        let names: Vec<String> = files(&grouped(vec![not_timed, timed])).into_iter().map(|file| file.name).collect();
        assert_eq!(names, ["step.wisdom"]);
    }

    #[test]
    fn problem_sizes_have_32_bits() {
        let (grid, block) = (Dim3::new(i32::MAX as u32, 3, 1), Dim3::new(1024, 2, 1));
        assert_eq!(threads(grid, block), [u32::MAX, 6, 1]);
        assert_eq!([block, Dim3::new(1, 1, 1), Dim3::new(1, 1, 4)].map(used_axes), [2, 1, 3]);
    }
}
