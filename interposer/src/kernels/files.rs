//! The files of a kernel's code, as a recording stores them.
//!
//! They are dropped with the kernel's last module; a thread that writes them holds a reference.

use std::borrow::Cow;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use mneme_model::hash::checksum;
use mneme_recording::RecordingError;
use mneme_recording::database::{self, CodeFile};
use mneme_recording::publication::CodeFiles;

use super::ir_unit::IrUnit;
use super::original::OriginalCode;

/// The modules from which the kernel is rebuilt, and the code that the application ran.
#[derive(Default)]
pub struct KernelFiles {
    modules: Vec<(String, Contents)>,
    /// The modules are machine code and therefore the code that the application ran.
    is_original: bool,
    /// The forms of the application's own code, the preferred one first.
    original: Vec<OriginalCode>,
    checksums: OnceLock<Vec<u64>>,
}

pub enum Contents {
    Unit(IrUnit),
    Bytes(Arc<Vec<u8>>),
}

impl Contents {
    pub fn bytes(&self) -> std::io::Result<Cow<'_, [u8]>> {
        match self {
            Self::Unit(unit) => unit.bitcode().map(Cow::Owned),
            Self::Bytes(bytes) => Ok(Cow::Borrowed(bytes)),
        }
    }

    fn checksum(&self) -> Option<u64> {
        match self {
            Self::Unit(unit) => unit.checksum(),
            Self::Bytes(bytes) => Some(checksum(bytes)),
        }
    }
}

impl KernelFiles {
    /// Files of named modules, and of the application's own code unless the modules are that.
    pub fn new(modules: Vec<(String, Contents)>, is_original: bool, original: Vec<OriginalCode>) -> Self {
        Self { modules, is_original, original, checksums: OnceLock::new() }
    }

    /// The names of the modules' files.
    pub fn names(&self) -> Vec<String> {
        self.modules.iter().map(|(name, _)| name.clone()).collect()
    }

    /// XXH3-64 of each module.
    pub fn checksums(&self) -> &[u64] {
        self.checksums.get_or_init(|| self.modules.iter().filter_map(|(_, contents)| contents.checksum()).collect())
    }

    /// The forms of the application's own code, as an instance lists them.
    pub fn original(&self) -> Vec<CodeFile> {
        if self.is_original {
            let files = self.names().into_iter().zip(self.checksums());
            return files.map(|(file, checksum)| CodeFile { file, checksum: *checksum }).collect();
        }
        self.original.iter().map(|original| original.file.clone()).collect()
    }

    /// Adds the files that a recording lacks. `is_recorded` tells whether the recording already has the kernel. Returns
    /// the bytes written.
    pub fn add_to(&self, files: &mut CodeFiles<'_>, is_recorded: bool) -> Result<u64, RecordingError> {
        let mut written = 0;
        for (name, contents) in &self.modules {
            if is_recorded && files.contains(name)? {
                continue;
            }
            written += match contents {
                Contents::Unit(unit) => unit.add_to(files, name)?,
                Contents::Bytes(bytes) => files.add(name, bytes).map(|()| bytes.len() as u64)?,
            };
        }
        for original in &self.original {
            written += original.add_to(files)?;
        }
        Ok(written)
    }

    /// Writes the modules that a folder lacks.
    pub fn write_modules(&self, folder: &Path) -> Result<(), RecordingError> {
        for (name, contents) in &self.modules {
            let path = folder.join(name);
            if !path.try_exists().map_err(RecordingError::io(&path))? {
                let bytes = contents.bytes().map_err(RecordingError::io(&path))?;
                database::write_atomically(&path, &bytes)?;
            }
        }
        Ok(())
    }
}
