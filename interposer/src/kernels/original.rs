//! The code that the application runs, kept in addition to the source from which it is rebuilt.
//!
//! A replay can run exactly this code.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use mneme_model::hash::checksum;
use mneme_recording::database::CodeFile;
use mneme_recording::publication::CodeFiles;
use mneme_recording::{CodeKind, RecordingError};

use crate::driver::{CUfunction, Status};
use crate::process::linker;

/// One form of the code.
#[derive(Clone)]
pub struct OriginalCode {
    pub file: CodeFile,
    contents: Arc<UnwrittenCode>,
}

/// The bytes until they are on disk, because images may be large.
type UnwrittenCode = Mutex<Option<Arc<Vec<u8>>>>;

/// The code of loaded kernels, by file name.
#[derive(Default)]
struct KnownCode {
    files: HashMap<String, Weak<UnwrittenCode>>,
    /// The size at which entries of unloaded kernels are dropped.
    most: usize,
}

impl OriginalCode {
    pub fn new(kind: CodeKind, bytes: Arc<Vec<u8>>) -> Self {
        static KNOWN: Mutex<Option<KnownCode>> = Mutex::new(None);
        let checksum = checksum(&bytes);
        let file = CodeFile { file: kind.original(checksum), checksum };
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let known = known.get_or_insert_default();
        // Kernels of one image share it.
        let contents = known.files.get(&file.file).and_then(Weak::upgrade).unwrap_or_else(|| {
            let contents = Arc::new(Mutex::new(Some(bytes)));
            if known.files.len() >= known.most {
                known.files.retain(|_, contents| contents.strong_count() > 0);
                known.most = (2 * known.files.len()).max(64);
            }
            known.files.insert(file.file.clone(), Arc::downgrade(&contents));
            contents
        });
        Self { file, contents }
    }

    /// The code that the CPU device has compiled from the program's IR and runs for a function. `None` on other
    /// devices.
    pub fn of_cpu_device(function: CUfunction) -> Option<Self> {
        linker::cpu_device()?;
        let address = linker::vendor_symbol(c"mneme_cpu_code");
        if address.is_null() {
            return None;
        }
        let (mut start, mut size) = (std::ptr::null(), 0);
        // SAFETY: the CPU device's function of this name has this type and writes to both places. The result stays
        // valid as long as the function is loaded, and a launch in progress keeps it loaded.
        let code = unsafe {
            let ask = std::mem::transmute::<*mut c_void, mneme_abi::cpu_device::pointers::mneme_cpu_code>(address);
            if ask(function, &mut start, &mut size) != Status::SUCCESS {
                return None;
            }
            std::slice::from_raw_parts(start, size)
        };
        // All kernels of a module share one object.
        static LAST: Mutex<Option<(Arc<Vec<u8>>, OriginalCode)>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = last.as_ref().filter(|(bytes, _)| bytes[..] == *code) {
            return Some(known.clone());
        }
        let bytes = Arc::new(code.to_vec());
        let new = Self::new(CodeKind::CpuObject, bytes.clone());
        *last = Some((bytes, new.clone()));
        Some(new)
    }

    /// Adds the file to a recording that lacks it. Returns the bytes written.
    pub fn add_to(&self, files: &mut CodeFiles<'_>) -> Result<u64, RecordingError> {
        let mut contents = self.contents.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(bytes) = &*contents else { return Ok(0) };
        // The bytes are kept until the file exists: if writing fails, the next instance needs them.
        if files.is_there(&self.file.file)? {
            *contents = None;
            return Ok(0);
        }
        if files.contains(&self.file.file)? {
            return Ok(0);
        }
        files.add(&self.file.file, bytes)?;
        Ok(bytes.len() as u64)
    }
}
