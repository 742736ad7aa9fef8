//! The command `mneme export --standalone`, which writes a C program that runs one recorded launch.
//!
//! The program ([`PROGRAM`]) is the same for all kernels. What differs is in a header beside it ([`header`]), and the
//! contents of memory in a file ([`memory`]).

mod header;
mod memory;

use std::fs::File;
use std::path::{Path, PathBuf};

use clap::Args;
use mneme_core::hash::checksum;
use mneme_core::recording::code::immovable;
use mneme_core::recording::database::Instance;
use mneme_core::recording::{CodeKind, Moments};
use mneme_core::units;

use crate::error::CommandError;
use crate::print;
use crate::selection::{KernelFile, Selection};

use self::memory::Memory;

const PROGRAM: &str = include_str!("kernel.c");
const MAKEFILE: &str = "CFLAGS ?= -O2 -Wall\n\nkernel: kernel.c launch.h\n\t$(CC) $(CFLAGS) -o $@ kernel.c -ldl\n\n\
                        run: kernel\n\t./kernel\n\nclean:\n\trm -f kernel\n\n.PHONY: run clean\n";
const MEMORY: &str = "memory.bin";

#[derive(Debug, Args)]
pub struct ExportOptions {
    #[command(flatten)]
    selection: Selection,
    /// Write a C program that runs the launch, and all that it needs, to this folder
    #[arg(long, value_name = "DIR", required = true)]
    standalone: PathBuf,
    /// Machine code (.cubin) or PTX (.ptx) to run, such as mneme-replay --output-dir writes [default: what the
    /// application ran]
    #[arg(long, value_name = "FILE")]
    code: Option<PathBuf>,
}

/// The code that the program loads.
struct Code {
    bytes: Vec<u8>,
    kind: CodeKind,
}

impl Code {
    /// Its name in the folder.
    fn file(&self) -> &'static str {
        if self.kind == CodeKind::Ptx { "kernel.ptx" } else { "kernel.cubin" }
    }
}

pub fn run(options: &ExportOptions) -> Result<(), CommandError> {
    let selected = options.selection.kernels()?;
    let [kernel] = &selected.kernels[..] else {
        let path = options.selection.path().display();
        return Err(CommandError::Usage(match selected.kernels.len() {
            0 => format!("{path} holds no recorded kernel"),
            count => format!("{path} holds {count} kernels; name the STATIC-HASH.json of one, or an instance (-rid)"),
        }));
    };
    if kernel.record.ours.processor().is_some() {
        return Err(CommandError::Usage(format!(
            "{}: its code is for an AMD GPU, and the program that is written is for NVIDIA's driver",
            kernel.path.display()
        )));
    }
    let (id, instance) = kernel.record.instance(&kernel.path, options.selection.record_id.as_deref())?;
    let moments = Moments::open(kernel.folder(), &kernel.record, instance)?;
    let code = match &options.code {
        Some(path) => given(path)?,
        None => original(kernel, instance)?,
    };
    if let Some(reason) = immovable(&moments.prologue.header, &code.bytes, code.kind, &kernel.record.kernel_name) {
        return Err(CommandError::Usage(format!(
            "{}: {reason}, which lies elsewhere in a program of its own",
            kernel.path.display()
        )));
    }
    let folder = &options.standalone;
    create(folder)?;
    let write = |name: &str, bytes: &[u8]| written(&folder.join(name), std::fs::write(folder.join(name), bytes));
    let path = folder.join(MEMORY);
    let file = written(&path, File::create(&path))?;
    let store = moments.store(kernel.folder())?;
    let memory = Memory::write(&moments, &store, file, |source| CommandError::Io { path: path.clone(), source })?;
    write(code.file(), &code.bytes)?;
    write("kernel.c", PROGRAM.as_bytes())?;
    write("Makefile", MAKEFILE.as_bytes())?;
    write("launch.h", header::of(&kernel.record, (id, instance), &moments.prologue, &memory, code.file()).as_bytes())?;
    let mut modules = 0;
    for name in kernel.record.modules.iter().filter(|name| CodeKind::of(name) == CodeKind::Bitcode) {
        let from = kernel.folder().join(name);
        write(&format!("kernel-{modules}.bc"), &written(&from, std::fs::read(&from))?)?;
        modules += 1;
    }
    let ir = if modules > 0 { " and its IR" } else { "" };
    print(&format!(
        "{}: {} with {} of memory{ir}; make -C {0} && (cd {0} && ./kernel)\n",
        folder.display(),
        code.file(),
        units::bytes(memory.bytes)
    ))
}

/// A folder that is new or empty.
fn create(folder: &Path) -> Result<(), CommandError> {
    written(folder, std::fs::create_dir_all(folder))?;
    let is_empty = written(folder, std::fs::read_dir(folder))?.next().is_none();
    if is_empty {
        return Ok(());
    }
    Err(CommandError::Usage(format!("{} is not empty; name a new folder", folder.display())))
}

fn written<T>(path: &Path, result: std::io::Result<T>) -> Result<T, CommandError> {
    result.map_err(|source| CommandError::Io { path: path.into(), source })
}

fn given(path: &Path) -> Result<Code, CommandError> {
    let bytes = written(path, std::fs::read(path))?;
    match CodeKind::of(&path.to_string_lossy()) {
        kind @ (CodeKind::Cubin | CodeKind::Ptx) => Ok(Code { bytes, kind }),
        _ => {
            let path = path.display();
            Err(CommandError::Usage(format!("{path} is neither machine code (.cubin) nor PTX (.ptx) by its name")))
        }
    }
}

/// The first form that is machine code or PTX.
fn original(kernel: &KernelFile, instance: &Instance) -> Result<Code, CommandError> {
    for code in &instance.ours.original {
        let kind = CodeKind::of(&code.file);
        if matches!(kind, CodeKind::Cubin | CodeKind::Ptx) {
            let path = kernel.folder().join(&code.file);
            let bytes = written(&path, std::fs::read(&path))?;
            if checksum(&bytes) != code.checksum {
                return Err(mneme_core::recording::RecordingError::Damaged {
                    path,
                    what: "its checksum does not match".into(),
                }
                .into());
            }
            return Ok(Code { bytes, kind });
        }
    }
    Err(CommandError::Usage(format!(
        "{} holds no machine code and no PTX that the application ran (it may have been recorded on the CPU device); \
         name some by --code",
        kernel.path.display()
    )))
}
