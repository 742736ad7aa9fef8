//! Runs clang or hipcc, then compiles the device code again to IR.
//!
//! The user's command runs first; then the device code is compiled once more for each architecture.
//!
//! Architectures and compilation-unit ids are not guessed from the command line: clang logs the compilations that it
//! runs (`CC_PRINT_OPTIONS`), and the log tells them as they were. The id matters because under `-fgpu-rdc` it is part
//! of the names of static variables and kernels, and it depends on the exact arguments.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::arguments::{ClangAction, ClangCommandLine, DeviceSource, Dialect};
use crate::hip::Driver;
use crate::log::Log;
use crate::process::{code, warn};
use crate::records::{User, records};
use crate::{beside, device_only, elf};

pub fn run(compiler: &Path, arguments: &[OsString], dialect: Dialect) -> anyhow::Result<u8> {
    let line = ClangCommandLine::parse(arguments, dialect);
    let is_hipcc = dialect != Dialect::Clang;
    // hipcc links, too, with the clang that it finds.
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
        ClangAction::CompileAndLink => compile_and_link(&user),
    }
}

/// Whether these are arguments by which clang or hipcc makes device code.
pub fn makes_device_code(arguments: &[OsString], dialect: Dialect) -> bool {
    ClangCommandLine::parse(arguments, dialect).action() != ClangAction::Other
}

fn compile_and_link(user: &User) -> anyhow::Result<u8> {
    let User { driver, line, is_hipcc } = user;
    let folder = tempfile::Builder::new().prefix("mneme-cc-").tempdir().context("no temporary folder can be made")?;
    let mut objects = Vec::new();
    let mut is_packaged = false;
    for (index, source) in line.sources().into_iter().enumerate() {
        let folder = folder.path().join(index.to_string());
        std::fs::create_dir(&folder).context("no temporary folder can be made")?;
        let mut object = folder.join(source.path.file_stem().unwrap_or_default()).into_os_string();
        object.push(".o");
        let object = PathBuf::from(object);
        let (status, log) = compile(user, &line.compile_arguments(source, &object))?;
        // Of -save-temps=obj and -fsave-optimization-record.
        beside::move_others(&folder, &object, line.output().as_deref()).context("what clang wrote cannot be kept")?;
        if status != 0 {
            return Ok(status);
        }
        is_packaged |= log.packaged;
        embed(user, source, &object, &log);
        objects.push(object);
    }
    let mut arguments = line.link_arguments(&objects);
    // Options of the compilation mean nothing to this link, and clang would say so.
    arguments.push("-Qunused-arguments".into());
    if is_packaged {
        arguments.push("--offload-link".into());
    } else if line.has_hip() && line.relocatable() && !is_hipcc {
        arguments.push("--hip-link".into());
    }
    // clang links HIP's runtime where it sees HIP sources, and here it sees objects.
    arguments.extend(driver.runtime.iter().cloned());
    let status = driver.command().args(&arguments).status();
    Ok(code(status.with_context(|| format!("{} cannot be run", driver.program.display()))?))
}

/// Runs the compiler as the user wrote it.
fn compile(user: &User, arguments: &[OsString]) -> anyhow::Result<(u8, Log)> {
    let log = tempfile::Builder::new().prefix("mneme-cc-").tempfile().context("no temporary file can be made")?;
    let status = user
        .driver
        .command()
        .args(arguments)
        .env("CC_PRINT_OPTIONS", "1")
        .env("CC_PRINT_OPTIONS_FILE", log.path())
        .status()
        .with_context(|| format!("{} cannot be run", user.driver.program.display()))?;
    Ok((code(status), Log::parse(&std::fs::read_to_string(log.path()).unwrap_or_default())))
}

/// Adds the IR of `source` to `object`. A program without IR still runs, so failures are warnings.
fn embed(user: &User, source: DeviceSource<'_>, object: &Path, log: &Log) {
    // Packaged and relocatable code becomes an image when it is linked.
    let is_image = !log.packaged && !user.line.relocatable();
    let images = is_image.then(|| elf::images(object).ok()).flatten().unwrap_or_default();
    let records: Vec<u8> = records(user, source, log, &images).into_iter().flat_map(|record| record.bytes).collect();
    if !records.is_empty()
        && let Err(error) = elf::append(object, &records)
    {
        warn(source.path, &format!("{error:#}"));
    }
}
