//! The builds of configurations: those in progress, and those made lately.
//!
//! Each version of LLVM that a configuration asks for has a fork server of its own.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mneme_builds::program::{Preparation, ProgramError};
use mneme_core::result::ReplayStatus;

use crate::build::fork_server::{ForkServer, ForkServerPlan};
use crate::context::ReplayContext;
use mneme_builds::process::child::Child;
use mneme_builds::{BuildKey, BuildOutcome, BuildSpec, NotBuilt, Target};

/// Bytes of code objects that are kept for configurations that differ in their launch only.
const CACHE_BYTES: usize = 64 << 20;
/// And how many of them at most; builds that failed count as well.
const CACHE_ENTRIES: usize = 1024;
/// Fork servers that may be lost in a row without a build that ended.
const LOSSES: u32 = 3;
/// A fork server that was idle for so long and is lost had nothing wrong with it.
const SETTLED: Duration = Duration::from_secs(1);
/// As good as without a limit.
const NEVER: Duration = Duration::from_secs(365 * 86400);
/// How long after the last time limit a fork server may take to say that it is over: it reads the recorded IR by itself
/// once, and forks on a machine that may have little memory left.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often one that is on its way out is looked after.
const LOOK: Duration = Duration::from_millis(10);

/// A fork server of one version of LLVM, replaced by another where it is lost.
struct Server<'a> {
    plan: ForkServerPlan<'a>,
    fork_server: ForkServer<'a>,
    /// Those before, which were killed and take their time to go.
    leaving: Vec<Child>,
    /// When it was started.
    since: Instant,
    /// Fork servers lost since the last build that ended.
    losses: u32,
    /// Keys of the builds at work and when their time is over, by number.
    at_work: HashMap<u64, (BuildKey, Instant)>,
}

pub struct Builds<'a> {
    context: &'a ReplayContext,
    /// Those that were needed so far, by the version of LLVM.
    servers: BTreeMap<u32, Server<'a>>,
    /// Why there is none of a version.
    useless: BTreeMap<u32, String>,
    /// Builds at a time.
    limit: usize,
    outcomes: HashMap<BuildKey, Rc<BuildOutcome>>,
    /// Keys of `outcomes`, oldest first.
    ages: VecDeque<BuildKey>,
    bytes: usize,
    /// Builds that ended, and code objects that were assembled for them.
    pub built: u64,
    pub assembled: u64,
}

impl<'a> Builds<'a> {
    /// As many builds at a time as the context says; `first` is the version of LLVM that is wanted at once.
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

    /// The fork server of a version of LLVM, started where there is none yet; `None` where its program is of no use.
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

    /// The fork servers at work, to be waited for.
    pub fn fork_servers(&self) -> impl Iterator<Item = &ForkServer<'a>> {
        self.servers.values().map(|server| &server.fork_server)
    }

    /// The whole version of an LLVM that builds are made with; it may have to be waited for.
    ///
    /// # Errors
    /// What makes them is of no use.
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

    /// Orders a build of a version of LLVM. Where its program is of no use, that is the outcome.
    pub fn order(&mut self, llvm: u32, spec: &BuildSpec, key: BuildKey, target: &Target, limit: Duration) {
        match self.server(llvm) {
            Some(server) => server.order(spec, key, target, limit),
            None => {
                let error = self.useless.get(&llvm).cloned().unwrap_or_default();
                self.keep(key, Err(NotBuilt::new(ReplayStatus::InternalError, error)));
            }
        }
    }

    /// Has every fork server do something; how many builds have ended. One that does not last is given up, with the
    /// builds that it was at.
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

    /// Reads what the fork servers have to tell; how many builds have ended. A fork server that is gone is replaced,
    /// and what it was building is forgotten, to be ordered again.
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

    /// When to [watch](Builds::watch) next.
    pub fn deadline(&self) -> Option<Instant> {
        self.servers.values().filter_map(Server::deadline).min()
    }

    /// Replaces a fork server that is gone or hangs.
    pub fn watch(&mut self) {
        self.each(Server::watch);
    }

    /// Whether another build of this may come to something else than the one that is known: one that failed for reasons
    /// outside of it, or any that failed where the client asks for a `fresh` result.
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

    /// Forgets all code, and that which is being built.
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
        while self.ages.len() > CACHE_ENTRIES || (self.bytes > CACHE_BYTES && self.ages.len() > 2 * self.limit) {
            let Some(oldest) = self.ages.pop_front() else { break };
            self.bytes -= self.outcomes.remove(&oldest).map_or(0, |outcome| size(&outcome));
        }
    }
}

/// A build that has ended.
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
        // A fork server that cannot be written to is gone, which shows at the next read.
        if let Ok(number) = self.fork_server.build(spec, target, limit) {
            // No later than what time can tell.
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
            // Others were forgotten.
            if let Some((key, _)) = self.at_work.remove(&answer.number) {
                // It depended on another build, which came to nothing: it is ordered again.
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
        // Where none has ever worked, another one would not either.
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

    /// When the fork server counts as hanging: builds wait for each other, so that only the last time limit tells.
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

/// Bytes that an outcome takes, about.
fn size(outcome: &BuildOutcome) -> usize {
    let lines = |log: &[String]| log.iter().map(String::len).sum::<usize>();
    match outcome {
        Ok((built, image)) => image.len() + built.texts.size() + lines(&built.log),
        Err(not_built) => not_built.error.len() + not_built.texts.size() + lines(&not_built.log),
    }
}
