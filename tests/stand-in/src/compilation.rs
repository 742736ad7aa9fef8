//! Compiles the IR of code objects for the CPU device.
//!
//! A GPU's code cannot run here. Its IR is in the code object itself, or in a folder that a test fills.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use mneme_image::elf;
use mneme_system::install;
use sha2::{Digest, Sha256};

use crate::mistake::{Mistake, wrong};

/// A folder of bitcode. Each file is named by its code object's SHA-256 in hexadecimal digits, plus `.bc`.
const FOLDER: &str = "MNEME_STAND_IN_IR";
/// Section of a code object that holds its own bitcode.
const SECTION: &str = ".mneme.standin";

/// CPU code objects by the bitcode that they were compiled from.
type Objects = HashMap<Vec<u8>, Arc<[u8]>>;

/// Bitcode of a code object.
pub fn ir_of(object: &[u8]) -> Option<Vec<u8>> {
    if let Some(bitcode) = elf::section(object, SECTION) {
        return Some(bitcode.into());
    }
    let folder = PathBuf::from(std::env::var_os(FOLDER)?);
    let digest: String = Sha256::digest(object).iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::read(folder.join(digest + ".bc")).ok()
}

/// The CPU code object of a module. Its passes have already run, so it is not optimised here.
pub fn object(bitcode: &[u8]) -> Result<Arc<[u8]>, Mistake> {
    static COMPILED: LazyLock<Mutex<Objects>> = LazyLock::new(Mutex::default);
    let mut compiled = COMPILED.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(object) = compiled.get(bitcode) {
        return Ok(object.clone());
    }
    let object: Arc<[u8]> = match compile(bitcode) {
        Ok(object) => object.into(),
        Err(error) => return wrong(format!("the IR of the code object cannot be compiled for the CPU: {error}")),
    };
    compiled.insert(bitcode.into(), object.clone());
    Ok(object)
}

fn compile(bitcode: &[u8]) -> io::Result<Vec<u8>> {
    let program =
        install::locate(install::COMPILER).ok_or_else(|| io::Error::other("mneme-cc is not beside this library"))?;
    let mut child = Command::new(program)
        .args(["--mneme-cpu-object", "--passes", "default<O0>"])
        .env_remove("LD_PRELOAD")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let mut input = child.stdin.take().expect("standard input is a pipe");
    let module = [&(bitcode.len() as u64).to_le_bytes(), bitcode].concat();
    let writing = std::thread::spawn(move || input.write_all(&module));
    let mut errors = child.stderr.take().expect("standard error is a pipe");
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = errors.read_to_string(&mut text);
        text
    });
    let output = child.wait_with_output()?;
    let _ = writing.join();
    let text = reading.join().unwrap_or_default();
    if output.status.success() { Ok(output.stdout) } else { Err(io::Error::other(text.trim())) }
}
