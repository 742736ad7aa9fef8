//! A reader of LLVM bitcode that works without LLVM.
//!
//! It finds the end of a module, its producer and target, and whether it mentions a name.
//!
//! Bitcode is a stream of 32-bit little-endian words: `BC 0xC0DE`, then blocks. A block begins with a two-bit 1, its
//! number (vbr8), the width of abbreviation numbers inside it (vbr4) and, at the next word, its length in words. It
//! contains nested blocks and records, either plain or abbreviated as defined in the block. The identification block
//! has the number 13, and its record 1 is the producer; the module's block has the number 8, and its record 2 is the
//! target triple. Darwin puts a wrapper in front (`0x0B17C0DE`, version, offset, size, processor, a word each). See
//! "LLVM Bitcode File Format" in LLVM's documentation.

use mneme_model::llvm_version::major;

/// `BC 0xC0DE`
const MAGIC: [u8; 4] = *b"BC\xc0\xde";
const WRAPPER: [u8; 4] = 0x0b17_c0de_u32.to_le_bytes();
/// Bytes of a wrapper.
const WRAPPER_SIZE: usize = 20;
const IDENTIFICATION_BLOCK: u64 = 13;
const PRODUCER: u64 = 1;
const MODULE_BLOCK: u64 = 8;
const TRIPLE: u64 = 2;
/// Abbreviation numbers with a fixed meaning.
const END_BLOCK: u64 = 0;
const ENTER_BLOCK: u64 = 1;
const DEFINE_ABBREVIATION: u64 = 2;
const UNABBREVIATED: u64 = 3;

/// Whether bytes begin as LLVM bitcode does, plain or wrapped.
pub fn is_bitcode(bytes: &[u8]) -> bool {
    bytes.starts_with(&MAGIC) || bytes.starts_with(&WRAPPER)
}

/// Whether bitcode mentions a symbol; names are in a string table of whole bytes (LLVM 5 and later).
pub fn mentions(bitcode: &[u8], name: &str) -> bool {
    let name = name.as_bytes();
    !name.is_empty() && bitcode.windows(name.len()).any(|window| window == name)
}

/// The consecutive modules of a section, as concatenated by linkers, possibly padded with zeros. Stops at damage.
pub fn modules(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    loop {
        let padding = bytes.iter().take_while(|byte| **byte == 0).count();
        bytes = &bytes[padding..];
        let Some(length) = length(bytes) else { return found };
        let (module, rest) = bytes.split_at(length);
        found.push(module);
        bytes = rest;
    }
}

/// The length of the module at the start, with its symbol and string tables, bytes.
fn length(bytes: &[u8]) -> Option<usize> {
    if bytes.starts_with(&WRAPPER) {
        let word =
            |index: usize| Some(u32::from_le_bytes(bytes.get(4 * index..4 * index + 4)?.try_into().ok()?) as usize);
        return word(2)?.checked_add(word(3)?).filter(|end| (WRAPPER_SIZE..=bytes.len()).contains(end));
    }
    let mut bits = Bits { bytes: bytes.strip_prefix(&MAGIC)?, at: 0 };
    let mut end = 0;
    while let Some(block) = bits.block() {
        bits.at = block.end;
        end = block.end;
    }
    (end > 0).then_some(MAGIC.len() + (end / 8) as usize)
}

/// The target triple of a module, e.g. "nvptx64-nvidia-cuda"; `None` if it has none.
pub fn triple(module: &[u8]) -> Option<String> {
    text(module, MODULE_BLOCK, TRIPLE)
}

/// The producer of a module, e.g. "LLVM19.1.7"; `None` if it does not name one. LLVM guarantees to read the output of
/// older versions, not of newer ones.
pub fn producer(module: &[u8]) -> Option<String> {
    text(module, IDENTIFICATION_BLOCK, PRODUCER)
}

/// The beginning of assembly text written by Mneme, followed by the version and a line end. LLVM itself does not name
/// its version.
pub const TEXT_HEAD: &str = "; written by LLVM ";

/// The writer of assembly text, "22.1.8": the LLVM version in Mneme's header, or the newest clang named in `llvm.ident`
/// ("Debian clang version 22.1.8").
pub fn writer_of_text(text: &[u8]) -> Option<String> {
    if is_bitcode(text) {
        return None;
    }
    if let Some(rest) = text.strip_prefix(TEXT_HEAD.as_bytes()) {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        return std::str::from_utf8(&rest[..end]).ok().filter(|version| major(version).is_some()).map(str::to_owned);
    }
    let lines = || text.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"!"));
    let lines = || lines().filter_map(|line| std::str::from_utf8(line).ok());
    let named = lines().find_map(|line| line.strip_prefix("!llvm.ident = !{"))?;
    let numbers: Vec<&str> = named.trim_end().trim_end_matches('}').split(", ").collect();
    let idents = lines().filter_map(|line| line.split_once(" = ")).filter(|(number, _)| numbers.contains(number));
    let versions = idents.filter_map(|(_, ident)| {
        let (_, version) = ident.split_once("clang version ")?;
        let end = version.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(version.len());
        major(&version[..end]).map(|number| (number, version[..end].to_owned()))
    });
    versions.max().map(|(_, version)| version)
}

/// The first record with this code in the first block with this number, as text.
fn text(module: &[u8], block: u64, record: u64) -> Option<String> {
    let plain = match module.strip_prefix(&WRAPPER) {
        Some(header) => module.get(u32::from_le_bytes(header.get(4..8)?.try_into().ok()?) as usize..)?,
        None => module,
    };
    let mut bits = Bits { bytes: plain.strip_prefix(&MAGIC)?, at: 0 };
    loop {
        let found = bits.block()?;
        if found.number == block {
            let operands = bits.find(found.width, record)?;
            return String::from_utf8(operands.into_iter().map(u8::try_from).collect::<Result<_, _>>().ok()?).ok();
        }
        bits.at = found.end;
    }
}

/// The encoding of an operand in an abbreviated record.
#[derive(Clone, Copy)]
enum Field {
    Literal(u64),
    Fixed(u32),
    Variable(u32),
    /// An array of the next field's type.
    Array,
    Char6,
}

struct Block {
    number: u64,
    /// Width of abbreviation numbers in the block, bits.
    width: u32,
    /// End of the block, bits.
    end: u64,
}

/// Reads bits, the lowest of each byte first.
#[derive(Clone)]
struct Bits<'a> {
    bytes: &'a [u8],
    /// Bits read.
    at: u64,
}

impl Bits<'_> {
    /// `None` at the end; at most 64 bits.
    fn fixed(&mut self, count: u32) -> Option<u64> {
        let mut value = 0;
        for index in 0..count {
            let byte = self.bytes.get(usize::try_from(self.at / 8).ok()?)?;
            value |= u64::from(byte >> (self.at % 8) & 1) << index;
            self.at += 1;
        }
        Some(value)
    }

    /// A number in groups of `width` bits; the highest bit of a group tells that another group follows.
    fn variable(&mut self, width: u32) -> Option<u64> {
        let mut value = 0;
        let mut shift = 0;
        loop {
            let group = self.fixed(width)?;
            let more = 1 << (width - 1);
            value |= (group & (more - 1)).checked_shl(shift)?;
            if group & more == 0 {
                return Some(value);
            }
            shift += width - 1;
        }
    }

    /// A block of the outermost level.
    fn block(&mut self) -> Option<Block> {
        (self.fixed(2)? == 1).then(|| self.opened())?
    }

    /// Reads the rest of a block's head, and checks that the block ends within the bytes.
    fn opened(&mut self) -> Option<Block> {
        let (number, width) = (self.variable(8)?, u32::try_from(self.variable(4)?).ok()?);
        self.at = self.at.next_multiple_of(32);
        let words = self.fixed(32)?;
        let end = self.at + 32 * words;
        ((1..=32).contains(&width) && end <= 8 * self.bytes.len() as u64).then_some(Block { number, width, end })
    }

    /// The operands of the first record with this code in a block whose abbreviation numbers have `width` bits.
    fn find(&mut self, width: u32, record: u64) -> Option<Vec<u64>> {
        let mut abbreviations = Vec::new();
        loop {
            let (code, operands) = match self.fixed(width)? {
                END_BLOCK => return None,
                ENTER_BLOCK => {
                    self.at = self.opened()?.end;
                    continue;
                }
                DEFINE_ABBREVIATION => {
                    abbreviations.push(self.abbreviation()?);
                    continue;
                }
                UNABBREVIATED => {
                    let (code, count) = (self.variable(6)?, self.variable(6)?);
                    (code, self.operands(count, Field::Variable(6))?)
                }
                number => {
                    let fields = abbreviations.get(usize::try_from(number - 4).ok()?)?;
                    let mut values = self.abbreviated(fields)?;
                    if values.is_empty() {
                        return None;
                    }
                    (values.remove(0), values)
                }
            };
            if code == record {
                return Some(operands);
            }
        }
    }

    fn abbreviation(&mut self) -> Option<Vec<Field>> {
        let mut fields = Vec::new();
        for _ in 0..self.variable(5)? {
            let is_literal = self.fixed(1)? == 1;
            fields.push(if is_literal {
                Field::Literal(self.variable(8)?)
            } else {
                match self.fixed(3)? {
                    1 => Field::Fixed(self.width(1)?),
                    2 => Field::Variable(self.width(2)?),
                    3 => Field::Array,
                    4 => Field::Char6,
                    _ => return None,
                }
            });
        }
        Some(fields)
    }

    fn width(&mut self, least: u32) -> Option<u32> {
        u32::try_from(self.variable(5)?).ok().filter(|width| (least..=64).contains(width))
    }

    fn abbreviated(&mut self, fields: &[Field]) -> Option<Vec<u64>> {
        let mut values = Vec::new();
        let mut fields = fields.iter();
        while let Some(field) = fields.next() {
            if let Field::Array = field {
                let count = self.variable(6)?;
                values.extend(self.operands(count, *fields.next()?)?);
                break;
            }
            values.push(self.operand(*field)?);
        }
        Some(values)
    }

    /// More operands than remaining bits indicate damage.
    fn operands(&mut self, count: u64, field: Field) -> Option<Vec<u64>> {
        let left = (8 * self.bytes.len() as u64).saturating_sub(self.at);
        if count > left {
            return None;
        }
        (0..count).map(|_| self.operand(field)).collect()
    }

    fn operand(&mut self, field: Field) -> Option<u64> {
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

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Writes bits, the lowest of each byte first.
    #[derive(Default)]
    struct Writer(Vec<bool>);

    impl Writer {
        fn fixed(&mut self, value: u64, count: u32) {
            self.0.extend((0..count).map(|index| value >> index & 1 == 1));
        }

        fn variable(&mut self, mut value: u64, width: u32) {
            let more = 1 << (width - 1);
            while value >= more {
                self.fixed(value & (more - 1) | more, width);
                value >>= width - 1;
            }
            self.fixed(value, width);
        }

        fn block(&mut self, outer: u32, number: u64, inner: Writer) {
            self.fixed(1, outer);
            self.variable(number, 8);
            self.variable(3, 4);
            self.align();
            let words = inner.0.len().div_ceil(32);
            self.fixed(words as u64, 32);
            self.0.extend(inner.0);
            self.align();
        }

        fn align(&mut self) {
            self.0.resize(self.0.len().next_multiple_of(32), false);
        }

        fn bytes(self) -> Vec<u8> {
            self.0.chunks(8).map(|bits| bits.iter().rev().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
        }
    }

    /// A module with only a version, an abbreviation, an inner block, a triple and a string table.
    pub(crate) fn module(triple: &str, names: &str) -> Vec<u8> {
        let record = |writer: &mut Writer, number: u64, values: &[u64]| {
            writer.fixed(3, 3);
            writer.variable(number, 6);
            writer.variable(values.len() as u64, 6);
            values.iter().for_each(|value| writer.variable(*value, 6));
        };
        let mut inside = Writer::default();
        record(&mut inside, 1, &[2]);
        // An abbreviation of a literal, a fixed field, an array and a six-bit character.
        inside.fixed(2, 3);
        inside.variable(4, 5);
        inside.fixed(1, 1);
        inside.variable(300, 8);
        for (encoding, width) in [(1u64, Some(7)), (3, None), (4, None)] {
            inside.fixed(0, 1);
            inside.fixed(encoding, 3);
            width.into_iter().for_each(|width| inside.variable(width, 5));
        }
        let mut inner = Writer::default();
        inner.fixed(0xdead_beef, 32);
        inside.block(3, 17, inner);
        record(&mut inside, TRIPLE, &triple.bytes().map(u64::from).collect::<Vec<_>>());
        inside.fixed(0, 3);
        inside.align();
        let mut strings = Writer::default();
        names.bytes().for_each(|byte| strings.fixed(byte.into(), 8));
        let mut identification = Writer::default();
        // An abbreviation of the code and an array of six-bit characters, which LLVM uses for its name.
        identification.fixed(2, 3);
        identification.variable(3, 5);
        identification.fixed(1, 1);
        identification.variable(PRODUCER, 8);
        for encoding in [3, 4] {
            identification.fixed(0, 1);
            identification.fixed(encoding, 3);
        }
        identification.fixed(4, 3);
        identification.variable(5, 6);
        // "LLVM9": capitals come after 26 small letters, digits after 52.
        [37, 37, 47, 38, 61].into_iter().for_each(|letter| identification.fixed(letter, 6));
        identification.fixed(0, 3);
        identification.align();
        let mut stream = Writer::default();
        stream.block(2, IDENTIFICATION_BLOCK, identification);
        stream.block(2, MODULE_BLOCK, inside);
        stream.block(2, 23, strings);
        [&MAGIC[..], &stream.bytes()].concat()
    }

    fn wrapped(module: &[u8]) -> Vec<u8> {
        let header = [0x0b17_c0de_u32, 0, 20, module.len() as u32, 7].map(u32::to_le_bytes).concat();
        [header, module.to_vec()].concat()
    }

    #[test]
    fn text_is_of_the_newest_clang_that_it_names() {
        let text = "define void @k() { ret void }\n!llvm.ident = !{!0, !1}\n!0 = !{!\"clang version 3.8.0 (tags)\"}\n\
            !1 = !{!\"Debian clang version 22.1.8 (1~deb12u1)\"}\n";
        assert_eq!(writer_of_text(text.as_bytes()).as_deref(), Some("22.1.8"));
        let others =
            "; clang version 25\n@s = constant [17 x i8] c\"clang version 24\\00\"\n!2 = !{!\"clang version 26\"}\n";
        assert_eq!(writer_of_text(others.as_bytes()), None);
        assert_eq!(writer_of_text(format!("{TEXT_HEAD}23.1.4\n{text}").as_bytes()).as_deref(), Some("23.1.4"));
        assert_eq!(writer_of_text(format!("{others}{text}").as_bytes()).as_deref(), Some("22.1.8"));
        assert_eq!(writer_of_text(b"!llvm.ident = !{!0}\n!0 = !{!\"clang version \"}\n"), None);
        assert_eq!(writer_of_text(&[&MAGIC, text.as_bytes()].concat()), None);
    }

    #[test]
    fn modules_are_told_apart_and_say_what_they_are_for() {
        let (one, other) = (module("nvptx64-nvidia-cuda", "_Z4stepPf"), module("x86_64-pc-linux-gnu", "main"));
        let section = [&one[..], &[0; 12], &other, &wrapped(&one)].concat();
        assert_eq!(modules(&section), [&one[..], &other, &wrapped(&one)]);
        let triples: Vec<_> = modules(&section).into_iter().map(|module| triple(module).unwrap()).collect();
        assert_eq!(triples, ["nvptx64-nvidia-cuda", "x86_64-pc-linux-gnu", "nvptx64-nvidia-cuda"]);
        assert_eq!(producer(&wrapped(&one)).as_deref(), Some("LLVM9"));
        assert!(mentions(&one, "_Z4stepPf") && !mentions(&other, "_Z4stepPf"));
        // A truncated module is not a module.
        assert_eq!(modules(&section[..section.len() - 1]).len(), 2);
        assert!(modules(b"BC\xc0\xde").is_empty() && modules(b"").is_empty());
        assert!(modules(&[&WRAPPER[..], &[0; 16]].concat()).is_empty(), "a wrapper that ends before it begins");
    }

    #[test]
    fn what_clang_writes_is_understood() {
        let folder = tempfile::tempdir().unwrap();
        let (source, bitcode) = (folder.path().join("k.c"), folder.path().join("k.bc"));
        std::fs::write(&source, "__attribute__((nvptx_kernel)) void k(int *p) { *p = 7; }\nint table[300] = {1};\n")
            .unwrap();
        for triple in ["nvptx64-nvidia-cuda", "amdgcn-amd-amdhsa"] {
            let mut command = std::process::Command::new("clang-19");
            command
                .args(["-target", triple, "-nogpulib", "-emit-llvm", "-c", "-O1", "-g", "-w"])
                .arg(&source)
                .arg("-o")
                .arg(&bitcode);
            let Ok(status) = command.status() else { return mneme_fixtures::skip("no clang-19 on this machine") };
            assert!(status.success());
            let bytes = std::fs::read(&bitcode).unwrap();
            assert_eq!(super::triple(&bytes).as_deref(), Some(triple));
            assert_eq!(major(&producer(&bytes).unwrap()), Some(19));
            let twice = [&bytes[..], &bytes].concat();
            assert_eq!(modules(&twice), [&bytes[..]; 2]);
            assert!(mentions(&bytes, "table"));
        }
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(
            changes in proptest::collection::vec((0usize..400, any::<u8>()), 0..6),
            length in 0usize..400,
        ) {
            let one = module("nvptx64-nvidia-cuda", "_Z4stepPf");
            let mut bytes = [&one[..], &wrapped(&one)].concat();
            for (at, byte) in changes { let at = at % bytes.len(); bytes[at] = byte; }
            bytes.truncate(length);
            triple(&bytes);
            producer(&bytes);
            let whole: usize = modules(&bytes).into_iter().map(|module| { triple(module); module.len() }).sum();
            prop_assert!(whole <= bytes.len());
        }
    }
}
