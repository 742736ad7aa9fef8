//! Deliberately damaged recordings.

use std::fs;
use std::path::{Path, PathBuf};

use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::MemoryState;
use tempfile::TempDir;

use crate::recording::{Recording, TestInstance, copy_of};

/// A copy of a recording with one instance, and the instance in it.
#[track_caller]
pub fn damaged_copy(recording: &Recording) -> (TempDir, TestInstance) {
    let copy = copy_of(recording.folder());
    let instance = recording.single().moved_to(copy.path());
    (copy, instance)
}

/// The manifests of an instance: prologue and epilogue.
#[track_caller]
pub fn state_paths(instance: &TestInstance) -> (PathBuf, PathBuf) {
    let record = KernelRecord::load(&instance.database).unwrap_or_else(|error| panic!("{error}"));
    let folder = instance.database.parent().expect("a database is in a folder");
    let files = &record.instances[&instance.id];
    (folder.join(&files.prologue), folder.join(&files.epilogue))
}

/// Changes the bytes of a recorded argument and keeps the recording well-formed. Returns the old bytes.
#[track_caller]
pub fn set_argument(instance: &TestInstance, index: usize, bytes: &[u8]) -> Vec<u8> {
    let (prologue, _) = state_paths(instance);
    let mut state = MemoryState::load(&prologue).unwrap_or_else(|error| panic!("{error}"));
    let argument = &mut state.header.arguments[index].bytes;
    assert_eq!(argument.len(), bytes.len(), "size of argument {index}");
    let before = std::mem::replace(argument, bytes.to_vec());
    state.save(&prologue).unwrap_or_else(|error| panic!("{error}"));
    before
}

/// Flips a bit in the middle of a file.
#[track_caller]
pub fn flip_middle_byte(path: &Path) {
    let mut bytes = fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0x10;
    fs::write(path, bytes).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
