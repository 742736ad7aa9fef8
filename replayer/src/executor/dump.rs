//! Writing out memory that differs, for whoever wants to look at it: `--dump-diff`.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use mneme_core::device::Device;
use mneme_core::result::Mismatch;
use serde::Serialize;

use super::pieces::Piece;
use super::report::Failure;
use crate::snapshot::Snapshot;

/// An entry of `index.json`.
#[derive(Serialize)]
struct Entry<'a> {
    #[serde(flatten)]
    mismatch: &'a Mismatch,
    /// Files in the same folder with the raw bytes of the whole buffer.
    recorded_file: String,
    replayed_file: String,
}

/// Writes `index.json` and, for each buffer that failed, what was recorded and what was replayed. `wrong` are the pieces that
/// differ and still are as the kernel left them; all others were as recorded.
pub fn write(
    folder: &Path,
    device: &dyn Device,
    snapshot: &Snapshot,
    pieces: &[Piece],
    wrong: &[usize],
    failures: &[Failure],
) -> std::io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let mut entries = Vec::new();
    for (number, failure) in failures.iter().enumerate() {
        let names = ["recorded", "replayed"].map(|moment| format!("{number:03}-{moment}.bin"));
        let create = |name: &String| File::create(folder.join(name)).map(BufWriter::new);
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
        entries.push(Entry { mismatch: &failure.mismatch, recorded_file, replayed_file });
    }
    let index = serde_json::to_vec_pretty(&entries).map_err(std::io::Error::other)?;
    std::fs::write(folder.join("index.json"), index)
}
