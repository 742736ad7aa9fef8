//! The exports `mneme export --header`, `--cmake` and `--wisdom`: winners for the program's source.

mod cmake;
mod header;
mod wisdom;

use std::path::{Path, PathBuf};

use clap::Args;
use mneme_model::configuration::Configuration;
use mneme_model::units::counted;
use mneme_system::files::{self, FileAccess};
use mneme_winners::LaunchDimensions;
use serde_json::Value;

use crate::apply::results;
use crate::error::CommandError;
use crate::output::print;

#[derive(Debug, Args)]
pub struct SourceFiles {
    /// Write the dimensions and launch bounds of winners as a C++ header
    #[arg(long, value_name = "FILE")]
    header: Option<PathBuf>,
    /// Write the compiler options of winners as a CMake file
    #[arg(long, value_name = "FILE")]
    cmake: Option<PathBuf>,
    /// Write the blocks of winners to this folder, as Kernel Launcher's wisdom files
    #[arg(long, value_name = "DIR")]
    wisdom: Option<PathBuf>,
}

/// A winner with its recorded launch.
struct TunedLaunch {
    /// Demangled name.
    kernel: String,
    static_hash: u64,
    /// The driver's name, such as "NVIDIA H200".
    device: String,
    /// `sm_90`, `gfx90a`, `cpu`.
    architecture: String,
    recorded: LaunchDimensions,
    configuration: Configuration,
    /// ns, if the session measured times.
    before: Option<f64>,
    after: Option<f64>,
    source: PathBuf,
}

/// Writes the named files from results folders. `recordings` is the recordings' current place.
pub fn run(folders: &[PathBuf], recordings: Option<&Path>, to: &SourceFiles) -> Result<(), CommandError> {
    let mut launches = Vec::new();
    for folder in folders {
        CommandError::unless_there(folder)?;
        for found in results::read(folder, recordings)? {
            let record = found.recording.load(&found.id)?;
            let (_, instance) = record.instance(&found.recording.database, Some(&found.id))?;
            let session = Session::read(&found.source);
            launches.push(TunedLaunch {
                kernel: record.demangled_name.clone(),
                static_hash: record.static_hash,
                device: session.device.unwrap_or_else(|| record.ours.device.clone()),
                architecture: found.architecture.unwrap_or_else(|| record.ours.device_arch.clone()),
                recorded: LaunchDimensions {
                    grid: instance.grid_dims,
                    block: instance.block_dims,
                    shared_mem: instance.shared_mem,
                },
                configuration: found.configuration,
                before: found.before.filter(|_| session.is_time),
                after: found.after.filter(|_| session.is_time),
                source: found.source,
            });
        }
    }
    if launches.is_empty() {
        return Err(CommandError::Usage("the results contain no winner to export".into()));
    }
    let kernels = grouped(launches);
    for (path, text) in [(&to.header, header::text as fn(&[TunedKernel]) -> String), (&to.cmake, cmake::text)] {
        let Some(path) = path else { continue };
        write(path, &text(&kernels))?;
        print(&format!("{}: {} of {}\n", path.display(), launch_count(&kernels), counted(kernels.len(), "kernel")))?;
    }
    to.wisdom.as_deref().map_or(Ok(()), |folder| write_wisdom(&kernels, folder))
}

fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    files::replace(path, text.as_bytes(), FileAccess::Usual)
        .map_err(|source| CommandError::Io { path: path.into(), source })
}

/// Writes nothing if one of the files exists, because Kernel Launcher's own tuner keeps its results in them.
fn write_wisdom(kernels: &[TunedKernel], folder: &Path) -> Result<(), CommandError> {
    let found = wisdom::files(kernels);
    if found.is_empty() {
        return Err(CommandError::Usage("no winner has a time, which wisdom files require".into()));
    }
    if let Some(path) = found.iter().map(|file| folder.join(&file.name)).find(|path| path.exists()) {
        return Err(CommandError::Usage(format!("{} exists; name another folder", path.display())));
    }
    std::fs::create_dir_all(folder).map_err(|source| CommandError::Io { path: folder.into(), source })?;
    for file in found {
        let path = folder.join(&file.name);
        write(&path, &file.text)?;
        print(&format!("{}: {}\n", path.display(), counted(file.launches, "launch")))?;
    }
    Ok(())
}

fn launch_count(kernels: &[TunedKernel]) -> String {
    counted(kernels.iter().map(|kernel| kernel.launches.len()).sum(), "launch")
}

/// Further information on a session.
struct Session {
    /// The name of its device.
    device: Option<String>,
    /// Whether its metric is a time.
    is_time: bool,
}

impl Session {
    /// Reads files from which winners were already read. Missing information is left out.
    fn read(folder: &Path) -> Self {
        let json = |name: &str| -> Value {
            std::fs::read(folder.join(name))
                .ok()
                .and_then(|text| serde_json::from_slice(&text).ok())
                .unwrap_or_default()
        };
        let (best, options) = (json("best.json"), json("config.json"));
        let results = [&best["result"], &best["instances"][0]["result"]];
        let device = results.iter().find_map(|result| result["environment"]["device"].as_str());
        let objective = options["objective"].as_str().or_else(|| options["objective"][0].as_str());
        Self {
            device: device.filter(|name| !name.is_empty()).map(str::to_owned),
            is_time: objective.is_none_or(|objective| ["time", "speedup"].contains(&objective)),
        }
    }
}

/// A kernel with a unique name.
struct TunedKernel {
    /// A C++ identifier.
    identifier: String,
    launches: Vec<TunedLaunch>,
}

/// Groups launches by kernel, in the order of first occurrence.
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
        kernels.push(TunedKernel { identifier: identifier(&launch.kernel), launches: vec![launch] });
    }
    // If kernels share a name, none of them keeps it. Otherwise the order of results would decide, and could swap them.
    rename_namesakes(&mut kernels, |launch| spelled_out(&launch.kernel));
    rename_namesakes(&mut kernels, |launch| format!("{}_{}", spelled_out(&launch.kernel), launch.static_hash));
    kernels
}

fn rename_namesakes(kernels: &mut [TunedKernel], name: impl Fn(&TunedLaunch) -> String) {
    let names: Vec<String> = kernels.iter().map(|kernel| kernel.identifier.clone()).collect();
    for kernel in kernels {
        if names.iter().filter(|name| **name == kernel.identifier).count() > 1 {
            kernel.identifier = name(&kernel.launches[0]);
        }
    }
}

/// A whole signature as an identifier: scopes, template arguments and parameters.
fn spelled_out(demangled: &str) -> String {
    let words: Vec<&str> = demangled
        .strip_prefix("void ")
        .unwrap_or(demangled)
        .split(|it: char| !it.is_ascii_alphanumeric() && it != '_')
        .filter(|word| !word.is_empty())
        .collect();
    identifier(&words.join("_"))
}

/// The last part of a function's name without template arguments, as an identifier.
fn identifier(demangled: &str) -> String {
    let name = qualified_name(demangled);
    let last = name.rsplit(':').next().unwrap_or_default();
    let safe: String = last.chars().map(|it| if it.is_ascii_alphanumeric() { it } else { '_' }).collect();
    match safe.chars().next() {
        None => "kernel".to_owned(),
        Some(first) if first.is_ascii_digit() => format!("kernel_{safe}"),
        _ => safe,
    }
}

/// A function's name with namespaces, without template arguments.
fn qualified_name(demangled: &str) -> String {
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
    name.rsplit([' ', '*', '&']).next().unwrap_or_default().to_owned()
}

/// "238.8 us, before 321.6 us; from results/vecadd", as far as known.
fn provenance(launch: &TunedLaunch) -> String {
    let microseconds = |ns: f64| format!("{:.1} us", ns / 1e3);
    let times = match (launch.before, launch.after) {
        (Some(before), Some(after)) => format!("{}, before {}; ", microseconds(after), microseconds(before)),
        _ => String::new(),
    };
    let source = launch.source.display().to_string().replace(['\n', '\r'], " ");
    let compiler =
        launch.configuration.llvm.map_or_else(String::new, |version| format!("compiled by LLVM {version}, "));
    format!("{times}{compiler}from {source}")
}

#[cfg(test)]
mod tests {
    use mneme_model::launch::Dim3;
    use serde_json::json;

    use super::*;

    pub fn plain() -> Configuration {
        Configuration::recorded(Dim3::new(40, 1, 1), Dim3::new(256, 1, 1), 0)
    }

    /// A winner of a kernel on an architecture.
    pub fn launch(kernel: &str, architecture: &str, configuration: Configuration) -> TunedLaunch {
        TunedLaunch {
            kernel: kernel.to_owned(),
            static_hash: 7,
            device: "NVIDIA H200".to_owned(),
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
        assert_eq!(qualified_name("void ns::inner::step<float, (ns::Kind)2>(float*)"), "ns::inner::step");
    }

    #[test]
    fn a_session_says_where_it_ran_and_what_it_minimised() {
        let folder = tempfile::tempdir().unwrap();
        let read = |best: Value, options: Value| {
            std::fs::write(folder.path().join("best.json"), best.to_string()).unwrap();
            std::fs::write(folder.path().join("config.json"), options.to_string()).unwrap();
            let session = Session::read(folder.path());
            (session.device, session.is_time)
        };
        let result = json!({"environment": {"device": "NVIDIA H200"}});
        let device = Some("NVIDIA H200".to_owned());
        assert_eq!(read(json!({"result": result}), json!({"objective": "time"})), (device.clone(), true));
        assert_eq!(read(json!({"instances": [{"result": result}]}), json!({"objective": "energy"})), (device, false));
        assert_eq!(read(json!({}), json!({"objective": ["registers", "time"]})), (None, false));
    }

    #[test]
    fn kernels_of_one_name_are_told_apart() {
        let one = launch("a::step(int)", "sm_90", plain());
        let other = TunedLaunch { static_hash: 8, ..launch("b::step(int)", "sm_90", plain()) };
        let again = launch("a::step(int)", "sm_80", plain());
        let kernels = grouped(vec![one, other, again]);
        let found: Vec<_> = kernels.iter().map(|it| (it.identifier.as_str(), it.launches.len())).collect();
        assert_eq!(found, [("a_step_int", 2), ("b_step_int", 1)]);
        let older = TunedLaunch { static_hash: 8, ..launch("a::step(int)", "sm_90", plain()) };
        let alone = launch("scale(float*)", "sm_90", plain());
        let kernels = grouped(vec![older, alone, launch("a::step(int)", "sm_90", plain())]);
        let found: Vec<_> = kernels.iter().map(|it| it.identifier.as_str()).collect();
        assert_eq!(found, ["a_step_int_8", "scale", "a_step_int_7"]);
    }
}
