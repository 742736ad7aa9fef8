//! What a build leaves behind on request: IR, PTX, machine code, its disassembly, the build's log.

use std::path::{Path, PathBuf};
use std::process::Command;

use mneme_compiler::assembler::toolkits;
use mneme_core::exit;

use crate::builder::{Built, Outcome};
use crate::supervisor::Fatal;

/// How an ELF object begins.
const ELF: &[u8] = b"\x7fELF";

/// Writes everything that is there to `folder`, which is made where it is missing.
pub fn write_all(folder: &Path, outcome: Option<&Outcome>, cpu: bool) -> Result<(), Fatal> {
    std::fs::create_dir_all(folder).map_err(|error| unwritable(folder, &error))?;
    let path = |name: &str| folder.join(name);
    match outcome {
        None => write(&path("build.log"), b"nothing was built\n"),
        Some(Err(not_built)) => write(&path("build.log"), format!("{}\n", not_built.error).as_bytes()),
        Some(Ok((built, image))) => {
            for (name, text) in [("before.ll", &built.ir_before), ("after.ll", &built.ir), ("kernel.ptx", &built.ptx)] {
                if let Some(text) = text {
                    write(&path(name), text.as_bytes())?;
                }
            }
            if image.starts_with(ELF) {
                let object = path(if cpu { "kernel.o" } else { "kernel.cubin" });
                write(&object, image)?;
                if !cpu {
                    disassemble(&object, &path("kernel.sass"))?;
                }
            }
            write(&path("build.log"), log(built, image.len()).as_bytes())
        }
    }
}

/// Writes one text; that it is not there is the user's error.
pub fn write_text(path: Option<&Path>, text: Option<&str>, what: &str) -> Result<(), Fatal> {
    match (path, text) {
        (None, _) => Ok(()),
        (Some(_), None) => Err(Fatal::new(exit::BAD_USAGE, format!("this build has no {what} to write"))),
        (Some(path), Some(text)) => write(path, text.as_bytes()),
    }
}

fn log(built: &Built, size: usize) -> String {
    let mut text = String::new();
    for line in &built.log {
        text.push_str(line);
        text.push('\n');
    }
    for (stage, seconds) in
        [("preparing", built.preprocess), ("pass pipeline", built.optimise), ("code generation and assembly", built.codegen)]
    {
        text.push_str(&format!("{stage}: {:.3} ms\n", seconds * 1e3));
    }
    text + &format!("{size} bytes of code, made by {}\n", built.assembler)
}

/// Machine code as text, by NVIDIA's disassembler; one sentence where that is not installed.
fn disassemble(cubin: &Path, to: &Path) -> Result<(), Fatal> {
    const PROGRAM: &str = "nvdisasm";
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(toolkits().into_iter().map(|root| root.join("bin")));
    let Some(program) = folders.map(|folder: PathBuf| folder.join(PROGRAM)).find(|program| program.is_file()) else {
        eprintln!("mneme-replay: no {} is written: {PROGRAM} is neither on PATH nor in a CUDA toolkit", to.display());
        return Ok(());
    };
    match Command::new(&program).arg(cubin).output() {
        Ok(output) if output.status.success() => write(to, &output.stdout),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            eprintln!("mneme-replay: no {} is written: {PROGRAM} says {}", to.display(), said.lines().next().unwrap_or("nothing"));
            Ok(())
        }
        Err(error) => {
            eprintln!("mneme-replay: no {} is written: {} cannot be run: {error}", to.display(), program.display());
            Ok(())
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Fatal> {
    std::fs::write(path, bytes).map_err(|error| unwritable(path, &error))
}

fn unwritable(path: &Path, error: &std::io::Error) -> Fatal {
    Fatal::new(exit::BAD_USAGE, format!("{} cannot be written: {error}", path.display()))
}
