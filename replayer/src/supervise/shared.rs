//! Results that apply to more than one configuration.
//!
//! Equal code that is launched and measured in the same way runs only once.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use mneme_builds::BuildOutcome;
use mneme_model::device::Description;

use super::identity::Identity;
use super::queue::PendingJob;
use crate::execute::message::RunOutcome;

/// How many results are remembered.
const REMEMBERED: usize = 8192;

/// The outcome of a run, and the id under which it was submitted.
pub struct SettledRun {
    pub id: u64,
    pub done: RunOutcome,
    pub device: Option<Description>,
}

/// A configuration that waits for the run of an equal one.
pub struct Follower {
    pub pending: PendingJob,
    pub outcome: Rc<BuildOutcome>,
}

#[derive(Default)]
pub struct Shared {
    settled: HashMap<Identity, Rc<SettledRun>>,
    /// Keys of `settled`, oldest first.
    ages: VecDeque<Identity>,
    followers: HashMap<Identity, Vec<Follower>>,
}

impl Shared {
    pub fn settled(&self, identity: &Identity) -> Option<Rc<SettledRun>> {
        self.settled.get(identity).cloned()
    }

    /// Lets a configuration wait for the run of an equal one.
    pub fn follow(&mut self, identity: Identity, follower: Follower) {
        self.followers.entry(identity).or_default().push(follower);
    }

    /// How many configurations wait for the runs of others.
    pub fn waiting(&self) -> usize {
        self.followers.values().map(Vec::len).sum()
    }

    pub fn follows(&self, id: u64) -> bool {
        self.followers.values().flatten().any(|follower| follower.pending.job.schedule.id == id)
    }

    /// Stores the outcome of a run. Returns the configurations that waited for it.
    pub fn settle(&mut self, identity: Identity, settled: &Rc<SettledRun>) -> Vec<Follower> {
        if self.settled.insert(identity, settled.clone()).is_none() {
            self.ages.push_back(identity);
        }
        if self.ages.len() > REMEMBERED
            && let Some(oldest) = self.ages.pop_front()
        {
            self.settled.remove(&oldest);
        }
        self.followers.remove(&identity).unwrap_or_default()
    }

    /// Takes the configurations that wait for a run that has not begun.
    pub fn unfollow(&mut self, identity: &Identity) -> Vec<Follower> {
        self.followers.remove(identity).unwrap_or_default()
    }

    /// Takes all waiting configurations.
    pub fn drain(&mut self) -> impl Iterator<Item = Follower> {
        std::mem::take(&mut self.followers).into_values().flatten()
    }
}
