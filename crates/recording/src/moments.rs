//! Memory before and after a recorded launch, in either recording format.

use std::path::Path;
use std::sync::Arc;

use super::database::{ArgumentLayout, InstanceRecord, KernelRecord};
use super::manifest::{self, MemoryState, is_manifest, load_if_manifest};
use super::store::Store;
use super::upstream;
use crate::error::RecordingError;

/// Recorded arguments that do not match the kernel's parameters.
#[derive(Debug, thiserror::Error)]
pub enum ArgumentMisfit {
    #[error("it has {arguments} arguments, and the kernel {parameters} parameters")]
    Count { arguments: usize, parameters: usize },
    #[error("argument {index} has {bytes} bytes, and the kernel's parameter {parameter}")]
    Size { index: usize, bytes: usize, parameter: u32 },
}

/// Both moments of an instance.
pub struct Moments {
    pub prologue: MemoryState,
    pub epilogue: MemoryState,
    /// The checksums of both manifests (XXH3-64); zeros without manifests.
    pub checksums: [u64; 2],
    /// The chunks of the states, if they are not in Mneme's packs.
    chunks: Option<Arc<upstream::Chunks>>,
}

impl Moments {
    /// Reads the manifests. For a recording of the existing Mneme, reads all memory, to compute identities.
    pub fn open(folder: &Path, kernel: &KernelRecord, instance: &InstanceRecord) -> Result<Self, RecordingError> {
        let (prologue, epilogue) = (folder.join(&instance.prologue), folder.join(&instance.epilogue));
        match (load_if_manifest(&prologue)?, load_if_manifest(&epilogue)?) {
            (Some((prologue, before)), Some((epilogue, after))) => {
                check_pair(folder, instance, &prologue, &epilogue)?;
                Ok(Self { prologue, epilogue, checksums: [before, after], chunks: None })
            }
            (None, None) => {
                let (before, after, chunks) = upstream::chunks::open(&prologue, &epilogue)?;
                let chunks = Some(Arc::new(chunks));
                let mut moments = Self { prologue: before, epilogue: after, checksums: [0; 2], chunks };
                if !kernel.ours.arguments.is_empty() {
                    moments
                        .place_arguments(&kernel.ours.arguments)
                        .map_err(|misfit| RecordingError::damaged(&prologue, misfit))?;
                }
                Ok(moments)
            }
            _ => {
                Err(RecordingError::damaged(&epilogue, format!("it is in another format than {}", prologue.display())))
            }
        }
    }

    /// Whether the existing Mneme can read the files.
    pub fn are_upstreams(&self) -> bool {
        self.chunks.is_some()
    }

    /// Moves the arguments to the offsets of the kernel's parameters.
    ///
    /// # Errors
    /// The arguments do not fit.
    pub fn place_arguments(&mut self, layout: &[ArgumentLayout]) -> Result<(), ArgumentMisfit> {
        let arguments = &mut self.prologue.header.arguments;
        if arguments.len() != layout.len() {
            return Err(ArgumentMisfit::Count { arguments: arguments.len(), parameters: layout.len() });
        }
        for (index, (argument, layout)) in arguments.iter_mut().zip(layout).enumerate() {
            if argument.bytes.len() != layout.size as usize {
                return Err(ArgumentMisfit::Size { index, bytes: argument.bytes.len(), parameter: layout.size });
            }
            argument.offset = layout.offset;
        }
        Ok(())
    }

    /// The store with the chunks of both moments.
    pub fn store(&self, folder: &Path) -> Result<Store, RecordingError> {
        match &self.chunks {
            Some(chunks) => Ok(Store::of_upstream(folder, chunks.clone())),
            None => Store::open(folder),
        }
    }
}

/// Refuses manifests that are not the halves of one instance.
pub(super) fn check_pair(
    folder: &Path,
    instance: &InstanceRecord,
    prologue: &MemoryState,
    epilogue: &MemoryState,
) -> Result<(), RecordingError> {
    let damaged = |why| {
        let what = format!("it does not belong to {}: {why}", instance.prologue);
        RecordingError::damaged(folder.join(&instance.epilogue), what)
    };
    manifest::mismatch(prologue, epilogue).map(damaged).map_or(Ok(()), Err)
}

/// Bytes of device memory that an instance describes.
pub fn memory_bytes(folder: &Path, instance: &InstanceRecord) -> Result<u64, RecordingError> {
    let path = folder.join(&instance.prologue);
    match instance.ours.memory_bytes {
        0 if is_manifest(&path)? => Ok(MemoryState::load(&path)?.memory_bytes()),
        0 => upstream::chunks::memory_bytes(&path),
        known => Ok(known),
    }
}
