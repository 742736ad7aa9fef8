//! The layout of a snapshot file.
//!
//! All numbers are little endian, without padding.
//!
//! ```text
//! bytes, layout 0:  globals, blobs with all of their contents, arguments
//! diff, layout 1:   globals, blobs with the ranges that differ from the prologue
//!
//! globals:    u64 count, { u64 length of the name, name, u64 size, u64 address, contents }
//! blobs:      u64 count, bytes: { u64 reserved size, u64 size, u64 address, contents, annotation }
//!                        diff:  { u64 reserved size, u64 size, u64 address, annotation, contents }
//! contents:   bytes: as many as the size says; diff: u64 count, { u64 offset, u64 length, bytes }
//! annotation: u8 type, f64 threshold, u8 kind of threshold, u8 norm, u64 length of the tag, tag; see mneme_model::tolerance
//! arguments:  u64 count, { u64 size, bytes }
//! ```

use std::ops::Range;

use mneme_model::tolerance::{Annotation, DataType, Norm, Threshold, Tolerance};

use super::{DIFF_MAGIC, MAGIC};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotKind {
    Bytes,
    Diff,
}

/// A file without the contents of memory.
#[derive(Clone, Debug, PartialEq)]
pub struct FileLayout {
    pub kind: SnapshotKind,
    /// Device variables.
    pub globals: Vec<FileBlock>,
    /// Allocations.
    pub blobs: Vec<FileBlock>,
    /// The places of the arguments in the file; empty in a diff.
    pub arguments: Vec<Range<usize>>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct FileBlock {
    /// The name of a device variable; "" for an allocation.
    pub name: String,
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// For an allocation: the number of bytes mapped for it.
    pub reserved: u64,
    pub annotation: Annotation,
    /// The contents stored in the file: ascending, without overlaps. A file of kind bytes stores a single stretch with
    /// everything.
    pub stretches: Vec<FileStretch>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStretch {
    /// Bytes from the start of the block.
    pub offset: u64,
    /// The place of the bytes in the file.
    pub bytes: Range<usize>,
}

impl FileStretch {
    pub fn end(&self) -> u64 {
        self.offset + self.bytes.len() as u64
    }
}

/// The reason for an unreadable file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// What is wrong with it.
    Damaged(String),
    /// A later version of the layout.
    Version { found: u32, supported: u32 },
}

impl From<&str> for Unreadable {
    fn from(what: &str) -> Self {
        Self::Damaged(what.to_owned())
    }
}

impl FileLayout {
    /// Parses a whole file. The file's length limits the allocations.
    pub fn parse(file: &[u8]) -> Result<Self, Unreadable> {
        let (kind, start) = header(file)?;
        let mut cursor = Cursor { file, at: start };
        let globals = cursor.list(|cursor| cursor.global(kind))?;
        let blobs = cursor.list(|cursor| cursor.blob(kind))?;
        let arguments = match kind {
            SnapshotKind::Bytes => cursor.list(|cursor| {
                let size = cursor.u64()?;
                cursor.take(size)
            })?,
            SnapshotKind::Diff => Vec::new(),
        };
        if cursor.at != file.len() {
            return Err("something follows its end".into());
        }
        Ok(Self { kind, globals, blobs, arguments })
    }

    /// Bytes of memory described.
    pub fn memory_bytes(&self) -> u64 {
        self.globals.iter().chain(&self.blobs).fold(0, |sum, block| sum.saturating_add(block.size))
    }
}

/// The kind, and the end of the header.
fn header(file: &[u8]) -> Result<(SnapshotKind, usize), Unreadable> {
    if file.starts_with(DIFF_MAGIC) {
        return Ok((SnapshotKind::Diff, DIFF_MAGIC.len()));
    }
    let Some(rest) = file.strip_prefix(MAGIC) else { return Ok((SnapshotKind::Bytes, 0)) };
    let [a, b, c, d, e, f, g, h, ..] = rest else { return Err("it is cut short".into()) };
    let (kind, supported) = match u32::from_le_bytes([*a, *b, *c, *d]) {
        1 => (SnapshotKind::Bytes, 0),
        2 => (SnapshotKind::Diff, 1),
        kind => return Err(Unreadable::Damaged(format!("it is of the unknown kind {kind}"))),
    };
    let found = u32::from_le_bytes([*e, *f, *g, *h]);
    if found != supported {
        return Err(Unreadable::Version { found, supported });
    }
    Ok((kind, MAGIC.len() + 8))
}

struct Cursor<'a> {
    file: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn take(&mut self, length: u64) -> Result<Range<usize>, Unreadable> {
        let end = usize::try_from(length)
            .ok()
            .and_then(|length| self.at.checked_add(length))
            .filter(|end| *end <= self.file.len());
        let end = end.ok_or("it is cut short")?;
        let taken = self.at..end;
        self.at = end;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Unreadable> {
        let range = self.take(N as u64)?;
        self.file[range].try_into().map_err(|_| "it is cut short".into())
    }

    fn u64(&mut self) -> Result<u64, Unreadable> {
        self.array().map(u64::from_le_bytes)
    }

    fn text(&mut self) -> Result<String, Unreadable> {
        let length = self.u64()?;
        let range = self.take(length)?;
        Ok(std::str::from_utf8(&self.file[range]).map_err(|_| "a name in it is no text")?.to_owned())
    }

    /// Reads a list, whose length comes first. Every item takes some bytes of the file, so the file's length limits the
    /// list.
    fn list<T>(&mut self, mut item: impl FnMut(&mut Self) -> Result<T, Unreadable>) -> Result<Vec<T>, Unreadable> {
        let count = self.u64()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(item(self)?);
        }
        Ok(list)
    }

    fn contents(&mut self, kind: SnapshotKind, size: u64) -> Result<Vec<FileStretch>, Unreadable> {
        if kind == SnapshotKind::Bytes {
            return Ok(vec![FileStretch { offset: 0, bytes: self.take(size)? }]);
        }
        let mut end = 0;
        self.list(|cursor| {
            let (offset, length) = (cursor.u64()?, cursor.u64()?);
            if offset < end {
                return Err("its ranges overlap".into());
            }
            end = offset.checked_add(length).filter(|end| *end <= size).ok_or("a range lies outside its memory")?;
            Ok(FileStretch { offset, bytes: cursor.take(length)? })
        })
    }

    fn global(&mut self, kind: SnapshotKind) -> Result<FileBlock, Unreadable> {
        let (name, size, address) = (self.text()?, self.u64()?, self.u64()?);
        Ok(FileBlock { name, address, size, stretches: self.contents(kind, size)?, ..FileBlock::default() })
    }

    fn blob(&mut self, kind: SnapshotKind) -> Result<FileBlock, Unreadable> {
        let (reserved, size, address) = (self.u64()?, self.u64()?, self.u64()?);
        let (stretches, annotation) = match kind {
            SnapshotKind::Bytes => {
                let stretches = self.contents(kind, size)?;
                (stretches, self.annotation()?)
            }
            SnapshotKind::Diff => {
                let annotation = self.annotation()?;
                (self.contents(kind, size)?, annotation)
            }
        };
        Ok(FileBlock { name: String::new(), address, size, reserved, annotation, stretches })
    }

    fn annotation(&mut self) -> Result<Annotation, Unreadable> {
        let [dtype] = self.array()?;
        let threshold = f64::from_le_bytes(self.array()?);
        let [kind, norm] = self.array()?;
        let tag = self.text()?;
        let tolerance = DataType::from_code(dtype).zip(Threshold::from_code(kind)).zip(Norm::from_code(norm));
        let ((dtype, kind), norm) = tolerance.ok_or("an annotation in it has an unknown code")?;
        let tolerance = Tolerance { dtype, threshold, kind, norm, ignore: false };
        tolerance.check().map_err(|error| Unreadable::Damaged(error.to_string()))?;
        Ok(Annotation { tag, tolerance })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn number(value: u64) -> [u8; 8] {
        value.to_le_bytes()
    }

    /// A prologue with a variable of 4 bytes, an annotated allocation of 6, and two arguments.
    fn bytes() -> Vec<u8> {
        [
            &number(1)[..],
            &number(7),
            b"counter",
            &number(4),
            &number(0x7f00_0000_1000),
            &[1, 2, 3, 4],
            &number(1),
            &number(2 << 20),
            &number(6),
            &number(0x1539_4000_0000),
            b"abcdef",
            &[10],
            &1e-9f64.to_le_bytes(),
            &[1, 3],
            &number(3),
            b"out",
            &number(2),
            &number(8),
            &number(0x1539_4000_0000),
            &number(4),
            &[6, 0, 0, 0],
        ]
        .concat()
    }

    fn diff() -> Vec<u8> {
        [
            &b"MNEME_DIFF_V1"[..],
            &number(1),
            &number(7),
            b"counter",
            &number(4),
            &number(0x7f00_0000_1000),
            &number(0),
            &number(1),
            &number(2 << 20),
            &number(6),
            &number(0x1539_4000_0000),
            &[0; 11],
            &number(0),
            &number(2),
            &number(0),
            &number(1),
            b"X",
            &number(4),
            &number(2),
            b"YZ",
        ]
        .concat()
    }

    #[test]
    fn the_documented_bytes_are_read() {
        let file = bytes();
        let layout = FileLayout::parse(&file).unwrap();
        assert_eq!((layout.kind, layout.memory_bytes()), (SnapshotKind::Bytes, 10));
        let (counter, out) = (&layout.globals[0], &layout.blobs[0]);
        assert_eq!((counter.name.as_str(), counter.address, counter.size), ("counter", 0x7f00_0000_1000, 4));
        assert_eq!(&file[counter.stretches[0].bytes.clone()], [1, 2, 3, 4]);
        assert_eq!((out.address, out.size, out.reserved), (0x1539_4000_0000, 6, 2 << 20));
        assert_eq!(&file[out.stretches[0].bytes.clone()], b"abcdef");
        let tolerance = Tolerance {
            dtype: DataType::F64,
            threshold: 1e-9,
            kind: Threshold::Relative,
            norm: Norm::Linf,
            ignore: false,
        };
        assert_eq!(out.annotation, Annotation { tag: "out".into(), tolerance });
        assert_eq!(
            layout.arguments.iter().map(|range| &file[range.clone()]).collect::<Vec<_>>(),
            [&number(0x1539_4000_0000)[..], &[6, 0, 0, 0]]
        );
    }

    #[test]
    fn the_documented_diff_is_read() {
        let file = diff();
        let layout = FileLayout::parse(&file).unwrap();
        assert_eq!(layout.kind, SnapshotKind::Diff);
        assert!(layout.globals[0].stretches.is_empty() && layout.arguments.is_empty());
        let read: Vec<_> =
            layout.blobs[0].stretches.iter().map(|stretch| (stretch.offset, &file[stretch.bytes.clone()])).collect();
        assert_eq!(read, [(0, &b"X"[..]), (4, b"YZ")]);
        assert!(layout.blobs[0].annotation.tolerance.is_exact());
    }

    #[test]
    fn newer_files_begin_with_a_header() {
        let with_header = |kind: u32, version: u32, rest: &[u8]| {
            [&MAGIC[..], &kind.to_le_bytes(), &version.to_le_bytes(), rest].concat()
        };
        assert_eq!(FileLayout::parse(&with_header(1, 0, &bytes())).unwrap().blobs.len(), 1);
        assert_eq!(FileLayout::parse(&with_header(2, 1, &diff()[13..])).unwrap().kind, SnapshotKind::Diff);
        assert_eq!(
            FileLayout::parse(&with_header(1, 1, &bytes())),
            Err(Unreadable::Version { found: 1, supported: 0 })
        );
        assert_eq!(FileLayout::parse(&with_header(2, 2, &[])), Err(Unreadable::Version { found: 2, supported: 1 }));
        assert!(matches!(FileLayout::parse(&with_header(3, 0, &[])), Err(Unreadable::Damaged(_))));
        assert!(matches!(FileLayout::parse(&MAGIC[..]), Err(Unreadable::Damaged(_))));
    }

    #[test]
    fn cut_and_continued_files_are_damaged() {
        for file in [bytes(), diff()] {
            for end in 0..file.len() {
                assert!(FileLayout::parse(&file[..end]).is_err(), "cut at {end}");
            }
            assert!(FileLayout::parse(&[&file[..], &[0]].concat()).is_err());
        }
    }

    #[test]
    fn ranges_stay_inside_and_apart() {
        let one = |size: u64, ranges: &[(u64, u64)]| {
            let mut file = [
                &b"MNEME_DIFF_V1"[..],
                &number(0),
                &number(1),
                &number(size),
                &number(size),
                &number(0x1000),
                &[0; 19],
            ]
            .concat();
            file.extend(number(ranges.len() as u64));
            for (offset, length) in ranges {
                file.extend([number(*offset), number(*length)].concat());
                file.extend(vec![7; (*length).min(100) as usize]);
            }
            FileLayout::parse(&file)
        };
        assert!(one(8, &[(0, 2), (2, 6)]).is_ok());
        for wrong in [&[(0, 9)][..], &[(8, 1)], &[(u64::MAX, 2)], &[(4, 2), (0, 2)], &[(0, 4), (3, 2)]] {
            assert!(one(8, wrong).is_err(), "{wrong:?}");
        }
    }

    proptest! {
        #[test]
        fn no_input_makes_the_parser_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..300),
            small in proptest::collection::vec(0u64..9, 0..40),
        ) {
            let _ = FileLayout::parse(&bytes);
            let plausible: Vec<u8> = small.iter().flat_map(|number| number.to_le_bytes()).collect();
            for start in [&b""[..], DIFF_MAGIC, b"MNEMESNP\x01\0\0\0\0\0\0\0", b"MNEMESNP\x02\0\0\0\x01\0\0\0"] {
                let _ = FileLayout::parse(&[start, &bytes].concat());
                let _ = FileLayout::parse(&[start, &plausible].concat());
            }
        }

        #[test]
        fn no_flipped_byte_makes_the_parser_panic(at in any::<prop::sample::Index>(), by in 1u8..) {
            for mut file in [bytes(), diff()] {
                let at = at.index(file.len());
                file[at] ^= by;
                let _ = FileLayout::parse(&file);
            }
        }
    }
}
