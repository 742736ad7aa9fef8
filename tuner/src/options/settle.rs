//! Fills in defaults: makes settings from options.
//!
//! Each default is stated once, where its option is filled in. `config.json` and the session both use that value.

use std::time::Duration;

use mneme_model::configuration::DEFAULT_CODEGEN_METHOD;
use mneme_system::files::trust;

use super::choices::AUTO;
use super::settings::{
    CandidateSettings, ConfirmationSettings, ProteusOutput, SearchSettings, SessionMode, SpaceSettings, StudySettings,
    TuningSettings,
};
use super::{BaselineCode, FoldedArguments, MaxThreadsPolicy, Options, Range, RunsKind, Switch};
use crate::document::DocumentError;
use crate::metric::Metric;
use crate::sampler::SamplerKind;
use crate::space::{BlockAxes, LaunchSafety, MaxThreads, Preset, PresetOptions};

impl Options {
    /// The sampler that the user named, or the default for this number of trials.
    pub(super) fn chosen_sampler(&self) -> SamplerKind {
        // Without a number of trials, the session tries the whole space.
        self.sampler.unwrap_or(SamplerKind::of_trials(self.trials))
    }

    /// The settings of a session in the space that the options describe.
    pub fn settled(mut self) -> TuningSettings {
        let space = match (&self.space_module, &self.space) {
            (Some(class), _) => SpaceSettings::Class { name: class.clone(), arguments: self.space_arg.clone() },
            (None, Some(file)) => SpaceSettings::File(file.clone()),
            (None, None) => SpaceSettings::BuiltIn(self.settle_preset()),
        };
        self.settled_in(space)
    }

    /// The settings of a session on a file of results, which has neither the built-in space nor a use for Proteus.
    pub fn settled_on_table(self) -> TuningSettings {
        Self { no_proteus_output: Some(true), ..self }.settled_in(SpaceSettings::Table)
    }

    fn settled_in(mut self, space: SpaceSettings) -> TuningSettings {
        if self.objective.is_empty() {
            self.objective = vec!["time".into()];
        }
        let folded = *self.specialize_arguments.get_or_insert(FoldedArguments::All);
        let ban_refused_blocks = *self.adaptive_invalid_ban.get_or_insert(true);
        let search = self.settle_search();
        let metric = *self.metric.get_or_insert(Metric::Mean);
        let replay = self.settle_replay();
        let confirmation = self.settle_confirmation();
        TuningSettings {
            mode: self.mode(),
            space,
            folded,
            ban_refused_blocks,
            search,
            objectives: self.objective.clone(),
            metric,
            over_original: self.baseline == Some(BaselineCode::Original),
            replay,
            confirmation,
            simulate: self.simulate.clone(),
            cache: self.cache.clone(),
            resume: self.resume,
            rerun_baseline: self.rerun_baseline,
            proteus: match &self.proteus_output {
                _ if self.no_proteus_output == Some(true) => ProteusOutput::Nowhere,
                Some(path) => ProteusOutput::File(path.clone()),
                None => ProteusOutput::Results,
            },
            quiet: self.quiet == Some(true),
            written: self,
        }
    }

    fn mode(&self) -> SessionMode {
        match self {
            Self { dry_run: true, .. } => SessionMode::DryRun,
            Self { print_space: true, .. } => SessionMode::PrintSpace,
            Self { baseline_only: true, .. } => SessionMode::BaselineOnly,
            _ => SessionMode::Tune,
        }
    }

    fn settle_search(&mut self) -> SearchSettings {
        let sampler = self.chosen_sampler();
        self.sampler = Some(sampler);
        let is_optunas = self.study_name.is_some() || self.optuna_storage.is_some() || self.pruner.is_some();
        let study = || StudySettings {
            name: self.study_name.clone(),
            storage: self.optuna_storage.clone(),
            pruner: self.pruner,
        };
        SearchSettings {
            sampler,
            trials: self.trials,
            study: is_optunas.then(study),
            // A resumed session needs the same random numbers.
            seed: *self.seed.get_or_insert_with(random_seed),
            start_from: self.start_from.clone(),
            learn_from: self.learn_from.clone(),
            timeout: self.timeout,
            python: self.python.clone(),
        }
    }

    fn settle_replay(&mut self) -> CandidateSettings {
        let said = self.iterations.is_some() || self.warmup.is_some() || self.racing.is_some() || self.pruner.is_some();
        let by_time = self.objective.iter().all(|objective| matches!(objective.trim(), "time" | "speedup"))
            && self.objective.len() <= 1
            && matches!(self.metric, None | Some(Metric::Mean | Metric::Median));
        let runs = if said || !by_time { RunsKind::All } else { RunsKind::Needed };
        CandidateSettings {
            runs: *self.runs.get_or_insert(runs),
            iterations: *self.iterations.get_or_insert(5),
            warmup: *self.warmup.get_or_insert(2),
            workers: self.workers,
            device: self.device.clone(),
            from_ptx: self.from_ptx == Some(true),
            accept_unproven: self.accept_unproven == Some(true),
            rtol: self.rtol,
            atol: self.atol,
            dtype: self.dtype.clone(),
            tolerance: self.tolerance.clone(),
            timer: self.timer.clone().filter(|timer| timer != AUTO),
            trial_timeout: self.trial_timeout,
            fail_fast: self.fail_fast == Some(true),
            racing: self.racing,
        }
    }

    fn settle_confirmation(&mut self) -> ConfirmationSettings {
        ConfirmationSettings {
            finalists: *self.finalists.get_or_insert(3) as usize,
            time: Duration::from_secs_f64(*self.confirm_time.get_or_insert(20.0)),
            verify_all: self.verify_all.clone(),
        }
    }

    /// Reads `--pipeline-file`, so that `config.json` refers to no other file.
    ///
    /// # Errors The file cannot be read, or has no pipeline.
    pub fn with_pipelines(mut self) -> Result<Self, DocumentError> {
        if let Some(path) = self.pipeline_file.take() {
            let text = trust::read_text(&path).map_err(|source| DocumentError::Read { path: path.clone(), source })?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let before = self.passes.len();
            self.passes.extend(lines.map(str::to_owned));
            if self.passes.len() == before {
                return Err(DocumentError::Syntax { path, problem: "it contains no pipeline".into() });
            }
        }
        Ok(self)
    }

    fn settle_preset(&mut self) -> PresetOptions {
        let preset = *self.space_preset.get_or_insert(Preset::Standard);
        let launch_dim = *self.launch_dim.get_or_insert(match preset {
            Preset::Compiler => BlockAxes::None,
            _ => BlockAxes::Auto,
        });
        let launch_safety = *self.launch_safety.get_or_insert(match preset {
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
        let codegen_opt = self.fixed_codegen_opt.map_or_else(
            || {
                *self.codegen_opt_range.get_or_insert(match preset {
                    Preset::Launch => Range::one(3),
                    Preset::Quick => Range { low: 2, high: 3, step: 1 },
                    _ => Range { low: 1, high: 3, step: 1 },
                })
            },
            Range::one,
        );
        let codegen_method = self.codegen_method.get_or_insert_with(|| DEFAULT_CODEGEN_METHOD.into()).clone();
        let mode = if preset == Preset::Full { Switch::OnOff } else { Switch::Fixed };
        let switch = |said: &mut Option<Switch>| said.get_or_insert(mode).values().to_vec();
        let launch_bounds = switch(&mut self.launch_bounds_space);
        let (min_blocks_per_sm, max_threads) = if launch_bounds.contains(&true) {
            (self.settle_min_blocks(preset), self.settle_max_threads())
        } else {
            // Without launch bounds, this has no effect.
            (Vec::new(), MaxThreads::Block)
        };
        PresetOptions {
            launch_dim,
            launch_safety,
            // Whether to try both depends on the kernel, see `TuningSettings::settle_grid`.
            keep_grid: self.keep_grid.map_or_else(|| vec![false], |mode| mode.values().to_vec()),
            passes: self.fixed_passes.clone().map_or_else(|| self.passes.clone(), |only| vec![only]),
            codegen_opt: codegen_opt.values(),
            codegen_method,
            specialize: switch(&mut self.specialize_space),
            specialize_dims: switch(&mut self.specialize_dims_space),
            launch_bounds,
            internalize: switch(&mut self.internalize_space),
            min_blocks_per_sm,
            max_threads,
        }
    }

    fn settle_min_blocks(&mut self, preset: Preset) -> Vec<u32> {
        let range = || if preset == Preset::Full { Range { low: 1, high: 8, step: 1 } } else { Range::one(1) };
        match self.fixed_min_blocks_per_sm {
            Some(only) => vec![only],
            None => self.min_blocks_per_sm_range.get_or_insert_with(range).values(),
        }
    }

    fn settle_max_threads(&mut self) -> MaxThreads {
        if let Some(range) = self.max_threads_range {
            return MaxThreads::OneOf(range.values());
        }
        match *self.max_threads_policy.get_or_insert(MaxThreadsPolicy::BlockThreads) {
            MaxThreadsPolicy::Recorded => MaxThreads::Recorded,
            MaxThreadsPolicy::BlockThreads => MaxThreads::Block,
            MaxThreadsPolicy::PowersOfTwo => MaxThreads::OneOf((0..=10).map(|exponent| 1 << exponent).collect()),
            MaxThreadsPolicy::Hardware => MaxThreads::OneOf(vec![1024]),
        }
    }
}

/// A number that differs between sessions, small enough for every JSON reader.
fn random_seed() -> u64 {
    use std::hash::{BuildHasher, Hasher};
    std::collections::hash_map::RandomState::new().build_hasher().finish() >> 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn settling_twice_changes_nothing_and_what_was_said_stays() {
        for preset in [Preset::Quick, Preset::Standard, Preset::Launch, Preset::Compiler, Preset::Full] {
            let said = Options {
                space_preset: Some(preset),
                passes: vec!["a".into()],
                fixed_codegen_opt: Some(1),
                ..Options::default()
            };
            let settings = said.settled();
            let settled = settings.written().clone();
            assert_eq!(
                (&settled.passes, settled.fixed_codegen_opt, settled.codegen_opt_range),
                (&vec!["a".to_owned()], Some(1), None)
            );
            assert_eq!(settled.clone().settled(), settings);
            let written = serde_json::to_value(&settled).unwrap();
            assert_eq!(serde_json::from_value::<Options>(written).unwrap(), settled);
        }
    }

    #[test]
    fn a_space_of_ones_own_has_no_preset() {
        let settings = Options { space_module: Some("a:B".into()), ..Options::default() }.settled();
        let settled = settings.written();
        assert_eq!((settled.space_preset, settled.launch_dim, settled.passes.len()), (None, None, 0));
    }

    #[test]
    fn help_names_the_defaults() {
        let settled = serde_json::to_value(Options::default().settled().written()).unwrap();
        let command = Options::command();
        let mut compared = 0;
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            let named = help.split("[default: ").nth(1).and_then(|rest| rest.split(']').next());
            let value = argument.get_long().and_then(|name| settled.get(name.replace('-', "_")));
            // Defaults of several words depend on other options.
            let named = named.filter(|text| !text.contains(' '));
            let Some((named, value)) = named.zip(value) else { continue };
            let value = value.as_f64().map_or_else(|| value.as_str().unwrap().to_owned(), |number| number.to_string());
            assert_eq!(value, named, "--{}", argument.get_long().unwrap());
            compared += 1;
        }
        assert!(compared >= 7, "{compared}");
    }
}
