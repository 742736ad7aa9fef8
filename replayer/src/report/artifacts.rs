//! Artifacts of a build: IR, PTX or ISA text, machine code, its disassembly, the build's log.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_builds::BuildTexts;
use mneme_builds::{BuildOutcome, Built};
use mneme_image::code_object;
use mneme_system::exit;
use mneme_system::files::private;
use mneme_system::install;
use mneme_system::toolkits::toolkits;

use crate::build::replacement::ReplacementFile;
use crate::error::Fatal;

/// The first bytes of an ELF object.
const ELF: &[u8] = b"\x7fELF";

/// The files in the folder.
const BEFORE: &str = "before.ll";
const AFTER: &str = "after.ll";
const PTX: &str = "kernel.ptx";
const CUBIN: &str = "kernel.cubin";
const SASS: &str = "kernel.sass";
const ISA: &str = "kernel.s";
const CODE_OBJECT: &str = "kernel.hsaco";
const CPU_OBJECT: &str = "kernel.o";
const LOG: &str = "build.log";
const ALL: [&str; 9] = [BEFORE, AFTER, PTX, CUBIN, SASS, ISA, CODE_OBJECT, CPU_OBJECT, LOG];

/// Prepares the folder for the files of a build. `code` replaces the kernel.
///
/// # Errors
/// The folder cannot be written to, or writing would overwrite the file with the code.
pub fn prepare(folder: &Path, code: Option<&ReplacementFile>) -> Result<(), Fatal> {
    let same = |one: &Path, other: &Path| {
        one.canonicalize().is_ok_and(|one| other.canonicalize().is_ok_and(|other| one == other))
    };
    if let Some(file) =
        code.map(ReplacementFile::path).filter(|file| ALL.iter().any(|name| same(&folder.join(name), file)))
    {
        let error = format!("--output-dir would overwrite {}; name another folder, or copy the file", file.display());
        return Err(Fatal::new(exit::BAD_USAGE, error));
    }
    clear(folder, ALL)
}

/// Creates the folder, and removes files of these names from an earlier run, which would be mistaken for this one's.
///
/// # Errors
/// The folder cannot be written to.
pub fn clear<'a>(folder: &Path, names: impl IntoIterator<Item = &'a str>) -> Result<(), Fatal> {
    private::create_folder(folder).map_err(|error| unwritable(folder, &error))?;
    for path in names.into_iter().map(|name| folder.join(name)) {
        match std::fs::remove_file(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(unwritable(&path, &error)),
            _ => {}
        }
    }
    Ok(())
}

/// Writes all artifacts to a prepared folder. A failed build has those of its finished stages.
pub fn write_all(folder: &Path, outcome: Option<&BuildOutcome>, cpu: bool) -> Result<(), Fatal> {
    let path = |name: &str| folder.join(name);
    if let Some(outcome) = outcome {
        let texts = texts(outcome);
        for (name, text) in [(BEFORE, &texts.ir_before), (AFTER, &texts.ir), (PTX, &texts.ptx), (ISA, &texts.isa)] {
            if let Some(text) = text {
                write(&path(name), text.as_bytes())?;
            }
        }
    }
    match outcome {
        None => write(&path(LOG), b"no build was made\n"),
        Some(Err(not_built)) => {
            let lines: Vec<&str> =
                not_built.log.iter().map(String::as_str).chain([not_built.error.as_str(), ""]).collect();
            write(&path(LOG), lines.join("\n").as_bytes())
        }
        Some(Ok((built, image))) => {
            if image.starts_with(ELF) {
                let is_amd = code_object::is_code_object(image);
                let object = path(if cpu {
                    CPU_OBJECT
                } else if is_amd {
                    CODE_OBJECT
                } else {
                    CUBIN
                });
                write(&object, image)?;
                // The text of an AMD GPU's instructions comes from the compiler.
                if !cpu && !is_amd {
                    disassemble(&object, &path(SASS))?;
                }
            }
            write(&path(LOG), log(built, image.len()).as_bytes())
        }
    }
}

fn texts(outcome: &BuildOutcome) -> &BuildTexts {
    match outcome {
        Ok((built, _)) => &built.texts,
        Err(not_built) => &not_built.texts,
    }
}

/// Writes the IR after the pipeline and the PTX to the requested files. If a finished build has none, the request is
/// the user's error. A failed build has those of its finished stages.
pub fn write_texts(ir: Option<&Path>, ptx: Option<&Path>, outcome: Option<&BuildOutcome>) -> Result<(), Fatal> {
    let Some(outcome) = outcome else { return Ok(()) };
    let texts = texts(outcome);
    for (path, text, what) in [(ir, &texts.ir, "IR"), (ptx, &texts.ptx, "PTX")] {
        match (path, text) {
            (Some(path), Some(text)) => write(path, text.as_bytes())?,
            (Some(_), None) if outcome.is_ok() => {
                return Err(Fatal::new(exit::BAD_USAGE, format!("this build has no {what} to write")));
            }
            _ => {}
        }
    }
    Ok(())
}

fn log(built: &Built, size: usize) -> String {
    let mut text = String::new();
    for line in &built.log {
        text.push_str(line);
        text.push('\n');
    }
    for (stage, seconds) in [
        ("preparing", built.preprocess),
        ("pass pipeline", built.optimise),
        ("code generation and assembly", built.codegen),
    ] {
        text.push_str(&format!("{stage}: {:.3} ms\n", seconds * 1e3));
    }
    text + &format!("{size} bytes of code, made by {}\n", built.assembler)
}

/// Writes machine code as text, with NVIDIA's disassembler. Prints one sentence if that is not installed.
fn disassemble(cubin: &Path, to: &Path) -> Result<(), Fatal> {
    const PROGRAM: &str = "nvdisasm";
    let folders = install::search_path().into_iter().chain(toolkits().into_iter().map(|root| root.join("bin")));
    let Some(program) = folders.map(|folder: PathBuf| folder.join(PROGRAM)).find(|program| program.is_file()) else {
        mneme_system::remark!(
            "mneme-replay: cannot write {}: {PROGRAM} is neither on PATH nor in a CUDA toolkit",
            to.display()
        );
        return Ok(());
    };
    match Command::new(&program).arg(cubin).output() {
        Ok(output) if output.status.success() => write(to, &output.stdout),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            mneme_system::remark!(
                "mneme-replay: cannot write {}: {PROGRAM} reports {}",
                to.display(),
                said.lines().next().unwrap_or("no reason")
            );
            Ok(())
        }
        Err(error) => {
            mneme_system::remark!(
                "mneme-replay: cannot write {}: cannot run {}: {error}",
                to.display(),
                program.display()
            );
            Ok(())
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Fatal> {
    private::write(path, bytes).map_err(|error| unwritable(path, &error))
}

pub fn unwritable(path: &Path, error: &std::io::Error) -> Fatal {
    Fatal::new(exit::BAD_USAGE, format!("cannot write {}: {error}", path.display()))
}
