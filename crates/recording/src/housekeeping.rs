//! Removes, copies and moves recordings.
//!
//! Operations change only the instances and kernels that they name.

use std::collections::HashSet;
use std::io::BufRead;
use std::ops::Range;
use std::path::Path;

use mneme_model::hash::ChunkId;
use mneme_system::files::{LOCK, Temporary, regular};

use super::code::ORIGINAL;
use super::database::{self, Databases, InstanceRecord, KernelRecord};
use super::draft::Draft;
use super::manifest::{MemoryState, is_manifest};
use super::moments::Moments;
use super::pack::{self, PackReader, PackWriter};
use super::poison;
use super::publication::{self, CodeFiles, NewInstance, Publication};
use super::rules::Rules;
use super::store::{self, InUse, Store, StoreWriter, create_private_folder};
use super::upstream::span;
use crate::error::RecordingError;

/// zstd's level for chunks that are written again, when speed matters less.
const LEVEL: i32 = 9;

/// The result of an operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HousekeepingOutcome {
    pub instances: usize,
    /// Bytes of disk that were freed (remove) or written (copy).
    pub bytes: u64,
}

/// Removes an instance, or the kernel with all of its instances, and every chunk that becomes unused in the folder.
pub fn remove(folder: &Path, static_hash: u64, instance: Option<&str>) -> Result<HousekeepingOutcome, RecordingError> {
    let lock = database::lock(folder)?;
    let path = folder.join(format!("{static_hash}.json"));
    let mut record = KernelRecord::load(&path)?;
    let doomed: Vec<(String, InstanceRecord)> =
        record.chosen(&path, instance)?.into_iter().map(|(id, found)| (id.to_owned(), found.clone())).collect();
    for (id, _) in &doomed {
        record.instances.remove(id);
        poison::remove(&path, id).map_err(RecordingError::io(folder))?;
    }
    // The database first: after a crash in between, there may be unnamed files, but no names without files.
    let mut files: Vec<&String> =
        doomed.iter().flat_map(|(_, instance)| [&instance.prologue, &instance.epilogue]).collect();
    if record.instances.is_empty() {
        std::fs::remove_file(&path).map_err(RecordingError::io(&path))?;
        files.extend(record.modules.iter().chain(&record.binary_blobs));
        remove_if_there(&Rules::path(&path))?;
    } else {
        record.save(&path)?;
    }
    let mut bytes = 0;
    for name in files {
        let path = folder.join(name);
        bytes += std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
        remove_if_there(&path)?;
    }
    drop(lock);
    bytes += collect_garbage(folder)?;
    Ok(HousekeepingOutcome { instances: doomed.len(), bytes })
}

/// Copies an instance, or the kernel with all of its instances, with exactly the chunks and modules that it uses.
pub fn copy(
    from: &Path,
    to: &Path,
    static_hash: u64,
    instance: Option<&str>,
) -> Result<HousekeepingOutcome, RecordingError> {
    copy_changed(from, to, static_hash, instance, |_, _| {})
}

/// The same, but `change` modifies memory before and after the launch if it is in Mneme's own format.
pub fn copy_changed(
    from: &Path,
    to: &Path,
    static_hash: u64,
    instance: Option<&str>,
    change: impl Fn(&mut MemoryState, &mut MemoryState),
) -> Result<HousekeepingOutcome, RecordingError> {
    copy_rewritten(from, to, static_hash, instance, |_, _, prologue, epilogue| {
        change(prologue, epilogue);
        Ok(HashSet::new())
    })
}

/// The identities of all chunks stored.
pub type PutChunks = Result<HashSet<ChunkId>, RecordingError>;

/// The same with other contents: `change` puts chunks into the copy's store, and returns the identities of all chunks
/// it has put.
pub fn copy_rewritten(
    from: &Path,
    to: &Path,
    static_hash: u64,
    instance: Option<&str>,
    change: impl Fn(&Store, &StoreWriter, &mut MemoryState, &mut MemoryState) -> PutChunks,
) -> Result<HousekeepingOutcome, RecordingError> {
    let path = from.join(format!("{static_hash}.json"));
    let record = KernelRecord::load(&path)?;
    let chosen = record.chosen(&path, instance)?;
    create_private_folder(to)?;
    let mut bytes = 0;
    let mut databases = Databases::default();
    let mut own = None;
    for some in chosen.chunks(publication::MOST) {
        let mut copied = Vec::new();
        for (id, instance) in some {
            copied.push(copy_instance(from, to, &record, (id, instance), &mut own, &change)?);
        }
        if let Some((_, target)) = &own {
            target.sync()?;
        }
        bytes += publish_copies(from, to, &record, &mut databases, copied)?;
    }
    if let Some((_, target)) = &own {
        target.finish()?;
        bytes += target.written();
    }
    let rules = Rules::path(&path);
    if rules.try_exists().map_err(RecordingError::io(&rules))? {
        let contents = regular::read(&rules).map_err(RecordingError::io(&rules))?;
        database::write_atomically(&Rules::path(&to.join(record.file_name())), &contents)?;
        bytes += contents.len() as u64;
    }
    // Until here, a garbage collection must not remove the chunks, because the folder does not name them yet.
    drop(own);
    Ok(HousekeepingOutcome { instances: chosen.len(), bytes })
}

/// The chunks of a recording in Mneme's format, and those of its copy.
type Stores = (Store, StoreWriter);

/// A copy of an instance that is not in its folder yet.
struct CopiedInstance<'a> {
    id: String,
    instance: InstanceRecord,
    draft: Draft<'a>,
    /// The addresses of its memory, if its files are those of the existing Mneme.
    span: Option<Option<Range<u64>>>,
}

fn copy_instance<'a>(
    from: &Path,
    to: &'a Path,
    record: &KernelRecord,
    (id, instance): (&str, &InstanceRecord),
    own: &mut Option<Stores>,
    change: &impl Fn(&Store, &StoreWriter, &mut MemoryState, &mut MemoryState) -> PutChunks,
) -> Result<CopiedInstance<'a>, RecordingError> {
    let names = [&instance.prologue, &instance.epilogue];
    let mut draft = Draft::new(to);
    let mut moments = Moments::open(from, record, instance)?;
    let mut instance = instance.clone();
    if moments.are_upstreams() {
        for name in names {
            draft.add(name, |target| copy_file(&from.join(name), target))?;
        }
        let span = Some(span::of(&from.join(&instance.prologue))?);
        return Ok(CopiedInstance { id: id.into(), instance, draft, span });
    }
    let (source, target) = match own {
        Some(stores) => stores,
        none => none.insert((Store::open(from)?, StoreWriter::open(to, LEVEL)?)),
    };
    let mut copied = change(source, target, &mut moments.prologue, &mut moments.epilogue)?;
    instance.ours.memory_bytes = moments.prologue.memory_bytes();
    for (name, state) in names.into_iter().zip([moments.prologue, moments.epilogue]) {
        copy_chunks(source, target, &state, &mut copied)?;
        draft.add_state(name, &state)?;
    }
    Ok(CopiedInstance { id: id.into(), instance, draft, span: None })
}

/// Adds copies to their folder; returns the number of bytes written.
fn publish_copies<'a>(
    from: &Path,
    to: &'a Path,
    record: &KernelRecord,
    databases: &mut Databases,
    copied: Vec<CopiedInstance<'a>>,
) -> Result<u64, RecordingError> {
    let spans: Vec<_> = copied.iter().map(|it| it.span.clone()).collect();
    let copies: Vec<(String, InstanceRecord)> = copied.iter().map(|it| (it.id.clone(), it.instance.clone())).collect();
    let new = copied.into_iter().map(|CopiedInstance { id, instance, draft, .. }| NewInstance {
        draft,
        kernel: record,
        id,
        instance,
        replaces: false,
    });
    let (outcomes, failure) = publication::publish(to, databases, new.collect(), |there, indices, code| {
        let spans = indices.iter().filter_map(|index| spans[*index].clone());
        if let Some(all) = spans.reduce(span::joined) {
            span::include(to, there, all)?;
        }
        let mut bytes = 0;
        let mut is_known = !there.instances.is_empty();
        for index in indices {
            bytes += copy_code(from, record, &copies[*index].1, is_known, code)?;
            is_known = true;
        }
        Ok(bytes)
    });
    if let Some(failure) = failure {
        return Err(failure);
    }
    let mut bytes = 0;
    for (outcome, (id, instance)) in outcomes.into_iter().zip(&copies) {
        match outcome {
            Publication::Added(written) => bytes += written,
            Publication::Known | Publication::Failed => check_same(from, to, record, id, instance)?,
        }
    }
    Ok(bytes)
}

/// Copies a kernel's code and the application's code. If the kernel is new to the folder, overwrites existing code of
/// the kernel.
fn copy_code(
    from: &Path,
    record: &KernelRecord,
    instance: &InstanceRecord,
    is_known: bool,
    code: &mut CodeFiles<'_>,
) -> Result<u64, RecordingError> {
    let mut bytes = 0;
    let original = instance.ours.original.iter().map(|code| &code.file);
    for name in record.modules.iter().chain(&record.binary_blobs).chain(original) {
        // A file that is named by its contents is the same everywhere.
        if (is_known || name.starts_with(ORIGINAL)) && code.contains(name)? {
            continue;
        }
        let contents = regular::read(&from.join(name)).map_err(RecordingError::io(from.join(name)))?;
        code.add(name, &contents)?;
        bytes += contents.len() as u64;
    }
    Ok(bytes)
}

/// Refuses to copy an instance if the folder has the same instance from another recording.
fn check_same(
    from: &Path,
    to: &Path,
    record: &KernelRecord,
    id: &str,
    instance: &InstanceRecord,
) -> Result<(), RecordingError> {
    let path = to.join(record.file_name());
    let there = KernelRecord::load(&path)?;
    let (_, known) = there.instance(&path, Some(id))?;
    for (name, other) in [(&instance.prologue, &known.prologue), (&instance.epilogue, &known.epilogue)] {
        let (path_of_it, other) = (from.join(name), to.join(other));
        let is_same = match (is_manifest(&path_of_it)?, is_manifest(&other)?) {
            (true, true) => MemoryState::load(&path_of_it)? == MemoryState::load(&other)?,
            (false, false) => have_equal_contents(&path_of_it, &other)?,
            _ => false,
        };
        if !is_same {
            return Err(RecordingError::Taken { path, instance: id.into() });
        }
    }
    Ok(())
}

fn have_equal_contents(one: &Path, other: &Path) -> Result<bool, RecordingError> {
    let open = |path: &Path| regular::open(path).map(std::io::BufReader::new).map_err(RecordingError::io(path));
    let (mut first, mut second) = (open(one)?, open(other)?);
    loop {
        let a = first.fill_buf().map_err(RecordingError::io(one))?;
        let b = second.fill_buf().map_err(RecordingError::io(other))?;
        let length = a.len().min(b.len());
        if length == 0 || a[..length] != b[..length] {
            return Ok(a.is_empty() && b.is_empty());
        }
        first.consume(length);
        second.consume(length);
    }
}

/// Calls [`copy`], then [`remove`] on the source.
pub fn move_to(
    from: &Path,
    to: &Path,
    static_hash: u64,
    instance: Option<&str>,
) -> Result<HousekeepingOutcome, RecordingError> {
    let same = matches!((std::fs::canonicalize(from), std::fs::canonicalize(to)), (Ok(from), Ok(to)) if from == to);
    if same {
        return Ok(HousekeepingOutcome::default());
    }
    // Check first, to avoid a leftover copy.
    super::store::check_writable(from)?;
    let outcome = copy(from, to, static_hash, instance)?;
    remove(from, static_hash, instance)?;
    Ok(outcome)
}

/// Copies a file of any size; returns its length, bytes.
fn copy_file(from: &Path, target: &mut std::fs::File) -> Result<u64, RecordingError> {
    let mut source = regular::open(from).map_err(RecordingError::io(from))?;
    std::io::copy(&mut source, target).map_err(RecordingError::io(from))
}

/// Copies the chunks of a state that are missing in `done`, and adds them to it.
fn copy_chunks(
    source: &Store,
    target: &StoreWriter,
    state: &MemoryState,
    done: &mut HashSet<ChunkId>,
) -> Result<(), RecordingError> {
    let mut buffer = Vec::new();
    for region in state.regions() {
        for (index, id) in region.chunks.iter().enumerate() {
            if id.is_zero() || !done.insert(*id) {
                continue;
            }
            buffer.resize(region.extent(index).1 as usize, 0);
            source.read_chunk(id, &mut buffer)?;
            target.put(&buffer)?;
        }
    }
    Ok(())
}

/// Drops chunks that no manifest of the folder names, and applications' code that no instance names. Packs without a
/// live chunk are deleted; mostly dead packs are rewritten. Returns the bytes freed: 0 while a recorder writes to the
/// folder, as the next collection will free them.
pub fn collect_garbage(folder: &Path) -> Result<u64, RecordingError> {
    let _lock = database::lock(folder)?;
    let packs = folder.join(store::FOLDER);
    let mut freed = 0;
    if packs.is_dir() {
        let Some(_alone) = InUse::alone(&packs)? else { return Ok(0) };
        freed = drop_dead_chunks(folder, &packs)?;
    }
    // The lock held here also protects code and the database that names it.
    freed += drop_unnamed_code(folder)?;
    freed += Temporary::remove_abandoned(folder).map_err(RecordingError::io(folder))?;
    // The last recording's removal also removes Mneme's own files.
    if database::kernels(folder)?.is_empty() && manifests(folder)?.is_empty() {
        let _ = std::fs::remove_dir(&packs);
        let _ = std::fs::remove_file(folder.join(LOCK));
    }
    Ok(freed)
}

fn drop_dead_chunks(folder: &Path, packs: &Path) -> Result<u64, RecordingError> {
    let mut live: HashSet<ChunkId> = HashSet::new();
    for path in manifests(folder)? {
        // Snapshots of the existing Mneme do not use chunks.
        if is_manifest(&path)? {
            live.extend(MemoryState::load(&path)?.chunks.into_iter().flatten());
        }
    }
    let mut freed = 0;
    for path in pack::files(packs)? {
        let (reader, entries) = PackReader::open(&path)?;
        let size = std::fs::metadata(&path).map_err(RecordingError::io(&path))?.len();
        let (alive, dead): (Vec<_>, Vec<_>) = entries.into_iter().partition(|(id, _)| live.contains(id));
        let weight = |entries: &[(ChunkId, pack::ChunkLocation)]| {
            entries.iter().map(|(_, location)| u64::from(location.stored)).sum::<u64>()
        };
        if dead.is_empty() || (!alive.is_empty() && weight(&dead) * 4 < weight(&alive)) {
            continue;
        }
        freed += size;
        if !alive.is_empty() {
            let mut writer = PackWriter::create(packs, LEVEL)?;
            let mut buffer = Vec::new();
            freed = freed.saturating_sub(pack_overhead(alive.len()));
            for (id, location) in &alive {
                buffer.resize(location.raw as usize, 0);
                reader.read(id, location, &mut buffer)?;
                freed = freed.saturating_sub(writer.append(id, &buffer)?);
            }
            writer.finish()?;
            // Sync the new pack's name before removing the old one.
            let _ = std::fs::File::open(packs).and_then(|packs| packs.sync_all());
        }
        std::fs::remove_file(&path).map_err(RecordingError::io(&path))?;
    }
    Ok(freed)
}

/// Deletes applications' code that no instance names any more; several kernels may share a file. Keeps everything if
/// one of the databases cannot be read.
fn drop_unnamed_code(folder: &Path) -> Result<u64, RecordingError> {
    let mut named = HashSet::new();
    for path in database::kernels(folder)? {
        let Ok(record) = KernelRecord::load(&path) else { return Ok(0) };
        named.extend(record.instances.into_values().flat_map(|instance| instance.ours.original).map(|code| code.file));
    }
    let mut freed = 0;
    for entry in std::fs::read_dir(folder).map_err(RecordingError::io(folder))? {
        let path = entry.map_err(RecordingError::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with(ORIGINAL) && !named.contains(name) {
            freed += std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            remove_if_there(&path)?;
        }
    }
    Ok(freed)
}

/// Bytes of header, index and trailer of a pack with `chunks` chunks.
fn pack_overhead(chunks: usize) -> u64 {
    16 + 24 + 24 + 32 * chunks as u64
}

/// Every manifest in the folder, including those that no database names yet: a recorder may be about to add the name.
fn manifests(folder: &Path) -> Result<Vec<std::path::PathBuf>, RecordingError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(RecordingError::io(folder))? {
        let path = entry.map_err(RecordingError::io(folder))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.starts_with("DeviceState.") && name.ends_with(".mneme") {
            found.push(path);
        }
    }
    Ok(found)
}

fn remove_if_there(path: &Path) -> Result<(), RecordingError> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(RecordingError::io(path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::{InstanceDetails, KernelDetails, add_instance};
    use crate::manifest::{Allocation, AllocationKind, CHUNK, Header};
    use mneme_model::launch::{Dim3, Moment};

    /// Memory of three chunks: one shared by all seeds, one unique, one zero.
    fn memory(seed: u8) -> Vec<u8> {
        let mut bytes = vec![0; 3 * CHUNK as usize - 100];
        bytes[..CHUNK as usize].fill(0xaa);
        for (index, byte) in bytes[CHUNK as usize..2 * CHUNK as usize].iter_mut().enumerate() {
            *byte = (index as u8).wrapping_mul(seed) ^ (index >> 8) as u8;
        }
        bytes
    }

    #[test]
    fn what_writers_have_left_that_were_killed_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let age = |name: &str| {
            let file = std::fs::File::options().write(true).open(path(name)).unwrap();
            file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(3600)).unwrap();
        };
        for name in [".7.json.1f-30-0.tmp", ".7.json.2f-30-1.tmp", "notes.tmp", ".hidden"] {
            std::fs::write(path(name), [1; 100]).unwrap();
        }
        [".7.json.1f-30-0.tmp", "notes.tmp", ".hidden"].into_iter().for_each(age);
        let (written, ()) = database::write_temporary(&path("8.json"), |_| Ok(())).unwrap();
        let names = || {
            let entries = std::fs::read_dir(folder.path()).unwrap();
            let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.retain(|name| name != LOCK);
            names.sort_unstable();
            names
        };
        let own = names().into_iter().find(|name| name.starts_with(".8.json.")).unwrap();
        age(&own);
        assert_eq!(collect_garbage(folder.path()).unwrap(), 100);
        let others = [".7.json.2f-30-1.tmp", own.as_str(), ".hidden", "notes.tmp"];
        assert_eq!(names(), others, "one that is new, one that is being written, and files of others");
        written.take_name().unwrap();
        assert_eq!(names(), [".7.json.2f-30-1.tmp", ".hidden", "8.json", "notes.tmp"]);
    }

    #[test]
    fn what_a_recorder_is_writing_is_no_garbage() {
        let folder = tempfile::tempdir().unwrap();
        let store = StoreWriter::open(folder.path(), 1).unwrap();
        let chunk = [7; 100];
        let id = store.put(&chunk).unwrap();
        store.sync().unwrap();
        assert_eq!(collect_garbage(folder.path()).unwrap(), 0);
        assert!(Store::open(folder.path()).unwrap().contains(&id));
        drop(store);
        // A process that another test starts holds the lock until it executes its program.
        let removes = || collect_garbage(folder.path()).unwrap() > 0;
        assert!((0..500).any(|_| removes() || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            false
        }));
        assert!(!Store::open(folder.path()).unwrap().contains(&id));
    }

    fn record(folder: &Path, static_hash: u64, seed: u8) -> String {
        let store = StoreWriter::open(folder, 1).unwrap();
        let bytes = memory(seed);
        let id = seed.to_string();
        let mut names = Vec::new();
        for moment in [Moment::Prologue, Moment::Epilogue] {
            let allocation = Allocation {
                address: 0x1000,
                size: bytes.len() as u64,
                kind: AllocationKind::Arena,
                ..Allocation::default()
            };
            let header = Header { moment, allocations: vec![allocation], ..Header::default() };
            let state = MemoryState { header, chunks: vec![store.put_region(&bytes).unwrap()] };
            store.sync().unwrap();
            let name = format!(
                "DeviceState.{}.{static_hash}.{id}.mneme",
                if moment == Moment::Prologue { "prologue" } else { "epilogue" }
            );
            state.save(&folder.join(&name)).unwrap();
            names.push(name);
        }
        store.finish().unwrap();
        let module = format!("RecordedIR_{static_hash}.bc");
        std::fs::write(folder.join(&module), b"BC").unwrap();
        let kernel = KernelRecord {
            static_hash,
            arena_address: String::new(),
            arena_size: 0,
            kernel_name: "k".into(),
            demangled_name: "k".into(),
            modules: vec![module],
            binary_blobs: vec![],
            arg_names: vec![],
            specializations: vec![],
            instances: Default::default(),
            ours: KernelDetails::default(),
        };
        let instance = InstanceRecord {
            prologue: names[0].clone(),
            epilogue: names[1].clone(),
            block_dims: Dim3::default(),
            grid_dims: Dim3::default(),
            shared_mem: 0,
            args: vec![],
            occurrences: 1,
            ours: InstanceDetails::default(),
        };
        add_instance(folder, &kernel, &id, instance).unwrap();
        id
    }

    #[test]
    fn code_that_several_instances_share_goes_with_the_last_of_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = crate::CodeKind::Cubin.original(7);
        for (static_hash, seed) in [(42, 3), (42, 5), (43, 7)] {
            let id = record(folder.path(), static_hash, seed);
            let path = folder.path().join(format!("{static_hash}.json"));
            let mut kernel = KernelRecord::load(&path).unwrap();
            let code = database::CodeFile { file: file.clone(), checksum: 7 };
            kernel.instances.get_mut(&id).unwrap().ours.original.push(code);
            kernel.save(&path).unwrap();
        }
        let code = folder.path().join(&file);
        std::fs::write(&code, b"code").unwrap();
        let other = tempfile::tempdir().unwrap();
        copy(folder.path(), other.path(), 42, Some("3")).unwrap();
        assert_eq!(std::fs::read(other.path().join(&file)).unwrap(), b"code");
        remove(folder.path(), 42, None).unwrap();
        assert!(code.exists());
        remove(folder.path(), 43, None).unwrap();
        // A child that another test has just forked holds these locks until it executes its program.
        assert!((0..500).any(|_| {
            collect_garbage(folder.path()).unwrap();
            !code.exists() || {
                std::thread::sleep(std::time::Duration::from_millis(10));
                false
            }
        }));
    }

    fn check(folder: &Path, static_hash: u64, seed: u8) {
        let path = folder.join(format!("{static_hash}.json"));
        let kernel = KernelRecord::load(&path).unwrap();
        let (_, instance) = kernel.instance(&path, Some(&seed.to_string())).unwrap();
        let store = Store::open(folder).unwrap();
        for name in [&instance.prologue, &instance.epilogue] {
            let state = MemoryState::load(&folder.join(name)).unwrap();
            let region = state.regions().next().unwrap();
            let mut out = vec![1; region.size as usize];
            store.read_region(&region, &mut out).unwrap();
            assert!(out == memory(seed));
        }
        assert!(folder.join(&kernel.modules[0]).exists());
    }

    #[test]
    fn removing_one_recording_keeps_the_chunks_that_another_uses() {
        let folder = tempfile::tempdir().unwrap();
        for seed in [3, 5, 7] {
            record(folder.path(), 42, seed);
        }
        record(folder.path(), 43, 3);
        remove(folder.path(), 42, Some("3")).unwrap();
        check(folder.path(), 42, 5);
        check(folder.path(), 43, 3);
        remove(folder.path(), 42, None).unwrap();
        check(folder.path(), 43, 3);
        assert!(!folder.path().join("42.json").exists() && !folder.path().join("RecordedIR_42.bc").exists());
        let outcome = remove(folder.path(), 43, None).unwrap();
        assert_eq!(outcome.instances, 1);
        // A child that another test has just forked holds these locks until it executes its program.
        for _ in 0..500 {
            collect_garbage(folder.path()).unwrap();
            if std::fs::read_dir(folder.path()).unwrap().count() == 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("something is left of the last recording");
    }

    #[test]
    fn a_copy_carries_what_is_referenced_and_a_move_leaves_nothing() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        record(from.path(), 42, 3);
        record(from.path(), 42, 5);
        let to = to.path().join("new");
        assert_eq!(copy(from.path(), &to, 42, Some("5")).unwrap().instances, 1);
        check(&to, 42, 5);
        let store = Store::open(&to).unwrap();
        let others = MemoryState::load(&from.path().join("DeviceState.prologue.42.3.mneme")).unwrap();
        assert!(
            !others.chunks.iter().flatten().all(|id| store.contains(id)),
            "chunks of the other instance stayed behind"
        );
        move_to(from.path(), &to, 42, None).unwrap();
        check(&to, 42, 3);
        check(&to, 42, 5);
        assert!(database::kernels(from.path()).unwrap().is_empty());
    }

    #[test]
    fn a_copy_over_another_recording_of_the_instance_is_refused() {
        let (from, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        record(from.path(), 42, 3);
        copy(from.path(), to.path(), 42, None).unwrap();
        copy(from.path(), to.path(), 42, None).unwrap();
        // Instance 3 with another instance's memory.
        record(from.path(), 42, 5);
        for moment in ["prologue", "epilogue"] {
            let name = |seed| from.path().join(format!("DeviceState.{moment}.42.{seed}.mneme"));
            std::fs::copy(name(5), name(3)).unwrap();
        }
        assert!(matches!(move_to(from.path(), to.path(), 42, Some("3")), Err(RecordingError::Taken { .. })));
        check(to.path(), 42, 3);
        assert!(
            KernelRecord::load(&from.path().join("42.json")).unwrap().instances.contains_key("3"),
            "it is still there"
        );
    }
}
