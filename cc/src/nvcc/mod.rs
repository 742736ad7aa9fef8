//! Runs nvcc, then makes clang compile the device code to IR.
//!
//! The user's command runs first. Then clang compiles the device code with the same options.
//!
//! The object stays nvcc's, with the section added. `nvcc --dryrun` names the architectures and the toolkit.

mod arguments;

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use mneme_builds::protocol::UnitOrigin;
use mneme_builds::source::IR_OPTIONS;
use mneme_image::ir_section;
use mneme_model::compile_options::CompileOptions;

use crate::process::ACTIVE;
use crate::{builder, device_only, elf, family, process, wrapper};
use arguments::{NvccAction, NvccCommandLine};

/// A file that exists on machines with NVIDIA's driver and a GPU.
const DRIVER: &str = "/dev/nvidiactl";

/// The newest architecture that clang 19 knows. Newer ones get the IR for this one.
const NEWEST: u32 = 90;

pub fn run(compiler: &Path, arguments: &[OsString]) -> anyhow::Result<u8> {
    let line = NvccCommandLine::parse(arguments);
    let sources = line.cuda_sources();
    if line.links_static_runtime() && !Path::new(DRIVER).exists() {
        mneme_system::remark!(
            "mneme-cc: warning: nvcc links the static CUDA runtime by default, and such a program needs a GPU, which this \
             machine lacks; for Mneme's CPU device add -cudart shared -Xlinker -rpath=CUDA/lib64 (CUDA: the toolkit's folder)"
        );
    }
    match line.action() {
        _ if sources.is_empty() => family::pass_through(compiler, arguments),
        NvccAction::Other if line.makes_other_code() => {
            let reason = "it becomes an archive, or is compiled when it is linked; compile it with -c first";
            without_ir(compiler, arguments, &sources, reason)
        }
        NvccAction::Other => family::pass_through(compiler, arguments),
        NvccAction::CompileForDevice => {
            let reason = format!("it is compiled for the device only; {}", device_only::REMEDY);
            without_ir(compiler, arguments, &sources, &reason)
        }
        NvccAction::Compile => {
            let status = start(compiler, arguments)?;
            if status == 0 {
                let device = Device::of(compiler, arguments);
                for source in sources {
                    embed(&device, &line, source, &line.object_of(source));
                }
            }
            Ok(status)
        }
        NvccAction::CompileAndLink => {
            // If one of the steps fails, the user's command runs unchanged, so its own messages and status appear.
            let Err(reason) = compile_then_link(compiler, arguments, &line) else { return Ok(0) };
            let reason =
                format!("it cannot be compiled separately from the link ({reason:#}); compile it with -c first");
            without_ir(compiler, arguments, &sources, &reason)
        }
    }
}

/// Runs the user's nvcc command, and warns why its sources get no IR.
fn without_ir(compiler: &Path, arguments: &[OsString], sources: &[&Path], reason: &str) -> anyhow::Result<u8> {
    let status = start(compiler, arguments)?;
    if status == 0 {
        sources.iter().for_each(|source| process::warn(source, reason));
    }
    Ok(status)
}

/// Compiles to objects with IR and links them.
fn compile_then_link(compiler: &Path, arguments: &[OsString], line: &NvccCommandLine) -> anyhow::Result<()> {
    let folder = tempfile::Builder::new().prefix("mneme-cc-").tempdir().context("no temporary folder can be made")?;
    let step = |arguments: &[OsString]| process::step(Command::new(compiler).args(arguments).env(ACTIVE, "1"));
    let device = Device::of(compiler, arguments);
    let mut objects = Vec::new();
    for (index, source) in line.cuda_sources().into_iter().enumerate() {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let object = folder.path().join(format!("{stem}-{index}.o"));
        step(&line.compile_arguments(source, &object))?;
        embed(&device, line, source, &object);
        objects.push(object);
    }
    step(&line.link_arguments(&objects))
}

/// Whether nvcc makes device code with these arguments.
pub fn makes_device_code(arguments: &[OsString]) -> bool {
    let line = NvccCommandLine::parse(arguments);
    !line.cuda_sources().is_empty() && (line.action() != NvccAction::Other || line.makes_other_code())
}

fn start(compiler: &Path, arguments: &[OsString]) -> anyhow::Result<u8> {
    let status = Command::new(compiler).args(arguments).env(ACTIVE, "1").status();
    Ok(status.map_or_else(|error| family::not_run(compiler, &error), process::code))
}

/// The architectures that nvcc compiles for, and its headers.
#[derive(Debug, Default, PartialEq, Eq)]
struct Device {
    /// The architectures that clang knows, such as "sm_90".
    archs: Vec<String>,
    toolkit: PathBuf,
    /// The options of ptxas, by architecture. nvcc's own compiler always optimises as with -O3, unless it compiles for
    /// debuggers.
    compiled: HashMap<String, CompileOptions>,
}

impl Device {
    fn of(compiler: &Path, arguments: &[OsString]) -> Self {
        let run = Command::new(compiler).arg("--dryrun").args(arguments).env(ACTIVE, "1").stdin(Stdio::null()).output();
        run.map(|output| Self::parse(&String::from_utf8_lossy(&output.stderr))).unwrap_or_default()
    }

    /// Reads the commands that `nvcc --dryrun` prints: `#$ TOP=…` and `cicc … -arch compute_90 …`.
    fn parse(text: &str) -> Self {
        let mut device = Self::default();
        for line in text.lines().filter_map(|line| line.strip_prefix("#$ ")) {
            if let Some(top) = line.strip_prefix("TOP=") {
                device.toolkit = PathBuf::from(top.trim());
            }
            let mut words = line.split_whitespace();
            if line.split_whitespace().next().is_some_and(|program| program.trim_matches('"').ends_with("ptxas")) {
                device.assembled(line);
            }
            if !words.next().is_some_and(|program| program.trim_matches('"').ends_with("cicc")) {
                continue;
            }
            let arch = words
                .by_ref()
                .skip_while(|word| *word != "-arch")
                .nth(1)
                .and_then(|arch| arch.strip_prefix("compute_"));
            let Some(number) = arch.and_then(|arch| arch.trim_end_matches(char::is_alphabetic).parse::<u32>().ok())
            else {
                continue;
            };
            let arch =
                if number > NEWEST { format!("sm_{NEWEST}") } else { format!("sm_{}", arch.unwrap_or_default()) };
            if !device.archs.contains(&arch) {
                device.archs.push(arch);
            }
        }
        device
    }

    /// Reads a line of the dry run that calls ptxas.
    fn assembled(&mut self, line: &str) {
        let words: Vec<String> = line.split_whitespace().skip(1).map(|word| word.replace('"', "")).collect();
        let Some(arch) = words.iter().find_map(|word| word.strip_prefix("-arch=")) else { return };
        let optimised = CompileOptions { level: "3".into(), ..CompileOptions::default() };
        self.compiled.entry(arch.to_owned()).or_insert_with(|| optimised.with_ptxas(&words));
    }
}

/// Adds the IR of `source` to `object`. A program without IR still runs and replays from its machine code, so a failure
/// is one warning.
fn embed(device: &Device, line: &NvccCommandLine, source: &Path, object: &Path) {
    let whole = || -> anyhow::Result<()> {
        if device.archs.is_empty() {
            bail!("nvcc --dryrun names no architecture that clang knows");
        }
        let known = strings(&std::fs::read(object)?);
        let images = if line.relocatable() { Vec::new() } else { elf::images(object)? };
        let mut records = Vec::new();
        let mut missing = Vec::new();
        for arch in &device.archs {
            let ir = device_ir(device, line, source, arch)?;
            let renamed;
            (renamed, missing) = builder::rename(&ir, known.clone())?;
            let path = std::path::absolute(source).unwrap_or_else(|_| source.to_owned());
            let unit = format!("{:016x}", line.identity(source));
            let compiled = device.compiled.get(arch);
            let origin = UnitOrigin {
                arch: arch.clone(),
                unit,
                source: path.to_string_lossy().into_owned(),
                rdc: line.relocatable(),
                compiled: compiled.cloned(),
                images: images.clone(),
            };
            let table = builder::describe(&renamed, origin)?;
            if table.symbols.iter().any(|symbol| symbol.defined) {
                records.extend(ir_section::encode(&table, &renamed)?);
            }
        }
        if !missing.is_empty() {
            mneme_system::remark!(
                "mneme-cc: warning: nvcc's {} has these kernels under other names, so they get no LLVM IR: {}",
                object.display(),
                missing.join(", ")
            );
        }
        if records.is_empty() { Ok(()) } else { elf::append(object, &records) }
    };
    if let Err(error) = whole() {
        mneme_system::remark!(
            "mneme-cc: warning: {} gets no LLVM IR, so its kernels replay from their machine code: {error:#}",
            object.display()
        );
    }
}

/// The device code's IR, as clang's front end makes it.
fn device_ir(device: &Device, line: &NvccCommandLine, source: &Path, arch: &str) -> anyhow::Result<Vec<u8>> {
    let clang = wrapper::find("++").context("clang was not found; install clang 19, or set MNEME_CLANG to a clang")?;
    let folder = tempfile::Builder::new().prefix("mneme-cc-").tempdir()?;
    let output = folder.path().join("device.bc");
    let mut command = Command::new(&clang);
    command.args(line.device_arguments());
    command.arg(format!("--cuda-path={}", device.toolkit.display()));
    // clang 19 includes this header, which CUDA 13 dropped. It declares texture functions of CUDA 11.
    const GONE: &str = "texture_fetch_functions.h";
    if !device.toolkit.join("include").join(GONE).exists() {
        std::fs::write(folder.path().join(GONE), "")?;
        command.args([OsStr::new("-isystem"), folder.path().as_os_str()]);
    }
    let cccl = device.toolkit.join("include/cccl");
    if cccl.is_dir() {
        command.args([OsStr::new("-isystem"), cccl.as_os_str()]);
    }
    command.args(["--cuda-device-only", "--no-offload-arch=all"]).arg(format!("--offload-arch={arch}"));
    command.args(IR_OPTIONS).args(["-w", "-Qunused-arguments"]);
    if line.relocatable() {
        let id = format!("-cuid={:016x}", line.identity(source));
        command.args(["-fgpu-rdc", &id, "-Xclang", &id]);
    }
    command.args(["-x", "cuda"]).arg(source).arg("-o").arg(&output);
    process::written_ir(command.env(ACTIVE, "1"), &output)
}

/// The strings of an object's read-only data. Among them are the names under which it registers kernels and variables.
fn strings(object: &[u8]) -> Vec<String> {
    let Ok(file) = goblin::elf::Elf::parse(object) else { return Vec::new() };
    let is_data = |name: &str| name == ".rodata" || name.starts_with(".rodata.");
    let sections = file.section_headers.iter().filter(|row| file.shdr_strtab.get_at(row.sh_name).is_some_and(is_data));
    let contents = sections.filter_map(|row| object.get(row.file_range()?));
    let words = contents.flat_map(|content| content.split(|byte| *byte == 0));
    words.filter(|word| !word.is_empty()).filter_map(|word| std::str::from_utf8(word).ok()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvcc_tells_architectures_and_toolkit() {
        let text = "#$ _NVVM_BRANCH_=nvvm\n#$ TOP=/usr/local/cuda/bin/..\n\
                    #$ gcc -E -x c++ a.cu\n\
                    #$ \"$CICC_PATH/cicc\" --c++17 -arch compute_80 -m64 x\n\
                    #$ \"$CICC_PATH/cicc\" --c++17 -arch compute_90a -m64 x\n\
                    #$ cicc --c++17 -arch compute_120 -m64 x\n\
                    #$ cicc --c++17 -arch compute_80 -m64 y\n#$ ptxas -arch=sm_80 -m64 -maxrregcount=32 \"/tmp/a.ptx\" -o \"/tmp/a.cubin\" \n";
        let device = Device::parse(text);
        assert_eq!(device.archs, ["sm_80", "sm_90a", "sm_90"]);
        let compiled = &device.compiled["sm_80"];
        assert_eq!(
            (compiled.level.as_str(), compiled.ptx_opt, compiled.ptxas_options.join(" ")),
            ("3", 3, "-maxrregcount=32".into())
        );
        assert_eq!(device.toolkit, Path::new("/usr/local/cuda/bin/.."));
        assert_eq!(Device::parse("nvcc fatal: nonsense"), Device::default());
    }
}
