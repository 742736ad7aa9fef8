//! Finds the winners of a kernel by the values that their code requires.
//!
//! A kernel may have a thousand winners, one for each size of its data; asking each of them takes 37 µs a launch.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Mutex, TryLockError};

use mneme_model::launch::{Dim3, Launch};

use crate::kernels::request::LaunchArguments;

/// The size up to which a launch's key needs no heap memory, bytes.
const SMALL: usize = 160;
/// Up to this number of winners, ask them without looking in the cache of earlier launches.
pub const FEW: usize = 16;
/// How many launches without a winner are remembered.
const REMEMBERED: usize = 8;

/// Bytes of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ArgumentBytes {
    pub index: u32,
    /// Offset of the argument in the parameter buffer and its size, bytes.
    pub offset: u32,
    pub size: usize,
    /// Offset of the bytes in the argument, and their number.
    pub at: usize,
    pub length: usize,
}

/// Grid and block.
pub type GridAndBlock = [u32; 6];

/// The requirements of a winner's code on a launch.
pub struct Needs {
    /// The folded arguments and their values.
    pub arguments: Vec<ArgumentBytes>,
    pub values: Vec<u8>,
    /// The required dimensions, or `None` if any will do.
    pub dimensions: Option<Vec<GridAndBlock>>,
}

/// Winners by their numbers.
#[derive(Default)]
pub struct WinnerIndex {
    groups: Vec<Group>,
    /// All bytes of the kernel's arguments.
    arguments: Vec<ArgumentBytes>,
    unfit: Mutex<Unfit>,
}

/// Winners that depend on the same properties of a launch.
struct Group {
    arguments: Vec<ArgumentBytes>,
    has_dimensions: bool,
    winners: HashMap<Vec<u8>, Vec<usize>>,
}

/// Launches without a winner, and the reasons. A new entry replaces the oldest.
#[derive(Default)]
struct Unfit {
    known: Vec<(Vec<u8>, &'static str)>,
    next: usize,
}

/// The relevant properties of a launch, as bytes.
struct Key {
    small: [u8; SMALL],
    length: usize,
    /// The whole key, if it is too long for `small`.
    large: Vec<u8>,
}

impl Key {
    fn new() -> Self {
        Self { small: [0; SMALL], length: 0, large: Vec::new() }
    }

    fn push(&mut self, bytes: &[u8]) {
        match self.small.get_mut(self.length..self.length + bytes.len()) {
            Some(place) if self.large.is_empty() => {
                place.copy_from_slice(bytes);
                self.length += bytes.len();
            }
            _ => {
                if self.large.is_empty() {
                    self.large.extend_from_slice(&self.small[..self.length]);
                }
                self.large.extend_from_slice(bytes);
            }
        }
    }

    fn push_numbers(&mut self, numbers: impl IntoIterator<Item = u32>) {
        numbers.into_iter().for_each(|number| self.push(&number.to_le_bytes()));
    }

    /// Adds arguments of the launch in progress, whose kernel has them. Returns false if the application passed fewer.
    fn push_arguments(&mut self, which: &[ArgumentBytes], arguments: &LaunchArguments) -> bool {
        // SAFETY: the bytes are of the kernel's parameters, and the launch is in progress.
        let places = unsafe { arguments.places() };
        which.iter().all(|bytes| {
            // SAFETY: as above.
            let start = places.and_then(|places| unsafe { places.of(bytes.index, bytes.offset, bytes.size) });
            // SAFETY: a value of the parameter's size starts there, and these bytes are a part of it.
            let found = start.map(|start| unsafe { std::slice::from_raw_parts(start.add(bytes.at), bytes.length) });
            found.map(|found| self.push(found)).is_some()
        })
    }

    fn bytes(&self) -> &[u8] {
        if self.large.is_empty() { &self.small[..self.length] } else { &self.large }
    }
}

pub fn dimensions(grid: Dim3, block: Dim3) -> GridAndBlock {
    let ([a, b, c], [d, e, f]) = (grid.as_array(), block.as_array());
    [a, b, c, d, e, f]
}

impl WinnerIndex {
    /// An index of winners in their order. `arguments` are all bytes of the kernel's arguments.
    pub fn new(winners: impl IntoIterator<Item = Needs>, arguments: Vec<ArgumentBytes>) -> Self {
        let all = arguments;
        let mut groups: Vec<Group> = Vec::new();
        for (number, Needs { arguments, values, dimensions }) in winners.into_iter().enumerate() {
            let has_dimensions = dimensions.is_some();
            let is_own = |group: &Group| group.arguments == arguments && group.has_dimensions == has_dimensions;
            let place = groups.iter().position(is_own).unwrap_or_else(|| {
                groups.push(Group { arguments, has_dimensions, winners: HashMap::new() });
                groups.len() - 1
            });
            let keys = match dimensions {
                None => vec![values],
                Some(all) => all.into_iter().map(|of| with_numbers(&values, of)).collect(),
            };
            for key in keys {
                let numbers = groups[place].winners.entry(key).or_default();
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            }
        }
        Self { groups, arguments: all, unfit: Mutex::default() }
    }

    /// The winners that may apply to a launch in progress, in their order.
    pub fn find(&self, launch: &Launch, arguments: &LaunchArguments) -> Cow<'_, [usize]> {
        let mut found: Cow<'_, [usize]> = Cow::Borrowed(&[]);
        for group in &self.groups {
            let mut key = Key::new();
            if !key.push_arguments(&group.arguments, arguments) {
                continue;
            }
            if group.has_dimensions {
                key.push_numbers(dimensions(launch.grid, launch.block));
            }
            match group.winners.get(key.bytes()) {
                Some(numbers) if found.is_empty() => found = Cow::Borrowed(numbers),
                Some(numbers) => found.to_mut().extend_from_slice(numbers),
                None => {}
            }
        }
        if let Cow::Owned(numbers) = &mut found {
            numbers.sort_unstable();
        }
        found
    }

    /// The result of `ask` for a launch in progress, or the reason why it fails. Reasons are remembered: winners
    /// can only become fewer, so a launch without a winner stays without.
    pub fn remembered<T>(
        &self,
        launch: &Launch,
        arguments: &LaunchArguments,
        ask: impl FnOnce() -> Result<T, &'static str>,
    ) -> Result<T, &'static str> {
        let mut key = Key::new();
        key.push_numbers(dimensions(launch.grid, launch.block));
        key.push_numbers([launch.shared_mem, launch.attributes.cooperative.into()]);
        key.push_numbers(launch.attributes.cluster.into_iter().flat_map(|cluster| cluster.as_array()));
        if !key.push_arguments(&self.arguments, arguments) {
            return ask();
        }
        // Does not wait for another thread.
        let unfit = || match self.unfit.try_lock() {
            Ok(unfit) => Some(unfit),
            Err(TryLockError::Poisoned(unfit)) => Some(unfit.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        };
        let known = unfit().and_then(|unfit| unfit.known.iter().find(|known| known.0 == key.bytes()).map(|it| it.1));
        if let Some(reason) = known {
            return Err(reason);
        }
        let found = ask();
        if let (Err(reason), Some(mut unfit)) = (&found, unfit()) {
            let entry = (key.bytes().to_vec(), *reason);
            let next = unfit.next;
            match unfit.known.get_mut(next) {
                Some(oldest) => *oldest = entry,
                None => unfit.known.push(entry),
            }
            unfit.next = (next + 1) % REMEMBERED;
        }
        found
    }
}

fn with_numbers(values: &[u8], numbers: GridAndBlock) -> Vec<u8> {
    values.iter().copied().chain(numbers.into_iter().flat_map(u32::to_le_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_model::launch::LaunchAttributes;

    const FIRST: ArgumentBytes = ArgumentBytes { index: 0, offset: 0, size: 8, at: 0, length: 8 };
    const SECOND: ArgumentBytes = ArgumentBytes { index: 1, offset: 8, size: 8, at: 4, length: 4 };

    fn launch(grid: u32) -> Launch {
        let attributes = LaunchAttributes::default();
        Launch { grid: Dim3::new(grid, 1, 1), block: Dim3::new(64, 1, 1), shared_mem: 0, attributes }
    }

    fn with<R>(mut values: [u64; 2], work: impl FnOnce(&LaunchArguments) -> R) -> R {
        let mut pointers = values.each_mut().map(|value| std::ptr::from_mut(value).cast());
        work(&LaunchArguments::new(pointers.as_mut_ptr(), std::ptr::null_mut()))
    }

    #[test]
    fn winners_are_found_by_what_is_folded_and_in_their_order() {
        let of = |arguments: &[ArgumentBytes], values: Vec<u8>, grid: Option<u32>| Needs {
            arguments: arguments.to_vec(),
            values,
            dimensions: grid.map(|grid| vec![[grid, 1, 1, 64, 1, 1]]),
        };
        let seven = 7u64.to_le_bytes().to_vec();
        let both = [&seven[..], &9u32.to_le_bytes()].concat();
        let needs = [
            of(&[FIRST, SECOND], both, None),
            of(&[], vec![], Some(4)),
            of(&[FIRST], 8u64.to_le_bytes().to_vec(), None),
            of(&[FIRST], seven.clone(), Some(4)),
            of(&[FIRST], seven, None),
            of(&[], vec![], None),
        ];
        let index = WinnerIndex::new(needs, Vec::new());
        let found = |grid, values| with(values, |arguments| index.find(&launch(grid), arguments).into_owned());
        assert_eq!(found(4, [7, 9 << 32]), [0, 1, 3, 4, 5]);
        assert_eq!(found(5, [7, 9]), [4, 5]);
        assert_eq!(found(5, [8, 9]), [2, 5]);
        assert_eq!(found(5, [9, 9]), [5]);
    }

    #[test]
    fn a_launch_without_a_winner_is_asked_for_once() {
        let index = WinnerIndex::new([], vec![FIRST]);
        let asked = std::cell::Cell::new(0);
        let ask = |grid: u32, value: u64, answer: Result<(), &'static str>| {
            let ask = || {
                asked.set(asked.get() + 1);
                answer
            };
            with([value, 0], |arguments| index.remembered(&launch(grid), arguments, ask))
        };
        for _ in 0..3 {
            assert_eq!(ask(4, 7, Err("none fits")), Err("none fits"));
        }
        assert_eq!(asked.get(), 1);
        assert_eq!((ask(5, 7, Err("other")), ask(4, 8, Ok(())), ask(4, 8, Ok(()))), (Err("other"), Ok(()), Ok(())));
        assert_eq!(asked.get(), 4, "a launch with a winner is asked for each time");
        (0..2 * REMEMBERED as u64).for_each(|value| _ = ask(4, 100 + value, Err("none fits")));
        assert_eq!(index.unfit.lock().unwrap().known.len(), REMEMBERED);
    }

    #[test]
    fn long_keys_are_whole() {
        let mut key = Key::new();
        let bytes: Vec<u8> = (0..=255).collect();
        bytes.chunks(48).for_each(|some| key.push(some));
        assert_eq!(key.bytes(), bytes);
    }
}
