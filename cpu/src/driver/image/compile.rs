//! Compiles units by running `mneme-cc` in a separate process.
//!
//! LLVM is never loaded into the application's process.

use std::collections::HashMap;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::FromRawFd;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};

use mneme_model::hash::Hash64;
use mneme_system::environment;
use mneme_system::files::size_limit;
use mneme_system::install;
use thiserror::Error;

use super::units::Group;

#[derive(Debug, Error)]
pub enum CompilationError {
    #[error("'mneme-cc' was not found beside the CPU device; install it there or name the installation in MNEME_HOME")]
    NoCompiler,
    #[error("the embedded LLVM IR cannot be read: {0}")]
    Bitcode(std::io::Error),
    #[error("'mneme-cc' could not be run: {0}")]
    Run(std::io::Error),
    #[error("the device code could not be compiled for the CPU: {0}")]
    Failed(String),
}

/// Code objects compiled by this process, because a program may load the same image repeatedly.
static COMPILED: Mutex<Option<HashMap<u64, Arc<[u8]>>>> = Mutex::new(None);

/// Returns the CPU code object of a group of units, compiled with the program's own options, or with the passes in
/// `MNEME_CPU_PASSES`.
pub fn object(group: &Group) -> Result<Arc<[u8]>, CompilationError> {
    let mut words = vec!["--arch".to_owned(), group.arch.clone()];
    if let Some(passes) = environment::variable("MNEME_CPU_PASSES") {
        words.extend(["--passes".into(), passes]);
    }
    if let Some(compiled) = group.compiled().and_then(|compiled| serde_json::to_string(compiled).ok()) {
        words.extend(["--compiled".into(), compiled]);
    }
    let mut input = Vec::new();
    for module in group.modules().map_err(CompilationError::Bitcode)? {
        input.extend((module.len() as u64).to_le_bytes());
        input.extend_from_slice(&module);
    }
    let key = words.iter().fold(Hash64::new(), |hash, word| hash.part(word.as_bytes())).part(&input).finish();
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    let compiled = compiled.get_or_insert_default();
    if let Some(object) = compiled.get(&key) {
        return Ok(object.clone());
    }
    let object: Arc<[u8]> = run(&words, &input)?.into();
    compiled.insert(key, object.clone());
    Ok(object)
}

fn run(words: &[String], input: &[u8]) -> Result<Vec<u8>, CompilationError> {
    let program = install::locate(install::COMPILER).ok_or(CompilationError::NoCompiler)?;
    // Files instead of pipes: the application gets no SIGPIPE if the compiler dies, and an application that reaps all
    // its children itself causes no harm.
    let (mut stdin, mut stdout, mut stderr) = (memory_file()?, memory_file()?, memory_file()?);
    size_limit::as_errors(|| stdin.write_all(input)).and_then(|()| stdin.rewind()).map_err(CompilationError::Run)?;
    let share = |file: &File| file.try_clone().map(Stdio::from).map_err(CompilationError::Run);
    let mut child = Command::new(program)
        .arg("--mneme-cpu-object")
        .args(words)
        // Otherwise the helper would be recorded, and would load this library.
        .env_remove("LD_PRELOAD")
        .stdin(share(&stdin)?)
        .stdout(share(&stdout)?)
        .stderr(share(&stderr)?)
        .spawn()
        .map_err(CompilationError::Run)?;
    let status = child.wait();
    let mut object = Vec::new();
    let mut message = String::new();
    stdout.rewind().and_then(|()| stdout.read_to_end(&mut object)).map_err(CompilationError::Run)?;
    let _ = stderr.rewind().and_then(|()| stderr.read_to_string(&mut message));
    let failed = status.is_ok_and(|status| !status.success());
    if failed || object.is_empty() {
        let message = message.trim();
        return Err(CompilationError::Failed(if message.is_empty() {
            "the compiler ended without a message".into()
        } else {
            message.to_owned()
        }));
    }
    Ok(object)
}

fn memory_file() -> Result<File, CompilationError> {
    // SAFETY: a NUL-terminated name.
    let descriptor = unsafe { libc::memfd_create(c"mneme-cpu-compile".as_ptr(), libc::MFD_CLOEXEC) };
    if descriptor < 0 {
        return Err(CompilationError::Run(std::io::Error::last_os_error()));
    }
    // SAFETY: the descriptor was just opened and has no other owner.
    Ok(unsafe { File::from_raw_fd(descriptor) })
}
