//! The parts of a kernel's interface that only its IR tells.
//!
//! In recordings of the existing Mneme these are where its parameters lie and which variables are constant. LLVM reads
//! the IR in a forked process, as it may crash on what is damaged.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::time::Duration;

use mneme_compiler::interface::{KernelInterface, of};

use crate::process::child::{Child, ChildStderr, ProcessEnd, pipe};
use crate::process::confinement::{self, AllowedResources};

/// Reading IR takes seconds at most.
const LIMIT: Duration = Duration::from_secs(120);

/// The interface of `kernel`, or why the IR does not tell. The caller must have one thread only.
pub fn read(modules: &[Vec<u8>], kernel: &str) -> Result<KernelInterface, String> {
    let failed = |error: std::io::Error| format!("the process that reads the IR cannot be started: {error}");
    let (reader, writer) = pipe().map_err(|error| failed(error.into()))?;
    // The parent's copy of the writing end goes into the closure, and closes with it: the pipe ends when the child
    // does.
    let child = Child::start(ChildStderr::Kept, || {
        confinement::enter(&AllowedResources { descriptors: vec![writer.as_raw_fd()], ..AllowedResources::default() });
        let modules: Vec<&[u8]> = modules.iter().map(Vec::as_slice).collect();
        let found = of(&modules, kernel).map_err(|error| error.to_string());
        let text = serde_json::to_vec(&found).expect("plain data serialises");
        match File::from(writer).write_all(&text) {
            Ok(()) => mneme_core::exit::VERIFIED,
            Err(_) => mneme_core::exit::INTERNAL,
        }
    });
    let mut child = child.map_err(failed)?;
    let mut text = Vec::new();
    let read = File::from(reader).read_to_end(&mut text);
    match child.wait(LIMIT) {
        Some(ProcessEnd::Exited(mneme_core::exit::VERIFIED)) if read.is_ok() => serde_json::from_slice(&text)
            .unwrap_or_else(|error| Err(format!("the process that reads the IR answers nonsense: {error}"))),
        end => {
            let how = end.map_or_else(|| "does not end".to_owned(), |end| end.to_string());
            let said = child.complaint().map_or_else(String::new, |complaint| format!(": {}", complaint.trim()));
            Err(format!("the process that reads the IR {how}{said}"))
        }
    }
}
