//! The build script: names the source of what goes over the stream between a program and its builders.
//!
//! Both ends have to be of one source, which a version does not say while it is being worked on.

use std::path::{Path, PathBuf};

/// Where the messages and all that is in them are defined.
const SOURCES: [&str; 5] = ["src", "../image/src", "../model/src", "../recording/src", "../sandbox/src"];

fn main() {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for folder in SOURCES {
        println!("cargo:rerun-if-changed={folder}");
        for file in files(Path::new(folder)) {
            let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            // FNV-1a, whose result is the same with every toolchain.
            for byte in file.as_os_str().as_encoded_bytes().iter().chain(&text) {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    println!("cargo:rustc-env=MNEME_SOURCE={hash:016x}");
}

/// All below a folder, in the order of their names.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths.into_iter().flat_map(|path| if path.is_dir() { files(&path) } else { vec![path] }).collect()
}
