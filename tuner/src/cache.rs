//! Results that sessions share: what was measured once is not measured again.
//!
//! A file of JSON lines, appended to by any number of sessions at once. A result stands for another one where recording, instance,
//! configuration, number of runs, device, driver, tolerances and the version of the replayer are the same.

use std::collections::HashMap;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use mneme_core::configuration::Configuration;
use mneme_core::result::{ReplayResult, Status};
use serde::Deserialize;

#[derive(Debug, thiserror::Error)]
#[error("the cache {path} cannot be used: {source}", path = path.display())]
pub struct CacheError {
    path: PathBuf,
    source: std::io::Error,
}

/// Where results are kept, and for whom.
#[derive(Clone, Debug)]
pub struct CachePlan {
    pub path: PathBuf,
    /// Kernel, tolerances and whatever else two sessions must have in common, beside the device.
    pub conditions: serde_json::Value,
}

/// Results of equal sessions before.
#[derive(Debug)]
pub struct Cache {
    path: PathBuf,
    file: File,
    /// What every key begins with.
    conditions: String,
    known: HashMap<String, ReplayResult>,
}

#[derive(Deserialize)]
struct Line {
    key: String,
    result: ReplayResult,
}

impl Cache {
    /// Opens or creates the file. `conditions` is all that two sessions must have in common to share a result.
    ///
    /// # Errors
    /// The file cannot be read or written. A line that is damaged does not count.
    pub fn open(path: &Path, conditions: String) -> Result<Self, CacheError> {
        let failed = |source| CacheError { path: path.into(), source };
        if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(failed)?;
        }
        let file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        let text = std::fs::read(path).map_err(failed)?;
        let lines = text.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice::<Line>(line).ok());
        let known = lines.filter(|line| line.key.starts_with(&conditions)).map(|line| (line.key, line.result)).collect();
        let mut cache = Self { path: path.into(), file, conditions, known };
        if !text.is_empty() && text.last() != Some(&b'\n') {
            // What a session left that was killed here; its line must not swallow the next.
            cache.file.write_all(b"\n").map_err(failed)?;
        }
        Ok(cache)
    }

    pub fn get(&self, instance: &str, configuration: &Configuration) -> Option<&ReplayResult> {
        self.known.get(&self.key(instance, configuration))
    }

    /// Whether a result would be the same another time, but for the noise of its times.
    pub fn lasts(result: &ReplayResult) -> bool {
        !matches!(result.status, Status::RuntimeError | Status::Timeout | Status::InternalError)
    }

    /// # Errors
    /// The file cannot be written.
    pub fn add(&mut self, instance: &str, configuration: &Configuration, result: &ReplayResult) -> Result<(), CacheError> {
        let key = self.key(instance, configuration);
        let mut line = serde_json::json!({"key": key, "result": result}).to_string();
        line.push('\n');
        self.file.write_all(line.as_bytes()).map_err(|source| CacheError { path: self.path.clone(), source })?;
        self.known.insert(key, result.clone());
        Ok(())
    }

    fn key(&self, instance: &str, configuration: &Configuration) -> String {
        format!("{}|{instance}|{}", self.conditions, configuration.hash())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::launch::Dim3;

    #[test]
    fn results_last_and_belong_to_their_conditions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/cache.jsonl");
        let configuration = Configuration::recorded(Dim3::new(4, 1, 1), Dim3::new(128, 1, 1), 0);
        let other = Configuration { passes: "default<O1>".into(), ..configuration.clone() };
        let result = ReplayResult { exec_time: vec![7], status: Status::Verified, verified: true, ..ReplayResult::default() };
        Cache::open(&path, "a".into()).unwrap().add("1", &configuration, &result).unwrap();
        std::fs::write(&path, std::fs::read_to_string(&path).unwrap() + "{\"key\":\"a|1").unwrap();
        Cache::open(&path, "a".into()).unwrap().add("2", &other, &result).unwrap();
        let cache = Cache::open(&path, "a".into()).unwrap();
        assert_eq!((cache.get("1", &configuration), cache.get("2", &other)), (Some(&result), Some(&result)));
        assert_eq!((cache.get("2", &configuration), cache.get("1", &other)), (None, None));
        assert_eq!(Cache::open(&path, "b".into()).unwrap().get("1", &configuration), None);
    }
}
