//! `DeviceState.{prologue,epilogue}.<static>.<dynamic>.mneme`: device memory as chunks of the store.
//!
//! ```text
//! "MNEMEST1"                      8 bytes
//! u32 version, u32 length of the header in bytes
//! header: JSON, see [`Header`]
//! 16 bytes for each chunk of each region, in the header's order: variables, then allocations
//! u64 checksum (XXH3-64) of everything before it
//! ```
//!
//! A region is cut into chunks of [`CHUNK`] bytes from its start; its last chunk may be short.

use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::Path;

use mneme_model::hash::{ChunkId, Hash64, checksum};
use mneme_model::images::Images;
use mneme_model::launch::Moment;
use mneme_model::tolerance::{Annotation, Tolerance};
use mneme_system::files::regular;
use serde::{Deserialize, Serialize};

use super::database::write_atomically;
use crate::error::RecordingError;

/// Chunk size, bytes.
pub const CHUNK: u64 = 64 * 1024;
pub const VERSION: u32 = 5;
/// The version without variables that refer to functions. A reader of this version would give the replayed code the
/// recorded addresses.
const WITHOUT_FUNCTIONS: u32 = 4;
/// The version without arrays and objects. A reader of this version would run kernels without them.
const WITHOUT_IMAGES: u32 = 3;
/// The version without annotated parts. A reader of this version would compare them like the rest of their allocation.
const WITHOUT_PARTS: u32 = 2;
/// The version without function tables. A reader of this version would treat function tables as memory.
const WITHOUT_TABLES: u32 = 1;
/// The maximum size of a parameter buffer, bytes: the driver's limit is below 32 KiB.
const MAX_PARAMETERS: u64 = 64 * 1024;
const MAGIC: &[u8; 8] = b"MNEMEST1";

/// The state of device memory at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MemoryState {
    pub header: Header,
    /// Chunk identities of each region: `header.variables`, then `header.allocations`.
    pub chunks: Vec<Vec<ChunkId>>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Header {
    pub moment: Moment,
    /// Device variables and constants by name.
    pub variables: Vec<RecordedVariable>,
    pub allocations: Vec<Allocation>,
    /// The parameter buffer of the launch, by argument; in prologues only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<RecordedArgument>,
    /// The arrays and objects of the launch; in prologues only.
    #[serde(default, skip_serializing_if = "Images::is_empty")]
    pub images: Images,
    /// The same number in both manifests of an instance ([`pair`]); absent in older files.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pair: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedVariable {
    /// Mangled name.
    pub name: String,
    /// The address on the recording device.
    pub address: u64,
    /// Bytes.
    pub size: u64,
    /// In constant memory: the kernel cannot write it.
    #[serde(default)]
    pub constant: bool,
    /// A constant table of function addresses: a replay has its own functions' addresses there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub code: bool,
    /// Offsets of words (8 bytes, aligned) whose initial values are addresses of functions in the variable's module. The
    /// kernel or the application may have changed them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub functions: Vec<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allocation {
    pub address: u64,
    /// The size that the application requested, bytes.
    pub size: u64,
    pub kind: AllocationKind,
    /// Name given by the application's annotation, or "".
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tag: String,
    /// The comparison that the application wants; by bytes if it does not specify one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Tolerance>,
    /// Ranges with separate annotations, ascending and disjoint.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<AnnotatedPart>,
    /// Other processes, or devices outside the recorded launch, could write to it at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// A range of an allocation that the application annotated by itself, such as a field in a pool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AnnotatedPart {
    /// Offset in the allocation, bytes.
    pub offset: u64,
    /// Bytes.
    pub size: u64,
    #[serde(flatten)]
    pub annotation: Annotation,
}

impl AnnotatedPart {
    /// Its offsets in the allocation.
    pub fn range(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.size)
    }

    /// The piece of it in `size` bytes at `offset` of its allocation, counted from there.
    pub fn within(&self, offset: u64, size: u64) -> Option<Self> {
        let Range { start, end } = self.range();
        let (start, end) = (start.max(offset), end.min(offset + size));
        (start < end).then(|| Self { offset: start - offset, size: end - start, annotation: self.annotation.clone() })
    }
}

/// Whether a word of an argument is an address in recorded memory, and so meaningless in another process. The address
/// right after the last byte counts, too.
pub fn is_recorded_address(allocations: &[Allocation], word: u64) -> bool {
    allocations.iter().any(|allocation| word.checked_sub(allocation.address).is_some_and(|at| at <= allocation.size))
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AllocationKind {
    /// From the recorder's arena.
    #[default]
    Arena,
    /// From the vendor's allocator: pools, managed memory, the application's own mappings.
    Vendor,
    /// Page-locked host memory that the kernel can address.
    Host,
    /// The texels of an array, at an address that the kernel does not use.
    Array,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RecordedArgument {
    /// Offset in the parameter buffer, bytes.
    pub offset: u32,
    #[serde(with = "hex")]
    pub bytes: Vec<u8>,
}

/// A stretch of device memory in a [`MemoryState`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecordedRegion<'a> {
    /// Name of the device variable; `None` for an allocation.
    pub variable: Option<&'a RecordedVariable>,
    pub tag: &'a str,
    /// The comparison that the application wants.
    pub tolerance: Option<Tolerance>,
    /// Ranges with separate annotations.
    pub parts: &'a [AnnotatedPart],
    /// Other writers could change it at the same time.
    pub shared: bool,
    pub address: u64,
    /// Bytes.
    pub size: u64,
    pub chunks: &'a [ChunkId],
}

impl RecordedRegion<'_> {
    /// Offset and length, bytes, of chunk `index` in the region.
    pub fn extent(&self, index: usize) -> (u64, u64) {
        let offset = index as u64 * CHUNK;
        (offset, CHUNK.min(self.size - offset))
    }
}

/// The number of chunks in a region of `size` bytes.
pub fn chunk_count(size: u64) -> usize {
    size.div_ceil(CHUNK) as usize
}

impl MemoryState {
    /// Variables first, then allocations.
    pub fn regions(&self) -> impl Iterator<Item = RecordedRegion<'_>> {
        let variables = self.header.variables.iter().map(|it| RecordedRegion {
            variable: Some(it),
            tag: &it.name,
            tolerance: None,
            parts: &[],
            shared: false,
            address: it.address,
            size: it.size,
            chunks: &[],
        });
        let allocations = self.header.allocations.iter().map(|it| RecordedRegion {
            variable: None,
            tag: &it.tag,
            tolerance: it.tolerance,
            parts: &it.parts,
            shared: it.shared,
            address: it.address,
            size: it.size,
            chunks: &[],
        });
        variables.chain(allocations).zip(&self.chunks).map(|(region, chunks)| RecordedRegion { chunks, ..region })
    }

    /// Bytes of memory described.
    pub fn memory_bytes(&self) -> u64 {
        self.regions().map(|region| region.size).sum()
    }

    /// The parameter buffer, gaps zero-filled.
    pub fn parameter_buffer(&self) -> Vec<u8> {
        let mut buffer = Vec::new();
        for argument in &self.header.arguments {
            let end = argument.offset as usize + argument.bytes.len();
            if buffer.len() < end {
                buffer.resize(end, 0);
            }
            buffer[argument.offset as usize..end].copy_from_slice(&argument.bytes);
        }
        buffer
    }

    /// Writes the manifest to a temporary file and renames it. Sync the chunks that it names first.
    pub fn save(&self, path: &Path) -> Result<(), RecordingError> {
        write_atomically(path, &self.encode())
    }

    /// The contents of the file.
    pub(super) fn encode(&self) -> Vec<u8> {
        let header = serde_json::to_vec(&self.header).expect("plain data serialises");
        let mut bytes = MAGIC.to_vec();
        let has_parts = self.header.allocations.iter().any(|allocation| !allocation.parts.is_empty());
        let has_tables = self.header.variables.iter().any(|variable| variable.code);
        let is_array = |allocation: &Allocation| allocation.kind == AllocationKind::Array;
        let has_images = !self.header.images.is_empty() || self.header.allocations.iter().any(is_array);
        let has_functions = self.header.variables.iter().any(|variable| !variable.functions.is_empty());
        let version = match (has_functions, has_images, has_parts, has_tables) {
            (true, ..) => VERSION,
            (false, true, ..) => WITHOUT_FUNCTIONS,
            (false, false, true, _) => WITHOUT_IMAGES,
            (false, false, false, true) => WITHOUT_PARTS,
            (false, false, false, false) => WITHOUT_TABLES,
        };
        bytes.extend_from_slice(&version.to_le_bytes());
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(&header);
        for id in self.chunks.iter().flatten() {
            bytes.extend_from_slice(&id.0);
        }
        bytes.extend_from_slice(&checksum(&bytes).to_le_bytes());
        bytes
    }

    pub fn load(path: &Path) -> Result<Self, RecordingError> {
        let bytes = regular::read(path).map_err(RecordingError::io(path))?;
        Self::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, RecordingError> {
        let damaged = |what: &str| RecordingError::damaged(path, what);
        let (body, sum) = bytes.split_last_chunk::<8>().ok_or_else(|| damaged("it is too short"))?;
        let rest = body.strip_prefix(MAGIC).ok_or_else(|| damaged("it is not a memory manifest"))?;
        let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("it is too short"))?;
        let version = u32::from_le_bytes(*version);
        if version > VERSION {
            return Err(RecordingError::Version { path: path.into(), found: version, supported: VERSION });
        }
        if checksum(body) != u64::from_le_bytes(*sum) {
            return Err(damaged("its checksum does not match"));
        }
        let (length, rest) = rest.split_first_chunk::<4>().ok_or_else(|| damaged("it is too short"))?;
        let (header, ids) = rest
            .split_at_checked(u32::from_le_bytes(*length) as usize)
            .ok_or_else(|| damaged("its header is cut short"))?;
        let header: Header = serde_json::from_slice(header).map_err(|error| damaged(&error.to_string()))?;
        if header
            .arguments
            .iter()
            .any(|argument| u64::from(argument.offset) + argument.bytes.len() as u64 > MAX_PARAMETERS)
        {
            return Err(damaged("its arguments are larger than any kernel's"));
        }
        let misplaced = |allocation: &Allocation| {
            let ends = std::iter::once(0).chain(allocation.parts.iter().map(|part| part.range().end));
            let overlap = allocation.parts.iter().zip(ends).any(|(part, end)| part.size == 0 || part.offset < end);
            overlap || allocation.parts.last().is_some_and(|last| last.range().end > allocation.size)
        };
        if header.allocations.iter().any(misplaced) {
            return Err(damaged("the parts of an allocation overlap or leave it"));
        }
        let is_outside = |variable: &RecordedVariable| {
            let fits = |offset: &u64| {
                offset.is_multiple_of(8) && variable.size.checked_sub(8).is_some_and(|last| *offset <= last)
            };
            !variable.functions.iter().all(fits)
        };
        if header.variables.iter().any(is_outside) {
            return Err(damaged("a variable refers to functions outside of it"));
        }
        let is_array = |address: u64, bytes: u64| {
            let is_its = |it: &Allocation| (it.kind, it.address, it.size) == (AllocationKind::Array, address, bytes);
            header.allocations.iter().any(is_its)
        };
        let is_recorded = |address: u64, bytes: u64| {
            let has = |it: &Allocation| {
                address.checked_sub(it.address).and_then(|offset| it.size.checked_sub(offset)) >= Some(bytes)
            };
            header.allocations.iter().any(has)
        };
        if let Some(fault) = header.images.fault(is_array, is_recorded) {
            return Err(damaged(fault));
        }
        let (ids, remainder) = ids.as_chunks::<16>();
        let sizes = header
            .variables
            .iter()
            .map(|variable| variable.size)
            .chain(header.allocations.iter().map(|allocation| allocation.size));
        let mut ids = ids.iter().map(|id| ChunkId(*id));
        let chunks: Vec<Vec<ChunkId>> = sizes.map(|size| ids.by_ref().take(chunk_count(size)).collect()).collect();
        let state = Self { header, chunks };
        let complete = state.regions().all(|region| region.chunks.len() == chunk_count(region.size));
        if !complete || ids.next().is_some() || !remainder.is_empty() {
            return Err(damaged("its chunk table does not fit its regions"));
        }
        Ok(state)
    }
}

/// Marks two states as the halves of one instance with the XXH3-64 of both contents, so equal recordings have equal
/// files.
pub fn pair(prologue: &mut MemoryState, epilogue: &mut MemoryState) {
    (prologue.header.pair, epilogue.header.pair) = (None, None);
    let sum = Hash64::new().part(&prologue.encode()).part(&epilogue.encode()).finish();
    (prologue.header.pair, epilogue.header.pair) = (Some(sum), Some(sum));
}

/// The reason why two states cannot be the halves of one instance, as a statement about the second one.
pub(super) fn mismatch(prologue: &MemoryState, epilogue: &MemoryState) -> Option<String> {
    if (prologue.header.moment, epilogue.header.moment) != (Moment::Prologue, Moment::Epilogue) {
        return Some("one of the two is in the place of the other".into());
    }
    if prologue.header.pair != epilogue.header.pair {
        return Some("they are of two recordings".into());
    }
    let regions = |state: &MemoryState| {
        let mut all: Vec<_> =
            state.regions().map(|it| (it.variable.map(|it| it.name.clone()), it.address, it.size)).collect();
        all.sort_unstable();
        all
    };
    let (before, after) = (regions(prologue), regions(epilogue));
    if before == after {
        return None;
    }
    let differing =
        before.iter().find(|it| !after.contains(it)).or_else(|| after.iter().find(|it| !before.contains(it)));
    Some(match differing {
        Some((Some(name), ..)) => format!("the variable {name} is not the same in both"),
        Some((None, address, size)) => format!("the {size} bytes at {address:#x} are not in both"),
        None => "one names memory twice".into(),
    })
}

mod hex {
    //! Bytes as a hexadecimal string in JSON.
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        use std::fmt::Write;
        let text = bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        });
        serializer.serialize_str(&text)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if !rest.is_empty() {
            return Err(D::Error::custom("an odd number of hexadecimal digits"));
        }
        pairs
            .iter()
            .map(|pair| {
                std::str::from_utf8(pair)
                    .ok()
                    .and_then(|pair| u8::from_str_radix(pair, 16).ok())
                    .ok_or_else(|| D::Error::custom("not hexadecimal"))
            })
            .collect()
    }
}

/// Whether a file is a manifest in Mneme's format. Snapshots of the existing Mneme may begin with any bytes.
pub fn is_manifest(path: &Path) -> Result<bool, RecordingError> {
    start_of(path).map(|(_, start)| start == MAGIC)
}

/// The file, and its first bytes, which have already been read.
fn start_of(path: &Path) -> Result<(File, Vec<u8>), RecordingError> {
    let mut start = Vec::new();
    let mut file = regular::open(path).map_err(RecordingError::io(path))?;
    Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut start).map_err(RecordingError::io(path))?;
    Ok((file, start))
}

/// Reads a manifest, with the checksum of the file (XXH3-64); `None` for a file of another format.
///
/// # Errors
/// The file cannot be read, is damaged, or belongs to a later version.
pub fn load_if_manifest(path: &Path) -> Result<Option<(MemoryState, u64)>, RecordingError> {
    let (mut file, mut bytes) = start_of(path)?;
    if bytes != MAGIC {
        return Ok(None);
    }
    file.read_to_end(&mut bytes).map_err(RecordingError::io(path))?;
    Ok(Some((MemoryState::parse(path, &bytes)?, checksum(&bytes))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::images::{ImageObject, ImageResource, RecordedArray, Texel};
    use proptest::prelude::*;

    fn state() -> MemoryState {
        MemoryState {
            header: Header {
                moment: Moment::Prologue,
                variables: vec![RecordedVariable {
                    name: "counter".into(),
                    address: 0x1000,
                    size: 4,
                    constant: false,
                    code: false,
                    functions: Vec::new(),
                }],
                allocations: vec![Allocation {
                    address: 0x1000_0000_0000,
                    size: CHUNK + 1,
                    kind: AllocationKind::Arena,
                    ..Allocation::default()
                }],
                arguments: vec![
                    RecordedArgument { offset: 0, bytes: vec![1, 2, 3, 4] },
                    RecordedArgument { offset: 8, bytes: vec![0xff; 8] },
                ],
                images: Images::default(),
                pair: Some(u64::MAX),
            },
            chunks: vec![vec![ChunkId([1; 16])], vec![ChunkId::ZERO, ChunkId([2; 16])]],
        }
    }

    #[test]
    fn a_saved_state_loads_equal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.mneme");
        state().save(&path).unwrap();
        assert_eq!(MemoryState::load(&path).unwrap(), state());
        assert_eq!(state().parameter_buffer(), [1, 2, 3, 4, 0, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255]);
        assert_eq!(state().regions().nth(1).unwrap().extent(1), (CHUNK, 1));
    }

    /// One with arrays and objects, whose array has a row of `width` texels of 4 bytes.
    fn with_images(width: u64) -> MemoryState {
        let texel = Texel { format: 3, channels: 1 };
        let array = RecordedArray { address: 0x2000, width, height: 0, depth: 0, texel, flags: 2 };
        let resource = ImageResource::Array(0);
        let mut state = state();
        state.header.images = Images {
            arrays: vec![array],
            objects: vec![ImageObject { handle: 1, resource, texture: None, view: Vec::new() }],
        };
        let (address, size, kind) = (0x2000, 4 * width, AllocationKind::Array);
        state.header.allocations.push(Allocation { address, size, kind, ..Allocation::default() });
        state.chunks.push(vec![ChunkId([3; 16]); chunk_count(size)]);
        state
    }

    proptest! {
        #[test]
        fn arrays_and_objects_have_a_later_version_and_must_fit(width in 1u64..40_000, other in 0u64..40_000) {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("state.mneme");
            let images = with_images(width);
            images.save(&path).unwrap();
            prop_assert_eq!(&MemoryState::load(&path).unwrap(), &images);
            prop_assert_eq!((images.encode()[8], state().encode()[8]), (4, 1));
            prop_assert!(!String::from_utf8_lossy(&state().encode()).contains("images"));
            let mut wrong = images;
            wrong.header.images.arrays[0].width = other;
            wrong.save(&path).unwrap();
            prop_assert_eq!(MemoryState::load(&path).is_ok(), width == other);
        }
    }

    /// A manifest without this field comes from a recorder that did not detect sharing.
    #[test]
    fn memory_is_shared_where_the_header_says_so() {
        let mut marked = state().header;
        assert!(!serde_json::to_string(&marked).unwrap().contains("shared"));
        marked.allocations[0].shared = true;
        let text = serde_json::to_string(&marked).unwrap();
        assert_eq!(serde_json::from_str::<Header>(&text).unwrap(), marked);
        assert_eq!(serde_json::from_str::<Header>(&text.replace(r#","shared":true"#, "")).unwrap(), state().header);
    }

    #[test]
    fn a_state_with_annotated_parts_has_a_later_version() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.mneme");
        let annotation = Annotation { tag: "ids".into(), tolerance: Tolerance::ignored() };
        let part = |offset, size| AnnotatedPart { offset, size, annotation: annotation.clone() };
        let version = |state: &MemoryState| state.encode()[8];
        let with = |parts: &[AnnotatedPart]| {
            let mut state = state();
            state.header.allocations[0].parts = parts.to_vec();
            state
        };
        let marked = with(&[part(8, 8), part(16, CHUNK - 15)]);
        marked.save(&path).unwrap();
        assert_eq!(MemoryState::load(&path).unwrap(), marked);
        assert_eq!((version(&marked), version(&state())), (3, 1));
        for wrong in [vec![part(8, 0)], vec![part(8, 8), part(15, 1)], vec![part(8, CHUNK)], vec![part(u64::MAX, 9)]] {
            with(&wrong).save(&path).unwrap();
            assert!(matches!(MemoryState::load(&path), Err(RecordingError::Damaged { .. })), "{wrong:?}");
        }
        assert_eq!(part(8, 8).within(12, 100), Some(part(0, 4)));
        assert_eq!((part(8, 8).within(0, 9), part(8, 8).within(16, 8)), (Some(part(8, 1)), None));
    }

    #[test]
    fn functions_have_a_later_version_and_are_inside_their_variable() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.mneme");
        let loads = |size, functions: &[u64]| {
            let mut state = state();
            (state.header.variables[0].size, state.header.variables[0].functions) = (size, functions.to_vec());
            state.save(&path).unwrap();
            assert_eq!(state.encode()[8], if functions.is_empty() { 1 } else { 5 });
            MemoryState::load(&path).is_ok_and(|loaded| loaded == state)
        };
        assert!(loads(4, &[]) && loads(8, &[0]) && loads(24, &[16, 0]));
        for (size, functions) in [(4, [0]), (8, [4]), (8, [8]), (24, [17]), (24, [u64::MAX - 7])] {
            assert!(!loads(size, &functions), "{functions:?} of {size}");
        }
    }

    #[test]
    fn an_absurd_parameter_buffer_is_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.mneme");
        let mut hostile = state();
        hostile.header.arguments[1].offset = u32::MAX;
        hostile.save(&path).unwrap();
        assert!(matches!(MemoryState::load(&path), Err(RecordingError::Damaged { .. })));
    }

    #[test]
    fn every_flipped_byte_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.mneme");
        state().save(&path).unwrap();
        let good = std::fs::read(&path).unwrap();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(MemoryState::parse(&path, &bad).is_err(), "byte {at}");
            assert!(MemoryState::parse(&path, &good[..at]).is_err(), "cut at {at}");
        }
    }

    proptest! {
        #[test]
        fn no_input_makes_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut whole = MAGIC.to_vec();
            whole.extend_from_slice(&VERSION.to_le_bytes());
            whole.extend_from_slice(&bytes);
            let sum = checksum(&whole);
            whole.extend_from_slice(&sum.to_le_bytes());
            let _ = MemoryState::parse(Path::new("x"), &whole);
        }
    }
}
