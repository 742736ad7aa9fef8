//! The results of warp operations.
//!
//! They are `shfl.sync`, `vote.sync`, `match.sync` and `redux.sync` of the PTX ISA (32 lanes), the parts of matrix
//! operations, and the ballot and exchanges to which AMD's instructions are lowered (32 or 64 lanes).

/// The most lanes that a warp has.
pub const LANES: usize = 64;

/// The kind of a meeting. Lanes synchronise only if they call the same class of operation with the same mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarpRequest {
    pub class: Class,
    pub mask: u64,
}

/// The numbers of the lanes in a mask.
pub fn lanes(mask: u64) -> impl Iterator<Item = usize> {
    (0..LANES).filter(move |lane| mask >> lane & 1 != 0)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Sync,
    Shuffle,
    Vote,
    Match,
    Redux,
    Matrix,
}

impl Class {
    /// The name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Class::Sync => "warp barrier",
            Class::Shuffle => "shuffle",
            Class::Vote => "vote",
            Class::Match => "match",
            Class::Redux => "reduction",
            Class::Matrix => "matrix operation",
        }
    }
}

/// One lane's input to an operation. `kind` is numbered as in docs/reference/cpu-code-objects.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Sync,
    Shuffle {
        kind: u32,
        value: u32,
        lane: u32,
        clamp: u32,
    },
    Vote {
        kind: u32,
        predicate: bool,
    },
    Match {
        kind: u32,
        value: u64,
    },
    Redux {
        kind: u32,
        value: u32,
    },
    /// All lanes get the value of the first lane.
    First {
        value: u64,
    },
    /// The lanes of a wave continue together.
    Gather,
    /// CUDA's `activemask`: the lanes at this call.
    Active,
    /// The lanes of a wave whose predicate is true.
    Ballot {
        predicate: bool,
    },
    /// Each lane of a wave gets the value of the lane that it names.
    Exchange {
        value: u32,
        source: u32,
    },
    /// Each lane of a wave gets the value that was sent to it.
    Permute {
        value: u32,
        destination: u32,
    },
}

impl Operation {
    /// Whether it is one of AMD's operations. Lanes of a wave are together again after every branch and loop.
    pub fn is_of_wave(self) -> bool {
        matches!(
            self,
            Operation::Gather | Operation::Ballot { .. } | Operation::Exchange { .. } | Operation::Permute { .. }
        )
    }
}

/// The result for `lane`, given the operations of the lanes in `arrived`.
pub fn result(lane: u32, arrived: u64, operations: &[Operation; LANES]) -> u64 {
    let mask_of = |holds: &dyn Fn(&Operation) -> bool| {
        lanes(arrived).filter(|lane| holds(&operations[*lane])).fold(0u64, |mask, lane| mask | 1 << lane)
    };
    match operations[lane as usize] {
        Operation::Sync | Operation::Gather => 0,
        Operation::Shuffle { kind, value, lane: wanted, clamp } => {
            let (source, valid) = source_lane(kind, lane, wanted, clamp);
            let taken = match operations[source as usize] {
                Operation::Shuffle { value, .. } if arrived >> source & 1 != 0 => value,
                _ => value,
            };
            u64::from(taken) | u64::from(valid) << 32
        }
        Operation::Vote { kind, .. } => {
            let ballot = mask_of(&|operation| matches!(operation, Operation::Vote { predicate: true, .. }));
            match kind {
                0 => ballot,
                1 => u64::from(ballot != 0),
                2 => u64::from(ballot == arrived),
                _ => u64::from(ballot == 0 || ballot == arrived),
            }
        }
        Operation::Match { kind, value } => {
            let equal =
                mask_of(&|operation| matches!(operation, Operation::Match { value: other, .. } if *other == value));
            match kind {
                0 => equal,
                _ if equal == arrived => arrived | 1 << 32,
                _ => 0,
            }
        }
        Operation::Redux { kind, .. } => {
            let values = lanes(arrived).filter_map(|lane| match operations[lane] {
                Operation::Redux { value, .. } => Some(value),
                _ => None,
            });
            u64::from(values.reduce(|a, b| combine(kind, a, b)).unwrap_or(0))
        }
        Operation::First { value } => match lanes(arrived).next().map(|first| operations[first]) {
            Some(Operation::First { value }) => value,
            _ => value,
        },
        Operation::Active => arrived,
        Operation::Ballot { .. } => mask_of(&|operation| matches!(operation, Operation::Ballot { predicate: true })),
        Operation::Exchange { source, .. } => {
            let sender = usize::try_from(source).ok().filter(|source| lanes(arrived).any(|lane| lane == *source));
            match sender.map(|sender| operations[sender]) {
                Some(Operation::Exchange { value, .. }) => u64::from(value) | 1 << 32,
                _ => 0,
            }
        }
        Operation::Permute { .. } => {
            let sent = lanes(arrived).filter_map(|sender| match operations[sender] {
                Operation::Permute { value, destination } if destination == lane => Some(value),
                _ => None,
            });
            sent.last().map_or(0, |value| u64::from(value) | 1 << 32)
        }
    }
}

/// The lane that a shuffle reads from, and whether it is in range. If not, the lane reads its own value.
fn source_lane(kind: u32, lane: u32, wanted: u32, clamp: u32) -> (u32, bool) {
    let (wanted, bound, segment) = (wanted & 31, clamp & 31, clamp >> 8 & 31);
    let least = lane & segment;
    let most = least | bound & !segment;
    let (source, valid) = match kind {
        0 => (least | wanted & !segment, (least | wanted & !segment) <= most),
        1 => (lane.wrapping_sub(wanted), lane as i32 - wanted as i32 >= most as i32),
        2 => (lane + wanted, lane + wanted <= most),
        _ => (lane ^ wanted, lane ^ wanted <= most),
    };
    if valid { (source & 31, true) } else { (lane, false) }
}

fn combine(kind: u32, a: u32, b: u32) -> u32 {
    match kind {
        0 => a.wrapping_add(b),
        1 => a.min(b),
        2 => a.max(b),
        3 => (a as i32).min(b as i32) as u32,
        4 => (a as i32).max(b as i32) as u32,
        5 => a & b,
        6 => a | b,
        _ => a ^ b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shuffle(kind: u32, lane: u32, wanted: u32, clamp: u32) -> (u32, bool) {
        let operations: [Operation; LANES] =
            std::array::from_fn(|own| Operation::Shuffle { kind, value: 100 + own as u32, lane: wanted, clamp });
        let result = result(lane, u64::from(u32::MAX), &operations);
        (result as u32, result >> 32 != 0)
    }

    #[test]
    fn shuffles_stay_in_their_segment() {
        // Operand c as CUDA's headers build it: (32 - width) << 8 | 31, and without the 31 for `up`.
        assert_eq!(shuffle(0, 7, 3, 31), (103, true));
        assert_eq!(shuffle(0, 13, 2, (32 - 8) << 8 | 31), (110, true));
        assert_eq!(shuffle(1, 2, 3, 0), (102, false));
        assert_eq!(shuffle(1, 5, 3, 0), (102, true));
        assert_eq!(shuffle(2, 30, 2, 31), (130, false));
        assert_eq!(shuffle(2, 5, 2, (32 - 8) << 8 | 31), (107, true));
        assert_eq!(shuffle(2, 6, 2, (32 - 8) << 8 | 31), (106, false));
        assert_eq!(shuffle(3, 6, 9, 31), (115, true));
        assert_eq!(shuffle(3, 6, 9, (32 - 8) << 8 | 31), (106, false));
    }

    #[test]
    fn only_lanes_that_arrived_are_counted() {
        let votes: [Operation; LANES] =
            std::array::from_fn(|lane| Operation::Vote { kind: 0, predicate: lane % 4 == 1 });
        assert_eq!(result(1, 0xff, &votes), 0x22);
        let all: [Operation; LANES] = std::array::from_fn(|lane| Operation::Vote { kind: 2, predicate: lane < 4 });
        assert_eq!((result(0, 0xf, &all), result(0, 0x1f, &all)), (1, 0));
        let sums: [Operation; LANES] = std::array::from_fn(|lane| Operation::Redux { kind: 0, value: lane as u32 });
        assert_eq!(result(3, 0b1010, &sums), 4);
        let least: [Operation; LANES] =
            std::array::from_fn(|lane| Operation::Redux { kind: 3, value: 5u32.wrapping_sub(lane as u32) });
        assert_eq!(result(0, 0xff, &least) as u32, -2i32 as u32);
        let matches: [Operation; LANES] =
            std::array::from_fn(|lane| Operation::Match { kind: 0, value: lane as u64 % 3 });
        assert_eq!(result(4, 0x3f, &matches), 0b010010);
        let matches: [Operation; LANES] =
            std::array::from_fn(|lane| Operation::Match { kind: 1, value: lane as u64 / 8 });
        assert_eq!((result(4, 0xff, &matches), result(4, 0x1ff, &matches)), (1 << 32 | 0xff, 0));
    }

    #[test]
    fn waves_of_64_exchange_values_with_the_lanes_that_are_there() {
        let votes: [Operation; LANES] = std::array::from_fn(|lane| Operation::Ballot { predicate: lane % 2 == 1 });
        assert_eq!(result(0, u64::MAX, &votes), 0xaaaa_aaaa_aaaa_aaaa);
        assert_eq!(result(63, 0xff << 56, &votes), 0xaa << 56);
        let own = |lane: usize| 100 + lane as u32;
        let read: [Operation; LANES] =
            std::array::from_fn(|lane| Operation::Exchange { value: own(lane), source: lane as u32 ^ 40 });
        assert_eq!(result(3, u64::MAX, &read), u64::from(own(43)) | 1 << 32);
        assert_eq!(result(3, 0xffff, &read), 0);
        let outside: [Operation; LANES] = std::array::from_fn(|_| Operation::Exchange { value: 1, source: 64 });
        assert_eq!(result(0, u64::MAX, &outside), 0);
        let sent: [Operation; LANES] =
            std::array::from_fn(|lane| Operation::Permute { value: own(lane), destination: lane as u32 / 2 });
        assert_eq!((result(31, u64::MAX, &sent), result(32, u64::MAX, &sent)), (u64::from(own(63)) | 1 << 32, 0));
        assert_eq!(result(31, u64::MAX >> 1, &sent), u64::from(own(62)) | 1 << 32);
    }
}
