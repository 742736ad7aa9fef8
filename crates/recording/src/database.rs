//! The database of a kernel and its recorded instances, `<static-hash>.json`.
//!
//! Keys up to "instances" are upstream's; "Mneme" contains Mneme's additions.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use mneme_model::architecture::Processor;
use mneme_model::checked_text::{NO_CHECKSUM, checksum_of, write_checksum};
use mneme_model::compile_options::CompileOptions;
use mneme_model::configuration::Configuration;
use mneme_model::launch::{Dim3, LaunchAttributes};
use mneme_model::text::closest;
use mneme_system::files::{self, FileAccess, FolderLock, LOCK, Temporary, regular};
use serde::{Deserialize, Serialize};

use crate::error::RecordingError;

/// Format version of the "Mneme" part of the file.
pub const VERSION: u32 = 1;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct KernelRecord {
    pub static_hash: u64,
    /// Start of the recorder's arena, "0x" and 16 hexadecimal digits.
    #[serde(rename = "VAddr")]
    pub arena_address: String,
    /// Size of the arena, bytes.
    #[serde(rename = "VASize")]
    pub arena_size: u64,
    /// Mangled.
    pub kernel_name: String,
    pub demangled_name: String,
    /// Bitcode files of the kernel's closure, the kernel's own unit first.
    pub modules: Vec<String>,
    /// Code images (cubin, PTX, code object) in place of IR.
    pub binary_blobs: Vec<String>,
    pub arg_names: Vec<String>,
    /// Which arguments may be folded into the code.
    pub specializations: Vec<bool>,
    /// By dynamic hash, in decimal.
    #[serde(rename = "instances")]
    pub instances: BTreeMap<String, InstanceRecord>,
    #[serde(rename = "Mneme", default)]
    pub ours: KernelDetails,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelDetails {
    /// [`VERSION`]; 0 in an upstream file.
    pub format: u32,
    /// Recording device, e.g. "NVIDIA H200".
    pub device: String,
    /// Architecture of the recording device: "sm_90", or "cpu".
    pub device_arch: String,
    /// Architecture that the IR was compiled for, e.g. "sm_90".
    pub ir_arch: String,
    pub triple: String,
    /// Layout of the parameter buffer.
    pub arguments: Vec<ArgumentLayout>,
    /// XXH3-64 of each of the modules, in the same order; empty in an upstream file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub module_checksums: Vec<u64>,
    /// The code, which is PTX or machine code, calls through pointers. A replay cannot follow pointers that come from
    /// memory.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub calls_pointers: bool,
    /// Recorder version.
    pub version: String,
    /// XXH3-64 of the file's text with zeros in place of these 16 hexadecimal digits; "" in an upstream file.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub checksum: String,
}

impl KernelDetails {
    /// The AMD processor of the code, if the recording names one.
    pub fn processor(&self) -> Option<Processor> {
        // For a recording made on the CPU device, the IR names the processor.
        [&self.device_arch, &self.ir_arch].into_iter().find_map(|text| Processor::parse(text))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArgumentLayout {
    /// Bytes, from the start of the parameter buffer.
    pub offset: u32,
    pub size: u32,
    /// IR type ("ptr", "i32", "byval", …), "" if unknown.
    #[serde(default)]
    pub kind: String,
}

impl ArgumentLayout {
    /// Whether this is a structure, which may hold pointers: launches that differ only in a structure belong to one
    /// instance.
    pub fn is_structure(&self) -> bool {
        self.kind == "byval" || self.size > 8
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub struct InstanceRecord {
    pub prologue: String,
    pub epilogue: String,
    pub block_dims: Dim3,
    pub grid_dims: Dim3,
    /// Dynamic shared memory, bytes.
    pub shared_mem: u32,
    /// The little-endian value of each argument of at most 8 bytes; 0 for larger ones (their bytes are in the
    /// prologue).
    #[serde(deserialize_with = "any_numbers")]
    pub args: Vec<u64>,
    /// Launches with this dynamic hash that the recorder saw.
    pub occurrences: u64,
    #[serde(rename = "Mneme", default)]
    pub ours: InstanceDetails,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstanceDetails {
    pub attributes: LaunchAttributes,
    /// Bytes of memory described by the prologue.
    pub memory_bytes: u64,
    /// Seconds since 1970, UTC.
    pub recorded_at: u64,
    /// Time of the launch on the GPU by events, ns; `None` for a launch on the CPU device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu_time: Option<u64>,
    /// The code that the application passed to the driver: machine code first, if any, then PTX. Empty if unknown, as
    /// in upstream files.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub original: Vec<CodeFile>,
    /// The compilation options of that code, if they came with the IR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compiled: Option<CompileOptions>,
    /// A sum of the image that contained the kernel's PTX or machine code, and of the architecture that it was loaded
    /// for. Equal sums mean equal code.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<u64>,
    /// The code prints, as far as the recorder that wrote `image` could detect.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub prints: bool,
}

/// A file of code.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CodeFile {
    pub file: String,
    /// XXH3-64 of its contents.
    pub checksum: u64,
}

impl InstanceRecord {
    /// The recorded launch, compiled like the application if its options are known.
    pub fn recorded_configuration(&self) -> Configuration {
        let launch = Configuration::recorded(self.grid_dims, self.block_dims, self.shared_mem);
        match &self.ours.compiled {
            Some(application) => launch.compiled_as(application),
            None => launch,
        }
    }

    /// Every file that belongs to the instance only. Instances may share files of the application's code.
    pub fn files(&self) -> impl Iterator<Item = &String> {
        [&self.prologue, &self.epilogue].into_iter().chain(self.ours.original.iter().map(|code| &code.file))
    }
}

/// The existing Mneme has also written signed numbers and fractions.
fn any_numbers<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<u64>, D::Error> {
    let numbers = Vec::<serde_json::Number>::deserialize(deserializer)?;
    let bits = |number: &serde_json::Number| {
        number
            .as_u64()
            .or_else(|| number.as_i64().map(i64::cast_unsigned))
            .or_else(|| number.as_f64().map(f64::to_bits))
            .unwrap_or(0)
    };
    Ok(numbers.iter().map(bits).collect())
}

impl KernelRecord {
    pub fn load(path: &Path) -> Result<Self, RecordingError> {
        let text = regular::read(path).map_err(RecordingError::named(path))?;
        Self::parse(path, &text)
    }

    /// Reads the text of the file at `path`.
    pub fn parse(path: &Path, text: &[u8]) -> Result<Self, RecordingError> {
        let record: Self = serde_json::from_slice(text).map_err(|error| match error.classify() {
            // The text does not begin like a JSON object.
            serde_json::error::Category::Syntax if !text.trim_ascii_start().starts_with(b"{") => {
                RecordingError::NoRecord { path: path.into() }
            }
            _ => RecordingError::damaged(path, error.to_string()),
        })?;
        if record.ours.format > VERSION {
            return Err(RecordingError::Version { path: path.into(), found: record.ours.format, supported: VERSION });
        }
        // If the key itself is damaged, either the sum or the "Mneme" part is missing.
        let sum = checksum_of(text);
        if sum.as_ref().is_some_and(|sum| *sum != record.ours.checksum) || (sum.is_none() && record.ours.format > 0) {
            return Err(RecordingError::damaged(path, "its checksum does not match"));
        }
        let files = record.modules.iter().chain(&record.binary_blobs);
        let files = files.chain(record.instances.values().flat_map(InstanceRecord::files));
        for name in files {
            if !is_plain_name(name) {
                return Err(RecordingError::Outside { path: path.into(), name: name.clone() });
            }
        }
        Ok(record)
    }

    /// Writes a temporary file and renames it.
    pub fn save(&self, path: &Path) -> Result<(), RecordingError> {
        let mut record = self.clone();
        write_atomically(path, &record.encode())
    }

    /// The contents of the file.
    pub(super) fn encode(&mut self) -> Vec<u8> {
        self.ours.checksum = if self.ours.format > 0 { NO_CHECKSUM.into() } else { String::new() };
        let mut text = serde_json::to_vec_pretty(self).expect("plain data serialises");
        // "Mneme" is the last member, and its checksum is the last member in it.
        write_checksum(&mut text);
        text
    }

    /// Whether an instance has this id, or one that begins with it.
    pub fn may_have(&self, id: &str) -> bool {
        !id.is_empty() && self.instances.keys().any(|known| known.starts_with(id))
    }

    /// The instance with this id, or the only one whose id begins with it.
    pub fn find(&self, id: &str) -> Option<(&str, &InstanceRecord)> {
        if let Some((id, instance)) = self.instances.get_key_value(id) {
            return Some((id, instance));
        }
        let mut alike = self.instances.iter().filter(|(known, _)| !id.is_empty() && known.starts_with(id));
        alike.next().filter(|_| alike.next().is_none()).map(|(id, instance)| (id.as_str(), instance))
    }

    /// The instance with this id or unique prefix, or the only instance if `id` is `None`.
    pub fn instance(&self, path: &Path, id: Option<&str>) -> Result<(&str, &InstanceRecord), RecordingError> {
        let missing = |id: &str| match self.may_have(id) {
            true => RecordingError::Choice(format!(
                "several instances of {} begin with {id}: {}; pass more digits",
                path.display(),
                closest(id, self.instances.keys().filter(|known| known.starts_with(id)))
            )),
            false => RecordingError::NoInstance {
                path: path.into(),
                instance: id.into(),
                known: closest(id, self.instances.keys()),
            },
        };
        match id {
            Some(id) => self.find(id).ok_or_else(|| missing(id)),
            None if self.instances.len() == 1 => {
                Ok(self.instances.iter().map(|(id, instance)| (id.as_str(), instance)).next().expect("one"))
            }
            None if self.instances.is_empty() => Err(RecordingError::damaged(path, "it has no instances")),
            None => Err(RecordingError::Ambiguous { path: path.into(), known: self.known() }),
        }
    }

    /// The instance with this id, or all instances for `None`.
    pub fn chosen(&self, path: &Path, id: Option<&str>) -> Result<Vec<(&str, &InstanceRecord)>, RecordingError> {
        match id {
            Some(_) => self.instance(path, id).map(|found| vec![found]),
            None => Ok(self.instances.iter().map(|(id, instance)| (id.as_str(), instance)).collect()),
        }
    }

    fn known(&self) -> String {
        match self.instances.len() {
            0 => "none".into(),
            n if n > 8 => format!("{n} (see `mneme show`)"),
            _ => self.instances.keys().cloned().collect::<Vec<_>>().join(", "),
        }
    }

    pub fn file_name(&self) -> String {
        format!("{}.json", self.static_hash)
    }
}

/// Every `<number>.json` of a folder, sorted by name.
pub fn kernels(folder: &Path) -> Result<Vec<PathBuf>, RecordingError> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(RecordingError::named(folder))? {
        let path = entry.map_err(RecordingError::io(folder))?.path();
        let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
        if path.extension().is_some_and(|extension| extension == "json") && stem.parse::<u64>().is_ok() {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Whether a name stays within its folder.
fn is_plain_name(name: &str) -> bool {
    let mut components = Path::new(name).components();
    matches!((components.next(), components.next()), (Some(Component::Normal(_)), None))
}

/// Writes (0600), syncs and renames, so a reader sees either the old file or the new one.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordingError> {
    files::replace(path, bytes, FileAccess::Private).map_err(RecordingError::io(path))
}

/// Writes a temporary file for `path`, readable by its owner only: `write` receives the new file. Call [`sync`]
/// afterwards.
pub(super) fn write_temporary<T>(
    path: &Path,
    write: impl FnOnce(&mut File) -> Result<T, RecordingError>,
) -> Result<(Temporary, T), RecordingError> {
    Temporary::write_unsynced(path, FileAccess::Private, |error| RecordingError::io(path)(error), write)
}

/// Makes written files durable.
pub(super) fn sync<'a>(files: impl IntoIterator<Item = &'a Temporary>) -> Result<(), RecordingError> {
    files::sync_all(files).map_err(|(path, source)| RecordingError::Io { path, source })
}

/// A database, and the version of its file.
type ReadDatabase = (FileVersion, KernelRecord);

/// A cache of long databases as they were last read or written. Adding an instance extends the file's contents, which
/// take milliseconds to read.
#[derive(Default)]
pub struct Databases(HashMap<u64, ReadDatabase>);

/// The number of instances from which a database is cached.
const LONG: usize = 16;

impl Databases {
    /// Takes the kernel's record in a folder, whose lock is held; a kernel new to the folder has no instances.
    pub(super) fn take(&mut self, folder: &Path, kernel: &KernelRecord) -> Result<KernelRecord, RecordingError> {
        let known = self.0.remove(&kernel.static_hash);
        let is_current =
            |(version, _): &ReadDatabase| FileVersion::of(&folder.join(kernel.file_name())) == Some(*version);
        match known.filter(is_current) {
            Some((_, record)) => Ok(record),
            None => load_or_begin(folder, kernel),
        }
    }

    /// Caches the record just written to a folder, whose lock is held.
    pub(super) fn keep(&mut self, folder: &Path, record: KernelRecord) {
        if record.instances.len() >= LONG
            && let Some(version) = FileVersion::of(&folder.join(record.file_name()))
        {
            self.0.insert(record.static_hash, (version, record));
        }
    }
}

/// Distinguishes a file from earlier and later files of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileVersion {
    device: u64,
    inode: u64,
    size: u64,
    /// Seconds and nanoseconds.
    changed: (i64, i64),
}

impl FileVersion {
    fn of(path: &Path) -> Option<Self> {
        let file = path.metadata().ok()?;
        let changed = (file.ctime(), file.ctime_nsec());
        Some(Self { device: file.dev(), inode: file.ino(), size: file.len(), changed })
    }
}

/// The lock of a recording folder, held while `<static-hash>.json` files are merged or packs collected.
pub(super) fn lock(folder: &Path) -> Result<FolderLock, RecordingError> {
    FolderLock::take(folder).map_err(RecordingError::io(&folder.join(LOCK)))
}

/// Adds an instance (and a new kernel) whose files already exist, safely against other processes that do the same.
/// [`Draft`](super::draft::Draft) adds one together with its files.
pub fn add_instance(
    folder: &Path,
    kernel: &KernelRecord,
    id: &str,
    instance: InstanceRecord,
) -> Result<(), RecordingError> {
    let _lock = lock(folder)?;
    let mut record = load_or_begin(folder, kernel)?;
    record.instances.insert(id.into(), instance);
    record.save(&folder.join(kernel.file_name()))
}

/// The kernel's record in a folder; a kernel new to the folder has no instances.
pub(super) fn load_or_begin(folder: &Path, kernel: &KernelRecord) -> Result<KernelRecord, RecordingError> {
    // Only a missing file means a new kernel: overwriting an unreadable file would lose its instances.
    match KernelRecord::load(&folder.join(kernel.file_name())) {
        Err(RecordingError::Missing { .. }) => Ok(KernelRecord { instances: BTreeMap::new(), ..kernel.clone() }),
        loaded => loaded,
    }
}

/// Changes the occurrences of instances by name, and skips instances removed meanwhile.
pub fn set_occurrences(
    folder: &Path,
    static_hash: u64,
    occurrences: &BTreeMap<String, u64>,
) -> Result<(), RecordingError> {
    let path = folder.join(format!("{static_hash}.json"));
    if occurrences.is_empty() || !path.exists() {
        return Ok(());
    }
    let _lock = lock(folder)?;
    let mut record = KernelRecord::load(&path)?;
    let mut is_changed = false;
    for (id, count) in occurrences {
        if let Some(instance) = record.instances.get_mut(id).filter(|instance| instance.occurrences != *count) {
            instance.occurrences = *count;
            is_changed = true;
        }
    }
    if is_changed { record.save(&path) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{instance, kernel};

    #[test]
    fn keys_are_upstreams() {
        let mut record = kernel();
        record.instances.insert("7".into(), instance());
        let json = serde_json::to_value(&record).unwrap();
        for key in [
            "StaticHash", "VAddr", "VASize", "KernelName", "DemangledName", "Modules", "BinaryBlobs", "ArgNames",
            "Specializations", "instances",
        ] {
            assert!(json.get(key).is_some(), "{key}");
        }
        for key in ["Prologue", "Epilogue", "BlockDims", "GridDims", "SharedMem", "Args", "Occurrences"] {
            assert!(json["instances"]["7"].get(key).is_some(), "{key}");
        }
    }

    #[test]
    fn instances_of_two_writers_are_merged() {
        let folder = tempfile::tempdir().unwrap();
        add_instance(folder.path(), &kernel(), "7", instance()).unwrap();
        add_instance(folder.path(), &kernel(), "8", instance()).unwrap();
        let paths = kernels(folder.path()).unwrap();
        let record = KernelRecord::load(&paths[0]).unwrap();
        assert_eq!(record.instances.len(), 2);
        assert!(record.instance(&paths[0], None).is_err());
        assert_eq!(record.instance(&paths[0], Some("8")).unwrap().0, "8");
    }

    #[test]
    fn a_database_that_cannot_be_read_is_not_begun_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("42.json");
        std::os::unix::fs::symlink(&path, &path).unwrap();
        assert!(!path.exists(), "who asks like this is not told");
        assert!(matches!(add_instance(folder.path(), &kernel(), "7", instance()), Err(RecordingError::Io { .. })));
        assert!(path.is_symlink());
    }

    #[test]
    fn occurrences_do_not_bring_a_removed_instance_back() {
        let folder = tempfile::tempdir().unwrap();
        let set = |id: &str| set_occurrences(folder.path(), 42, &[(id.to_owned(), 9)].into()).unwrap();
        set("7");
        add_instance(folder.path(), &kernel(), "7", instance()).unwrap();
        set("7");
        set("8");
        let record = KernelRecord::load(&folder.path().join("42.json")).unwrap();
        assert_eq!(record.instances.len(), 1);
        assert_eq!(record.instances["7"].occurrences, 9);
    }

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("42.json");
        for name in ["../passwd", "/etc/passwd", "a/b", "", ".."] {
            let mut record = kernel();
            record.modules = vec![name.into()];
            record.save(&path).unwrap();
            assert!(matches!(KernelRecord::load(&path), Err(RecordingError::Outside { .. })), "{name}");
        }
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("42.json");
        let mut record = kernel();
        record.instances.insert("7".into(), instance());
        record.save(&path).unwrap();
        let text = std::fs::read(&path).unwrap();
        assert_eq!(KernelRecord::parse(&path, &text).unwrap().instances, record.instances);
        for bit in 0..8 * text.len() {
            let mut flipped = text.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(KernelRecord::parse(&path, &flipped).is_err(), "bit {} of '{}'", bit % 8, text[bit / 8] as char);
        }
    }

    #[test]
    fn a_file_of_upstreams_has_no_checksum() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("42.json");
        let record = KernelRecord { ours: KernelDetails::default(), ..kernel() };
        record.save(&path).unwrap();
        assert_eq!(KernelRecord::load(&path).unwrap(), record);
    }

    #[test]
    fn a_newer_format_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("42.json");
        let mut record = kernel();
        record.ours.format = VERSION + 1;
        record.save(&path).unwrap();
        assert!(matches!(KernelRecord::load(&path), Err(RecordingError::Version { .. })));
    }
}
