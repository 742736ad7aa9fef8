//! Defaults: what is meant where nothing was said.

use super::{MaxThreadsPolicy, Options, Range, Switch};
use crate::document::DocumentError;
use crate::metric::Metric;
use crate::sampler::Kind;
use crate::space::{LaunchDimensions, LaunchSafety, Preset};

impl Options {
    /// Fills in every default, so that what is written to `config.json` says everything.
    pub fn settled(mut self) -> Self {
        // Without a number of trials all of the space is meant.
        self.sampler.get_or_insert(Kind::of_trials(self.trials));
        // A session that is resumed needs the same random numbers.
        self.seed.get_or_insert_with(random_seed);
        self.metric.get_or_insert(Metric::Mean);
        if self.objective.is_empty() {
            self.objective = vec!["time".into()];
        }
        self.iterations.get_or_insert(5);
        self.warmup.get_or_insert(2);
        self.finalists.get_or_insert(3);
        self.confirm_time.get_or_insert(20.0);
        self.adaptive_invalid_ban.get_or_insert(true);
        if self.space_module.is_none() && self.space.is_none() {
            self.settle_preset();
        }
        self
    }

    /// Reads `--pipeline-file`, so that what is written to `config.json` needs no other file.
    ///
    /// # Errors
    /// The file cannot be read, or a pipeline is empty.
    pub fn with_pipelines(mut self) -> Result<Self, DocumentError> {
        if let Some(path) = self.pipeline_file.take() {
            let text =
                std::fs::read_to_string(&path).map_err(|source| DocumentError::Read { path: path.clone(), source })?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let before = self.passes.len();
            self.passes.extend(lines.map(str::to_owned));
            if self.passes.len() == before {
                return Err(DocumentError::Syntax { path, problem: "it has no pipeline".into() });
            }
        }
        Ok(self)
    }

    /// Optuna's samplers are used in place of ours.
    pub fn uses_optuna(&self) -> bool {
        self.study_name.is_some() || self.optuna_storage.is_some() || self.pruner.is_some()
    }

    fn settle_preset(&mut self) {
        let preset = *self.space_preset.get_or_insert(Preset::Standard);
        self.launch_dim.get_or_insert(if preset == Preset::Compiler {
            LaunchDimensions::None
        } else {
            LaunchDimensions::Auto
        });
        self.launch_safety.get_or_insert(match preset {
            Preset::Quick => LaunchSafety::Conservative,
            Preset::Full => LaunchSafety::Aggressive,
            _ => LaunchSafety::Balanced,
        });
        if self.passes.is_empty() && self.fixed_passes.is_none() && self.pipeline_file.is_none() {
            let passes: &[&str] = match preset {
                Preset::Launch => &["default<O3>"],
                Preset::Quick => &["default<O3>", "default<O2>"],
                _ => &["default<O3>", "default<O2>", "default<O1>", "default<Os>", "default<Oz>"],
            };
            self.passes = passes.iter().map(ToString::to_string).collect();
        }
        if self.fixed_codegen_opt.is_none() {
            self.codegen_opt_range.get_or_insert(match preset {
                Preset::Launch => Range::one(3),
                Preset::Quick => Range { low: 2, high: 3, step: 1 },
                _ => Range { low: 1, high: 3, step: 1 },
            });
        }
        self.codegen_method.get_or_insert_with(|| "serial".into());
        let switch = if preset == Preset::Full { Switch::OnOff } else { Switch::Fixed };
        self.specialize_space.get_or_insert(switch);
        self.specialize_dims_space.get_or_insert(switch);
        self.internalize_space.get_or_insert(switch);
        let bounds = *self.launch_bounds_space.get_or_insert(switch);
        if bounds.values().contains(&true) {
            if self.fixed_min_blocks_per_sm.is_none() {
                let blocks = if preset == Preset::Full { Range { low: 1, high: 8, step: 1 } } else { Range::one(1) };
                self.min_blocks_per_sm_range.get_or_insert(blocks);
            }
            if self.max_threads_range.is_none() {
                self.max_threads_policy.get_or_insert(MaxThreadsPolicy::BlockThreads);
            }
        }
    }
}

/// A number that differs from session to session, short enough for every reader of JSON.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_twice_changes_nothing_and_what_was_said_stays() {
        for preset in [Preset::Quick, Preset::Standard, Preset::Launch, Preset::Compiler, Preset::Full] {
            let said = Options {
                space_preset: Some(preset),
                passes: vec!["a".into()],
                fixed_codegen_opt: Some(1),
                ..Options::default()
            };
            let settled = said.settled();
            assert_eq!(
                (&settled.passes, settled.fixed_codegen_opt, settled.codegen_opt_range),
                (&vec!["a".to_owned()], Some(1), None)
            );
            assert_eq!(settled.clone().settled(), settled);
            let written = serde_json::to_value(&settled).unwrap();
            assert_eq!(serde_json::from_value::<Options>(written).unwrap(), settled);
        }
    }

    #[test]
    fn a_space_of_ones_own_has_no_preset() {
        let settled = Options { space_module: Some("a:B".into()), ..Options::default() }.settled();
        assert_eq!((settled.space_preset, settled.launch_dim, settled.passes.len()), (None, None, 0));
    }
}
