//! Makes the records of an object's IR by compiling the source's device code with clang.

use mneme_builds::protocol::UnitOrigin;
use mneme_builds::source::IR_OPTIONS;
use mneme_image::ir_section::{self, IrTable, SymbolKind};

use crate::arguments::{ClangCommandLine, DeviceSource, SourceLanguage};
use crate::hip::Driver;
use crate::log::{DeviceCompilation, Log};
use crate::{builder, process};

/// The user's compiler and command line.
pub struct User {
    pub driver: Driver,
    pub line: ClangCommandLine,
    pub is_hipcc: bool,
}

/// The record of a source for one target.
pub struct Record {
    pub target: String,
    pub bytes: Vec<u8>,
}

/// Makes the records of a source, and warns about failures. `images` are the checksums of the images made from it.
pub fn records(user: &User, source: DeviceSource<'_>, log: &Log, images: &[u64]) -> Vec<Record> {
    let mut records = Vec::new();
    // Most failures are the same for all architectures, so they are reported together.
    let mut failures: Vec<(String, Vec<&str>)> = Vec::new();
    let compilations: Vec<_> =
        log.compilations.iter().filter(|compilation| compilation.source == source.path).collect();
    if compilations.is_empty() {
        process::warn(
            source.path,
            "the compiler's log does not mention it, which happens with a compiler cache, or if the name is not valid text",
        );
    }
    for compilation in compilations {
        match record(user, source, compilation, images) {
            Ok(bytes) => {
                records.extend(bytes.map(|bytes| Record { target: compilation.target.clone(), bytes }));
            }
            Err(error) => {
                let reason = format!("{error:#}");
                match failures.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, archs)) => archs.push(&compilation.arch),
                    None => failures.push((reason, vec![&compilation.arch])),
                }
            }
        }
    }
    let path = source.path.display();
    for (reason, archs) in failures {
        mneme_system::remark!("mneme-cc: warning: {path} gets no LLVM IR for {}: {reason}", archs.join(", "));
    }
    records
}

/// Makes the record for one architecture; `None` if the unit defines nothing for the device.
fn record(
    user: &User,
    source: DeviceSource<'_>,
    compilation: &DeviceCompilation,
    images: &[u64],
) -> anyhow::Result<Option<Vec<u8>>> {
    let line = &user.line;
    let bitcode = device_ir(user, source, compilation)?;
    let path = std::path::absolute(source.path).unwrap_or_else(|_| source.path.to_owned());
    let path = path.to_string_lossy();
    // An id that clang made up varies with the object's name, and would change the program's bytes on every build.
    let unit = match &compilation.cuid {
        Some(cuid) if line.relocatable() => cuid.clone(),
        _ => format!("{:016x}", line.identity(source.path)),
    };
    let origin = UnitOrigin {
        arch: compilation.arch.clone(),
        unit,
        source: path.into_owned(),
        rdc: line.relocatable(),
        compiled: Some(compilation.options.clone()),
        images: images.to_vec(),
    };
    let table = builder::describe(&bitcode, origin)?;
    if !defines_anything(&table, source.language) {
        return Ok(None);
    }
    Ok(Some(ir_section::encode(&table, &bitcode)?))
}

/// Whether a unit defines a kernel, or symbols that kernels of other units may use.
fn defines_anything(table: &IrTable, language: SourceLanguage) -> bool {
    table.symbols.iter().filter(|symbol| symbol.defined).any(|symbol| match language {
        SourceLanguage::Cuda => true,
        SourceLanguage::Hip => {
            // clang and its headers define these in every unit.
            let is_usual = symbol.name.starts_with("__hip_cuid_")
                || symbol.name.starts_with("__oclc_")
                || USUAL_OF_HIP.contains(&&*symbol.name);
            symbol.kind == SymbolKind::Kernel || (table.rdc && symbol.external && !is_usual)
        }
    })
}

/// Functions that clang's headers for HIP define in every unit.
const USUAL_OF_HIP: [&str; 4] = ["__cxa_pure_virtual", "__cxa_deleted_virtual", "__assert_fail", "__assertfail"];

/// The device code as clang's front end makes it, with the device libraries linked in, before any pass.
fn device_ir(user: &User, source: DeviceSource<'_>, compilation: &DeviceCompilation) -> anyhow::Result<Vec<u8>> {
    let output = tempfile::Builder::new().prefix("mneme-cc-").suffix(".bc").tempfile()?;
    let mut command = user.driver.command();
    command.args(user.line.device_arguments()).arg("--cuda-device-only");
    // hipcc puts the architectures first, so this option would remove them.
    command.args((!user.is_hipcc).then_some("--no-offload-arch=all"));
    command.arg(format!("--offload-arch={}", compilation.target));
    // For several architectures, clang would make a bundle.
    command.args((source.language == SourceLanguage::Hip).then_some("--no-gpu-bundle-output"));
    command.args(IR_OPTIONS).args(["-w", "-Qunused-arguments"]);
    if compilation.options.level == "0" {
        // Without passes that remove them, lifetime markers are extra code that the application does not have. Passes
        // do not need them.
        command.args(["-Xclang", "-disable-lifetime-markers"]);
    }
    if let Some(cuid) = &compilation.cuid {
        // Which of the two counts depends on clang's version and driver. The other is unused or has no effect.
        let id = format!("-cuid={cuid}");
        command.args([&id, "-Xclang", &id]);
    } else if user.line.relocatable() {
        // Otherwise clang makes an id up.
        command.arg("-fuse-cuid=none");
    }
    command.args(["-x", source.language.name()]).arg(source.path).arg("-o").arg(output.path());
    process::written_ir(&mut command, output.path())
}
