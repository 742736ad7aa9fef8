//! The builds of configurations: those in progress, and recent ones.
//!
//! Each version of LLVM that configurations need has its own fork server.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_builds::builder::{Preparation, ProgramError};
use mneme_builds::{BuildKey, BuildOutcome, BuildSpec, NotBuilt, Target};
use mneme_model::result::ReplayStatus;
use mneme_sandbox::child::Child;

use crate::build::fork_server::{ForkServer, ForkServerPlan};
use crate::context::ReplayContext;

/// Size limit of the code objects that are kept for configurations that differ only in their launch, bytes.
const CACHE_BYTES: usize = 64 << 20;
/// A job needs up to four builds at once: its own, the oracle's, and those of two pipelines.
const LEAST_ENTRIES: usize = 8;
/// Limit of their number; failed builds count too.
const CACHE_ENTRIES: usize = 1024;
/// How many fork servers may be lost in a row without a finished build.
const LOSSES: u32 = 3;
/// A fork server that is lost after being idle for this long is not at fault.
const SETTLED: Duration = Duration::from_secs(1);
/// Effectively no limit.
const NEVER: Duration = Duration::from_secs(365 * 86400);
/// How long after its last time limit a fork server may take to report that the time is over: it reads the recorded IR
/// itself once, and forks on a machine that may be short of memory.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to check on a fork server that is ending.
const LOOK: Duration = Duration::from_millis(10);

/// The fork server of one version of LLVM, replaced by another if it is lost.
struct Server<'a> {
    plan: ForkServerPlan<'a>,
    fork_server: ForkServer<'a>,
    /// Earlier ones, which were killed and have not ended yet.
    leaving: Vec<Child>,
    /// When it was started.
    since: Instant,
    /// Fork servers lost since the last finished build.
    losses: u32,
    /// Keys and deadlines of the running builds, by number.
    at_work: HashMap<u64, (BuildKey, Instant)>,
}

pub struct Builds<'a> {
    context: &'a ReplayContext,
    /// The servers needed so far, by the version of LLVM.
    servers: BTreeMap<u32, Server<'a>>,
    /// Why a version has no server.
    useless: BTreeMap<u32, String>,
    /// How many builds run at a time.
    limit: usize,
    outcomes: HashMap<BuildKey, Rc<BuildOutcome>>,
    /// Keys of `outcomes`, oldest first.
    ages: VecDeque<BuildKey>,
    bytes: usize,
    /// Finished builds, and code objects that were assembled for them.
    pub built: u64,
    pub assembled: u64,
}

impl<'a> Builds<'a> {
    /// Starts with as many builds at a time as the context allows; `first` is the version of LLVM that is needed at
    /// once.
    pub fn start(context: &'a ReplayContext, first: u32) -> Self {
        let mut builds = Self {
            context,
            servers: BTreeMap::new(),
            useless: BTreeMap::new(),
            limit: context.builders,
            outcomes: HashMap::new(),
            ages: VecDeque::new(),
            bytes: 0,
            built: 0,
            assembled: 0,
        };
        builds.server(first);
        builds
    }

    /// The fork server of a version of LLVM, started if necessary. `None` if its program is unusable.
    fn server(&mut self, llvm: u32) -> Option<&mut Server<'a>> {
        if self.useless.contains_key(&llvm) {
            return None;
        }
        match self.servers.entry(llvm) {
            Entry::Occupied(known) => Some(known.into_mut()),
            Entry::Vacant(free) => match self.context.build_plan(llvm).and_then(Server::start) {
                Ok(server) => Some(free.insert(server)),
                Err(error) => {
                    self.useless.insert(llvm, error.to_string());
                    None
                }
            },
        }
    }

    /// The running fork servers, to wait for.
    pub fn fork_servers(&self) -> impl Iterator<Item = &ForkServer<'a>> {
        self.servers.values().map(|server| &server.fork_server)
    }

    /// The full version of an LLVM that builds use; may wait for it.
    ///
    /// # Errors
    /// The program for it is unusable.
    pub fn llvm(&mut self, version: u32) -> Result<&'a str, ProgramError> {
        match self.servers.get_mut(&version) {
            Some(server) => server.fork_server.llvm(),
            None => self.context.programs.of(version)?.llvm(),
        }
    }

    pub fn at_work(&self) -> usize {
        self.servers.values().map(|server| server.at_work.len()).sum()
    }

    pub fn has_room(&self) -> bool {
        self.at_work() < self.limit
    }

    /// Whether this is built, or being built.
    pub fn knows(&self, key: BuildKey) -> bool {
        let at_work = |server: &Server<'_>| server.at_work.values().any(|(known, _)| *known == key);
        self.outcomes.contains_key(&key) || self.servers.values().any(at_work)
    }

    pub fn outcome(&self, key: BuildKey) -> Option<Rc<BuildOutcome>> {
        self.outcomes.get(&key).cloned()
    }

    /// Orders a build with a version of LLVM. If its program is unusable, that is the outcome.
    pub fn order(&mut self, llvm: u32, spec: &BuildSpec, key: BuildKey, target: &Target, limit: Duration) {
        match self.server(llvm) {
            Some(server) => server.order(spec, key, target, limit),
            None => {
                let error = self.useless.get(&llvm).cloned().unwrap_or_default();
                self.keep(key, Err(NotBuilt::new(ReplayStatus::InternalError, error)));
            }
        }
    }

    /// Runs `act` on every fork server. Returns how many builds have ended. A server that fails is given up, together
    /// with its builds.
    fn each(&mut self, act: impl Fn(&mut Server<'a>, &mut Vec<Ended>) -> std::io::Result<()>) -> usize {
        let (mut ended, mut lost) = (Vec::new(), Vec::new());
        for (version, server) in &mut self.servers {
            if let Err(error) = act(server, &mut ended) {
                lost.push((*version, error.to_string()));
            }
        }
        for (version, error) in lost {
            let Some(server) = self.servers.remove(&version) else { continue };
            let failed = || NotBuilt::new(ReplayStatus::InternalError, error.clone());
            let at_work = server.at_work.values();
            ended.extend(at_work.map(|(key, _)| Ended { key: *key, outcome: Err(failed()), assembled: false }));
            server.leaving.into_iter().chain([server.fork_server.dismiss()]).for_each(Child::abandon);
            self.useless.insert(version, error);
        }
        self.keep_all(ended)
    }

    /// Reads events of the fork servers. Returns how many builds have ended. A fork server that is gone is replaced,
    /// and its builds are forgotten, to be ordered again.
    pub fn read_events(&mut self) -> usize {
        self.each(Server::read_events)
    }

    fn keep_all(&mut self, ended: Vec<Ended>) -> usize {
        let count = ended.len();
        for Ended { key, outcome, assembled } in ended {
            self.built += 1;
            self.assembled += u64::from(assembled);
            self.keep(key, outcome);
        }
        count
    }

    /// The time of the next [watch](Builds::watch).
    pub fn deadline(&self) -> Option<Instant> {
        self.servers.values().filter_map(Server::deadline).min()
    }

    /// Replaces a fork server that is gone or hangs.
    pub fn watch(&mut self) {
        self.each(Server::watch);
    }

    /// Whether another build may have another outcome: one that failed for external reasons, or any failed one if the
    /// client wants a `fresh` result.
    pub fn may_differ(&self, key: BuildKey, fresh: bool) -> bool {
        let failed = self.outcomes.get(&key).and_then(|outcome| outcome.as_ref().as_ref().err());
        failed
            .is_some_and(|failed| fresh || matches!(failed.status, ReplayStatus::Timeout | ReplayStatus::InternalError))
    }

    /// Forgets one outcome.
    pub fn forget_one(&mut self, key: BuildKey) {
        if let Some(outcome) = self.outcomes.remove(&key) {
            self.bytes -= size(&outcome);
            self.ages.retain(|known| *known != key);
        }
    }

    /// Forgets all code, including running builds.
    pub fn forget(&mut self) {
        self.servers.values_mut().for_each(|server| server.at_work.clear());
        self.outcomes.clear();
        self.ages.clear();
        self.bytes = 0;
    }

    /// Ends the fork servers without waiting.
    pub fn abandon(self) {
        let all = |server: Server<'_>| server.leaving.into_iter().chain([server.fork_server.dismiss()]);
        self.servers.into_values().flat_map(all).for_each(Child::abandon);
    }

    fn keep(&mut self, key: BuildKey, outcome: BuildOutcome) {
        self.bytes += size(&outcome);
        self.ages.push_back(key);
        self.outcomes.insert(key, Rc::new(outcome));
        while self.ages.len() > CACHE_ENTRIES
            || (self.bytes > CACHE_BYTES && self.ages.len() > LEAST_ENTRIES.max(2 * self.limit))
        {
            let Some(oldest) = self.ages.pop_front() else { break };
            self.bytes -= self.outcomes.remove(&oldest).map_or(0, |outcome| size(&outcome));
        }
    }
}

/// A finished build.
struct Ended {
    key: BuildKey,
    outcome: BuildOutcome,
    assembled: bool,
}

impl<'a> Server<'a> {
    fn start(plan: ForkServerPlan<'a>) -> Result<Self, ProgramError> {
        Ok(Self {
            fork_server: ForkServer::start(&plan, Preparation::Full)?,
            leaving: Vec::new(),
            plan,
            since: Instant::now(),
            losses: 0,
            at_work: HashMap::new(),
        })
    }

    fn order(&mut self, spec: &BuildSpec, key: BuildKey, target: &Target, limit: Duration) {
        // If the fork server cannot be written to, it is gone, and the next read shows that.
        if let Ok(number) = self.fork_server.build(spec, target, limit) {
            // Limited to the times that `Instant` can represent.
            let end = Instant::now().checked_add(limit).unwrap_or_else(|| Instant::now() + NEVER);
            self.at_work.insert(number, (key, end));
        }
    }

    fn read_events(&mut self, ended: &mut Vec<Ended>) -> std::io::Result<()> {
        let answers = match self.fork_server.progress() {
            Ok(answers) => answers,
            Err(error) => return self.replace(error),
        };
        for answer in answers {
            self.losses = 0;
            // Builds that are not listed were forgotten.
            if let Some((key, _)) = self.at_work.remove(&answer.number) {
                // It depended on another build that has no outcome, so it is ordered again.
                let Some(outcome) = answer.outcome else { continue };
                ended.push(Ended { key, outcome, assembled: answer.assembled });
            }
        }
        Ok(())
    }

    fn replace(&mut self, error: std::io::Error) -> std::io::Result<()> {
        if self.at_work.is_empty() && self.since.elapsed() > SETTLED {
            self.losses = 0;
        }
        self.losses += 1;
        // If no builder has ever worked, another one would not work either.
        if self.losses > LOSSES || self.plan.program.known_llvm().is_none() {
            return Err(error);
        }
        tracing::warn!("{error}; another one takes over");
        self.at_work.clear();
        let another = ForkServer::start(&self.plan, Preparation::None).map_err(std::io::Error::other)?;
        let hanging = std::mem::replace(&mut self.fork_server, another);
        self.leaving.push(hanging.dismiss());
        self.since = Instant::now();
        Ok(())
    }

    fn deadline(&self) -> Option<Instant> {
        let going = self.fork_server.is_closed() || !self.leaving.is_empty();
        self.hanging().into_iter().chain(going.then(|| Instant::now() + LOOK)).min()
    }

    /// When the fork server counts as hanging. Builds wait for each other, so only the last time limit counts.
    fn hanging(&self) -> Option<Instant> {
        self.at_work.values().map(|(_, end)| *end).max().map(|last| last + PATIENCE)
    }

    fn watch(&mut self, ended: &mut Vec<Ended>) -> std::io::Result<()> {
        self.leaving.retain_mut(|child| child.end().is_none());
        if self.fork_server.is_closed() {
            return self.read_events(ended);
        }
        if self.hanging().is_some_and(|deadline| deadline <= Instant::now()) {
            return self.replace(self.fork_server.lost("does not answer".into()));
        }
        Ok(())
    }
}

/// The approximate size of an outcome, bytes.
fn size(outcome: &BuildOutcome) -> usize {
    let lines = |log: &[String]| log.iter().map(String::len).sum::<usize>();
    match outcome {
        Ok((built, image)) => image.len() + built.texts.size() + lines(&built.log),
        Err(not_built) => not_built.error.len() + not_built.texts.size() + lines(&not_built.log),
    }
}
