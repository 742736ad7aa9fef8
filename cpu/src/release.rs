//! The releases of CUDA and HIP that the program was built for.
//!
//! Layouts and numbers differ between them.

use std::sync::OnceLock;

use mneme_image::elf::{MappedFile, loaded_objects, needs};

/// CUDA's release, from the name of the runtime, such as `libcudart.so.13`.
pub fn of_cuda() -> Option<u32> {
    static MAJOR: OnceLock<Option<u32>> = OnceLock::new();
    *MAJOR.get_or_init(|| in_name_of("libcudart.so."))
}

/// The number in the name of a library that the program is linked with, or has loaded.
pub fn in_name_of(beginning: &str) -> Option<u32> {
    let objects = loaded_objects();
    let needed = objects.iter().find_map(|object| {
        let file = MappedFile::open(&object.path).ok()?;
        needs(file.bytes()).libraries.iter().find_map(|library| number(library, beginning))
    });
    let loaded = || objects.iter().find_map(|object| number(object.path.file_name()?.to_str()?, beginning));
    needed.or_else(loaded)
}

fn number(library: &str, beginning: &str) -> Option<u32> {
    library.strip_prefix(beginning)?.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_library_s_name_tells() {
        let [hip, cuda] = ["libamdhip64.so.", "libcudart.so."];
        assert_eq!((number("libamdhip64.so.5", hip), number("libamdhip64.so.7.1.2", hip)), (Some(5), Some(7)));
        assert_eq!((number("libcudart.so.12", hip), number("libamdhip64.so", hip)), (None, None));
        assert_eq!((number("libcudart.so.13", cuda), number("libcudart.so.11.0", cuda)), (Some(13), Some(11)));
        // The tests' own program is linked with neither.
        assert_eq!((of_cuda(), in_name_of(hip)), (None, None));
    }
}
