//! Checks that options fit together, and that their values make sense.

use mneme_recording::USUAL;

use super::choices::TIMERS;
use super::{Options, Range};

/// Groups of options that exclude each other, by their keys in configuration files.
pub(super) const EXCLUSIVE: &[&[&str]] = &[
    &["codegen_opt_range", "fixed_codegen_opt"],
    &["passes", "fixed_passes"],
    &["pipeline_file", "fixed_passes"],
    &["min_blocks_per_sm_range", "fixed_min_blocks_per_sm"],
    &["max_threads_range", "max_threads_policy"],
    &["space_preset", "space_module", "space"],
    &["fail_fast", "keep_going"],
    &["proteus_output", "no_proteus_output"],
    &["record_id", "all_instances"],
    &["kernel", "all_kernels"],
    &["racing", "pruner"],
    &["simulate", "cache"],
];

/// Options that change the built-in space, by their keys.
pub(super) const BUILT_IN: [&str; 17] = [
    "launch_dim", "launch_safety", "keep_grid", "passes", "fixed_passes", "pipeline_file", "codegen_opt_range",
    "fixed_codegen_opt", "codegen_method", "specialize_space", "specialize_dims_space", "launch_bounds_space",
    "internalize_space", "min_blocks_per_sm_range", "fixed_min_blocks_per_sm", "max_threads_range",
    "max_threads_policy",
];

/// An error in the options, in one sentence.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Contradiction(String);

fn option(key: &str) -> String {
    format!("--{}", key.replace('_', "-"))
}

impl Options {
    /// Fails with one sentence if an option is missing, out of range or contradicts another.
    pub fn check(&self) -> Result<(), Contradiction> {
        let problem = self
            .missing()
            .or_else(|| self.exclusive())
            .or_else(|| self.space_problem())
            .or_else(|| self.sampling_problem());
        match problem.or_else(|| self.range_problem()) {
            Some(sentence) => Err(Contradiction(sentence)),
            None => Ok(()),
        }
    }

    fn missing(&self) -> Option<String> {
        if self.resume && self.results_dir.is_none() {
            return Some("--resume needs --results-dir: the folder of the session to resume".into());
        }
        if self.simulates_a_table() {
            return None;
        }
        if !self.record_id.is_empty() && (self.record_database.len() > 1 || self.all_kernels == Some(true)) {
            return Some("--record-id names instances of one kernel; for several kernels use --all-instances".into());
        }
        None
    }

    fn exclusive(&self) -> Option<String> {
        let said = serde_json::to_value(self).expect("plain data serialises");
        let given = |key: &&&str| said.get(**key).is_some_and(|value| *value != serde_json::Value::Bool(false));
        EXCLUSIVE.iter().find_map(|group| {
            let mut found = group.iter().filter(given);
            let (first, second) = (found.next()?, found.next()?);
            Some(format!("{} and {} exclude each other; pass only one of them", option(first), option(second)))
        })
    }

    /// If the options name no recording, uses the folder that `mneme record` writes by default. A resumed session knows
    /// its recording.
    #[must_use]
    pub fn with_usual_recording(mut self) -> Self {
        if self.record_database.is_empty() && !self.resume && !self.simulates_a_table() {
            self.record_database.push(USUAL.into());
        }
        self
    }

    /// Whether the options simulate with a file of results, which has its own space and needs no recording.
    pub fn simulates_a_table(&self) -> bool {
        self.record_database.is_empty() && self.simulate.as_ref().is_some_and(|path| path.is_file())
    }

    /// An error if options for the built-in space are combined with another space.
    fn space_problem(&self) -> Option<String> {
        let own = match (&self.space_module, &self.space) {
            (Some(_), _) => "--space-module",
            (_, Some(_)) => "--space",
            _ => {
                return (!self.space_arg.is_empty())
                    .then(|| "--space-arg is for the class that --space-module names".into());
            }
        };
        let said = serde_json::to_value(self).expect("plain data serialises");
        let name = BUILT_IN.iter().find(|name| said.get(**name).is_some())?;
        Some(format!(
            "{} changes the built-in search space, but {own} names another one; leave one of them out",
            option(name)
        ))
    }

    fn sampling_problem(&self) -> Option<String> {
        let optuna = [
            ("--study-name", self.study_name.is_some()),
            ("--optuna-storage", self.optuna_storage.is_some()),
            ("--pruner", self.pruner.is_some()),
        ];
        let optuna = optuna.into_iter().find(|(_, given)| *given).map(|(name, _)| name);
        let sampler = self.chosen_sampler();
        match optuna {
            Some(name) if !sampler.is_optunas() => Some(format!(
                "{name} needs one of Optuna's samplers; add --sampler tpe, random or nsga2, or leave {name} out"
            )),
            _ if self.trials.is_none() && !sampler.is_exhaustive() => {
                Some(format!("--sampler {} needs --trials: how many configurations to evaluate", sampler.name()))
            }
            _ => None,
        }
    }

    fn range_problem(&self) -> Option<String> {
        let level = self.fixed_codegen_opt.map(Range::one).or(self.codegen_opt_range);
        if level.is_some_and(|range| range.high > 3) {
            return Some("code generation levels are numbers from 0 to 3".into());
        }
        let blocks = self.fixed_min_blocks_per_sm.map(Range::one).or(self.min_blocks_per_sm_range);
        if blocks.is_some_and(|range| range.low == 0 || range.high > 32) {
            return Some(
                "a multiprocessor holds 1 to 32 blocks at a time; keep --min-blocks-per-sm-range within that".into(),
            );
        }
        if self.max_threads_range.is_some_and(|range| range.low == 0 || range.high > 1024) {
            return Some("a block has 1 to 1024 threads; keep --max-threads-range within that".into());
        }
        if self.iterations == Some(0) || self.trials == Some(0) || self.workers == Some(0) {
            return Some("--iterations, --trials and --workers must be at least 1".into());
        }
        let seconds = [
            ("--timeout", self.timeout),
            ("--trial-timeout", self.trial_timeout),
            ("--confirm-time", self.confirm_time),
        ];
        if let Some((name, _)) =
            seconds.into_iter().find(|(_, seconds)| seconds.is_some_and(|it| !(it.is_finite() && it > 0.0)))
        {
            return Some(format!("{name} must be a number of seconds above 0"));
        }
        if self.racing.is_some_and(|factor| !(factor.is_finite() && factor > 1.0)) {
            return Some(
                "--racing must be a number above 1: how much slower than the fastest first run a candidate's may be"
                    .into(),
            );
        }
        let local =
            matches!(self.sampler, Some(crate::sampler::SamplerKind::Greedy | crate::sampler::SamplerKind::Annealing));
        let walks =
            matches!(self.sampler, Some(crate::sampler::SamplerKind::Exhaustive | crate::sampler::SamplerKind::Passes));
        let optunas = self.study_name.is_some() || self.optuna_storage.is_some() || self.pruner.is_some();
        if !self.learn_from.is_empty() && (walks || optunas || (self.sampler.is_none() && self.trials.is_none())) {
            return Some("--learn-from needs --trials and a built-in sampler other than exhaustive and passes".into());
        }
        if self.start_from.is_some() && !local {
            return Some("--start-from is for --sampler greedy and --sampler annealing".into());
        }
        if [self.rtol, self.atol].into_iter().flatten().any(|bound| !(bound.is_finite() && bound >= 0.0)) {
            return Some("--rtol and --atol must not be negative".into());
        }
        if let Some(Err(problem)) = self.dtype.as_deref().map(super::choices::float_type) {
            return Some(format!("--dtype: {problem}"));
        }
        if let Some(Err(problem)) = self.device.as_deref().map(super::choices::device) {
            return Some(format!("--device: {problem}"));
        }
        let timer = self.timer.as_deref().filter(|timer| !TIMERS.contains(timer));
        timer.map(|timer| format!("--timer must be one of {}, not '{timer}'", TIMERS.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    fn problem(arguments: &[&str]) -> String {
        let all = ["mneme-tune", "-rdb", "a.json"].iter().chain(arguments).map(Into::into);
        let all = mneme_system::arguments::normalise(all, &["rdb"]);
        match Options::try_parse_from(all) {
            Ok(options) => options.check().err().map_or_else(String::new, |error| error.to_string()),
            Err(error) => crate::options::sentence(&error),
        }
    }

    #[test]
    fn contradictions_are_one_sentence() {
        for (arguments, expected) in [
            (&["--sampler", "tpe"][..], "--sampler tpe needs --trials"),
            (&["--sampler", "random"], "needs --trials"),
            (&["--resume"], "--resume needs --results-dir"),
            (&["--space-module", "a:B", "--passes", "default<O1>"], "--passes changes the built-in search space"),
            (&["--space-module", "a:B", "--space-preset", "quick"], "exclude each other"),
            (&["--space-arg", "a=1"], "--space-arg is for the class"),
            (&["--study-name", "s"], "--study-name needs one of Optuna's samplers"),
            (&["--all-instances", "--record-id", "1"], "exclude each other"),
            (&["--record-database", "b.json", "--record-id", "1"], "for several kernels use --all-instances"),
            (&["--codegen-opt-range", "0:4"], "from 0 to 3"),
            (&["--fixed-codegen-opt", "4"], "from 0 to 3"),
            (&["--min-blocks-per-sm-range", "0:4"], "1 to 32"),
            (&["--max-threads-range", "32:2048"], "1 to 1024"),
            (&["--timeout", "0"], "--timeout must be a number of seconds"),
            (&["--fail-fast", "--keep-going"], "cannot be used with"),
            (&["--print-space", "--dry-run"], "cannot be used with"),
            (&["--proteus-output", "a", "--no-proteus-output"], "cannot be used with"),
            (&["--rerun-baseline"], "the following required arguments were not provided: --resume"),
            (
                &["--metric", "p90"],
                "invalid value 'p90' for '--metric <METRIC>' [possible values: mean, median, min, max]",
            ),
            (&["--trail", "5"], "unexpected argument '--trail' found; tip: a similar argument exists: '--trials'"),
            (&["--simulate", "a", "--cache", "b"], "exclude each other"),
            (&["--racing", "2", "--pruner", "median"], "exclude each other"),
        ] {
            let found = problem(arguments);
            assert!(found.contains(expected) && found.lines().count() == 1, "{arguments:?}: {found}");
        }
        assert_eq!(problem(&["--sampler", "tpe", "--trials", "5", "--study-name", "s"]), "");
        let usual = |options: Options| options.with_usual_recording().record_database.len();
        assert_eq!((usual(Options::default()), usual(Options { resume: true, ..Options::default() })), (1, 0));
    }
}
