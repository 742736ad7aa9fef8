//! The branches of a graph: which steps follow each other in a stream, and which wait for others.
//!
//! Kernels of different branches may wait for each other, so they run in different streams. Branch 0 is the stream of
//! the launch. It waits for the others at the end.

/// The most branches of a graph that is launched node by node.
pub const MOST: usize = 128;

/// The place of a step.
#[derive(Debug, PartialEq, Eq)]
pub struct Place {
    pub branch: usize,
    /// Earlier steps of other branches, at most one of each.
    pub waits: Vec<usize>,
}

#[derive(Debug, Default)]
pub struct Branches {
    pub places: Vec<Place>,
    /// The last step of each branch.
    pub ends: Vec<usize>,
}

impl Branches {
    /// Places steps, given the earlier steps that each of them depends on.
    pub fn of<'a>(steps: impl Iterator<Item = &'a [usize]>) -> Self {
        let mut branches = Self::default();
        for (step, after) in steps.enumerate() {
            let place = branches.place(after);
            match branches.ends.get_mut(place.branch) {
                Some(end) => *end = step,
                None => branches.ends.push(step),
            }
            branches.places.push(place);
        }
        branches
    }

    fn place(&self, after: &[usize]) -> Place {
        let branch_of = |step: usize| self.places[step].branch;
        let continued =
            after.iter().map(|before| branch_of(*before)).find(|branch| after.contains(&self.ends[*branch]));
        let branch = continued.unwrap_or(self.ends.len());
        let mut waits: Vec<usize> = after.iter().copied().filter(|before| branch_of(*before) != branch).collect();
        // A step comes after all earlier steps of its branch, so the last of each is enough.
        waits.sort_unstable_by_key(|before| (branch_of(*before), std::cmp::Reverse(*before)));
        waits.dedup_by_key(|before| branch_of(*before));
        Place { branch, waits }
    }

    /// The steps that others wait for, or that end a branch other than the first.
    pub fn awaited(&self) -> impl Iterator<Item = usize> {
        let waits = self.places.iter().flat_map(|place| place.waits.iter().copied());
        waits.chain(self.ends.iter().skip(1).copied())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(steps: &[&[usize]]) -> Vec<(usize, Vec<usize>)> {
        let branches = Branches::of(steps.iter().copied());
        branches.places.into_iter().map(|place| (place.branch, place.waits)).collect()
    }

    #[test]
    fn a_chain_has_one_branch() {
        assert_eq!(of(&[&[], &[0], &[1]]), [(0, vec![]), (0, vec![]), (0, vec![])]);
    }

    #[test]
    fn what_does_not_depend_on_each_other_is_in_different_branches() {
        let diamond = of(&[&[], &[0], &[0], &[1, 2]]);
        assert_eq!(diamond, [(0, vec![]), (0, vec![]), (1, vec![0]), (0, vec![2])]);
        assert_eq!(of(&[&[], &[]]), [(0, vec![]), (1, vec![])]);
    }

    proptest! {
        #[test]
        fn every_step_comes_after_those_that_it_depends_on(
            edges in proptest::collection::vec((0usize..80, 0usize..80), 0..200),
        ) {
            let mut steps = vec![Vec::new(); 80];
            edges.into_iter().filter(|(from, to)| from < to).for_each(|(from, to)| steps[to].push(from));
            let branches = Branches::of(steps.iter().map(Vec::as_slice));
            // The steps before each step: those of its branch, those that it waits for, and those before them.
            let mut before = vec![[false; 80]; 80];
            let mut ends = [None; 80];
            for (step, Place { branch, waits }) in branches.places.iter().enumerate() {
                for earlier in waits.iter().copied().chain(ends[*branch]) {
                    let of_earlier = before[earlier];
                    before[step].iter_mut().zip(of_earlier).for_each(|(known, more)| *known |= more);
                    before[step][earlier] = true;
                }
                ends[*branch] = Some(step);
                prop_assert!(steps[step].iter().all(|earlier| before[step][*earlier]));
            }
        }
    }
}
