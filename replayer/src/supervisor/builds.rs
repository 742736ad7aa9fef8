//! Code for configurations: what is being built, and what was built lately.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use mneme_compiler::Target;

use super::Job;
use crate::builder::Outcome;
use crate::builder::nursery::Nursery;

/// Bytes of code objects that are kept for configurations that differ in their launch only.
const CACHE_BYTES: usize = 64 << 20;
/// And how many of them at most; builds that failed count as well.
const CACHE_ENTRIES: usize = 1024;

pub struct Builds {
    nursery: Nursery,
    /// Builds at a time.
    limit: usize,
    /// Keys of the builds at work, by number.
    at_work: HashMap<u64, String>,
    outcomes: HashMap<String, Rc<Outcome>>,
    /// Keys of `outcomes`, oldest first.
    ages: VecDeque<String>,
    bytes: usize,
    /// Builds that ended, and code objects that were assembled for them.
    pub built: u64,
    pub assembled: u64,
}

impl Builds {
    pub fn new(nursery: Nursery, limit: usize) -> Self {
        let (at_work, outcomes) = (HashMap::new(), HashMap::new());
        Self { nursery, limit, at_work, outcomes, ages: VecDeque::new(), bytes: 0, built: 0, assembled: 0 }
    }

    pub fn nursery(&self) -> &Nursery {
        &self.nursery
    }

    pub fn at_work(&self) -> usize {
        self.at_work.len()
    }

    pub fn has_room(&self) -> bool {
        self.at_work.len() < self.limit
    }

    /// Whether this is built, or being built.
    pub fn knows(&self, key: &str) -> bool {
        self.outcomes.contains_key(key) || self.at_work.values().any(|known| known == key)
    }

    pub fn outcome(&self, key: &str) -> Option<Rc<Outcome>> {
        self.outcomes.get(key).cloned()
    }

    /// Orders a build.
    pub fn start(&mut self, job: &Job, key: &str, target: &Target, limit: Duration) -> std::io::Result<()> {
        let number = self.nursery.build(job, target, limit)?;
        self.at_work.insert(number, key.to_owned());
        Ok(())
    }

    /// Reads what the nursery has to tell; how many builds have ended.
    pub fn hear(&mut self) -> std::io::Result<usize> {
        let mut ended = 0;
        for answer in self.nursery.progress()? {
            // Others were forgotten.
            if let Some(key) = self.at_work.remove(&answer.number) {
                self.built += 1;
                self.assembled += u64::from(answer.assembled);
                self.keep(key, answer.outcome);
                ended += 1;
            }
        }
        Ok(ended)
    }

    /// Forgets all code, and that which is being built.
    pub fn forget(&mut self) {
        self.at_work.clear();
        self.outcomes.clear();
        self.ages.clear();
        self.bytes = 0;
    }

    /// Ends the nursery without waiting.
    pub fn abandon(self) {
        self.nursery.abandon();
    }

    fn keep(&mut self, key: String, outcome: Outcome) {
        self.bytes += size(&outcome);
        self.ages.push_back(key.clone());
        self.outcomes.insert(key, Rc::new(outcome));
        while self.ages.len() > CACHE_ENTRIES || (self.bytes > CACHE_BYTES && self.ages.len() > 2 * self.limit) {
            let Some(oldest) = self.ages.pop_front() else { break };
            self.bytes -= self.outcomes.remove(&oldest).map_or(0, |outcome| size(&outcome));
        }
    }
}

/// Bytes that an outcome takes, about.
fn size(outcome: &Outcome) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    outcome.as_ref().map_or(0, |(built, image)| image.len() + text(&built.ptx) + text(&built.ir))
}
