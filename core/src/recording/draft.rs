//! The draft of an instance, which appears in a folder all at once.
//!
//! Its files are written under temporary names. They get their own names while the folder's lock is held, and only if
//! the database does not name the instance yet: of two writers of one instance the first wins, with both of its halves.
//! A crash in between leaves files that nothing names.

use std::fs::File;
use std::io::Write;
use std::path::Path;

use super::RecordingError;
use super::database::{self, InstanceRecord, KernelRecord, load_or_begin};
use super::manifest::MemoryState;
use crate::files::Temporary;

/// The files of an instance that is not in its folder yet; dropping it removes them.
pub struct Draft<'a> {
    folder: &'a Path,
    files: Vec<(String, Temporary, u64)>,
}

impl<'a> Draft<'a> {
    pub fn new(folder: &'a Path) -> Self {
        Self { folder, files: Vec::new() }
    }

    /// Writes a manifest. The chunks that it names must be on disk (synced) before the instance is published.
    pub fn add_state(&mut self, name: &str, state: &MemoryState) -> Result<u64, RecordingError> {
        let bytes = state.encode();
        let path = self.folder.join(name);
        self.add(name, |file| file.write_all(&bytes).map(|()| bytes.len() as u64).map_err(RecordingError::io(path)))
    }

    /// Writes a file, in place of one that was added under this name; `write` is given it, and tells its length, bytes.
    pub fn add(
        &mut self,
        name: &str,
        write: impl FnOnce(&mut File) -> Result<u64, RecordingError>,
    ) -> Result<u64, RecordingError> {
        let (file, bytes) = database::write_temporary(&self.folder.join(name), write)?;
        self.files.retain(|(known, ..)| known != name);
        self.files.push((name.to_owned(), file, bytes));
        Ok(bytes)
    }

    /// Makes the instance part of the folder. `prepare` adds what else of the kernel the folder needs (its code), and
    /// may change the record; it gives the bytes that it wrote. Gives all bytes written, `None` where the folder has
    /// the instance: it stays as it is.
    pub fn publish(
        self,
        kernel: &KernelRecord,
        id: &str,
        instance: InstanceRecord,
        prepare: impl FnOnce(&mut KernelRecord) -> Result<u64, RecordingError>,
    ) -> Result<Option<u64>, RecordingError> {
        let _lock = database::lock(self.folder)?;
        let mut record = load_or_begin(self.folder, kernel)?;
        if record.instances.contains_key(id) {
            return Ok(None);
        }
        let mut bytes = prepare(&mut record)?;
        for (name, file, length) in self.files {
            let path = self.folder.join(name);
            file.take_name().map_err(RecordingError::io(&path))?;
            bytes += length;
        }
        // The names, before something names them; a file system that cannot sync a folder keeps them in order by
        // itself.
        let _ = File::open(self.folder).and_then(|folder| folder.sync_all());
        record.instances.insert(id.into(), instance);
        record.save(&self.folder.join(kernel.file_name()))?;
        Ok(Some(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::fixture::{self, instance};
    use crate::recording::manifest::{Allocation, AllocationKind, Header, Moment, RecordedArgument, pair};
    use crate::recording::store::StoreWriter;
    use crate::recording::{Moments, check};

    const NAMES: [&str; 2] = ["DeviceState.prologue.42.7.mneme", "DeviceState.epilogue.42.7.mneme"];

    /// One whose code need not be there.
    fn kernel() -> KernelRecord {
        KernelRecord { modules: vec![], ..fixture::kernel() }
    }

    /// Memory of a writer, before and after.
    fn states(folder: &Path, writer: u8, address: u64) -> [MemoryState; 2] {
        let store = StoreWriter::open(folder, 1).unwrap();
        let [mut before, mut after] = [(Moment::Prologue, 1), (Moment::Epilogue, 2)].map(|(moment, step)| {
            let allocation = Allocation {
                address,
                size: 100,
                kind: AllocationKind::Arena,
                tag: String::new(),
                tolerance: None,
                shared: false,
            };
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

    fn publish(draft: Draft<'_>) -> Option<u64> {
        draft.publish(&kernel(), "7", instance(), |_| Ok(0)).unwrap()
    }

    #[test]
    fn of_two_writers_the_first_has_the_instance_with_both_halves() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other] = [1, 2].map(|writer| states(folder.path(), writer, 0x1000));
        let (first, second) = (draft(folder.path(), &one), draft(folder.path(), &other));
        assert!(!folder.path().join(NAMES[0]).exists(), "nothing is there before all of it is");
        assert!(publish(second).is_some());
        assert_eq!(publish(first), None);
        let moments = Moments::open(folder.path(), &kernel(), &instance()).unwrap();
        assert_eq!([moments.prologue, moments.epilogue], other);
        assert_eq!(check::check(folder.path()).unwrap().instances, 1);
        let hidden = std::fs::read_dir(folder.path())
            .unwrap()
            .filter(|it| it.as_ref().unwrap().path().extension().is_some_and(|it| it == "tmp"));
        assert_eq!(hidden.count(), 0, "what lost is removed");
    }

    #[test]
    fn many_writers_at_once_leave_one_whole_instance() {
        let folder = tempfile::tempdir().unwrap();
        let all: Vec<[MemoryState; 2]> = (1..9).map(|writer| states(folder.path(), writer, 0x1000)).collect();
        let winners = std::thread::scope(|scope| {
            let threads: Vec<_> =
                all.iter().map(|states| scope.spawn(|| publish(draft(folder.path(), states)).is_some())).collect();
            threads.into_iter().map(|thread| usize::from(thread.join().unwrap())).sum::<usize>()
        });
        assert_eq!(winners, 1);
        let report = check::check(folder.path()).unwrap();
        assert!(report.problems.is_empty() && report.instances == 1, "{report:?}");
    }

    #[test]
    fn halves_of_two_recordings_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let [one, other, elsewhere] =
            [(1, 0x1000), (2, 0x1000), (3, 0x2000)].map(|(writer, at)| states(folder.path(), writer, at));
        publish(draft(folder.path(), &one)).unwrap();
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
            let report = check::check(folder.path()).unwrap();
            assert_eq!((report.instances, report.problems.len()), (0, 1), "{what}: {report:?}");
        }
        // Files of before there were such numbers.
        for (name, state) in NAMES.iter().zip(&one) {
            without_pair(state).save(&folder.path().join(name)).unwrap();
        }
        assert_eq!(check::check(folder.path()).unwrap().instances, 1);
    }
}
