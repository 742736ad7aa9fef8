//! The release of HIP that the program was built for: layouts and numbers differ between 5 and 6.

use std::sync::OnceLock;

use mneme_core::image::elf::{MappedFile, loaded_objects, needs};

use crate::abi::Out;
use crate::status::StatusResult;

/// What is taken for granted of a program that loads the library by a name without a number.
const USUAL: u32 = 6;

/// The number in the name of the library that the program is linked with, `libamdhip64.so.5`, or has loaded by that
/// name.
pub fn major() -> u32 {
    static MAJOR: OnceLock<u32> = OnceLock::new();
    *MAJOR.get_or_init(|| {
        let objects = loaded_objects();
        let needed = objects.iter().find_map(|object| {
            let file = MappedFile::open(&object.path).ok()?;
            needs(file.bytes()).libraries.iter().find_map(|library| named(library))
        });
        let loaded = || objects.iter().find_map(|object| named(object.path.file_name()?.to_str()?));
        needed.or_else(loaded).unwrap_or(USUAL)
    })
}

fn named(library: &str) -> Option<u32> {
    library.strip_prefix("libamdhip64.so.")?.split('.').next()?.parse().ok()
}

/// `hipDriverGetVersion` and `hipRuntimeGetVersion`: `HIP_VERSION`, without patch. Of 5 it is the last, whose kinds of
/// graph nodes have the numbers of 6.
pub fn put(out: Out<i32>) -> StatusResult {
    let minor = if major() == 5 { 7 } else { 0 };
    out.put(major() as i32 * 10_000_000 + minor * 100_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_s_name_tells() {
        assert_eq!((named("libamdhip64.so.5"), named("libamdhip64.so.7.1.2")), (Some(5), Some(7)));
        assert_eq!((named("libcudart.so.12"), named("libamdhip64.so")), (None, None));
    }
}
