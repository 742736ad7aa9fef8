//! The result cache, which lets sessions share measurements.
//!
//! A cache is a file of JSON lines, to which any number of sessions append at once, or a folder, in which each session
//! appends to one file and reads the others', because several machines cannot append to one file on every file system.
//! A session sees others' results before its next candidate. It reuses a result if recording ([`crate::measured`]),
//! instance, configuration, number of runs, device, driver, assembler, tolerances and the replayer's version are the
//! same. Of two results, the later one counts.

use std::collections::HashMap;
use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use mneme_model::configuration::Configuration;
use mneme_model::result::{ReplayResult, ReplayStatus};
use mneme_system::console::is_full;
use mneme_system::files::{private, trust};
use serde::Deserialize;

use crate::server::compiler;

#[derive(Debug, thiserror::Error)]
#[error("the cache {path} cannot be used: {source}", path = path.display())]
pub struct CacheError {
    path: PathBuf,
    source: std::io::Error,
}

impl CacheError {
    pub fn is_full(&self) -> bool {
        is_full(&self.source)
    }
}

/// The first characters of every key. Keys of format 1 did not tell recordings apart; results of format 2 lack
/// evidence.
const FORMAT: &str = "3|";

/// The place of a session's results, and the conditions for sharing them.
#[derive(Clone, Debug)]
pub struct CachePlan {
    pub path: PathBuf,
    /// Kernel, tolerances and all else that two sessions must have in common, besides the device.
    pub conditions: serde_json::Value,
}

/// Results of sessions with equal conditions, including those that run now.
#[derive(Debug)]
pub struct ResultCache {
    /// The file or folder.
    place: PathBuf,
    /// The file to which this session appends.
    file: File,
    /// Bytes read of each file.
    read: HashMap<PathBuf, u64>,
    /// The prefix of every key.
    conditions: String,
    /// The full versions of LLVM that configurations may name.
    compilers: Vec<String>,
    known: HashMap<String, ReplayResult>,
    /// Number of results in earlier formats.
    outdated: usize,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    result: ReplayResult,
}

impl ResultCache {
    /// Opens or creates the file, or a file in the folder. `conditions` is all that two sessions must have in common to
    /// share a result, except the LLVM release that a configuration names, which is one of `compilers`.
    ///
    /// # Errors The cache cannot be read or written. Damaged lines are skipped.
    pub fn open(place: &Path, conditions: String, compilers: Vec<String>) -> Result<Self, CacheError> {
        let failed = |source| CacheError { path: place.into(), source };
        let own = if place.is_dir() || place.as_os_str().as_encoded_bytes().ends_with(b"/") {
            // Process numbers are not unique if several machines share a folder.
            place.join(format!("{:016x}.jsonl", RandomState::new().hash_one(0)))
        } else {
            place.to_path_buf()
        };
        if let Some(folder) = own.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            private::create_folder_quietly(folder).map_err(failed)?;
            trust::check(folder).map_err(failed)?;
        }
        let mut file = private::append(&own).map_err(failed)?;
        trust::check(&own).map_err(failed)?;
        if !begins_as_a_cache(&mut file).map_err(failed)? {
            return Err(failed(std::io::Error::other("it is not a cache file; name a cache file, or a new file")));
        }
        let mut last = [b'\n'];
        if file.metadata().map_err(failed)?.len() > 0 {
            file.seek(SeekFrom::End(-1)).and_then(|_| file.read_exact(&mut last)).map_err(failed)?;
        }
        if last != *b"\n" {
            // Ends a line that a killed session left, so that the next line stays readable.
            file.write_all(b"\n").map_err(failed)?;
        }
        let conditions = format!("{FORMAT}{conditions}");
        let mut cache = Self {
            place: place.into(),
            file,
            read: HashMap::new(),
            conditions,
            compilers,
            known: HashMap::new(),
            outdated: 0,
        };
        cache.read_on().map_err(failed)?;
        Ok(cache)
    }

    /// Number of results in earlier formats, which lack their recording or evidence and are not used.
    pub fn outdated(&self) -> usize {
        self.outdated
    }

    /// A result that is known, or that another session has written meanwhile.
    pub fn get(&mut self, instance: &str, configuration: &Configuration) -> Option<&ReplayResult> {
        let key = self.key(instance, configuration);
        if !self.known.contains_key(&key) {
            // If others' results cannot be read, this session just measures more.
            let _ = self.read_on();
        }
        self.known.get(&key)
    }

    /// Reads new lines of all files.
    fn read_on(&mut self) -> std::io::Result<()> {
        let files = if self.place.is_dir() {
            let entries =
                std::fs::read_dir(&self.place)?.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>()?;
            entries.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).collect()
        } else {
            vec![self.place.clone()]
        };
        for path in files {
            // Skips files of strangers in a shared folder.
            let mut file = match trust::open(&path) {
                Err(error) if trust::is_refusal(&error) => continue,
                file => file?,
            };
            let read = self.read.entry(path).or_default();
            if file.metadata()?.len() <= *read {
                continue;
            }
            let mut text = Vec::new();
            file.seek(SeekFrom::Start(*read))?;
            file.read_to_end(&mut text)?;
            // The rest of the last line may still be on its way.
            text.truncate(text.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1));
            *read += text.len() as u64;
            for line in text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok()) {
                self.outdated += usize::from(!line.key.starts_with(FORMAT));
                if line.key.starts_with(&self.conditions) {
                    self.known.insert(line.key, line.result);
                }
            }
        }
        Ok(())
    }

    /// Whether a result would be the same another time, apart from noise. A result that depends on the current
    /// installation would not: a missing builder may be installed later.
    pub fn lasts(result: &ReplayResult) -> bool {
        let is_given_up = result.verified && !result.exec_time.is_empty() && result.measured().is_empty();
        let is_of_now = matches!(
            result.status,
            ReplayStatus::RuntimeError | ReplayStatus::Timeout | ReplayStatus::InternalError | ReplayStatus::Unproven
        );
        !is_given_up && !is_of_now
    }

    /// # Errors The file cannot be written.
    pub fn add(
        &mut self,
        instance: &str,
        configuration: &Configuration,
        result: &ReplayResult,
    ) -> Result<(), CacheError> {
        let key = self.key(instance, configuration);
        let mut line = serde_json::json!({"key": key, "result": result}).to_string();
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|source| CacheError { path: self.place.clone(), source })?;
        self.known.insert(key, result.clone());
        Ok(())
    }

    fn key(&self, instance: &str, configuration: &Configuration) -> String {
        // Two releases of one LLVM version make different code.
        let compiler = configuration.llvm.and_then(|llvm| compiler(&self.compilers, llvm)).unwrap_or_default();
        format!("{}|{instance}|{}|{compiler}", self.conditions, configuration.hash())
    }
}

/// Whether a file is empty or begins like a cache. The cache does not append to other programs' files.
fn begins_as_a_cache(file: &mut File) -> std::io::Result<bool> {
    const START: &[u8] = b"{\"key\":";
    let mut start = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(START.len() as u64).read_to_end(&mut start)?;
    Ok(START.starts_with(&start))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::Dim3;

    #[test]
    fn files_of_another_kind_stay_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("recording.json");
        for text in ["{\"_ZN1aEv\": 1}\n", "#!/bin/sh\n", "{\"trial\":0}"] {
            std::fs::write(&path, text).unwrap();
            let error = ResultCache::open(&path, "a".into(), Vec::new()).unwrap_err().to_string();
            assert!(error.contains("not a cache file"), "{error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        std::fs::write(&path, "{\"key").unwrap();
        ResultCache::open(&path, "a".into(), Vec::new()).unwrap();
    }

    #[test]
    fn results_last_and_belong_to_their_conditions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/cache.jsonl");
        let configuration = Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0);
        let other = Configuration { passes: "default<O1>".into(), ..configuration.clone() };
        let result = ReplayResult {
            exec_time: vec![7],
            status: ReplayStatus::Verified,
            verified: true,
            ..ReplayResult::default()
        };
        ResultCache::open(&path, "a".into(), Vec::new()).unwrap().add("1", &configuration, &result).unwrap();
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"key\":\"a|1").unwrap();
        ResultCache::open(&path, "a".into(), Vec::new()).unwrap().add("2", &other, &result).unwrap();
        let mut cache = ResultCache::open(&path, "a".into(), Vec::new()).unwrap();
        assert_eq!(
            (cache.get("1", &configuration).cloned(), cache.get("2", &other)),
            (Some(result.clone()), Some(&result))
        );
        assert_eq!((cache.get("2", &configuration).cloned(), cache.get("1", &other)), (None, None));
        assert_eq!(ResultCache::open(&path, "b".into(), Vec::new()).unwrap().get("1", &configuration), None);
    }

    #[test]
    fn sessions_see_each_others_results_while_they_run() {
        let work = tempfile::tempdir().unwrap();
        let (file, folder) = (work.path().join("cache.jsonl"), work.path().join("cache/"));
        let configuration = Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0);
        let result = ReplayResult {
            exec_time: vec![7],
            status: ReplayStatus::Verified,
            verified: true,
            ..ReplayResult::default()
        };
        for place in [&file, &folder] {
            let open = |conditions: &str| ResultCache::open(place, conditions.into(), Vec::new()).unwrap();
            let (mut one, mut other, mut stranger) = (open("a"), open("a"), open("b"));
            assert_eq!(other.get("1", &configuration), None);
            one.add("1", &configuration, &result).unwrap();
            assert_eq!((other.get("1", &configuration), stranger.get("1", &configuration)), (Some(&result), None));
            assert_eq!(open("a").get("1", &configuration), Some(&result));
        }
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 4, "a file for each session");
    }
}
