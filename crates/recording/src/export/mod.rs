//! Exports a recording to another folder in the existing Mneme's format.
//!
//! The existing Mneme maps whole pages for each buffer, so buffers that share a page are merged into one buffer that
//! covers them, with zeros in between.

mod write;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::Range;
use std::path::Path;

use mneme_model::tolerance::{Annotation, Threshold};
use mneme_system::files::regular;

use super::code::CodeKind;
use super::database::{Databases, InstanceRecord, KernelRecord, load_or_begin};
use super::draft::Draft;
use super::housekeeping::HousekeepingOutcome;
use super::manifest::{Allocation, AllocationKind, RecordedRegion};
use super::moments::Moments;
use super::publication::{self, NewInstance, Publication};
use super::rules::Rules;
use super::store::{Store, create_private_folder};
use super::upstream::span::{self, PAGE};
use crate::error::{NoPlace, RecordingError};
use write::{SnapshotMoment, SnapshotPiece, Writer};

/// The format of an epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// All of memory.
    Bytes,
    /// The differences from the prologue.
    Diff,
    /// The smaller one.
    Best,
}

impl Format {
    /// Parses the value of `--epilogue-format` or `MNEME_EPILOGUE_TYPE`.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "bytes" => Some(Self::Bytes),
            "diff" => Some(Self::Diff),
            "best" => Some(Self::Best),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Bytes => "bytes",
            Self::Diff => "diff",
            Self::Best => "best",
        }
    }
}

/// Writes an instance, or the kernel with all of its instances, to the folder `to`. Existing instances do not change.
///
/// # Errors
/// Also fails if the recording contains data that the format does not support: code other than bitcode, or memory
/// outside the recorder's arena.
/// recorder's arena.
pub fn export(
    from: &Path,
    to: &Path,
    static_hash: u64,
    instance: Option<&str>,
    format: Format,
) -> Result<HousekeepingOutcome, RecordingError> {
    let path = from.join(format!("{static_hash}.json"));
    let record = KernelRecord::load(&path)?;
    if record.modules.iter().any(|name| CodeKind::of(name) != CodeKind::Bitcode || !name.ends_with(".bc"))
        || record.modules.is_empty()
    {
        return Err(RecordingError::NotUpstreams { path, what: NoPlace::Code });
    }
    create_private_folder(to)?;
    let there = to.join(record.file_name());
    let known = load_or_begin(to, &record)?.instances;
    let mut outcome = HousekeepingOutcome::default();
    let chosen = record.chosen(&path, instance)?;
    outcome.instances = chosen.len();
    let missing: Vec<_> = chosen.into_iter().filter(|(id, _)| !known.contains_key(*id)).collect();
    let mut databases = Databases::default();
    for some in missing.chunks(publication::MOST) {
        let (mut new, mut spans) = (Vec::new(), Vec::new());
        for (id, instance) in some {
            let (draft, span) = write_instance(from, to, &path, &record, instance, format)?;
            new.push(NewInstance {
                draft,
                kernel: &record,
                id: (*id).to_owned(),
                instance: (*instance).clone(),
                replaces: false,
            });
            spans.push(span);
        }
        let rules = Rules::load(&path)?;
        if !rules.rules.is_empty() {
            rules.save(&there)?;
        }
        let (outcomes, failure) = publication::publish(to, &mut databases, new, |there, indices, code| {
            let spans = indices.iter().map(|index| spans[*index].clone());
            span::include(to, there, spans.reduce(span::joined).flatten())?;
            let original = indices.iter().flat_map(|index| &some[*index].1.ours.original).map(|code| &code.file);
            for name in record.modules.iter().chain(original) {
                let contents = regular::read(&from.join(name)).map_err(RecordingError::io(from.join(name)))?;
                code.add(name, &contents)?;
            }
            Ok(0)
        });
        if let Some(failure) = failure {
            return Err(failure);
        }
        let added = |outcome| if let Publication::Added(bytes) = outcome { bytes } else { 0 };
        outcome.bytes += outcomes.into_iter().map(added).sum::<u64>();
    }
    Ok(outcome)
}

/// Returns the files, and the address range of their memory.
fn write_instance<'a>(
    from: &Path,
    to: &'a Path,
    path: &Path,
    record: &KernelRecord,
    instance: &InstanceRecord,
    format: Format,
) -> Result<(Draft<'a>, Option<Range<u64>>), RecordingError> {
    let moments = Moments::open(from, record, instance)?;
    let store = moments.store(from)?;
    if !moments.prologue.header.images.is_empty() {
        return Err(RecordingError::NotUpstreams { path: path.into(), what: NoPlace::Images });
    }
    let (globals, blobs) = pieces(&moments).map_err(|what| RecordingError::NotUpstreams { path: path.into(), what })?;
    let pieces = [&globals[..], &blobs[..]];
    let arguments = &moments.prologue.header.arguments;
    let mut draft = Draft::new(to);
    let whole = |draft: &mut Draft<'_>, name: &str, moment| {
        draft.add(name, |file| {
            write_file(&to.join(name), file, &store, |writer| writer.whole(pieces, moment, arguments))
        })
    };
    let before = whole(&mut draft, &instance.prologue, SnapshotMoment::Before)?;
    let name = &instance.epilogue;
    let diff = match format {
        Format::Bytes => None,
        _ => Some(draft.add(name, |file| write_file(&to.join(name), file, &store, |writer| writer.diff(pieces)))?),
    };
    // As bytes, both moments have the same length.
    if diff.is_none_or(|diff| format == Format::Best && before < diff) {
        whole(&mut draft, name, SnapshotMoment::After)?;
    }
    let span = span::around(blobs.iter().map(|blob| (blob.address, blob.reserved)));
    Ok((draft, span))
}

/// Returns the number of bytes written.
fn write_file(
    path: &Path,
    file: &mut File,
    store: &Store,
    write: impl FnOnce(&mut Writer<'_, BufWriter<&mut File>>) -> Result<(), RecordingError>,
) -> Result<u64, RecordingError> {
    let failed = |source| RecordingError::Io { path: path.into(), source };
    let mut writer = Writer { store, out: BufWriter::with_capacity(1 << 20, file), written: 0, failed: &failed };
    write(&mut writer)?;
    writer.out.flush().map_err(failed)?;
    Ok(writer.written)
}

/// Variables and allocations in the form for these files.
fn pieces(moments: &Moments) -> Result<(Vec<SnapshotPiece<'_>>, Vec<SnapshotPiece<'_>>), NoPlace> {
    let (before, after) = (&moments.prologue, &moments.epilogue);
    let mut later: Vec<RecordedRegion<'_>> = after.regions().collect();
    let mut globals = Vec::new();
    let mut allocations = Vec::new();
    for (index, region) in before.regions().enumerate() {
        let same = |other: &RecordedRegion<'_>| {
            (other.address, other.size, other.variable.map(|it| &it.name))
                == (region.address, region.size, region.variable.map(|it| &it.name))
        };
        let found = later.iter().position(same).ok_or(NoPlace::GoneMemory(region.address))?;
        let after = later.swap_remove(found);
        match region.variable {
            Some(variable) => globals.push(SnapshotPiece {
                variable: Some(variable),
                address: region.address,
                size: region.size,
                reserved: 0,
                annotation: Annotation::default(),
                parts: vec![(0, region, after)],
            }),
            None => {
                allocations.push((&before.header.allocations[index - before.header.variables.len()], region, after))
            }
        }
    }
    allocations.sort_by_key(|(allocation, ..)| allocation.address);
    let mut blobs: Vec<SnapshotPiece<'_>> = Vec::new();
    for (allocation, before, after) in allocations {
        let Allocation { address, size, .. } = *allocation;
        if allocation.kind != AllocationKind::Arena {
            return Err(NoPlace::OutsideArena { address, size });
        }
        if size == 0 {
            continue;
        }
        let end = address.checked_add(size).ok_or(NoPlace::LastAddress)?;
        match blobs.last_mut().filter(|blob| address / PAGE * PAGE < blob.address + blob.reserved) {
            Some(blob) => {
                blob.size = end - blob.address;
                blob.parts.push((address - blob.address, before, after));
                blob.annotation = Annotation::default();
            }
            None => {
                let start = address / PAGE * PAGE;
                let annotation = if start == address { annotation(allocation) } else { Annotation::default() };
                blobs.push(SnapshotPiece {
                    variable: None,
                    address: start,
                    size: end - start,
                    reserved: 0,
                    annotation,
                    parts: vec![(address - start, before, after)],
                });
            }
        }
        let blob = blobs.last_mut().expect("just there");
        blob.reserved = blob.size.next_multiple_of(PAGE);
    }
    Ok((globals, blobs))
}

/// The annotation in the format of these files, which do not support distances in ULP.
fn annotation(allocation: &Allocation) -> Annotation {
    let tolerance = allocation.tolerance.filter(|tolerance| tolerance.kind != Threshold::Ulp).unwrap_or_default();
    Annotation { tag: allocation.tag.clone(), tolerance }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::database::{KernelDetails, add_instance};
    use crate::manifest::{CHUNK, Header, MemoryState, RecordedArgument, RecordedVariable};
    use crate::store::StoreWriter;
    use crate::upstream::layout::{FileLayout, SnapshotKind};
    use crate::{fixture, housekeeping};
    use mneme_model::launch::Moment;
    use mneme_model::tolerance::{DataType, Tolerance};

    const BASE: u64 = 0x1000_0000_0000;

    fn kernel() -> KernelRecord {
        KernelRecord {
            arena_address: format!("{BASE:#018x}"),
            arena_size: 1 << 31,
            ours: KernelDetails::default(),
            ..fixture::kernel()
        }
    }

    /// A recording in Mneme's format: a variable of four bytes, allocations (address, before, after), one argument.
    fn record(folder: &Path, kind: AllocationKind, memory: &[(u64, Vec<u8>, Vec<u8>)]) {
        let store = StoreWriter::open(folder, 1).unwrap();
        let annotated = Tolerance { dtype: DataType::F64, threshold: 1e-9, ..Tolerance::default() };
        for moment in [Moment::Prologue, Moment::Epilogue] {
            let bytes = |(_, before, after): &(u64, Vec<u8>, Vec<u8>)| {
                if moment == Moment::Prologue { before.clone() } else { after.clone() }
            };
            let allocations = memory.iter().map(|it| Allocation {
                address: it.0,
                size: it.1.len() as u64,
                kind,
                tag: "out".into(),
                tolerance: Some(annotated),
                ..Allocation::default()
            });
            let header = Header {
                moment,
                variables: vec![RecordedVariable {
                    name: "v".into(),
                    address: 0x7f00_0000_0000,
                    size: 4,
                    constant: false,
                    code: false,
                    functions: Vec::new(),
                }],
                allocations: allocations.collect(),
                arguments: if moment == Moment::Prologue {
                    vec![RecordedArgument { offset: 0, bytes: vec![1, 2] }]
                } else {
                    vec![]
                },
                ..Header::default()
            };
            let mut chunks = vec![store.put_region(&[1, 2, 3, 4]).unwrap()];
            chunks.extend(memory.iter().map(|it| store.put_region(&bytes(it)).unwrap()));
            let name = if moment == Moment::Prologue { "p.mneme" } else { "e.mneme" };
            store.sync().unwrap();
            MemoryState { header, chunks }.save(&folder.join(name)).unwrap();
        }
        store.finish().unwrap();
        std::fs::write(folder.join("RecordedIR_42.bc"), "IR").unwrap();
        let instance = InstanceRecord { prologue: "p.mneme".into(), epilogue: "e.mneme".into(), ..fixture::instance() };
        add_instance(folder, &kernel(), "7", instance).unwrap();
    }

    fn contents(folder: &Path) -> (Moments, Vec<[Vec<u8>; 2]>) {
        let record = KernelRecord::load(&folder.join("42.json")).unwrap();
        let moments = Moments::open(folder, &record, &record.instances["7"]).unwrap();
        let store = moments.store(folder).unwrap();
        let read = |region: &RecordedRegion<'_>| {
            let mut bytes = vec![0xee; region.size as usize];
            store.read_region(region, &mut bytes).unwrap();
            bytes
        };
        let pairs = moments
            .prologue
            .regions()
            .zip(moments.epilogue.regions())
            .map(|(before, after)| [read(&before), read(&after)]);
        let pairs = pairs.collect();
        (moments, pairs)
    }

    /// Memory with scattered changes, some across chunk borders.
    fn memory(size: usize, changes: &[(usize, usize)]) -> (Vec<u8>, Vec<u8>) {
        let before: Vec<u8> =
            (0..size).map(|at| if at % (3 * CHUNK as usize) < CHUNK as usize { 0 } else { (at % 251) as u8 }).collect();
        let mut after = before.clone();
        for (at, length) in changes {
            let start = at % size;
            let end = (start + length).min(size);
            after[start..end].iter_mut().for_each(|byte| *byte ^= 0x55);
        }
        (before, after)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn what_is_written_is_read_again(
            size in 1usize..300_000,
            changes in proptest::collection::vec((any::<usize>(), 1usize..70_000), 0..6),
            format in prop::sample::select(vec![Format::Bytes, Format::Diff, Format::Best]),
        ) {
            let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let (before, after) = memory(size, &changes);
            let memory = [(BASE, before.clone(), after.clone()), (BASE + PAGE, vec![9; 5], vec![8; 5])];
            record(from.path(), AllocationKind::Arena, &memory);
            let outcome = export(from.path(), to.path(), 42, None, format).unwrap();
            let lengths = ["p.mneme", "e.mneme"].map(|name| to.path().join(name).metadata().unwrap().len());
            prop_assert_eq!(outcome, HousekeepingOutcome { instances: 1, bytes: lengths.iter().sum() });
            prop_assert!(format != Format::Best || lengths[1] <= lengths[0]);
            let (moments, pairs) = contents(to.path());
            prop_assert!(moments.are_upstreams());
            prop_assert_eq!(&moments.prologue.header, &contents(from.path()).0.prologue.header);
            prop_assert!(pairs == [[vec![1, 2, 3, 4], vec![1, 2, 3, 4]], [before, after], [vec![9; 5], vec![8; 5]]]);
            // Export again, from the exported files.
            let again = tempfile::tempdir().unwrap();
            export(to.path(), again.path(), 42, None, format).unwrap();
            for name in ["p.mneme", "e.mneme"] {
                let [one, other] = [&again, &to].map(|folder| std::fs::read(folder.path().join(name)).unwrap());
                prop_assert!(one == other);
            }
        }
    }

    #[test]
    fn buffers_of_one_page_become_one() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let memory = [
            (BASE + 1024, vec![3; 10], vec![4; 10]),
            (BASE + 512, vec![1; 4], vec![1; 4]),
            (BASE + PAGE - 512, vec![5; 1024], vec![6; 1024]),
        ];
        record(from.path(), AllocationKind::Arena, &memory);
        export(from.path(), to.path(), 42, None, Format::Diff).unwrap();
        let file = std::fs::read(to.path().join("e.mneme")).unwrap();
        let layout = FileLayout::parse(&file).unwrap();
        assert_eq!((layout.kind, layout.blobs.len()), (SnapshotKind::Diff, 1));
        let blob = &layout.blobs[0];
        assert_eq!((blob.address, blob.size, blob.reserved), (BASE, PAGE + 512, 2 * PAGE));
        assert_eq!(blob.annotation, Annotation::default(), "it would be all of theirs");
        assert_eq!(
            blob.stretches.iter().map(|it| (it.offset, it.bytes.len())).collect::<Vec<_>>(),
            [(1024, 10), (PAGE - 512, 1024)]
        );
        let (_, pairs) = contents(to.path());
        let [before, after] = &pairs[1];
        assert_eq!(
            (&before[512..516], &before[1024..1034], &before[1034..1040]),
            (&[1; 4][..], &[3; 10][..], &[0; 6][..])
        );
        assert!(before[PAGE as usize - 512..] == [5; 1024] && after[PAGE as usize - 512..] == [6; 1024]);
    }

    #[test]
    fn what_has_no_place_there_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        record(from.path(), AllocationKind::Vendor, &[(BASE, vec![1], vec![1])]);
        let error = export(from.path(), to.path(), 42, None, Format::Bytes).unwrap_err();
        assert!(matches!(error, RecordingError::NotUpstreams { what: NoPlace::OutsideArena { .. }, .. }), "{error}");
        let mut record = kernel();
        record.modules = vec!["RecordedPTX_42.ptx".into()];
        record.save(&from.path().join("42.json")).unwrap();
        let error = export(from.path(), to.path(), 42, None, Format::Bytes).unwrap_err();
        assert!(error.to_string().contains("bitcode"), "{error}");
    }

    /// The address range in the database, which the existing Mneme maps as one piece: (VAddr, VASize).
    fn named(folder: &Path) -> (String, u64) {
        let record = KernelRecord::load(&folder.join("42.json")).unwrap();
        (record.arena_address, record.arena_size)
    }

    #[test]
    fn the_database_names_what_the_memory_spans() {
        let to = tempfile::tempdir().unwrap();
        let recorded = |at: &[u64]| {
            let from = tempfile::tempdir().unwrap();
            let memory: Vec<_> = at.iter().map(|at| (*at, vec![1; 1000], vec![2; 1000])).collect();
            record(from.path(), AllocationKind::Arena, &memory);
            from
        };
        let renamed = |from: &Path, id: &str| {
            let mut kernel = KernelRecord::load(&from.join("42.json")).unwrap();
            let mut instance = kernel.instances.remove("7").unwrap();
            for name in [&mut instance.prologue, &mut instance.epilogue] {
                let new = format!("{id}.{name}");
                std::fs::rename(from.join(&*name), from.join(&new)).unwrap();
                *name = new;
            }
            kernel.instances.insert(id.into(), instance);
            kernel.save(&from.join("42.json")).unwrap();
        };
        let address = |at: u64| format!("{at:#018x}");
        // 512 of the buffer's 1,000 bytes are in the last page.
        let one = recorded(&[BASE + 5 * PAGE + 512, BASE + 8 * PAGE - 488]);
        export(one.path(), to.path(), 42, None, Format::Diff).unwrap();
        assert_eq!(named(to.path()), (address(BASE + 5 * PAGE), 4 * PAGE));
        let other = recorded(&[BASE + PAGE]);
        renamed(other.path(), "8");
        export(other.path(), to.path(), 42, None, Format::Bytes).unwrap();
        assert_eq!(named(to.path()), (address(BASE + PAGE), 8 * PAGE));
        // A copy of some instances names only their range.
        let copy = tempfile::tempdir().unwrap();
        housekeeping::copy(to.path(), copy.path(), 42, Some("8")).unwrap();
        assert_eq!(named(copy.path()), (address(BASE + PAGE), PAGE));
        housekeeping::copy(to.path(), copy.path(), 42, Some("7")).unwrap();
        assert_eq!(named(copy.path()), (address(BASE + PAGE), 8 * PAGE));
        // No GPU has enough memory for both.
        let far = recorded(&[BASE + (2 << 40)]);
        renamed(far.path(), "9");
        let error = export(far.path(), to.path(), 42, None, Format::Diff).unwrap_err();
        assert!(matches!(error, RecordingError::NotUpstreams { what: NoPlace::Span(_), .. }), "{error}");
        assert_eq!(KernelRecord::load(&to.path().join("42.json")).unwrap().instances.len(), 2);
        assert!(!to.path().join("9.p.mneme").exists());
        let nothing = recorded(&[]);
        let alone = tempfile::tempdir().unwrap();
        export(nothing.path(), alone.path(), 42, None, Format::Diff).unwrap();
        assert_eq!(named(alone.path()), (address(BASE), PAGE), "at least a page is mapped");
    }
}
