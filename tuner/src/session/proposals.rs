//! The search's proposals, grounded as configurations for each instance.

use std::collections::HashMap;

use mneme_model::configuration::Configuration;

use super::SessionError;
use super::bans::Bans;
use crate::bridge::Bridge;
use crate::interrupt;
use crate::results::Trial;
use crate::search::Search;
use crate::space::{Point, Rejection, SearchSpace, holds};

/// The search, the spaces of all instances, and the trials to reuse.
pub struct Proposals {
    pub search: Search,
    /// The spaces of the instances after the first.
    pub further: Vec<Box<dyn SearchSpace>>,
    pub bridge: Option<Bridge>,
    pub bans: Bans,
    /// Trials of the resumed session that are not points of this space, by configuration hash. They can only win if a
    /// point of this space has the same configuration.
    pub foreign: HashMap<String, Trial>,
}

impl Proposals {
    pub fn space(&self) -> &dyn SearchSpace {
        self.search.space()
    }

    /// A candidate's configurations, one for each instance.
    pub fn ground(&self, point: &Point, first: Configuration) -> Result<Vec<Configuration>, Rejection> {
        let further = self.further.iter().map(|space| space.ground(point));
        std::iter::once(Ok(first)).chain(further).collect()
    }

    /// Whether a trial of the resumed session is a point of this space with the same configurations.
    pub fn is_of_this_space(&self, trial: &Trial) -> bool {
        let space = self.space();
        let same = || space.ground(&trial.params).is_ok_and(|configuration| configuration.hash() == trial.config_hash);
        holds(space, &trial.params) && same() && self.is_same_everywhere(trial, &trial.params)
    }

    /// Takes the trial of the resumed session that has this configuration on all instances.
    pub fn take_foreign(&mut self, hash: &str, point: &Point) -> Option<Trial> {
        self.foreign.get(hash).filter(|trial| self.is_same_everywhere(trial, point))?;
        self.foreign.remove(hash)
    }

    /// Whether a point has a trial's configurations on the instances after the first.
    fn is_same_everywhere(&self, trial: &Trial, point: &Point) -> bool {
        let known = trial.instances.iter().skip(1).map(|instance| &instance.config);
        self.further
            .iter()
            .zip(known)
            .all(|(space, known)| space.ground(point).is_ok_and(|it| it.hash() == known.hash()))
    }

    /// Fails if the helper process has ended. Without its answers, the search would look finished.
    pub fn check_bridge(&self) -> Result<(), SessionError> {
        let Some(failure) = self.bridge.as_ref().and_then(Bridge::failure) else { return Ok(()) };
        // An interrupt that ends this session may have ended the helper, too.
        interrupt::check()?;
        Err(failure.into())
    }
}
