//! The target for snapshots of the existing Mneme.
//!
//! An input is a pair of them: u32 length of the prologue, prologue, epilogue.

use mneme_recording::manifest::CHUNK;
use mneme_recording::upstream::chunks;

use super::recording::in_a_file;
use super::{FuzzTarget, nothing};

pub const UPSTREAM: FuzzTarget = FuzzTarget { name: "upstream", seeds, seal: nothing, run };

/// How many chunks of a pair are read.
const CHUNKS: usize = 16;

/// A file of memory: kind, variables (name, address, bytes) and allocations (address, bytes).
fn file(start: &[u8], is_diff: bool, variables: &[(&str, u64, &[u8])], allocations: &[(u64, &[u8])]) -> Vec<u8> {
    let mut file = start.to_vec();
    let number = |file: &mut Vec<u8>, value: u64| file.extend(value.to_le_bytes());
    let contents = |file: &mut Vec<u8>, bytes: &[u8]| {
        if is_diff {
            // One range, from the second byte on.
            file.extend([1, 1, bytes.len() as u64 - 1].map(u64::to_le_bytes).concat());
            file.extend(bytes[1..].iter().map(|byte| byte ^ 0x55));
        } else {
            file.extend(bytes);
        }
    };
    number(&mut file, variables.len() as u64);
    for (name, address, bytes) in variables {
        number(&mut file, name.len() as u64);
        file.extend(name.as_bytes());
        number(&mut file, bytes.len() as u64);
        number(&mut file, *address);
        contents(&mut file, bytes);
    }
    number(&mut file, allocations.len() as u64);
    for (address, bytes) in allocations {
        [2 << 20, bytes.len() as u64, *address].into_iter().for_each(|value| number(&mut file, value));
        let annotation = [&[10u8][..], &1e-9f64.to_le_bytes(), &[1, 3], &3u64.to_le_bytes(), b"out"].concat();
        if is_diff {
            file.extend(annotation);
            contents(&mut file, bytes);
        } else {
            contents(&mut file, bytes);
            file.extend(annotation);
        }
    }
    file
}

fn seeds() -> Vec<Vec<u8>> {
    let memory = [[7u8; 600], [0; 600]].concat();
    let (variables, allocations) =
        ([("counter", 0x7f00_0000_1000, &[1, 2, 3, 4][..])], [(0x1539_4000_0000, &memory[..])]);
    let arguments = [&2u64.to_le_bytes()[..], &8u64.to_le_bytes(), &[9; 8], &4u64.to_le_bytes(), &[6; 4]].concat();
    let bytes = |start: &[u8]| [file(start, false, &variables, &allocations), arguments.clone()].concat();
    let diff = |start: &[u8]| file(start, true, &variables, &allocations);
    let pair = |prologue: Vec<u8>, epilogue: Vec<u8>| {
        [&(prologue.len() as u32).to_le_bytes()[..], &prologue, &epilogue].concat()
    };
    vec![
        pair(bytes(b""), bytes(b"")),
        pair(bytes(b""), diff(b"MNEME_DIFF_V1")),
        pair(bytes(b"MNEMESNP\x01\0\0\0\0\0\0\0"), diff(b"MNEMESNP\x02\0\0\0\x01\0\0\0")),
    ]
}

fn run(input: &[u8]) {
    let Some((length, rest)) = input.split_first_chunk::<4>() else { return };
    let (prologue, epilogue) = rest.split_at((u32::from_le_bytes(*length) as usize).min(rest.len()));
    in_a_file(prologue, |prologue| {
        let later = nix::sys::memfd::memfd_create("epilogue", nix::sys::memfd::MFdFlags::MFD_CLOEXEC)
            .expect("a file in memory");
        let later = std::fs::File::from(later);
        std::os::unix::fs::FileExt::write_all_at(&later, epilogue, 0).expect("a file in memory can be written");
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&later));
        if let Ok((before, after, chunks)) = chunks::open(prologue, path.as_ref()) {
            before.parameter_buffer();
            for state in [&before, &after] {
                for region in state.regions() {
                    for (index, id) in region.chunks.iter().enumerate().take(CHUNKS) {
                        let (_, length) = region.extent(index);
                        let _ = chunks.read(id, &mut vec![0; length.min(CHUNK) as usize]);
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seeds_are_well_formed() {
        for seed in seeds() {
            let (length, rest) = seed.split_first_chunk::<4>().unwrap();
            let (prologue, epilogue) = rest.split_at(u32::from_le_bytes(*length) as usize);
            let folder = tempfile::tempdir().unwrap();
            let paths = [("p", prologue), ("e", epilogue)].map(|(name, bytes)| {
                let path = folder.path().join(name);
                std::fs::write(&path, bytes).unwrap();
                path
            });
            let (before, _, _) = chunks::open(&paths[0], &paths[1]).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(before.memory_bytes(), 1204);
        }
    }
}
