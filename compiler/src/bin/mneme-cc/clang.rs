//! Runs clang or hipcc, then compiles the device code again to IR.
//!
//! The user's command runs first; then the device code is compiled once more for each architecture.
//!
//! Architectures and compilation-unit ids are not guessed from the command line: clang logs the compilations that it
//! runs (`CC_PRINT_OPTIONS`), and the log tells them as they were. The id matters because under `-fgpu-rdc` it is part
//! of the names of static variables and kernels, and it depends on the exact arguments.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, bail};
use mneme_builds::protocol::UnitOrigin;
use mneme_core::compile_options::CompileOptions;
use mneme_core::image::ir_section::{self, SymbolKind, Table};

use crate::arguments::{ClangAction, ClangCommandLine, Dialect, Language, Source};
use crate::device_only::Made;
use crate::hip::Driver;
use crate::{builder, device_only, elf};

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

/// What the user wants: a compiler and its command line.
pub struct User {
    driver: Driver,
    pub line: ClangCommandLine,
    is_hipcc: bool,
}

fn compile_and_link(user: &User) -> anyhow::Result<u8> {
    let User { driver, line, is_hipcc } = user;
    let folder = tempfile::Builder::new().prefix("mneme-cc-").tempdir().context("no temporary folder can be made")?;
    let mut objects = Vec::new();
    let mut is_packaged = false;
    for (index, source) in line.sources().into_iter().enumerate() {
        let stem = source.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let object = folder.path().join(format!("{stem}-{index}.o"));
        let (status, log) = compile(user, &line.compile_arguments(source, &object))?;
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

pub fn code(status: ExitStatus) -> u8 {
    status
        .code()
        .or_else(|| status.signal().map(|signal| 128 + signal))
        .and_then(|code| u8::try_from(code).ok())
        .unwrap_or(1)
}

/// A device compilation that clang ran.
#[derive(Debug, PartialEq, Eq)]
pub struct DeviceCompilation {
    pub source: PathBuf,
    /// "sm_90", or an AMD processor without its features.
    arch: String,
    /// What `--offload-arch` is given for it: the processor with the features that are part of its name.
    pub target: String,
    cuid: Option<String>,
    options: CompileOptions,
}

#[derive(Debug, Default)]
pub struct Log {
    compilations: Vec<DeviceCompilation>,
    /// What made code objects of them.
    pub made: Vec<Made>,
    /// The objects hold packaged device code that a link must link (clang's new offload driver).
    packaged: bool,
}

impl Log {
    fn parse(text: &str) -> Self {
        let mut log = Self::default();
        for words in text.lines().map(quoted) {
            let program = words.first().map_or("", String::as_str);
            log.packaged |= program.ends_with("clang-offload-packager");
            if program.ends_with("ptxas") {
                log.assembled(&words[1..]);
            }
            if !words.iter().any(|word| word == "-fcuda-is-device") {
                log.made.extend(Made::by(&words, log.compilations.len()));
                continue;
            }
            let after = |option: &str| words.iter().skip_while(|word| *word != option).nth(1).cloned();
            let (Some(arch), Some(source)) = (after("-target-cpu"), words.last()) else { continue };
            // Of several the last one holds, as for clang.
            let cuid = words
                .iter()
                .rev()
                .find_map(|word| word.strip_prefix("-cuid="))
                .filter(|cuid| !cuid.is_empty())
                .map(str::to_owned);
            let target = target_id(&arch, &words);
            let options = CompileOptions::of_clang(&words);
            let compilation = DeviceCompilation { source: source.into(), arch, target, cuid, options };
            // Under -save-temps one compilation is several commands, of which the first has read the source.
            if !log
                .compilations
                .iter()
                .any(|known| (&known.source, &known.target) == (&compilation.source, &compilation.target))
            {
                log.compilations.push(compilation);
            }
        }
        log
    }

    /// The compilation of a source that was the latest before a command.
    pub fn compilation_before(&self, made: &Made, sources: &[Source<'_>]) -> Option<&DeviceCompilation> {
        let mut before = self.compilations[..made.after].iter();
        before.rfind(|compilation| sources.iter().any(|source| source.path == compilation.source))
    }

    /// ptxas was run: for the latest compilation of its architecture that has not been assembled yet.
    fn assembled(&mut self, words: &[String]) {
        let arch = words.iter().skip_while(|word| *word != "--gpu-name").nth(1);
        if let Some(compilation) = self.compilations.iter_mut().rev().find(|it| Some(&it.arch) == arch) {
            compilation.options = std::mem::take(&mut compilation.options).with_ptxas(words);
        }
    }
}

/// An AMD processor with those features that code is made for one way or the other, "gfx90a:sramecc+:xnack-".
fn target_id(processor: &str, words: &[String]) -> String {
    let told = words.windows(2).filter(|pair| pair[0] == "-target-feature").map(|pair| pair[1].as_str());
    let told: Vec<&str> = told.collect();
    let sign = |feature: &str| {
        // Of several the last one holds.
        let sign =
            told.iter().rev().find_map(|word| word.strip_suffix(feature).filter(|sign| ["+", "-"].contains(sign)))?;
        Some(format!(":{feature}{sign}"))
    };
    [Some(processor.to_owned()), sign("sramecc"), sign("xnack")].into_iter().flatten().collect()
}

/// The words of a logged command: each in double quotes, with backslashes before `"`, `\` and `$`.
pub fn quoted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = line.chars();
    while characters.by_ref().any(|c| c == '"') {
        let mut word = String::new();
        while let Some(c) = characters.next().filter(|c| *c != '"') {
            word.extend(if c == '\\' { characters.next() } else { Some(c) });
        }
        words.push(word);
    }
    words
}

/// Adds the IR of `source` to `object`. A program without IR still runs, so failures are warnings.
fn embed(user: &User, source: Source<'_>, object: &Path, log: &Log) {
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

/// Says why a source gets no IR. The object is a temporary one where the command links, too.
pub fn warn(source: &Path, reason: &str) {
    eprintln!("mneme-cc: warning: {} gets no LLVM IR: {reason}", source.display());
}

/// The record of a source for one target.
pub struct Record {
    pub target: String,
    pub bytes: Vec<u8>,
}

/// The records of a source; `images` are the sums of what was made of it. Says what goes wrong.
pub fn records(user: &User, source: Source<'_>, log: &Log, images: &[u64]) -> Vec<Record> {
    let mut records = Vec::new();
    // What goes wrong for one architecture mostly does for all.
    let mut failures: Vec<(String, Vec<&str>)> = Vec::new();
    for compilation in log.compilations.iter().filter(|compilation| compilation.source == source.path) {
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
        eprintln!("mneme-cc: warning: {path} gets no LLVM IR for {}: {reason}", archs.join(", "));
    }
    records
}

/// The record of one architecture; `None` if the unit defines nothing for the device.
fn record(
    user: &User,
    source: Source<'_>,
    compilation: &DeviceCompilation,
    images: &[u64],
) -> anyhow::Result<Option<Vec<u8>>> {
    let line = &user.line;
    let bitcode = device_ir(user, source, compilation)?;
    let path = std::path::absolute(source.path).unwrap_or_else(|_| source.path.to_owned());
    let path = path.to_string_lossy();
    // The id that clang made up itself varies with the object's name, and so would every program's bytes.
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

/// Whether a unit defines a kernel, or what kernels of other units may use.
fn defines_anything(table: &Table, language: Language) -> bool {
    table.symbols.iter().filter(|symbol| symbol.defined).any(|symbol| match language {
        Language::Cuda => true,
        Language::Hip => {
            // Those that clang and its headers define in every unit.
            let is_usual = symbol.name.starts_with("__hip_cuid_")
                || symbol.name.starts_with("__oclc_")
                || USUAL_OF_HIP.contains(&&*symbol.name);
            symbol.kind == SymbolKind::Kernel || (table.rdc && symbol.external && !is_usual)
        }
    })
}

/// Functions that clang's headers for HIP define in every unit.
const USUAL_OF_HIP: [&str; 4] = ["__cxa_pure_virtual", "__cxa_deleted_virtual", "__assert_fail", "__assertfail"];

/// The device code as clang's front end makes it, the device's libraries linked in, before any pass. `-O3` keeps the
/// front end from marking functions `optnone` and makes it emit what optimisations need (lifetimes, alias information).
fn device_ir(user: &User, source: Source<'_>, compilation: &DeviceCompilation) -> anyhow::Result<Vec<u8>> {
    let output = tempfile::Builder::new().prefix("mneme-cc-").suffix(".bc").tempfile()?;
    let mut command = user.driver.command();
    command.args(user.line.device_arguments()).arg("--cuda-device-only");
    // hipcc puts the architectures before all else, and they would be none.
    command.args((!user.is_hipcc).then_some("--no-offload-arch=all"));
    command.arg(format!("--offload-arch={}", compilation.target));
    // For several architectures clang makes a bundle.
    command.args((source.language == Language::Hip).then_some("--no-gpu-bundle-output"));
    command.args([
        "-emit-llvm",
        "-c",
        "-O3",
        "-Xclang",
        "-disable-llvm-passes",
        "-fno-discard-value-names",
        "-w",
        "-Qunused-arguments",
    ]);
    if compilation.options.level == "0" {
        // They are more code where no pass removes it, and there is none in the application's; passes can do without.
        command.args(["-Xclang", "-disable-lifetime-markers"]);
    }
    if let Some(cuid) = &compilation.cuid {
        // As a driver option it is ignored for CUDA where only device code is compiled; for HIP it comes last.
        let id = format!("-cuid={cuid}");
        command.args((source.language == Language::Hip).then_some(&id)).args(["-Xclang", &id]);
    }
    command.args(["-x", source.language.name()]).arg(source.path).arg("-o").arg(output.path());
    let run = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("{} cannot be run", user.driver.program.display()))?;
    if !run.status.success() {
        let words = String::from_utf8_lossy(&run.stderr).into_owned();
        let reason = words.lines().find(|line| line.contains("error")).unwrap_or("clang gives no reason");
        bail!("{}", reason.trim());
    }
    std::fs::read(output.path()).context("clang's IR cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amds_targets_have_their_features() {
        let line = |features: &str| {
            let words = format!("-cc1 -fcuda-is-device -target-cpu gfx90a {features} -x hip a.hip");
            words.split_whitespace().map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(" ")
        };
        let lines = [
            "",
            "-target-feature +xnack -target-feature -sramecc -target-feature +cumode",
            "-target-feature +xnack -target-feature -xnack",
        ];
        let log = Log::parse(&lines.map(line).join("\n"));
        let found: Vec<_> = log.compilations.iter().map(|it| (it.arch.as_str(), it.target.as_str())).collect();
        assert_eq!(found, [("gfx90a", "gfx90a"), ("gfx90a", "gfx90a:sramecc-:xnack+"), ("gfx90a", "gfx90a:xnack-")]);
    }

    #[test]
    fn the_log_tells_sources_architectures_and_ids() {
        let text = concat!(
            "[Logging clang options]\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-O2\" \"-fcuda-is-device\" \"-cuid=00\" \"-cuid=12ab\" \"-target-cpu\" \"sm_80\" \"-D\" \"S=\\\"a b\\\"\" \"-x\" \"cuda\" \"a dir/a.cu\"\n",
            " \"/cuda/bin/ptxas\" \"-m64\" \"-O2\" \"--gpu-name\" \"sm_80\" \"--output-file\" \"a.o\" \"a.s\" \"-maxrregcount=32\"\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-fcuda-is-device\" \"-target-cpu\" \"sm_90\" \"-x\" \"cuda\" \"b.cu\"\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-emit-llvm-bc\" \"-fcuda-is-device\" \"-target-cpu\" \"sm_90\" \"-x\" \"cuda\" \"b.cu\"\n",
            " \"/usr/bin/clang\" \"-cc1\" \"-target-cpu\" \"x86-64\" \"-x\" \"cuda\" \"b.cu\"\n",
            " \"/usr/bin/clang-offload-packager\" \"-o\" \"x\"\n",
        );
        let log = Log::parse(text);
        let options = |level: &str, ptx_opt, ptxas: &[&str]| CompileOptions {
            level: level.into(),
            contract: "fast".into(),
            ptx_opt,
            ptxas_options: ptxas.iter().map(ToString::to_string).collect(),
            ..CompileOptions::default()
        };
        let compilation = |source: &str, arch: &str, cuid: Option<&str>, options| DeviceCompilation {
            source: source.into(),
            arch: arch.into(),
            target: arch.into(),
            cuid: cuid.map(str::to_owned),
            options,
        };
        let first = compilation("a dir/a.cu", "sm_80", Some("12ab"), options("2", 2, &["-maxrregcount=32"]));
        assert_eq!(log.compilations, [first, compilation("b.cu", "sm_90", None, options("0", 3, &[]))]);
        assert!(log.packaged);
        assert_eq!(quoted(r#" "-D" "S=\"a b\"""#), ["-D", r#"S="a b""#]);
    }
}
