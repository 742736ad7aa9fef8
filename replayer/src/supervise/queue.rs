//! The queue of waiting configurations.
//!
//! Greater priorities come first, equal ones in the order of submission.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use mneme_builds::BuildKey;

use super::alone::AloneRuns;
use crate::execute::message::RunOutcome;
use crate::job::Job;

/// A configuration that waits to be built or run.
pub struct PendingJob {
    pub job: Job,
    /// The key of its build.
    pub key: BuildKey,
    /// The version of LLVM that builds it.
    pub llvm: u32,
    pub start: jiff::Timestamp,
    /// Its earlier runs, if these add evidence to them.
    pub earlier: Option<Box<RunOutcome>>,
    /// Its runs in processes of their own, once the usual ones are done.
    pub alone: Option<Box<AloneRuns>>,
    place: QueuePosition,
}

/// A position in the queue.
type QueuePosition = (Reverse<i32>, u64);

#[derive(Default)]
pub struct Queue {
    entries: BTreeMap<QueuePosition, PendingJob>,
    places: HashMap<u64, QueuePosition>,
    /// How many configurations have been queued so far.
    count: u64,
}

impl Queue {
    pub fn push(&mut self, job: Job, llvm: u32, start: jiff::Timestamp) {
        let place = (Reverse(job.schedule.priority), self.count);
        self.count += 1;
        self.put_back(PendingJob { key: job.build.key(), job, llvm, start, earlier: None, alone: None, place });
    }

    /// Returns a configuration to its previous position.
    pub fn put_back(&mut self, pending: PendingJob) {
        self.places.insert(pending.job.schedule.id, pending.place);
        self.entries.insert(pending.place, pending);
    }

    pub fn take(&mut self, id: u64) -> Option<PendingJob> {
        self.entries.remove(&self.places.remove(&id)?)
    }

    pub fn contains(&self, id: u64) -> bool {
        self.places.contains_key(&id)
    }

    /// The configurations in the order in which they run.
    pub fn iter(&self) -> impl Iterator<Item = &PendingJob> {
        self.entries.values()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes all configurations.
    pub fn drain(&mut self) -> impl Iterator<Item = PendingJob> {
        self.places.clear();
        std::mem::take(&mut self.entries).into_values()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::JobSchedule;
    use mneme_model::configuration::Configuration;
    use mneme_model::launch::Dim3;

    fn queue(priorities: &[i32]) -> Queue {
        let mut queue = Queue::default();
        for (id, priority) in (0..).zip(priorities) {
            let configuration = Configuration::recorded(Dim3::new(1, 1, 1), Dim3::new(1, 1, 1), 0);
            let job = Job::new(id, configuration, 1, 0);
            let job = Job { schedule: JobSchedule { priority: *priority, ..job.schedule }, ..job };
            queue.push(job, 19, jiff::Timestamp::UNIX_EPOCH);
        }
        queue
    }

    fn order(queue: &Queue) -> Vec<u64> {
        queue.iter().map(|pending| pending.job.schedule.id).collect()
    }

    #[test]
    fn priorities_come_before_ages() {
        assert_eq!(order(&queue(&[0, 5, 0, -1, 5])), [1, 4, 0, 2, 3]);
    }

    #[test]
    fn what_is_put_back_has_its_old_place() {
        let mut queue = queue(&[0, 0, 0]);
        let pending = queue.take(1).unwrap();
        assert!(!queue.contains(1) && queue.take(1).is_none());
        queue.put_back(pending);
        assert_eq!(order(&queue), [0, 1, 2]);
        assert_eq!(queue.drain().count(), 3);
        assert!(queue.is_empty() && !queue.contains(0));
    }
}
