//! Dumps of differing memory, for `--dump-diff`.

use std::io::{BufWriter, Write};
use std::path::Path;

use mneme_device::Device;
use mneme_model::result::Mismatch;
use mneme_system::files::private;
use serde::Serialize;

use super::pieces::Piece;
use super::report::BufferFailure;
use crate::recording::snapshot::Snapshot;

/// An entry of `index.json`.
#[derive(Serialize)]
struct DumpedMismatch<'a> {
    #[serde(flatten)]
    mismatch: &'a Mismatch,
    /// Files in the same folder with the raw bytes of the whole buffer.
    recorded_file: String,
    replayed_file: String,
}

const INDEX: &str = "index.json";

/// Prepares the folder: removes the files of an earlier replay, and writes an empty index.
///
/// # Errors
/// If the folder cannot be created or written.
pub fn prepare(folder: &Path) -> std::io::Result<()> {
    private::create_folder(folder)?;
    private::write(&folder.join(INDEX), "[]\n")?;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_name().to_str().is_some_and(is_ours) {
            std::fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether a file has a name that [`write`] gives.
fn is_ours(name: &str) -> bool {
    let number = name.strip_suffix("-recorded.bin").or_else(|| name.strip_suffix("-replayed.bin"));
    number.is_some_and(|number| number.len() >= 3 && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// Writes `index.json` and the recorded and replayed contents of each buffer that failed. `wrong` are the pieces that
/// differ and still hold the kernel's result; all others were as recorded.
pub fn write(
    folder: &Path,
    device: &dyn Device,
    snapshot: &Snapshot,
    pieces: &[Piece],
    wrong: &[usize],
    failures: &[BufferFailure],
) -> std::io::Result<()> {
    private::create_folder_quietly(folder)?;
    let mut entries = Vec::new();
    for (number, failure) in failures.iter().enumerate() {
        let names = ["recorded", "replayed"].map(|moment| format!("{number:03}-{moment}.bin"));
        let create = |name: &String| private::create(&folder.join(name)).map(BufWriter::new);
        let (mut recorded, mut replayed) = (create(&names[0])?, create(&names[1])?);
        let own = |piece: &Piece| match (failure.region, piece.chunk) {
            (Some(region), Some((own, _))) => region == own,
            (None, None) => failure.mismatch.address == format!("0x{:x}", piece.address),
            _ => false,
        };
        for (index, piece) in pieces.iter().enumerate().filter(|(_, piece)| own(piece)) {
            let after = piece.after(snapshot);
            recorded.write_all(after)?;
            if wrong.binary_search(&index).is_ok() {
                let mut bytes = vec![0; piece.length as usize];
                device.read(piece.address, &mut bytes).map_err(std::io::Error::other)?;
                replayed.write_all(&bytes)?;
            } else {
                replayed.write_all(after)?;
            }
        }
        recorded.flush()?;
        replayed.flush()?;
        let [recorded_file, replayed_file] = names;
        entries.push(DumpedMismatch { mismatch: &failure.mismatch, recorded_file, replayed_file });
    }
    let index = serde_json::to_vec_pretty(&entries).map_err(std::io::Error::other)?;
    private::write(&folder.join(INDEX), index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_made_ready_and_files_of_others_are_left() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("dump");
        prepare(&own).unwrap();
        for name in ["000-recorded.bin", "1234-replayed.bin", "mine.bin", "00-recorded.bin", "abc-recorded.bin"] {
            std::fs::write(own.join(name), "x").unwrap();
        }
        prepare(&own).unwrap();
        let mut left: Vec<_> = std::fs::read_dir(&own).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["00-recorded.bin", "abc-recorded.bin", INDEX, "mine.bin"]);
        assert!(prepare(Path::new("/proc/nope")).is_err());
    }
}
