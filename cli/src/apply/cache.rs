//! A cache of compiled winners on disk, shared by all programs that use the folder.
//!
//! An entry is machine code and its description, named by a hash of everything that the code depends on. Entries are
//! written whole and read with a checksum; a damaged entry counts as missing. If the folder becomes too large, the
//! least recently used entries are deleted first.

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_model::hash::{checksum, chunk_id};
use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::RecordedArgument;
use mneme_system::files::trust::Folder;
use mneme_system::files::{self, FileAccess, private};
use mneme_system::install;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::verdict::Verdict;

/// A folder that cannot exist, for use if no temporary folder can be made. Another user's folder would be tidied up,
/// and its code executed.
const NOWHERE: &str = "/dev/null/mneme";
/// Version of entries. Entries of version 6 and earlier were verified without checking their evidence.
const VERSION: u32 = 7;
/// Uses at least this far apart update an entry's time.
const USED_LATELY: Duration = Duration::from_secs(600);

/// A folder of entries.
pub struct CodeCache {
    folder: PathBuf,
    /// The folder for reading; `None` if there is no folder.
    trusted: Option<Folder>,
    /// The folder of entries for this run only.
    temporary: Mutex<Option<tempfile::TempDir>>,
}

/// Code in the cache.
pub struct CachedCode {
    pub code: PathBuf,
    pub checksum: u64,
    pub shared_is_static: bool,
    /// Whether the code was seen to touch only the application's memory with its own dimensions, or starts no more
    /// threads.
    pub bears_threads: bool,
    /// Verdicts on recorded launches with this code.
    pub verdicts: Vec<Verdict>,
}

/// Newly compiled code.
pub struct CompiledCode {
    pub image: Vec<u8>,
    pub shared_is_static: bool,
    /// Whether the code was seen to touch only the application's memory with its own dimensions, or starts no more
    /// threads.
    pub bears_threads: bool,
}

#[derive(Serialize, Deserialize)]
struct Description {
    key: Value,
    checksum: u64,
    shared_is_static: bool,
    bears_threads: bool,
    #[serde(default)]
    verdicts: Vec<Verdict>,
    /// Checksum of the fields above, to detect a damaged description.
    sum: u64,
}

impl Description {
    fn of(key: &Value, entry: &CachedCode) -> Self {
        let &CachedCode { checksum, shared_is_static, bears_threads, ref verdicts, .. } = entry;
        let verdicts = verdicts.clone();
        let mut this = Self { key: key.clone(), checksum, shared_is_static, bears_threads, verdicts, sum: 0 };
        this.sum = this.sum();
        this
    }

    fn sum(&self) -> u64 {
        let Self { checksum, shared_is_static, bears_threads, verdicts, .. } = self;
        let text = json!([checksum, shared_is_static, bears_threads, verdicts]).to_string();
        mneme_model::hash::checksum(text.as_bytes())
    }

    /// Whether it is undamaged, and for this key.
    fn is_whole(&self, key: &Value) -> bool {
        self.key == *key && self.sum == self.sum()
    }
}

/// Numbers of codes that a run has used, by origin.
#[derive(Clone, Default)]
pub struct CodeCounts(Arc<Mutex<[u64; 2]>>);

impl CodeCounts {
    pub fn add(&self, was_compiled: bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)[usize::from(was_compiled)] += 1;
    }

    /// From the cache, and compiled.
    pub fn get(&self) -> [u64; 2] {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CodeCache {
    /// Opens the named folder, or the default one; if that cannot be used, one for this run.
    pub fn open(named: Option<&Path>) -> Self {
        let named = named.map(Path::to_path_buf).or_else(|| variable("MNEME_CACHE_DIR"));
        let Some(folder) = named.or_else(usual_folder) else {
            return Self::for_this_run("neither a cache folder nor a home directory is set");
        };
        let folder = std::path::absolute(&folder).unwrap_or(folder).join("tuned");
        match private::create_folder_quietly(&folder).and_then(|()| Folder::open(&folder)) {
            // A read-only folder can still be read.
            Ok(trusted) => Self { folder, trusted: Some(trusted), temporary: Mutex::default() },
            Err(error) => Self::for_this_run(&format!("{} cannot be used: {error}", folder.display())),
        }
    }

    fn for_this_run(reason: &str) -> Self {
        mneme_system::remark!("mneme: {reason}; compiled code is not kept after this run");
        let temporary = tempfile::tempdir().ok();
        let folder: PathBuf = temporary.as_ref().map_or_else(|| NOWHERE.into(), |folder| folder.path().into());
        Self { trusted: Folder::open(&folder).ok(), folder, temporary: Mutex::new(temporary) }
    }

    /// Whether the folder goes with the run.
    pub fn is_for_this_run(&self) -> bool {
        self.temporary().is_some()
    }

    /// Removes a folder that was for this run only.
    pub fn close(&self) {
        drop(self.temporary().take());
    }

    fn temporary(&self) -> MutexGuard<'_, Option<tempfile::TempDir>> {
        self.temporary.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn files(&self, key: &Value) -> [PathBuf; 2] {
        let name = chunk_id(key.to_string().as_bytes()).to_string();
        ["json", "code"].map(|extension| self.folder.join(format!("{name}.{extension}")))
    }

    /// The undamaged entry for this key.
    pub fn find(&self, key: &Value) -> Option<CachedCode> {
        let [description, code] = self.files(key);
        let read = |path: &Path| self.trusted.as_ref()?.read(path.file_name()?).ok();
        let known: Description = serde_json::from_slice(&read(&description)?).ok()?;
        let image = read(&code)?;
        let is_whole = known.is_whole(key) && checksum(&image) == known.checksum;
        if is_whole && code.metadata().and_then(|of| of.modified()).is_ok_and(is_long_ago) {
            // Notes the time of use. A read-only folder is never shrunk, so failures do not matter.
            let _ = File::options().append(true).open(&code).and_then(|file| file.set_modified(SystemTime::now()));
        }
        let Description { checksum, shared_is_static, bears_threads, verdicts, .. } = known;
        is_whole.then_some(CachedCode { code, checksum, shared_is_static, bears_threads, verdicts })
    }

    /// Stores newly compiled code under this key.
    pub fn add(&self, key: &Value, made: CompiledCode) -> std::io::Result<CachedCode> {
        let [_, code] = self.files(key);
        let CompiledCode { image, shared_is_static, bears_threads } = made;
        files::replace(&code, &image, FileAccess::Private)?;
        let checksum = checksum(&image);
        let entry = CachedCode { code, checksum, shared_is_static, bears_threads, verdicts: Vec::new() };
        self.describe(key, &entry)?;
        Ok(entry)
    }

    /// Updates the description of stored code.
    pub fn describe(&self, key: &Value, entry: &CachedCode) -> std::io::Result<()> {
        let [description, _] = self.files(key);
        let text = serde_json::to_vec(&Description::of(key, entry)).expect("plain data serialises");
        files::replace(&description, &text, FileAccess::Private)
    }
}

impl CodeCache {
    /// Removes the least recently used entries until `limit` bytes are left, except those that this run uses. Other
    /// processes that use a removed entry keep the application's own code, or compile it again.
    pub fn shrink(&self, limit: u64, used: &HashSet<PathBuf>) {
        let Ok(entries) = std::fs::read_dir(&self.folder) else { return };
        let paths = entries.flatten().map(|entry| entry.path());
        let mut codes: Vec<(SystemTime, u64, PathBuf)> = paths
            .filter(|path| path.extension().is_some_and(|extension| extension == "code"))
            .filter_map(|path| {
                let code = path.metadata().ok()?;
                let description = path.with_extension("json").metadata().map_or(0, |it| it.len());
                Some((code.modified().ok()?, code.len() + description, path))
            })
            .collect();
        codes.sort_unstable();
        let mut total: u64 = codes.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, bytes, code) in codes.into_iter().filter(|(_, _, code)| !used.contains(code)) {
            if total <= limit {
                break;
            }
            // The description first, because an entry without one counts as missing.
            let removed = std::fs::remove_file(code.with_extension("json")).and_then(|()| std::fs::remove_file(&code));
            if removed.is_ok() {
                total -= bytes;
            }
        }
    }
}

/// Whether a use at this time is long enough ago to note a new one.
fn is_long_ago(time: SystemTime) -> bool {
    SystemTime::now().duration_since(time).map_or(true, |passed| passed > USED_LATELY)
}

fn variable(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// `None` if the user has no folder for caches.
fn usual_folder() -> Option<PathBuf> {
    let caches = variable("XDG_CACHE_HOME").or_else(|| Some(variable("HOME")?.join(".cache")));
    Some(caches?.join("mneme"))
}

/// The key of an entry: everything that code depends on.
pub fn key(
    record: &KernelRecord,
    arguments: &[RecordedArgument],
    compiled: Option<&CompileOptions>,
    configuration: &Configuration,
    architecture: &str,
) -> Value {
    let folded = (0..).zip(arguments).filter(|(index, _)| configuration.specialize.selects(*index));
    let folded: Vec<_> = folded.map(|(index, argument)| (index, argument.bytes.clone())).collect();
    json!({
        "version": VERSION,
        "kernel": record.kernel_name,
        "static_hash": record.static_hash,
        "modules": record.ours.module_checksums,
        "configuration": configuration.hash(),
        "compiled": compiled,
        "arguments": folded,
        "architecture": architecture,
        "processor": if architecture == "cpu" { PROCESSOR.as_str() } else { "" },
        "lockstep": std::env::var("MNEME_CPU_LOCKSTEP").unwrap_or_default(),
        "mneme": env!("CARGO_PKG_VERSION"),
        "compiler": *COMPILER,
    })
}

/// This machine's processor, for which code of the CPU device is compiled.
static PROCESSOR: LazyLock<String> = LazyLock::new(|| {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let first = text.split("\n\n").next().unwrap_or_default();
    let is_meant = |line: &&str| ["model name", "flags", "Features"].iter().any(|name| line.starts_with(name));
    let lines: Vec<&str> = first.lines().filter(is_meant).collect();
    chunk_id(lines.join("\n").as_bytes()).to_string()
});

/// The builders' LLVM versions, sizes and modification times.
static COMPILER: LazyLock<Vec<(u32, u64, u64)>> = LazyLock::new(|| {
    let known = |(version, path): (u32, std::path::PathBuf)| {
        let file = path.metadata().ok()?;
        let written = file.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Some((version, file.len(), written.as_nanos() as u64))
    };
    install::builders().into_iter().filter_map(known).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(Some(folder.path()));
        let [key, other] = [json!({"a": 1}), json!({"a": 2})];
        assert!(cache.find(&key).is_none());
        cache.add(&key, CompiledCode { image: b"code".to_vec(), shared_is_static: true, bears_threads: true }).unwrap();
        let entry = cache.find(&key).unwrap();
        assert!(entry.shared_is_static && entry.checksum == checksum(b"code") && cache.find(&other).is_none());
        assert_eq!(std::fs::read(&entry.code).unwrap(), b"code");
        std::fs::write(&entry.code, "cope").unwrap();
        assert!(cache.find(&key).is_none(), "damaged");
        cache
            .add(&key, CompiledCode { image: b"code".to_vec(), shared_is_static: false, bears_threads: true })
            .unwrap();
        assert!(cache.find(&key).is_some_and(|entry| !entry.shared_is_static));
        let [description, code] = cache.files(&other);
        let [known, image] = cache.files(&key);
        let text = std::fs::read_to_string(&known).unwrap();
        std::fs::write(&known, text.replace("\"bears_threads\":true", "\"bears_threads\":false")).unwrap();
        assert!(cache.find(&key).is_none(), "changed");
        std::fs::write(&known, text).unwrap();
        assert!(cache.find(&key).is_some());
        std::fs::copy(known, description).unwrap();
        std::fs::copy(image, code).unwrap();
        assert!(cache.find(&other).is_none(), "of another key");
    }

    #[test]
    fn code_of_somebody_elses_is_not_trusted() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let own = CodeCache::open(Some(folder.path()));
        assert_eq!(own.folder(), folder.path().join("tuned"));
        assert_eq!(own.folder().metadata().unwrap().permissions().mode() & 0o777, 0o700);
        let set =
            |path: &Path, mode: u32| std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
        let key = json!({"a": 1});
        let code = CompiledCode { image: b"code".to_vec(), shared_is_static: true, bears_threads: true };
        let entry = own.add(&key, code).unwrap().code;
        set(own.folder(), 0o755);
        assert!(CodeCache::open(Some(folder.path())).find(&key).is_some());
        // Of an entry, of the folder, and of a folder above it, which the user has named.
        set(&entry, 0o666);
        assert!(own.find(&key).is_none());
        set(&entry, 0o600);
        for open in [own.folder(), folder.path()] {
            let before = open.metadata().unwrap().permissions().mode();
            set(open, 0o777);
            let other = CodeCache::open(Some(folder.path()));
            assert!(other.is_for_this_run() && other.folder() != own.folder() && other.find(&key).is_none());
            set(open, before);
        }
        assert!(CodeCache::open(Some(folder.path())).find(&key).is_some());
    }

    #[test]
    fn what_was_used_last_stays_where_there_is_too_much() {
        let folder = tempfile::tempdir().unwrap();
        let cache = CodeCache::open(Some(folder.path()));
        let keys: Vec<Value> = (0..4).map(|number| json!({ "number": number })).collect();
        for (number, key) in keys.iter().enumerate() {
            let entry = cache
                .add(key, CompiledCode { image: vec![7; 1000], shared_is_static: false, bears_threads: true })
                .unwrap();
            let time = SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1000 + number as u64);
            File::options().append(true).open(entry.code).unwrap().set_modified(time).unwrap();
        }
        // The oldest is used, so the next one goes. The last one stays because this run uses it.
        let oldest = cache.find(&keys[0]).unwrap().code;
        let last = cache.files(&keys[3])[1].clone();
        cache.shrink(3500, &HashSet::from([last.clone()]));
        let left: Vec<bool> = keys.iter().map(|key| cache.files(key).iter().all(|file| file.exists())).collect();
        assert_eq!(left, [true, false, true, true]);
        cache.shrink(0, &HashSet::from([last.clone()]));
        assert!(last.exists() && !oldest.exists());
        assert_eq!(std::fs::read_dir(cache.folder()).unwrap().count(), 2);
    }
}
