//! The exports `mneme export --header` and `--cmake`: winners for the program's own source.

mod cmake;
mod header;

use std::path::{Path, PathBuf};

use mneme_core::configuration::Configuration;
use mneme_core::files::{self, FileAccess};
use mneme_core::launch::Dim3;
use mneme_core::recording::database::KernelRecord;

use crate::apply::results;
use crate::error::CommandError;
use crate::print;

/// A winner, with the launch that it was found for.
struct TunedLaunch {
    /// Demangled.
    kernel: String,
    static_hash: u64,
    /// `sm_90`, `gfx90a`, `cpu`.
    architecture: String,
    recorded: LaunchDimensions,
    configuration: Configuration,
    /// ns, where the session measured them.
    before: Option<f64>,
    after: Option<f64>,
    source: PathBuf,
}

#[derive(Clone, Copy)]
struct LaunchDimensions {
    grid: Dim3,
    block: Dim3,
    /// Dynamic shared memory, bytes.
    shared_mem: u32,
}

/// Writes the files that are named, from results folders. `recordings` is where the recordings are now.
pub fn run(
    folders: &[PathBuf],
    recordings: Option<&Path>,
    header: Option<&Path>,
    cmake: Option<&Path>,
) -> Result<(), CommandError> {
    let mut launches = Vec::new();
    for folder in folders {
        for found in results::read(folder, recordings).map_err(CommandError::Usage)? {
            let record = KernelRecord::load(&found.database)?;
            let (_, instance) = record.instance(&found.database, Some(&found.id))?;
            launches.push(TunedLaunch {
                kernel: record.demangled_name.clone(),
                static_hash: record.static_hash,
                architecture: found.architecture.unwrap_or_else(|| record.ours.device_arch.clone()),
                recorded: LaunchDimensions {
                    grid: instance.grid_dims,
                    block: instance.block_dims,
                    shared_mem: instance.shared_mem,
                },
                configuration: found.configuration,
                before: found.before,
                after: found.after,
                source: found.source,
            });
        }
    }
    if launches.is_empty() {
        return Err(CommandError::Usage("the results hold no winner, so that there is nothing to write".into()));
    }
    let kernels = grouped(launches);
    for (path, text) in [(header, header::text as fn(&[TunedKernel]) -> String), (cmake, cmake::text)] {
        let Some(path) = path else { continue };
        files::replace(path, text(&kernels).as_bytes(), FileAccess::Usual)
            .map_err(|source| CommandError::Io { path: path.into(), source })?;
        print(&format!("{}: {} of {}\n", path.display(), counted(&kernels), plural(kernels.len(), "kernel")))?;
    }
    Ok(())
}

fn counted(kernels: &[TunedKernel]) -> String {
    plural(kernels.iter().map(|kernel| kernel.launches.len()).sum(), "launch")
}

fn plural(count: usize, noun: &str) -> String {
    let ending = if noun.ends_with("ch") { "es" } else { "s" };
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}{ending}") }
}

/// A kernel under a name that no other one has.
struct TunedKernel {
    /// A C++ identifier.
    identifier: String,
    launches: Vec<TunedLaunch>,
}

/// In the order in which kernels come first.
fn grouped(launches: Vec<TunedLaunch>) -> Vec<TunedKernel> {
    let mut kernels = Vec::<TunedKernel>::new();
    for launch in launches {
        let is_same = |kernel: &&mut TunedKernel| {
            let first = &kernel.launches[0];
            (&first.kernel, first.static_hash) == (&launch.kernel, launch.static_hash)
        };
        if let Some(kernel) = kernels.iter_mut().find(is_same) {
            kernel.launches.push(launch);
            continue;
        }
        let short = identifier(&launch.kernel);
        let is_taken = kernels.iter().any(|kernel| kernel.identifier == short);
        let identifier = if is_taken { format!("{short}_{}", launch.static_hash) } else { short };
        kernels.push(TunedKernel { identifier, launches: vec![launch] });
    }
    kernels
}

/// The last part of a function's name without its template arguments, as an identifier.
fn identifier(demangled: &str) -> String {
    let (mut name, mut depth) = (String::new(), 0);
    for character in demangled.replace("(anonymous namespace)::", "").chars() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            '(' if depth == 0 => break,
            _ if depth == 0 => name.push(character),
            _ => {}
        }
    }
    let last = name.rsplit([':', ' ', '*', '&']).next().unwrap_or_default();
    let safe: String = last.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    match safe.chars().next() {
        None => "kernel".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("kernel_{safe}"),
        _ => safe,
    }
}

/// "238.8 us, before 321.6 us; from results/vecadd", as far as it is known.
fn provenance(launch: &TunedLaunch) -> String {
    let microseconds = |ns: f64| format!("{:.1} us", ns / 1e3);
    let times = match (launch.before, launch.after) {
        (Some(before), Some(after)) => format!("{}, before {}; ", microseconds(after), microseconds(before)),
        _ => String::new(),
    };
    let source = launch.source.display().to_string().replace(['\n', '\r'], " ");
    format!("{times}from {source}")
}

#[cfg(test)]
mod tests {
    use super::*;

    pub fn plain() -> Configuration {
        Configuration::recorded(Dim3::new(40, 1, 1), Dim3::new(256, 1, 1), 0)
    }

    /// A winner of a kernel on an architecture.
    pub fn launch(kernel: &str, architecture: &str, configuration: Configuration) -> TunedLaunch {
        TunedLaunch {
            kernel: kernel.to_owned(),
            static_hash: 7,
            architecture: architecture.to_owned(),
            recorded: LaunchDimensions { grid: Dim3::new(40, 1, 1), block: Dim3::new(256, 1, 1), shared_mem: 0 },
            configuration,
            before: Some(238_800.0),
            after: Some(209_200.0),
            source: "/home/user/results".into(),
        }
    }

    #[test]
    fn names_of_functions_become_identifiers() {
        for (demangled, expected) in [
            ("vecadd<int>(int*, int const*, unsigned long)", "vecadd"),
            ("void ns::inner::step<float, (ns::Kind)2>(float*)", "step"),
            ("saxpy", "saxpy"),
            ("(anonymous namespace)::scale(float*)", "scale"),
            ("", "kernel"),
            ("x::3d(int)", "kernel_3d"),
        ] {
            assert_eq!(identifier(demangled), expected, "{demangled}");
        }
    }

    #[test]
    fn kernels_of_one_name_are_told_apart() {
        let one = launch("a::step(int)", "sm_90", plain());
        let other = TunedLaunch { static_hash: 8, ..launch("b::step(int)", "sm_90", plain()) };
        let again = launch("a::step(int)", "sm_80", plain());
        let kernels = grouped(vec![one, other, again]);
        let found: Vec<_> = kernels.iter().map(|it| (it.identifier.as_str(), it.launches.len())).collect();
        assert_eq!(found, [("step", 2), ("step_8", 1)]);
    }
}
