//! Versions of LLVM, as the producers of code and Mneme's results name them.

/// The version in a producer's name: "19.1.7" of "LLVM19.1.7"; vendors' suffixes are kept.
pub fn number(producer: &str) -> &str {
    producer.trim_start_matches(|c: char| !c.is_ascii_digit())
}

/// The major version in a producer's name.
pub fn major(producer: &str) -> Option<u32> {
    number(producer).split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_off_names() {
        assert_eq!((number("LLVM19.1.7"), major("LLVM19.1.7")), ("19.1.7", Some(19)));
        assert_eq!((number("NVVM7.0.1-rc"), major("NVVM7.0.1-rc"), major("LLVM")), ("7.0.1-rc", Some(7), None));
    }
}
