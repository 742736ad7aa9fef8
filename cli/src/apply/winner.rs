//! Prepares a tuned configuration for use in an application's process.

use std::path::Path;

use mneme_model::configuration::{Configuration, Specialize};
use mneme_recording::database::KernelRecord;
use mneme_recording::manifest::Header;
use mneme_recording::moments::Moments;
use mneme_winners::{DimensionRule, Folded, LaunchDimensions, RuleInputs, Winner};
use serde_json::{Value, json};

use super::arguments::{number, numbers};
use super::cache::{self, CachedCode, CodeCache, CodeCounts};
use super::compile;
use super::verified::{Replays, Verification};
use super::{AppliedWinner, ApplyError};

/// A winner whose recording has been read.
pub struct PreparedWinner {
    record: KernelRecord,
    /// Dynamic hash.
    id: String,
    prologue: Header,
    architecture: String,
    /// Checksums of its memory.
    moments: [u64; 2],
    key: Value,
    /// Code from the cache.
    known: Option<CachedCode>,
    allowed: Allowed,
}

impl PreparedWinner {
    /// Reads a configuration's recording, and looks for its code in the cache.
    ///
    /// # Errors An application cannot use it.
    pub fn of(found: &AppliedWinner, cache: &CodeCache, allowed: Allowed) -> Result<Self, ApplyError> {
        let database = &found.recording.database;
        let record = found.recording.load(&found.id)?;
        let (id, instance) = record.instance(database, Some(&found.id))?;
        if record.ours.format == 0 {
            return Err(ApplyError::ExistingMneme);
        }
        let folder = database.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let moments = Moments::open(folder, &record, instance)?;
        let prologue = moments.prologue.header;
        let names: Vec<&str> = prologue.variables.iter().map(|variable| variable.name.as_str()).collect();
        if !names.is_empty() {
            return Err(ApplyError::Variables { kernel: record.demangled_name, variables: names.join(", ") });
        }
        let configuration = &found.configuration;
        if configuration.facts {
            return Err(ApplyError::Facts(record.demangled_name));
        }
        if let Some(what) = assumption(configuration).filter(|_| !allowed.is_verified) {
            return Err(ApplyError::Assumption { kernel: record.demangled_name, what });
        }
        let sizes = prologue.arguments.iter().map(|argument| argument.bytes.len());
        if !sizes.eq(record.ours.arguments.iter().map(|argument| argument.size as usize)) {
            return Err(ApplyError::Arguments(database.clone()));
        }
        let architecture = found.architecture.clone().unwrap_or_else(|| record.ours.device_arch.clone());
        let mut key =
            cache::key(&record, &prologue.arguments, instance.ours.compiled.as_ref(), configuration, &architecture);
        // The evidence by which it was verified.
        key["verified"] = json!({"moments": moments.checksums, "comparison": found.replay});
        let known = cache.find(&key);
        let id = id.to_owned();
        Ok(Self { record, id, prologue, architecture, moments: moments.checksums, key, known, allowed })
    }

    /// Returns the winner with its code, compiling it if needed.
    pub fn compiled(
        self,
        found: &AppliedWinner,
        cache: &CodeCache,
        counts: &CodeCounts,
    ) -> Result<CompiledWinner, ApplyError> {
        let Self { record, id, prologue, architecture, moments, key, known, allowed } = self;
        let (configuration, instance) = (&found.configuration, &record.instances[&id]);
        let layout: Vec<(u32, u32)> =
            record.ours.arguments.iter().map(|argument| (argument.offset, argument.size)).collect();
        let shape = |grid, block, shared_mem| LaunchDimensions { grid, block, shared_mem };
        let recorded = shape(instance.grid_dims, instance.block_dims, instance.shared_mem);
        let tuned = shape(configuration.grid, configuration.block, configuration.shared_mem);
        let more_threads = tuned.has_more_threads_than(&recorded);
        // Another winner may have compiled the same code meanwhile.
        let known = known.or_else(|| cache.find(&key));
        let is_new = known.is_none();
        let entry = match known {
            Some(entry) => entry,
            None => {
                let made = compile::compile(found, &id, &architecture, more_threads, cache)?;
                cache.add(&key, made).map_err(ApplyError::Unstored)?
            }
        };
        counts.add(is_new);
        let arguments = (0..layout.len() as u32).filter(|index| configuration.specialize.selects(*index)).collect();
        if !entry.bears_threads {
            mneme_system::remark!(
                "mneme: {}: {} keeps its dimensions: the tuned ones start more threads, which may touch other memory",
                found.source.display(),
                record.demangled_name
            );
        }
        let numbers = numbers(&prologue.arguments, &prologue.allocations);
        let values: Vec<Option<u64>> = prologue.arguments.iter().map(|argument| number(&argument.bytes)).collect();
        let inputs = RuleInputs { launch: recorded, recorded, tuned, arguments: &values };
        let comes_to = |rule: &DimensionRule| rule.read().ok().and_then(|rule| rule.shape(&inputs));
        // A rule that does not give the winner's own dimensions cannot be the one it was found by.
        let fits = |rule: &DimensionRule| rule.covers(&recorded, &tuned) && comes_to(rule) == Some(tuned);
        let rule = found.rule.clone().filter(fits);
        let winner = Winner {
            kernel: record.kernel_name.clone(),
            static_hash: record.static_hash,
            architecture,
            code: entry.code.clone(),
            checksum: entry.checksum,
            layout,
            recorded,
            tuned,
            cluster: instance.ours.attributes.cluster,
            cooperative: instance.ours.attributes.cooperative,
            arguments: prologue.arguments,
            folded: Folded {
                arguments,
                dimensions: configuration.specialize_dims,
                shared_size: configuration.specialize == Specialize::All,
                shared_memory: entry.shared_is_static,
            },
            numbers,
            keeps_dimensions: allowed.keeps_dimensions || !entry.bears_threads,
            max_threads: launch_bound(configuration),
            bears_own_dimensions: false,
            verified: Vec::new(),
            rule: None,
            image: instance.ours.image,
            prints: instance.ours.prints,
            before: found.before,
            after: found.after,
            source: found.source.clone(),
        };
        Ok(CompiledWinner { record, id, moments, key, entry, rule, allowed, winner })
    }
}

/// A winner that verifies on the launch that it was tuned for.
pub struct CompiledWinner {
    record: KernelRecord,
    /// Dynamic hash.
    pub id: String,
    moments: [u64; 2],
    key: Value,
    entry: CachedCode,
    /// The rule that gave its dimensions.
    rule: Option<DimensionRule>,
    allowed: Allowed,
    pub winner: Winner,
}

impl CompiledWinner {
    /// The winner for the application's process, with the dimensions for other launches. `peers` are the same session's
    /// winners for launches of this recording: each launch with its dimensions.
    pub fn verified(self, found: &AppliedWinner, peers: &[(String, LaunchDimensions)], cache: &CodeCache) -> Winner {
        let Self { record, id, moments, key, mut entry, rule, allowed, mut winner } = self;
        let read = rule.as_ref().and_then(|rule| rule.read().ok());
        let replays = Replays { found, record: &record, id: &id, moments, winner: &winner, rule: read.as_ref(), peers };
        let before = entry.verdicts.clone();
        let Verification { bears_own_dimensions, launches, proves_rule, refutes_rule } =
            replays.verify(&mut entry.verdicts);
        if entry.verdicts != before {
            // If verdicts cannot be stored, the next start finds them again.
            let _ = cache.describe(&key, &entry);
        }
        winner.bears_own_dimensions = bears_own_dimensions;
        winner.verified = launches;
        let is_for_all = (proves_rule || allowed.is_verified || allowed.any_launch) && !refutes_rule;
        winner.rule = rule.filter(|_| is_for_all);
        winner
    }
}

/// How winners may be used.
#[derive(Clone, Copy)]
pub struct Allowed {
    /// Winners are verified on launches of this run before use.
    pub is_verified: bool,
    pub keeps_dimensions: bool,
    /// Dimensions by a rule are used even if too few launches verified it.
    pub any_launch: bool,
}

/// An assumption about numbers that the configuration's code makes.
fn assumption(configuration: &Configuration) -> Option<String> {
    const RELAXED: [&str; 4] = ["unsafe-fp", "no-nans", "no-infs", "approx-func"];
    if configuration.fast_math {
        return Some("fast_math".into());
    }
    let is_relaxed = |option: &&String| RELAXED.iter().any(|name| option.contains(name));
    configuration.llvm_options.iter().find(is_relaxed).cloned()
}

/// The number of threads per block that the code's launch bounds allow, if set.
pub fn launch_bound(configuration: &Configuration) -> Option<u32> {
    let threads = configuration.max_threads.filter(|threads| *threads > 0);
    configuration
        .set_launch_bounds
        .then(|| threads.unwrap_or_else(|| u32::try_from(configuration.block.count()).unwrap_or(u32::MAX)))
}
