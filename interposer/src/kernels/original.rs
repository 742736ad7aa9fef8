//! The code that the application runs, kept beside what it is rebuilt from.
//!
//! A replay can run exactly that.

use std::collections::HashMap;
use std::ffi::c_void;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use mneme_core::hash::checksum;
use mneme_core::recording::database::{self, CodeFile};
use mneme_core::recording::{CodeKind, RecordingError};

use crate::driver::{CUfunction, Status};
use crate::process::linker;

/// One form of it.
#[derive(Clone)]
pub struct OriginalCode {
    pub file: CodeFile,
    /// Until they are on disk: images may be large.
    contents: Arc<Mutex<Option<Arc<Vec<u8>>>>>,
}

impl OriginalCode {
    pub fn new(kind: CodeKind, bytes: Arc<Vec<u8>>) -> Self {
        // Kernels of one image have the same.
        static KNOWN: Mutex<Option<HashMap<String, OriginalCode>>> = Mutex::new(None);
        let checksum = checksum(&bytes);
        let file = CodeFile { file: kind.original(checksum), checksum };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Self { file: file.clone(), contents: Arc::new(Mutex::new(Some(bytes))) };
        known.get_or_insert_default().entry(file.file.clone()).or_insert_with(new).clone()
    }

    /// What the CPU device has compiled from the program's IR and runs for a function's handle; `None` on other
    /// devices.
    pub fn of_cpu_device(function: CUfunction) -> Option<Self> {
        linker::cpu_device()?;
        let address = linker::vendor_symbol(c"mneme_cpu_code");
        if address.is_null() {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null(), 0);
        // SAFETY: the CPU device's function of this name has this type and writes to both places; what it gives stays
        // as long as the function is loaded, which a launch under way keeps it.
        let bytes = unsafe {
            let ask = std::mem::transmute::<*mut c_void, mneme_abi::cpu_device::pointers::mneme_cpu_code>(address);
            if ask(function, &mut start, &mut size) != Status::SUCCESS {
                return None;
            }
            Arc::new(std::slice::from_raw_parts(start, size).to_vec())
        };
        Some(Self::new(CodeKind::CpuObject, bytes))
    }

    /// Writes the file unless the folder has it; returns the bytes written.
    pub fn write(&self, folder: &Path) -> Result<u64, RecordingError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let path = folder.join(&self.file.file);
        let written = match &*contents {
            Some(bytes) if !path.exists() => {
                database::write_atomically(&path, bytes)?;
                bytes.len() as u64
            }
            _ => 0,
        };
        *contents = None;
        Ok(written)
    }
}
