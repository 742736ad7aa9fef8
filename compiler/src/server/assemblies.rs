//! A cache of code objects by their PTX.
//!
//! Each PTX is assembled once, for all pipelines and dimensions that produce it.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use mneme_builds::{BuildOutcome, Built, NotBuilt, Spills};
use mneme_model::hash::ChunkId;

/// Bytes of code objects to remember.
const REMEMBERED: usize = 64 << 20;

/// A finished assembly.
struct Assembled {
    assembler: String,
    spills: Option<Spills>,
    image: Vec<u8>,
}

#[derive(Default)]
pub struct Assemblies {
    finished: HashMap<ChunkId, Rc<Assembled>>,
    /// Keys of `finished`, oldest first.
    ages: VecDeque<ChunkId>,
    bytes: usize,
    /// The PTX under assembly, by the order that assembles it.
    at_work: HashMap<u64, ChunkId>,
    /// Orders that rely on another order's assembly, with their PTX.
    relying: HashMap<u64, ChunkId>,
    /// Those of them that have reported everything else and wait for the code.
    waiting: Vec<(u64, Built)>,
}

impl Assemblies {
    /// Whether the order should assemble this PTX itself.
    pub fn ask(&mut self, order: u64, ptx: ChunkId) -> bool {
        // An order that was started again asks again.
        let known =
            self.finished.contains_key(&ptx) || self.at_work.iter().any(|(by, other)| *other == ptx && *by != order);
        if known {
            self.relying.insert(order, ptx);
        } else {
            self.at_work.insert(order, ptx);
        }
        !known
    }

    /// Takes the outcome of an order. Returns the outcomes that are now complete, each with whether an assembler ran
    /// for it. A `None` is an order that relied on another's failed assembly and has to be built again, because its own
    /// may succeed.
    pub fn settle(&mut self, order: u64, outcome: BuildOutcome) -> Vec<(u64, Option<BuildOutcome>, bool)> {
        if let Some(ptx) = self.relying.remove(&order) {
            return match outcome {
                Ok((built, _)) => match self.finished.get(&ptx) {
                    Some(assembled) => vec![(order, Some(with(built, assembled)), false)],
                    None if self.at_work.values().any(|other| *other == ptx) => {
                        self.relying.insert(order, ptx);
                        self.waiting.push((order, built));
                        Vec::new()
                    }
                    // The other's assembly failed after this order had begun to rely on it.
                    None => vec![(order, None, false)],
                },
                failed => vec![(order, Some(failed), false)],
            };
        }
        let Some(ptx) = self.at_work.remove(&order) else {
            let assembled = outcome.is_ok();
            return vec![(order, Some(outcome), assembled)];
        };
        let code = outcome
            .as_ref()
            .map(|(built, image)| {
                Rc::new(Assembled { assembler: built.assembler.clone(), spills: built.spills, image: image.clone() })
            })
            // A time limit, a lack of memory or a signal concerns that order only.
            .map_err(|failed| failed.rejected.then(|| failed.clone()));
        let mut complete = vec![(order, Some(outcome), true)];
        let (waited, others) =
            std::mem::take(&mut self.waiting).into_iter().partition(|(other, _)| self.relying.get(other) == Some(&ptx));
        self.waiting = others;
        for (other, built) in waited {
            self.relying.remove(&other);
            let outcome = match &code {
                Ok(code) => Some(with(built, code)),
                // The rejected order's texts are its own; this order keeps those that it has produced.
                Err(rejected) => {
                    rejected.clone().map(|rejected| Err(NotBuilt { texts: Box::new(built.texts), ..rejected }))
                }
            };
            complete.push((other, outcome, false));
        }
        if let Ok(code) = code {
            self.remember(ptx, code);
        }
        complete
    }

    fn remember(&mut self, ptx: ChunkId, code: Rc<Assembled>) {
        self.bytes += code.image.len();
        self.ages.push_back(ptx);
        self.finished.insert(ptx, code);
        while self.bytes > REMEMBERED && self.ages.len() > 1 {
            // Orders in progress that rely on it would lose it.
            let Some(place) = self.ages.iter().position(|old| !self.relying.values().any(|ptx| ptx == old)) else {
                break;
            };
            let Some(oldest) = self.ages.remove(place) else { break };
            self.bytes -= self.finished.remove(&oldest).map_or(0, |code| code.image.len());
        }
    }
}

fn with(built: Built, assembled: &Assembled) -> BuildOutcome {
    Ok((Built { assembler: assembled.assembler.clone(), spills: assembled.spills, ..built }, assembled.image.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::result::ReplayStatus;

    const PTX: ChunkId = ChunkId([7; 16]);

    fn built(entry: &str, image: &[u8]) -> BuildOutcome {
        let spills = (!image.is_empty()).then_some(Spills { stores: 4, loads: 8 });
        let assembler = if image.is_empty() { String::new() } else { "a".into() };
        Ok((Built { entry: entry.into(), assembler, spills, ..Built::default() }, image.to_vec()))
    }

    fn image(outcome: &Option<BuildOutcome>) -> (&str, &[u8]) {
        outcome.as_ref().unwrap().as_ref().map(|(built, image)| (built.entry.as_str(), image.as_slice())).unwrap()
    }

    #[test]
    fn the_second_of_a_kind_takes_the_code_of_the_first() {
        let mut assemblies = Assemblies::default();
        assert!(assemblies.ask(1, PTX));
        let first = assemblies.settle(1, built("one", b"code"));
        assert!(first.len() == 1 && first[0].2 && image(&first[0].1) == ("one", b"code"));
        assert!(!assemblies.ask(2, PTX));
        let second = assemblies.settle(2, built("two", b""));
        assert!(second.len() == 1 && !second[0].2 && image(&second[0].1) == ("two", b"code"));
        let built = &second[0].1.as_ref().unwrap().as_ref().unwrap().0;
        assert_eq!((built.assembler.as_str(), built.spills), ("a", Some(Spills { stores: 4, loads: 8 })));
        assert!(assemblies.relying.is_empty() && assemblies.at_work.is_empty());
    }

    #[test]
    fn who_asks_again_is_not_waited_for() {
        let mut assemblies = Assemblies::default();
        assert!(assemblies.ask(1, PTX) && !assemblies.ask(2, PTX) && assemblies.ask(1, PTX));
        assert!(assemblies.settle(2, built("two", b"")).is_empty());
        assert_eq!(assemblies.settle(1, built("one", b"code")).len(), 2);
    }

    #[test]
    fn who_asks_meanwhile_waits() {
        let mut assemblies = Assemblies::default();
        assert!(assemblies.ask(1, PTX));
        assert!(!assemblies.ask(2, PTX) && !assemblies.ask(3, PTX));
        assert!(assemblies.settle(2, built("two", b"")).is_empty());
        let complete = assemblies.settle(1, built("one", b"code"));
        assert_eq!(
            complete.iter().map(|(order, outcome, _)| (*order, image(outcome).1)).collect::<Vec<_>>(),
            [(1, &b"code"[..]), (2, b"code")]
        );
        assert_eq!(image(&assemblies.settle(3, built("three", b""))[0].1), ("three", &b"code"[..]));
    }

    #[test]
    fn what_the_assembler_refuses_is_refused_to_all_who_wait_and_forgotten() {
        let mut assemblies = Assemblies::default();
        assert!(assemblies.ask(1, PTX) && !assemblies.ask(2, PTX) && !assemblies.ask(3, PTX));
        assert!(assemblies.settle(2, built("two", b"")).is_empty());
        let failed = NotBuilt { rejected: true, ..NotBuilt::new(ReplayStatus::CompileError, "no such instruction") };
        let complete = assemblies.settle(1, Err(failed.clone()));
        assert!(
            complete.iter().all(|(_, outcome, _)| outcome.as_ref().unwrap().as_ref().unwrap_err() == &failed)
                && complete.len() == 2
        );
        assert!(
            assemblies.settle(3, built("three", b""))[0].1.is_none(),
            "it is started again, so the assembler can report the error"
        );
        assert!(assemblies.ask(4, PTX));
    }

    #[test]
    fn what_happened_to_one_build_is_not_its_neighbours_result() {
        let mut assemblies = Assemblies::default();
        assert!(assemblies.ask(1, PTX) && !assemblies.ask(2, PTX) && !assemblies.ask(3, PTX));
        assert!(assemblies.settle(2, built("two", b"")).is_empty());
        let complete = assemblies.settle(1, Err(NotBuilt::new(ReplayStatus::Timeout, "late")));
        assert!(complete[0].1.as_ref().unwrap().is_err(), "its own");
        assert_eq!((complete.len(), complete[1].0, &complete[1].1), (2, 2, &None), "the neighbour is built again");
        assert!(assemblies.settle(3, built("three", b""))[0].1.is_none());
        assert!(assemblies.ask(2, PTX), "and assembles itself");
    }
}
