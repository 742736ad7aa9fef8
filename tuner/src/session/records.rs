//! The files of a session: its results folder, and the cache that it shares with other sessions.

use std::path::Path;

use mneme_model::configuration::Configuration;
use mneme_model::result::{ReplayResult, ReplayStatus};
use serde::Serialize;
use serde_json::Value;

use super::{SessionError, TunedInstance};
use crate::archive::ArchiveError;
use crate::cache::{CachePlan, ResultCache};
use crate::measured::{Measured, is_events};
use crate::options::ProteusOutput;
use crate::report;
use crate::results::{Results, ResultsError, proteus, remove, replace, write_whole};
use crate::server::ServerGreeting;

/// The file with the best of a session.
pub const BEST: &str = "best.json";

/// The places to which a session writes.
pub struct Records {
    pub results: Results,
    cache: Option<ResultCache>,
    /// Names of the instances in the cache.
    names: Vec<String>,
    /// The first failure to write a file that the session can do without.
    unwritten: Option<SessionError>,
}

impl Records {
    pub fn new(
        results: Results,
        cache: Option<ResultCache>,
        instances: &[TunedInstance],
        measured: Option<&Measured>,
    ) -> Self {
        let name =
            |instance: &TunedInstance| measured.map_or_else(|| instance.id.clone(), |it| it.name_of(&instance.id));
        Self { results, cache, names: instances.iter().map(name).collect(), unwritten: None }
    }

    pub fn log(&mut self, line: &str) {
        self.results.log(line);
    }

    pub fn unwritten(&self) -> Option<&SessionError> {
        self.unwritten.as_ref()
    }

    /// Notes the outcome of writing a file that the session can do without.
    pub fn note(&mut self, name: &str, written: Result<(), ResultsError>) {
        if let Err(error) = written {
            self.results.log(&format!("{name}: {error}"));
            self.unwritten.get_or_insert(error.into());
        }
    }

    /// The cached results of a candidate, if they are complete. They end with the first instance that did not verify.
    pub fn known(&mut self, configurations: &[Configuration]) -> Option<Vec<ReplayResult>> {
        let cache = self.cache.as_mut()?;
        let mut results = Vec::new();
        for (name, configuration) in self.names.iter().zip(configurations) {
            let result = cache.get(name, configuration)?.clone();
            let goes_on = result.verified;
            results.push(result);
            if !goes_on {
                break;
            }
        }
        Some(results)
    }

    /// Shares results that stay valid with other sessions.
    pub fn remember(&mut self, configurations: &[Configuration], results: &[ReplayResult]) {
        self.share(configurations, results, ResultCache::lasts);
    }

    /// Tells other sessions that a candidate failed a later verification; the last entry counts.
    pub fn forget(&mut self, configurations: &[Configuration], results: &[ReplayResult]) {
        self.share(configurations, results, |result| result.status == ReplayStatus::FailedVerification);
    }

    /// If the disk is full, the session continues without the cache.
    fn share(&mut self, configurations: &[Configuration], results: &[ReplayResult], which: fn(&ReplayResult) -> bool) {
        for ((name, configuration), result) in self.names.iter().zip(configurations).zip(results) {
            let Some(cache) = self.cache.as_mut().filter(|_| which(result)) else { continue };
            // Trial numbers mean nothing in another session.
            let result = ReplayResult { shared_with: None, ..result.clone() };
            if let Err(error) = cache.add(name, configuration, &result) {
                self.results.log(&error.to_string());
                self.unwritten.get_or_insert(error.into());
                self.cache = None;
            }
        }
    }

    /// Whether the folder has a confirmed best from an earlier run of this session.
    pub fn has_winner(&self) -> bool {
        let best = self.results.read::<Value>(BEST).ok().flatten();
        best.is_some_and(|best| best["confirmed"].is_object())
    }

    /// Writes a file of the folder. Without a value, `replaces` removes the file, so that one of an earlier session is
    /// not taken for this session's.
    pub fn put(&self, name: &str, value: Option<&impl Serialize>, replaces: bool) -> Result<(), ResultsError> {
        match value {
            Some(value) => self.results.write(name, value),
            None if replaces => self.results.remove(name),
            None => Ok(()),
        }
    }

    /// Writes the kernel's entry for Proteus.
    pub fn export(
        &self,
        output: &ProteusOutput,
        kernel: &str,
        tuned: Option<&Value>,
        replaces: bool,
    ) -> Result<(), ResultsError> {
        match (output, tuned) {
            (ProteusOutput::File(path), Some(tuned)) => write_whole(path, tuned),
            (ProteusOutput::File(path), None) if replaces && is_about(path, kernel) => {
                mneme_system::remark!(
                    "mneme-tune: {} had an earlier result for this kernel and was removed",
                    path.display()
                );
                remove(path)
            }
            (ProteusOutput::File(_), None) => Ok(()),
            (ProteusOutput::Results, tuned) => self.put(proteus::FILE, tuned, replaces),
            (ProteusOutput::Nowhere, _) => self.put(proteus::FILE, None::<&Value>, replaces),
        }
    }

    /// Writes how to use that entry: `usage` tells it for the entry's file.
    pub fn explain(
        &self,
        output: &ProteusOutput,
        usage: Option<impl Fn(&Path) -> String>,
        replaces: bool,
    ) -> Result<(), ResultsError> {
        let folder = self.results.folder();
        let file = match output {
            ProteusOutput::Results => Some(folder.join(proteus::FILE)),
            ProteusOutput::File(file) => Some(file.clone()),
            ProteusOutput::Nowhere => None,
        };
        let path = folder.join(proteus::USAGE);
        match file.zip(usage) {
            Some((file, usage)) => {
                replace(&path, usage(&file).as_bytes()).map_err(|source| ResultsError::Write { path, source })
            }
            None if replaces => remove(&path),
            None => Ok(()),
        }
    }

    pub fn report(&self) -> Result<(), ResultsError> {
        match report::write(self.results.folder(), None) {
            Err(report::ReportError::Write { path, source }) => Err(ResultsError::Write { path, source }),
            Err(report::ReportError::Archive(ArchiveError::Unread { path, source })) => {
                Err(ResultsError::Io { path, source })
            }
            // The session has nothing to report.
            Err(report::ReportError::Archive(_)) | Ok(_) => Ok(()),
        }
    }
}

/// Opens a session's cache for results of this device.
pub fn open_cache(plan: &CachePlan, greeting: &ServerGreeting) -> Result<ResultCache, SessionError> {
    // Another assembler makes other code, and another timer measures other times.
    let mut device = vec![&greeting.device, &greeting.driver, &greeting.version, &greeting.assembler, &greeting.llvm];
    device.extend((!is_events(&greeting.timer)).then_some(&greeting.timer));
    let cache = ResultCache::open(
        &plan.path,
        serde_json::json!([plan.conditions, device]).to_string(),
        greeting.compilers.clone(),
    )?;
    if cache.outdated() > 0 {
        mneme_system::remark!(
            "mneme-tune: ignoring {} results in {}: an earlier release stored them without their recording or their evidence",
            cache.outdated(),
            plan.path.display()
        );
    }
    Ok(cache)
}

/// Whether a file for Proteus is about this kernel only.
fn is_about(path: &Path, kernel: &str) -> bool {
    let file = std::fs::read(path).ok().and_then(|text| serde_json::from_slice::<Value>(&text).ok());
    file.and_then(|file| Some(file.as_object()?.keys().eq([kernel]))).unwrap_or(false)
}
