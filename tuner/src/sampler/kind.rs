//! Samplers by name.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::space::{Domain, Point, SearchSpace};

use super::{Auto, Exhaustive, Local, Nsga2, Random, Sampler, Sequences, Sobol, Tpe};

/// The kind of a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SamplerKind {
    /// A model, local search and evolution, weighted by their success
    Auto,
    /// Every configuration of the space (also: grid)
    #[value(alias = "grid")]
    #[serde(alias = "grid")]
    Exhaustive,
    /// Uniformly at random
    Random,
    /// An evenly space-filling sequence
    Sobol,
    /// By the density of good candidates (tree-structured Parzen estimators)
    Tpe,
    /// Evolution, for several objectives (NSGA-II)
    Nsga2,
    /// Evolution of pass sequences; shrinks the best one
    Passes,
    /// From --start-from to better neighbours
    Greedy,
    /// From --start-from to better neighbours, and in the beginning to worse ones
    Annealing,
}

/// Settings for samplers.
#[derive(Clone, Debug, Default)]
pub struct SamplerSettings {
    pub seed: u64,
    /// Number of trials; `None` without a limit.
    pub trials: Option<usize>,
    /// The starting point of local search.
    pub start: Option<Point>,
}

/// Why a sampler cannot search a space.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error(
        "an exhaustive search cannot try all values of '{parameter}', which has infinitely many; give it a step, or use another sampler"
    )]
    Infinite { parameter: String },
    #[error("the sampler {sampler} never finishes by itself; pass --trials N")]
    Endless { sampler: String },
    #[error(
        "the sampler passes needs a parameter of type pipeline, and the space has none; declare one in a space file"
    )]
    NoSequence,
}

impl SamplerKind {
    /// The default, depending on whether the number of trials is given.
    pub fn of_trials(trials: Option<u64>) -> Self {
        if trials.is_some() { Self::Auto } else { Self::Exhaustive }
    }

    /// Whether the sampler tries a finite space completely.
    pub fn is_exhaustive(self) -> bool {
        self == Self::Exhaustive
    }

    /// Whether Optuna has a sampler of this kind.
    pub fn is_optunas(self) -> bool {
        matches!(self, Self::Random | Self::Tpe | Self::Nsga2)
    }

    /// The name on a command line.
    pub fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// Creates the sampler.
    ///
    /// # Errors The sampler cannot search this space, or needs a number of trials.
    pub fn build(self, space: &dyn SearchSpace, settings: &SamplerSettings) -> Result<Box<dyn Sampler>, SettingsError> {
        let SamplerSettings { seed, trials, start } = settings.clone();
        match self {
            Self::Exhaustive => {
                if let Some(endless) = space.parameters().iter().find(|parameter| parameter.domain.size().is_none()) {
                    return Err(SettingsError::Infinite { parameter: endless.name.clone() });
                }
            }
            _ if trials.is_none() => return Err(SettingsError::Endless { sampler: self.name() }),
            Self::Passes
                if !space.parameters().iter().any(|parameter| matches!(parameter.domain, Domain::Pipeline(_))) =>
            {
                return Err(SettingsError::NoSequence);
            }
            _ => {}
        }
        Ok(match self {
            Self::Auto => Box::new(Auto::new(seed)),
            Self::Exhaustive => Box::new(Exhaustive::default()),
            Self::Random => Box::new(Random::new(seed)),
            Self::Sobol => Box::new(Sobol::new(seed)),
            Self::Tpe => Box::new(Tpe::new(seed)),
            Self::Nsga2 => Box::new(Nsga2::new(seed)),
            Self::Passes => Box::new(Sequences::new(seed, trials)),
            Self::Greedy => Box::new(Local::greedy(seed, start)),
            Self::Annealing => Box::new(Local::annealing(seed, start, trials.unwrap_or(1))),
        })
    }
}
