//! Runs clang or hipcc, then compiles the device code again to IR.
//!
//! The user's command runs first. Then the device code is compiled once more for each architecture.
//!
//! mneme-cc does not guess architectures and compilation-unit ids from the command line. clang logs the compilations
//! that it runs (`CC_PRINT_OPTIONS`), and the log contains both. The id matters because under `-fgpu-rdc` it is part of
//! the names of static variables and kernels, and it depends on the exact arguments.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;

use crate::arguments::{ClangAction, ClangCommandLine, DeviceSource, Dialect};
use crate::hip::Driver;
use crate::log::Log;
use crate::process::{self, code, warn};
use crate::records::{User, records};
use crate::{beside, device_only, elf, family};

pub fn run(compiler: &Path, arguments: &[OsString], dialect: Dialect) -> anyhow::Result<u8> {
    let line = ClangCommandLine::parse(arguments, dialect);
    let is_hipcc = dialect != Dialect::Clang;
    // hipcc also links with the clang that it finds.
    let driver = if line.has_hip() || is_hipcc {
        Driver::of_hip(compiler, arguments, is_hipcc)?
    } else {
        Driver::plain(compiler)
    };
    let user = User { driver, line, is_hipcc };
    match user.line.action() {
        ClangAction::Other => user.driver.pass_through(arguments),
        ClangAction::CompileForDevice => {
            let (status, log) = compile(&user, arguments)?;
            if status == 0 {
                device_only::embed(&user, &log);
            }
            Ok(status)
        }
        ClangAction::Compile => {
            let (status, log) = compile(&user, arguments)?;
            if status == 0 {
                for source in user.line.sources() {
                    embed(&user, source, &user.line.object_of(source.path), &log);
                }
            }
            Ok(status)
        }
        ClangAction::CompileAndLink => compile_and_link(&user, arguments),
    }
}

/// Whether clang or hipcc makes device code with these arguments.
pub fn makes_device_code(arguments: &[OsString], dialect: Dialect) -> bool {
    ClangCommandLine::parse(arguments, dialect).action() != ClangAction::Other
}

/// Compiles to objects with IR and links them. If one of the steps fails, the user's command runs unchanged, so its own
/// messages and status appear.
fn compile_and_link(user: &User, arguments: &[OsString]) -> anyhow::Result<u8> {
    let Err(reason) = compile_then_link(user) else { return Ok(0) };
    let status = run_compiler(user, user.driver.command().args(arguments))?;
    if status == 0 {
        let reason = format!("it cannot be compiled separately from the link ({reason:#}); compile it with -c first");
        user.line.sources().iter().for_each(|source| warn(source.path, &reason));
    }
    Ok(status)
}

fn compile_then_link(user: &User) -> anyhow::Result<()> {
    let User { driver, line, is_hipcc } = user;
    let folder = tempfile::Builder::new().prefix("mneme-cc-").tempdir().context("no temporary folder can be made")?;
    // The output is captured and shown later, so the compiler does not see the terminal.
    let colours = std::io::stderr().is_terminal().then_some("-fdiagnostics-color=always");
    let mut objects = Vec::new();
    let mut is_packaged = false;
    for (index, source) in line.sources().into_iter().enumerate() {
        let folder = folder.path().join(index.to_string());
        std::fs::create_dir(&folder).context("no temporary folder can be made")?;
        let mut object = folder.join(source.path.file_stem().unwrap_or_default()).into_os_string();
        object.push(".o");
        let object = PathBuf::from(object);
        let mut command = driver.command();
        command.args(colours).args(line.compile_arguments(source, &object));
        let log = logged(&mut command, process::step)?.1;
        // The files of -save-temps=obj and -fsave-optimization-record.
        beside::move_others(&folder, &object, line.output().as_deref())
            .context("clang's other output files cannot be moved")?;
        is_packaged |= log.packaged;
        embed(user, source, &object, &log);
        objects.push(object);
    }
    let mut arguments = line.link_arguments(&objects);
    // clang would warn about options of the compilation, which this link does not use.
    arguments.push("-Qunused-arguments".into());
    if is_packaged {
        arguments.push("--offload-link".into());
    } else if line.has_hip() && line.relocatable() && !is_hipcc {
        arguments.push("--hip-link".into());
    }
    // clang links HIP's runtime if it sees HIP sources, but here it sees objects.
    arguments.extend(driver.runtime.iter().cloned());
    process::step(driver.command().args(colours).args(&arguments))
}

/// Runs the compiler as the user wrote it.
fn compile(user: &User, arguments: &[OsString]) -> anyhow::Result<(u8, Log)> {
    logged(user.driver.command().args(arguments), |command| run_compiler(user, command))
}

/// Runs a command with `run` and returns clang's log of it.
fn logged<T>(command: &mut Command, run: impl FnOnce(&mut Command) -> anyhow::Result<T>) -> anyhow::Result<(T, Log)> {
    let log = tempfile::Builder::new().prefix("mneme-cc-").tempfile().context("no temporary file can be made")?;
    let outcome = run(command.env("CC_PRINT_OPTIONS", "1").env("CC_PRINT_OPTIONS_FILE", log.path()))?;
    let text = std::fs::read(log.path()).unwrap_or_default();
    Ok((outcome, Log::parse(&String::from_utf8_lossy(&text))))
}

/// Runs the compiler and returns its status, or that of a shell if it does not exist.
fn run_compiler(user: &User, command: &mut Command) -> anyhow::Result<u8> {
    Ok(command.status().map_or_else(|error| family::not_run(&user.driver.program, &error), code))
}

/// Adds the IR of `source` to `object`. A program without IR still runs, so failures are warnings.
fn embed(user: &User, source: DeviceSource<'_>, object: &Path, log: &Log) {
    // Packaged and relocatable code becomes an image only when it is linked.
    let is_image = !log.packaged && !user.line.relocatable();
    let images = is_image.then(|| elf::images(object).ok()).flatten().unwrap_or_default();
    let records: Vec<u8> = records(user, source, log, &images).into_iter().flat_map(|record| record.bytes).collect();
    if !records.is_empty()
        && let Err(error) = elf::append(object, &records)
    {
        warn(source.path, &format!("{error:#}"));
    }
}
