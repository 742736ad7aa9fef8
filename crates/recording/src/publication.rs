//! Publishes instances: adds them to a folder, several at a time.
//!
//! A disk takes milliseconds to make a file durable, even a small one, but hardly longer for several files at once.
//! [`publish`] therefore takes all instances that are ready, syncs their files in parallel, and writes each kernel's
//! database once.
//!
//! [`publish`] gives the files of a [`Draft`] their final names while it holds the folder's lock, and only if the
//! database lacks the instance. So if two writers record the same instance, the first one wins, and prologue and
//! epilogue are always from the same writer. A crash leaves at most files that no database names.

use std::collections::{BTreeMap, HashSet};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use mneme_system::files::{Temporary, regular};

use super::database::{self, Databases, InstanceRecord, KernelRecord};
use super::draft::Draft;
use crate::error::RecordingError;

/// The maximum number of instances to publish at a time: each has two open files, and an application's limit may be
/// low.
pub const MOST: usize = 32;

/// An instance with completely written files.
pub struct NewInstance<'a> {
    pub draft: Draft<'a>,
    pub kernel: &'a KernelRecord,
    pub id: String,
    pub instance: InstanceRecord,
    /// Replaces an existing instance with this id in the folder. The new files have different names.
    pub replaces: bool,
}

/// The result for a new instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Publication {
    /// Added to the folder, with this many bytes.
    Added(u64),
    /// The folder already has it; it does not change.
    Known,
    Failed,
}

/// Adds instances to a folder. Returns the result for each, in order, and the first error.
///
/// `prepare` is called for each kernel with new instances. It receives the kernel's record, which it may change, and
/// the instances' indices. It adds the kernel's other files to the folder (its code), and returns their size in bytes.
pub fn publish<'a>(
    folder: &'a Path,
    databases: &mut Databases,
    new: Vec<NewInstance<'a>>,
    prepare: impl FnMut(&mut KernelRecord, &[usize], &mut CodeFiles<'a>) -> Result<u64, RecordingError>,
) -> (Vec<Publication>, Option<RecordingError>) {
    let mut outcomes = vec![Publication::Failed; new.len()];
    let failure = add(folder, databases, new, prepare, &mut outcomes).err();
    (outcomes, failure)
}

/// A kernel that gets new instances.
struct Growing {
    record: KernelRecord,
    /// The indices of the new instances.
    indices: Vec<usize>,
    /// The instances to replace.
    replaced: Vec<InstanceRecord>,
    /// Bytes of code written for the kernel.
    bytes: u64,
}

fn add<'a>(
    folder: &'a Path,
    databases: &mut Databases,
    new: Vec<NewInstance<'a>>,
    mut prepare: impl FnMut(&mut KernelRecord, &[usize], &mut CodeFiles<'a>) -> Result<u64, RecordingError>,
    outcomes: &mut [Publication],
) -> Result<(), RecordingError> {
    database::sync(new.iter().flat_map(|it| it.draft.files()))?;
    let _lock = database::lock(folder)?;
    let mut growing = new_by_kernel(folder, databases, &new, outcomes)?;
    let mut code = CodeFiles { folder, files: BTreeMap::new(), links: Vec::new() };
    for kernel in &mut growing {
        kernel.bytes = prepare(&mut kernel.record, &kernel.indices, &mut code)?;
    }
    code.take_names()?;
    let mut new: Vec<Option<NewInstance<'a>>> = new.into_iter().map(Some).collect();
    let mut bytes = vec![0; new.len()];
    for kernel in &mut growing {
        for index in &kernel.indices {
            let Some(NewInstance { draft, id, instance, .. }) = new[*index].take() else { continue };
            bytes[*index] = draft.take_names()?;
            kernel.replaced.extend(kernel.record.instances.insert(id, instance));
        }
        if let Some(first) = kernel.indices.first() {
            bytes[*first] += kernel.bytes;
        }
    }
    // Sync the names before writing references to them; a file system that cannot sync a folder keeps them in order by
    // itself.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    let write = |kernel: &mut Growing| {
        let path = folder.join(kernel.record.file_name());
        let text = kernel.record.encode();
        let written = database::write_temporary(&path, |file| file.write_all(&text).map_err(RecordingError::io(&path)));
        written.map(|(file, ())| file)
    };
    let written: Vec<Temporary> = growing.iter_mut().map(write).collect::<Result<_, _>>()?;
    database::sync(&written)?;
    for (file, kernel) in written.into_iter().zip(growing) {
        let path = file.path().to_owned();
        file.take_name().map_err(RecordingError::io(path))?;
        kernel.indices.iter().for_each(|index| outcomes[*index] = Publication::Added(bytes[*index]));
        // The replaced files are unreferenced now.
        for name in kernel.replaced.iter().flat_map(|old| [&old.prologue, &old.epilogue]) {
            let _ = std::fs::remove_file(folder.join(name));
        }
        databases.keep(folder, kernel.record);
    }
    Ok(())
}

/// The instances that the folder lacks, by kernel.
fn new_by_kernel(
    folder: &Path,
    databases: &mut Databases,
    new: &[NewInstance<'_>],
    outcomes: &mut [Publication],
) -> Result<Vec<Growing>, RecordingError> {
    let mut kernels: BTreeMap<u64, Growing> = BTreeMap::new();
    let mut ids = HashSet::new();
    for (index, it) in new.iter().enumerate() {
        let hash = it.kernel.static_hash;
        if let std::collections::btree_map::Entry::Vacant(place) = kernels.entry(hash) {
            let record = databases.take(folder, it.kernel)?;
            place.insert(Growing { record, indices: Vec::new(), replaced: Vec::new(), bytes: 0 });
        }
        let Some(kernel) = kernels.get_mut(&hash) else { continue };
        let is_there = kernel.record.instances.contains_key(&it.id) || !ids.insert((hash, &it.id));
        if is_there && !it.replaces {
            outcomes[index] = Publication::Known;
        } else {
            kernel.indices.push(index);
        }
    }
    let (growing, known): (Vec<Growing>, Vec<Growing>) =
        kernels.into_values().partition(|kernel| !kernel.indices.is_empty());
    known.into_iter().for_each(|kernel| databases.keep(folder, kernel.record));
    Ok(growing)
}

/// Files of code for a folder. Several kernels may share a file, or have files with the same contents.
pub struct CodeFiles<'a> {
    folder: &'a Path,
    files: BTreeMap<String, Temporary>,
    /// Files, and additional names for them.
    links: Vec<(String, String)>,
}

impl CodeFiles<'_> {
    /// Whether the folder has a file with this name, or will get one.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn contains(&self, name: &str) -> Result<bool, RecordingError> {
        Ok(self.files.contains_key(name) || self.links.iter().any(|(_, link)| link == name) || self.is_there(name)?)
    }

    /// Whether the folder has a file with this name that will certainly stay.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn is_there(&self, name: &str) -> Result<bool, RecordingError> {
        let path = self.path(name);
        path.try_exists().map_err(RecordingError::io(&path))
    }

    /// Writes a file, replacing an existing one.
    ///
    /// # Errors
    /// The folder cannot be written to, or is full.
    pub fn add(&mut self, name: &str, bytes: &[u8]) -> Result<(), RecordingError> {
        let path = self.path(name);
        let (file, ()) =
            database::write_temporary(&path, |file| file.write_all(bytes).map_err(RecordingError::io(&path)))?;
        self.files.insert(name.to_owned(), file);
        Ok(())
    }

    /// Gives a file another name, replacing an existing file. Files of a recording never change once written, so two
    /// names for one file are as good as two files.
    pub fn link(&mut self, file: &str, name: &str) {
        if file != name {
            self.links.push((file.to_owned(), name.to_owned()));
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn take_names(self) -> Result<(), RecordingError> {
        database::sync(self.files.values())?;
        for (name, file) in self.files {
            file.take_name().map_err(RecordingError::io(self.folder.join(name)))?;
        }
        for (file, name) in self.links {
            let [file, name] = [file, name].map(|name| self.folder.join(name));
            let _ = std::fs::remove_file(&name);
            // Some file systems do not support hard links, others limit their number.
            if std::fs::hard_link(&file, &name).is_err() {
                let contents = regular::read(&file).map_err(RecordingError::io(&file))?;
                database::write_atomically(&name, &contents)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, instance};
    use crate::manifest::{Allocation, AllocationKind, Header, MemoryState, RecordedArgument, pair};
    use crate::store::StoreWriter;
    use crate::{Moments, integrity};
    use mneme_model::launch::Moment;

    const NAMES: [&str; 2] = ["DeviceState.prologue.42.7.mneme", "DeviceState.epilogue.42.7.mneme"];

    /// A kernel whose code may be missing.
    fn kernel() -> KernelRecord {
        KernelRecord { modules: vec![], ..fixture::kernel() }
    }

    /// A writer's memory, before and after.
    fn states(folder: &Path, writer: u8, address: u64) -> [MemoryState; 2] {
        let store = StoreWriter::open(folder, 1).unwrap();
        let [mut before, mut after] = [(Moment::Prologue, 1), (Moment::Epilogue, 2)].map(|(moment, step)| {
            let allocation = Allocation { address, size: 100, kind: AllocationKind::Arena, ..Allocation::default() };
            let arguments = if moment == Moment::Prologue {
                vec![RecordedArgument { offset: 0, bytes: vec![writer] }]
            } else {
                vec![]
            };
            let chunks = vec![store.put_region(&[writer * 16 + step; 100]).unwrap()];
            MemoryState {
                header: Header { moment, allocations: vec![allocation], arguments, ..Header::default() },
                chunks,
            }
        });
        store.finish().unwrap();
        pair(&mut before, &mut after);
        [before, after]
    }

    fn draft<'a>(folder: &'a Path, states: &[MemoryState; 2]) -> Draft<'a> {
        let mut draft = Draft::new(folder);
        for (name, state) in NAMES.iter().zip(states) {
            draft.add_state(name, state).unwrap();
        }
        draft
    }

    fn new<'a>(draft: Draft<'a>, kernel: &'a KernelRecord, id: &str) -> NewInstance<'a> {
        NewInstance { draft, kernel, id: id.into(), instance: instance(), replaces: false }
    }

    /// Whether the instance was added.
    fn publish<'a>(folder: &'a Path, draft: Draft<'a>) -> bool {
        let kernel = kernel();
        let (outcomes, failure) =
            super::publish(folder, &mut Databases::default(), vec![new(draft, &kernel, "7")], |_, _, _| Ok(0));
        assert!(failure.is_none(), "{failure:?}");
        matches!(outcomes[..], [Publication::Added(bytes)] if bytes > 0)
    }

    #[test]
    fn of_two_writers_the_first_has_the_instance_with_both_halves() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [1, 2].map(|writer| states(folder.path(), writer, 0x1000));
        let (first, second) = (draft(folder.path(), &one), draft(folder.path(), &other));
        assert!(!folder.path().join(NAMES[0]).exists(), "nothing is there before all of it is");
        assert!(publish(folder.path(), second));
        assert!(!publish(folder.path(), first));
        let moments = Moments::open(folder.path(), &kernel(), &instance()).unwrap();
        assert_eq!([moments.prologue, moments.epilogue], other);
        assert_eq!(integrity::check(folder.path()).unwrap().instances, 1);
        let hidden = std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|it| it.as_ref().unwrap().path().extension().is_some_and(|it| it == "tmp"));
        assert_eq!(hidden.count(), 0, "what lost is removed");
    }

    #[test]
    fn an_instance_may_take_the_place_of_another() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [1, 2].map(|writer| states(folder.path(), writer, 0x1000));
        let kernel = kernel();
        let names = NAMES.map(|name| name.replace(".mneme", ".further.mneme"));
        let further = || {
            let mut draft = Draft::new(folder.path());
            names.iter().zip(&other).for_each(|(name, state)| _ = draft.add_state(name, state).unwrap());
            let [prologue, epilogue] = names.clone();
            let instance = InstanceRecord { prologue, epilogue, ..instance() };
            NewInstance { instance, replaces: true, ..new(draft, &kernel, "7") }
        };
        // Both at once, and one after the other.
        for batches in [
            vec![vec![new(draft(folder.path(), &one), &kernel, "7"), further()]],
            vec![vec![new(draft(folder.path(), &one), &kernel, "7")], vec![further()]],
        ] {
            for batch in batches {
                let (outcomes, failure) =
                    super::publish(folder.path(), &mut Databases::default(), batch, |_, _, _| Ok(0));
                assert!(failure.is_none() && outcomes.iter().all(|outcome| matches!(outcome, Publication::Added(_))));
            }
            let record = KernelRecord::load(&folder.path().join("42.json")).unwrap();
            let moments = Moments::open(folder.path(), &kernel, &record.instances["7"]).unwrap();
            assert_eq!([moments.prologue, moments.epilogue], other);
            assert!(NAMES.iter().all(|name| !folder.path().join(name).exists()), "what nothing names is removed");
            std::fs::remove_file(folder.path().join("42.json")).unwrap();
        }
    }

    #[test]
    fn many_writers_at_once_leave_one_whole_instance() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<[MemoryState; 2]> = (1..9).map(|writer| states(folder.path(), writer, 0x1000)).collect();
        let winners = std::thread::scope(|scope| {
            let threads: Vec<_> =
                all.iter().map(|states| scope.spawn(|| publish(folder.path(), draft(folder.path(), states)))).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        });
        assert_eq!(winners, 1);
        let report = integrity::check(folder.path()).unwrap();
        assert!(report.problems.is_empty() && report.instances == 1, "{report:?}");
    }

    /// One instance twice, and one that the folder has; other writers add to the database in between.
    #[test]
    fn instances_of_several_kernels_are_published_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let kernels = [kernel(), KernelRecord { static_hash: 43, ..kernel() }];
        let mut databases = Databases::default();
        let mut prepared = Vec::new();
        let mut publish = |batch: &[(usize, u32)]| {
            let add = |(kernel, id): &(usize, u32)| {
                let mut draft = Draft::new(path);
                let name = format!("DeviceState.prologue.{kernel}.{id}.mneme");
                draft
                    .add(&name, |file| file.write_all(b"state").map(|()| 5).map_err(RecordingError::io(path)))
                    .unwrap();
                new(draft, &kernels[*kernel], &id.to_string())
            };
            let new = batch.iter().map(add).collect();
            let (outcomes, failure) = super::publish(path, &mut databases, new, |there, indices, code| {
                let name = format!("RecordedIR_{}.bc", there.static_hash);
                prepared.push((there.static_hash, indices.len()));
                match code.contains("RecordedIR_42.bc")? {
                    true => code.link("RecordedIR_42.bc", &name),
                    false => code.add(&name, b"BC")?,
                }
                Ok(2)
            });
            assert!(failure.is_none(), "{failure:?}");
            outcomes
        };
        use Publication::{Added, Known};
        assert_eq!(publish(&[(0, 1), (1, 1), (0, 2), (0, 1)]), [Added(7), Added(7), Added(5), Known]);
        let many: Vec<(usize, u32)> = (3..40).map(|id| (0, id)).collect();
        assert!(publish(&many).iter().all(|outcome| matches!(outcome, Added(_))));
        database::add_instance(path, &kernels[0], "77", instance()).unwrap();
        assert_eq!(publish(&[(0, 77), (0, 78), (1, 1)]), [Known, Added(7), Known]);
        assert_eq!(prepared, [(42, 2), (43, 1), (42, 37), (42, 1)]);
        let load = |hash: u64| KernelRecord::load(&path.join(format!("{hash}.json"))).unwrap().instances.len();
        assert_eq!([load(42), load(43)], [41, 1]);
        assert_eq!(std::fs::read(path.join("RecordedIR_43.bc")).unwrap(), b"BC");
    }

    #[test]
    fn what_fails_is_said_of_every_instance() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("42.json"), "{").unwrap();
        let [one, other] = [1, 2].map(|writer| states(folder.path(), writer, 0x1000));
        let kernel = kernel();
        let batch =
            vec![new(draft(folder.path(), &one), &kernel, "7"), new(draft(folder.path(), &other), &kernel, "8")];
        let (outcomes, failure) = super::publish(folder.path(), &mut Databases::default(), batch, |_, _, _| Ok(0));
        assert_eq!(outcomes, [Publication::Failed; 2]);
        assert!(matches!(failure, Some(RecordingError::Damaged { .. })));
        assert!(!folder.path().join(NAMES[0]).exists());
    }

    #[test]
    fn halves_of_two_recordings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, elsewhere] =
            [(1, 0x1000), (2, 0x1000), (3, 0x2000)].map(|(writer, at)| states(folder.path(), writer, at));
        assert!(publish(folder.path(), draft(folder.path(), &one)));
        let without_pair = |state: &MemoryState| MemoryState {
            header: Header { pair: None, ..state.header.clone() },
            ..state.clone()
        };
        for (before, after, what) in [
            (one[0].clone(), other[1].clone(), "they are of two recordings"),
            (one[0].clone(), without_pair(&one[1]), "they are of two recordings"),
            (without_pair(&one[0]), without_pair(&elsewhere[1]), "the 100 bytes at 0x1000 are not in both"),
            (one[1].clone(), one[0].clone(), "one of the two is in the place of the other"),
        ] {
            before.save(&folder.path().join(NAMES[0])).unwrap();
            after.save(&folder.path().join(NAMES[1])).unwrap();
            let refused = Moments::open(folder.path(), &kernel(), &instance()).err().map(|error| error.to_string());
            assert!(refused.is_some_and(|refused| refused.contains(what)), "{what}");
            let report = integrity::check(folder.path()).unwrap();
            assert_eq!((report.instances, report.problems.len()), (0, 1), "{what}: {report:?}");
        }
        // Files from before these numbers existed.
        for (name, state) in NAMES.iter().zip(&one) {
            without_pair(state).save(&folder.path().join(name)).unwrap();
        }
        assert_eq!(integrity::check(folder.path()).unwrap().instances, 1);
    }
}
