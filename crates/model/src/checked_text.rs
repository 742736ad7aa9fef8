//! JSON texts whose last member `checksum` is a sum of the whole text.

use std::ops::Range;

use crate::hash::checksum;

/// The member as written, with an empty sum.
const MEMBER: &str = "\"checksum\": \"";
pub const NO_CHECKSUM: &str = "0000000000000000";

/// The range of the checksum's digits: after the last such key.
fn digits(text: &[u8]) -> Option<Range<usize>> {
    let start = text.windows(MEMBER.len()).rposition(|window| window == MEMBER.as_bytes())? + MEMBER.len();
    (start + NO_CHECKSUM.len() < text.len()).then(|| start..start + NO_CHECKSUM.len())
}

/// The checksum that a text should have, 16 hexadecimal digits (XXH3-64); `None` if it has no place for one.
pub fn checksum_of(text: &[u8]) -> Option<String> {
    let digits = digits(text)?;
    let mut plain = text.to_vec();
    plain[digits].copy_from_slice(NO_CHECKSUM.as_bytes());
    Some(format!("{:016x}", checksum(&plain)))
}

/// Writes the checksum of a text into its place, if the text has one.
pub fn write_checksum(text: &mut [u8]) {
    if let Some((sum, digits)) = checksum_of(text).zip(digits(text)) {
        text[digits].copy_from_slice(sum.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_byte_changes_the_sum() {
        let mut text = br#"{"a": 1, "checksum": "0000000000000000"}"#.to_vec();
        write_checksum(&mut text);
        let sum = |text: &[u8]| text.get(digits(text)?).and_then(|it| String::from_utf8(it.to_vec()).ok());
        assert_eq!(checksum_of(&text), sum(&text));
        for at in 0..text.len() {
            let mut changed = text.clone();
            changed[at] ^= 1;
            assert!(checksum_of(&changed).is_none_or(|found| Some(found) != sum(&changed)), "byte {at}");
        }
        assert_eq!(checksum_of(b"{}"), None);
    }
}
