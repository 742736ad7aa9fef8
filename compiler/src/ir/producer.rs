//! Which LLVM wrote a bitcode file, read from its identification block without LLVM.
//!
//! LLVM promises to read older bitcode, not newer; asking first gives the user a sentence instead of a crash. The
//! encoding is that of LLVM's "Bitstream" document: 32-bit little-endian words, fields from the low bit up.

/// Block id of IDENTIFICATION_BLOCK, and the code of its STRING record (LLVM's BitCodes documentation).
const IDENTIFICATION_BLOCK: u64 = 13;
const STRING: u64 = 1;
/// Abbreviation ids with fixed meaning.
const END_BLOCK: u64 = 0;
const ENTER_SUBBLOCK: u64 = 1;
const DEFINE_ABBREV: u64 = 2;
const UNABBREV_RECORD: u64 = 3;
/// Bounds on what a sane identification block holds; anything larger is damage.
const MAX_LENGTH: u64 = 4096;

/// The producer string of a bitcode file, e.g. "LLVM19.1.7"; `None` if the bytes are no bitcode or carry none.
pub fn producer(bitcode: &[u8]) -> Option<String> {
    let bitcode = unwrap(bitcode);
    let stream = bitcode.strip_prefix(b"BC\xC0\xDE")?;
    let mut bits = Bits { bytes: stream, at: 0 };
    if bits.fixed(2)? != ENTER_SUBBLOCK || bits.variable(8)? != IDENTIFICATION_BLOCK {
        return None;
    }
    let width = u32::try_from(bits.variable(4)?).ok().filter(|width| (2..=32).contains(width))?;
    bits.align();
    bits.fixed(32)?;
    let mut abbreviations: Vec<Vec<Field>> = Vec::new();
    loop {
        let (code, operands) = match bits.fixed(width)? {
            END_BLOCK | ENTER_SUBBLOCK => return None,
            DEFINE_ABBREV => {
                abbreviations.push(bits.abbreviation()?);
                continue;
            }
            UNABBREV_RECORD => {
                let code = bits.variable(6)?;
                let count = bits.variable(6)?;
                if count > MAX_LENGTH {
                    return None;
                }
                let operands = (0..count).map(|_| bits.variable(6)).collect::<Option<Vec<u64>>>()?;
                (code, operands)
            }
            id => {
                let fields = abbreviations.get(usize::try_from(id - 4).ok()?)?;
                let values = bits.record(fields)?;
                let (code, operands) = values.split_first()?;
                (*code, operands.to_vec())
            }
        };
        if code == STRING {
            return operands.into_iter().map(|value| u8::try_from(value).ok().map(char::from)).collect();
        }
    }
}

/// The version in a producer string: "19.1.7" of "LLVM19.1.7"; vendors' suffixes are kept.
pub fn version(producer: &str) -> &str {
    producer.trim_start_matches(|c: char| !c.is_ascii_digit())
}

/// The major version in a producer string.
pub fn major(producer: &str) -> Option<u32> {
    version(producer).split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// Strips the wrapper (magic 0x0B17C0DE, then version, offset, size) that some tools put around bitcode.
fn unwrap(bitcode: &[u8]) -> &[u8] {
    let word = |index: usize| Some(u32::from_le_bytes(bitcode.get(4 * index..4 * index + 4)?.try_into().ok()?) as usize);
    match (word(0), word(2), word(3)) {
        (Some(0x0B17_C0DE), Some(offset), Some(size)) => {
            offset.checked_add(size).and_then(|end| bitcode.get(offset..end)).unwrap_or(bitcode)
        }
        _ => bitcode,
    }
}

#[derive(Clone, Copy)]
enum Field {
    Literal(u64),
    Fixed(u32),
    Variable(u32),
    Array,
    Char6,
}

struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    fn fixed(&mut self, width: u32) -> Option<u64> {
        let mut value = 0;
        for shift in 0..width {
            let byte = *self.bytes.get(self.at / 8)?;
            value |= u64::from(byte >> (self.at % 8) & 1) << shift;
            self.at += 1;
        }
        Some(value)
    }

    fn variable(&mut self, width: u32) -> Option<u64> {
        let more = 1 << (width - 1);
        let (mut value, mut shift) = (0, 0);
        loop {
            let piece = self.fixed(width)?;
            value |= (piece & (more - 1)).checked_shl(shift)?;
            shift += width - 1;
            if piece & more == 0 {
                return Some(value);
            }
        }
    }

    fn align(&mut self) {
        self.at = self.at.next_multiple_of(32);
    }

    fn abbreviation(&mut self) -> Option<Vec<Field>> {
        let count = self.variable(5)?;
        let mut fields = Vec::new();
        for _ in 0..count.min(MAX_LENGTH) {
            fields.push(if self.fixed(1)? == 1 {
                Field::Literal(self.variable(8)?)
            } else {
                match self.fixed(3)? {
                    1 => Field::Fixed(self.width()?),
                    2 => Field::Variable(self.width().filter(|width| *width >= 2)?),
                    3 => Field::Array,
                    4 => Field::Char6,
                    _ => return None,
                }
            });
        }
        Some(fields)
    }

    fn width(&mut self) -> Option<u32> {
        u32::try_from(self.variable(5)?).ok().filter(|width| *width <= 64)
    }

    fn record(&mut self, fields: &[Field]) -> Option<Vec<u64>> {
        let mut values = Vec::new();
        let mut index = 0;
        while let Some(field) = fields.get(index) {
            if let Field::Array = field {
                let element = *fields.get(index + 1)?;
                let count = self.variable(6)?;
                if count > MAX_LENGTH {
                    return None;
                }
                for _ in 0..count {
                    values.push(self.scalar(element)?);
                }
                return Some(values);
            }
            values.push(self.scalar(*field)?);
            index += 1;
        }
        Some(values)
    }

    fn scalar(&mut self, field: Field) -> Option<u64> {
        const CHAR6: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._";
        match field {
            Field::Literal(value) => Some(value),
            Field::Fixed(width) => self.fixed(width),
            Field::Variable(width) => self.variable(width),
            Field::Char6 => Some(u64::from(CHAR6[self.fixed(6)? as usize])),
            Field::Array => None,
        }
    }
}

/// A bitcode file's beginning that claims `producer` wrote it.
#[cfg(test)]
pub fn forge(producer: &str) -> Vec<u8> {
    let mut bits: Vec<bool> = Vec::new();
    let fixed = |bits: &mut Vec<bool>, value: u64, width: u32| bits.extend((0..width).map(|at| value >> at & 1 == 1));
    let variable = |bits: &mut Vec<bool>, mut value: u64, width: u32| {
        let more = 1 << (width - 1);
        while value >= more {
            fixed(bits, value & (more - 1) | more, width);
            value >>= width - 1;
        }
        fixed(bits, value, width);
    };
    fixed(&mut bits, ENTER_SUBBLOCK, 2);
    variable(&mut bits, IDENTIFICATION_BLOCK, 8);
    variable(&mut bits, 5, 4);
    bits.resize(bits.len().next_multiple_of(32), false);
    fixed(&mut bits, 0, 32);
    fixed(&mut bits, UNABBREV_RECORD, 5);
    variable(&mut bits, STRING, 6);
    variable(&mut bits, producer.len() as u64, 6);
    for byte in producer.bytes() {
        variable(&mut bits, u64::from(byte), 6);
    }
    fixed(&mut bits, END_BLOCK, 5);
    let bytes = bits.chunks(8).map(|byte| byte.iter().enumerate().fold(0, |sum, (at, bit)| sum | u8::from(*bit) << at));
    b"BC\xC0\xDE".iter().copied().chain(bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use inkwell::context::Context;

    #[test]
    fn this_llvm_names_itself() {
        let context = Context::create();
        let bitcode = context.create_module("m").write_bitcode_to_memory();
        let producer = producer(bitcode.as_slice()).unwrap();
        assert_eq!(version(&producer), crate::llvm_version());
        assert_eq!(major(&producer), Some(19));
    }

    #[test]
    fn any_prefix_and_any_flipped_byte_is_survived() {
        let context = Context::create();
        let bitcode = context.create_module("m").write_bitcode_to_memory().as_slice().to_vec();
        for at in 0..bitcode.len().min(80) {
            producer(&bitcode[..at]);
            for bit in 0..8 {
                let mut damaged = bitcode.clone();
                damaged[at] ^= 1 << bit;
                producer(&damaged);
            }
        }
        assert_eq!(producer(b"not bitcode"), None);
    }

    #[test]
    fn bitcode_of_a_newer_llvm_is_refused_with_both_versions() {
        let newer = forge("LLVM20.1.0");
        assert_eq!(producer(&newer).as_deref(), Some("LLVM20.1.0"));
        let context = Context::create();
        let diagnostics = crate::ir::diagnostics::Diagnostics::collect(&context);
        let message = crate::prepare::load(&context, &diagnostics, &[&newer], false).unwrap_err().to_string();
        assert!(message.contains("LLVM 20.1.0") && message.contains(&crate::llvm_version()), "{message}");
    }

    #[test]
    fn versions_of_producers() {
        assert_eq!(version("LLVM19.1.7"), "19.1.7");
        assert_eq!(major("LLVM20.0.0git"), Some(20));
        assert_eq!(major("APPLE_1_1500.3.9.4_0"), Some(1));
        assert_eq!(major("unknown"), None);
    }
}
