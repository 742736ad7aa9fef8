//! The command `mneme export --standalone`, which writes a C program that runs one recorded launch.
//!
//! The program ([`PROGRAM`]) is the same for all kernels. A header beside it ([`header`]) describes the launch, and a
//! file contains the memory ([`kept`]). Inputs are verified, and the folder is created completely or not at all
//! ([`folder`]).

mod folder;
mod header;
mod kept;
mod pointers;

use std::fs::File;
use std::path::Path;

use mneme_image::cubin;
use mneme_image::ptx::PtxModule;
use mneme_image::symbol::readable;
use mneme_model::hash::checksum;
use mneme_model::text::closest;
use mneme_model::units;
use mneme_recording::code::immovable;
use mneme_recording::database::{InstanceRecord, KernelRecord};
use mneme_recording::{CodeKind, Moments, RecordingError};

use self::folder::{NewFolder, written};
use self::kept::KeptMemory;
use self::pointers::Pointer;
use crate::error::CommandError;
use crate::output::print;
use crate::selection::{KernelFile, Selection};

const PROGRAM: &str = include_str!("kernel.c");
const MAKEFILE: &str = "CFLAGS ?= -O2 -Wall\n\nkernel: kernel.c launch.h\n\t$(CC) $(CFLAGS) -o $@ kernel.c -ldl\n\n\
                        run: kernel\n\t./kernel\n\nclean:\n\trm -f kernel\n\n.PHONY: run clean\n";
const MEMORY: &str = "memory.bin";

/// The code that the program loads.
struct Code {
    bytes: Vec<u8>,
    kind: CodeKind,
}

impl Code {
    /// Its file name in the folder.
    fn file(&self) -> &'static str {
        if self.kind == CodeKind::Ptx { "kernel.ptx" } else { "kernel.cubin" }
    }
}

/// Writes the folder, with `given_code` instead of the application's own code if given.
pub fn run(selection: &Selection, output: &Path, given_code: Option<&Path>) -> Result<(), CommandError> {
    let kernel = &selection.single()?;
    if kernel.record.ours.processor().is_some() {
        return Err(CommandError::Usage(format!(
            "{}: its code is for an AMD GPU, but exported programs need NVIDIA's driver",
            kernel.path.display()
        )));
    }
    // The program runs the recording's code, so strangers must not be able to change it.
    KernelRecord::load_trusted(&kernel.path)?;
    let (id, instance) = kernel.record.instance(&kernel.path, selection.record_id.as_deref())?;
    let moments = Moments::open(kernel.folder(), &kernel.record, instance)?;
    let name = &kernel.record.kernel_name;
    let code = match given_code {
        Some(path) => given(path, name)?,
        None => original(kernel, instance)?,
    };
    let before = &moments.prologue.header;
    if let Some(reason) = immovable(&before.variables, &before.arguments, &code.bytes, code.kind, name) {
        return Err(CommandError::Usage(format!(
            "{}: {reason}, which has another address in an exported program",
            kernel.path.display()
        )));
    }
    if !before.images.is_empty() {
        return Err(CommandError::Usage(format!(
            "{}: its kernel uses texture or surface objects, which exported programs do not make",
            kernel.path.display()
        )));
    }
    let modules = modules(kernel)?;
    let store = moments.store(kernel.folder())?;
    let folder = NewFolder::create(output)?;
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.file(name);
        written(&path, std::fs::write(&path, bytes))
    };
    let path = folder.file(MEMORY);
    let file = written(&path, File::create(&path))?;
    let memory = KeptMemory::write(&moments, &store, file, |source| CommandError::Io { path: path.clone(), source })?;
    write(code.file(), &code.bytes)?;
    write("kernel.c", PROGRAM.as_bytes())?;
    write("Makefile", MAKEFILE.as_bytes())?;
    write("launch.h", header::of(&kernel.record, (id, instance), &moments.prologue, &memory, code.file()).as_bytes())?;
    for (number, (extension, bytes)) in modules.iter().enumerate() {
        write(&format!("kernel-{number}.{extension}"), bytes)?;
    }
    folder.publish()?;
    if let Some(Pointer { at, variable, .. }) = &memory.doubtful {
        mneme_system::remark!(
            "mneme: memory at {at:#x} may contain a pointer near the variable {variable}; if the kernel uses it, the program \
             is wrong, because the variable has another address"
        );
    }
    let path = output.display();
    let (ir, word) = (if modules.is_empty() { "" } else { " and its IR" }, shell_word(output));
    print(&format!(
        "{path}: {} with {} of memory{ir}; make -C {word} && (cd {word} && ./kernel)\n",
        code.file(),
        units::bytes(memory.bytes)
    ))
}

/// Quotes a path for a shell.
fn shell_word(path: &Path) -> String {
    let text = path.display().to_string();
    let text = if text.starts_with('-') { format!("./{text}") } else { text };
    let is_plain = |character: char| character.is_ascii_alphanumeric() || "/._-+,:=@%".contains(character);
    if !text.is_empty() && text.chars().all(is_plain) { text } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

/// Reads a file of a recording, and verifies its checksum if known.
fn verified(path: &Path, sum: Option<u64>) -> Result<Vec<u8>, RecordingError> {
    let bytes = std::fs::read(path).map_err(RecordingError::io(path))?;
    if sum.is_none_or(|sum| sum == checksum(&bytes)) {
        return Ok(bytes);
    }
    Err(RecordingError::Damaged { path: path.into(), what: "its checksum does not match".into() })
}

/// The kernel's IR modules, its own unit first, each with its file extension.
fn modules(kernel: &KernelFile) -> Result<Vec<(&'static str, Vec<u8>)>, RecordingError> {
    let record = &kernel.record;
    let sums = record.ours.module_checksums.iter().copied().map(Some).chain(std::iter::repeat(None));
    let all = record.modules.iter().zip(sums).filter(|(name, _)| CodeKind::of(name) == CodeKind::Bitcode);
    all.map(|(name, sum)| {
        let extension = if Path::new(name).extension().is_some_and(|it| it == "ll") { "ll" } else { "bc" };
        Ok((extension, verified(&kernel.folder().join(name), sum)?))
    })
    .collect()
}

/// Code from a file, which has to contain the kernel.
fn given(path: &Path, kernel: &str) -> Result<Code, CommandError> {
    let kind = CodeKind::of(&path.to_string_lossy());
    if !matches!(kind, CodeKind::Cubin | CodeKind::Ptx) {
        let path = path.display();
        return Err(CommandError::Usage(format!(
            "{path} is neither machine code nor PTX by its name; name a .cubin or .ptx file"
        )));
    }
    let bytes = std::fs::read(path).map_err(CommandError::unread(path))?;
    let kernels: Vec<String> = match kind {
        CodeKind::Ptx => PtxModule::parse(&String::from_utf8_lossy(&bytes)).kernels().map(str::to_owned).collect(),
        _ => cubin::parse(&bytes).into_iter().flat_map(|cubin| cubin.kernels).map(|found| found.name).collect(),
    };
    if !kernels.iter().any(|found| found == kernel) {
        return Err(CommandError::Usage(format!(
            "{} has no kernel {}, which was recorded; its kernels: {}",
            path.display(),
            readable(kernel),
            closest(&readable(kernel), kernels.iter().map(|found| readable(found)))
        )));
    }
    Ok(Code { bytes, kind })
}

/// The first form of code that is machine code or PTX; otherwise the PTX that the kernel was recorded from.
fn original(kernel: &KernelFile, instance: &InstanceRecord) -> Result<Code, CommandError> {
    for code in &instance.ours.original {
        let kind = CodeKind::of(&code.file);
        if matches!(kind, CodeKind::Cubin | CodeKind::Ptx) {
            let bytes = verified(&kernel.folder().join(&code.file), Some(code.checksum))?;
            return Ok(Code { bytes, kind });
        }
    }
    let (names, sums) = (&kernel.record.modules, &kernel.record.ours.module_checksums);
    if let Some(name) = names.first().filter(|name| CodeKind::of(name) == CodeKind::Ptx) {
        let bytes = verified(&kernel.folder().join(name), sums.first().copied())?;
        return Ok(Code { bytes, kind: CodeKind::Ptx });
    }
    Err(CommandError::Usage(format!(
        "{} contains neither machine code nor PTX, which an exported program needs: its program has none, or an earlier \
         version recorded it; record it again, or name code for a GPU with --code",
        kernel.path.display()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_words_of_a_shell() {
        let word = |path: &str| shell_word(Path::new(path));
        assert_eq!([word("a/b-1.x"), word("-x"), word("/a b")], ["a/b-1.x", "./-x", "'/a b'"]);
        assert_eq!([word("it's"), word("$HOME"), word("ä")], [r"'it'\''s'", "'$HOME'", "'ä'"]);
    }
}
