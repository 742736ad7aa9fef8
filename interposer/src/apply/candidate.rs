//! A winner for a kernel, and the launches that it is for.
//!
//! Rules, the first that holds: the launch that was tuned gets the tuned dimensions; a launch with the block and shared
//! memory of that one gets what the space's rule says; any other keeps its own dimensions and gets the code alone. What
//! is folded into the code has to be as it was in all of them.

use std::cmp::Ordering;
use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use mneme_core::launch::Launch;
use mneme_core::tuned::{LaunchDimensions, ReadRule, RuleInputs, Winner};

use super::loaded::TunedCode;
use super::trials::Trials;
use crate::kernels::key::may_be_address;
use crate::kernels::parameters::Parameters;
use crate::kernels::request::LaunchArguments;
use crate::process::settings::settings;

/// A winner whose code can be used in a kernel's place.
pub struct WinnerCandidate {
    pub code: TunedCode,
    /// What arguments have to be like in the launch that was tuned, and for the code at all.
    recorded: Vec<Piece>,
    folded: Vec<Piece>,
    rule: Option<ReadRule>,
    /// The kernel prints.
    prints: bool,
    pub trials: Trials,
    /// Why it is not used any more.
    pub broken: OnceLock<String>,
    /// Launches of it that the driver refused.
    pub refusals: AtomicU32,
    /// It was made for launches like one of this run, and is for no others.
    pub is_variant: bool,
    /// Of such code: among the kernel's winners, the one that those launches got before.
    base: Option<usize>,
}

/// Some bytes of an argument.
#[derive(Clone)]
struct Piece {
    index: u32,
    /// Of the argument in the parameter buffer, bytes, and its size.
    offset: u32,
    size: usize,
    /// Of the bytes in the argument.
    at: usize,
    expected: Expected,
}

#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Bytes(Box<[u8]>),
    /// Of unknown type: any address.
    Address,
}

/// The shape of a launch.
pub fn shape_of(launch: &Launch) -> LaunchDimensions {
    LaunchDimensions { grid: launch.grid, block: launch.block, shared_mem: launch.shared_mem }
}

impl WinnerCandidate {
    /// A winner for a kernel with these parameters, which prints or not; a sentence where it is for another.
    pub fn new(winner: &'static Winner, parameters: &Parameters, prints: bool) -> Result<Self, String> {
        if !parameters.layout().eq(winner.layout.iter().copied()) {
            return Err("its parameters are not those of the recording; record and tune it again".into());
        }
        let sizes = || winner.arguments.iter().map(|argument| argument.bytes.len());
        if !sizes().eq(winner.layout.iter().map(|(_, size)| *size as usize)) {
            return Err("the file of tuned kernels does not have its arguments; write it anew with mneme apply".into());
        }
        let pointers: Vec<(usize, u32)> = parameters.pointers().map(|(index, _, offset)| (index, offset)).collect();
        let is_number = |index: usize, word: usize| winner.numbers.contains(&(index as u32, 8 * word as u32));
        let mut recorded = Vec::new();
        for (index, argument) in winner.arguments.iter().enumerate() {
            let is_typed = parameters.is_typed(index);
            for (word, bytes) in argument.bytes.chunks(8).enumerate() {
                let is_pointer = pointers.contains(&(index, 8 * word as u32));
                let expected = match is_pointer {
                    true if is_typed => continue,
                    true if may_be_address(bytes) && !is_number(index, word) => Expected::Address,
                    _ => Expected::Bytes(bytes.into()),
                };
                recorded.push(Piece {
                    index: index as u32,
                    offset: argument.offset,
                    size: argument.bytes.len(),
                    at: 8 * word,
                    expected,
                });
            }
        }
        // Addresses are never folded; what may be one and is in no recorded memory is a number.
        let is_folded =
            |piece: &&Piece| winner.folded.arguments.contains(&piece.index) && piece.expected != Expected::Address;
        let folded: Vec<Piece> = recorded.iter().filter(is_folded).cloned().collect();
        let rule = winner.rule.as_ref().and_then(|rule| rule.read().ok());
        Ok(Self {
            code: TunedCode::new(winner),
            recorded,
            folded,
            rule,
            prints,
            trials: Trials::new(settings().verify_first),
            broken: OnceLock::new(),
            refusals: AtomicU32::new(0),
            is_variant: false,
            base: None,
        })
    }

    /// Code that was made for launches like one of this run, which got the winner at `base` before: what is not folded
    /// into it may be anything.
    pub fn variant(
        winner: &'static Winner,
        parameters: &Parameters,
        prints: bool,
        base: Option<usize>,
    ) -> Result<Self, String> {
        let mut variant = Self::new(winner, parameters, prints)?;
        variant.recorded.clear();
        Ok(Self { is_variant: true, base, rule: None, ..variant })
    }

    pub fn winner(&self) -> &'static Winner {
        self.code.winner
    }

    /// Whether it is launched with the dimensions that the application asks for alone. What a kernel prints says often
    /// which thread it was.
    fn keeps_dimensions(&self) -> bool {
        self.winner().keeps_dimensions || self.prints
    }

    /// Whether a launch is the one that was tuned, addresses aside, and may have the tuned dimensions.
    pub fn is_recorded(&self, launch: &Launch, arguments: &LaunchArguments) -> bool {
        (!self.keeps_dimensions() || self.winner().tuned == self.winner().recorded)
            && shape_of(launch) == self.winner().recorded
            && launch.attributes.cluster == self.winner().cluster
            && are(&self.recorded, arguments)
            && are(&self.folded, arguments)
    }

    /// Whether it was made for launches like this one, which gets the winner at `base` and these dimensions without it.
    pub fn is_for(
        &self,
        launch: &Launch,
        arguments: &LaunchArguments,
        base: Option<usize>,
        shape: &LaunchDimensions,
    ) -> bool {
        self.base == base && self.winner().tuned == *shape && self.is_recorded(launch, arguments)
    }

    /// What another launch is to be; `None` where the code is not for it.
    pub fn shape_for(&self, launch: &Launch, arguments: &LaunchArguments) -> Option<LaunchDimensions> {
        if !are(&self.folded, arguments) {
            return None;
        }
        let asked = shape_of(launch);
        self.by_rule(launch, arguments)
            .filter(|shape| self.allows(shape))
            .or_else(|| Some(asked).filter(|_| self.allows(&asked)))
    }

    /// Whether the code can be launched so.
    fn allows(&self, shape: &LaunchDimensions) -> bool {
        let Winner { tuned, folded, max_threads, .. } = self.winner();
        let dimensions = !folded.dimensions || (shape.grid, shape.block) == (tuned.grid, tuned.block);
        let shared = !(folded.shared_size || folded.shared_memory) || shape.shared_mem == tuned.shared_mem;
        dimensions && shared && max_threads.is_none_or(|most| shape.block.count() <= u64::from(most))
    }

    fn by_rule(&self, launch: &Launch, arguments: &LaunchArguments) -> Option<LaunchDimensions> {
        let rule = self.rule.as_ref().filter(|_| !self.keeps_dimensions())?;
        let Winner { recorded, tuned, cluster, .. } = self.winner();
        let asked = shape_of(launch);
        let is_alike = (asked.block, asked.shared_mem) == (recorded.block, recorded.shared_mem)
            && launch.attributes.cluster == *cluster
            && !launch.attributes.cooperative;
        if !is_alike {
            return None;
        }
        let values = self.numbers(arguments);
        let inputs = RuleInputs { launch: asked, recorded: *recorded, tuned: *tuned, arguments: &values };
        let shape = rule.shape(&inputs)?;
        let threads = |shape: &LaunchDimensions, axis: usize| {
            u64::from(shape.grid.as_array()[axis]) * u64::from(shape.block.as_array()[axis])
        };
        // A kernel need not bear threads that the application does not start, nor miss those that it does, unless it
        // did where it was verified.
        let bears = |axis: usize| match threads(&shape, axis).cmp(&threads(&asked, axis)) {
            Ordering::Equal => true,
            Ordering::Greater => threads(tuned, axis) > threads(recorded, axis),
            Ordering::Less => threads(tuned, axis) < threads(recorded, axis),
        };
        ((0..3).all(bears) && !super::has_too_many_blocks(&shape)).then_some(shape)
    }

    /// Arguments as numbers, as spaces have them.
    fn numbers(&self, arguments: &LaunchArguments) -> Vec<Option<u64>> {
        // SAFETY: the layout is that of the kernel's parameters, and the launch is under way.
        let places = unsafe { arguments.places() };
        let number = |(index, (offset, size)): (usize, &(u32, u32))| {
            let size = *size as usize;
            let mut word = [0; 8];
            // SAFETY: as above.
            let start = places.and_then(|places| unsafe { places.of(index as u32, *offset, size) })?;
            // SAFETY: a value of the parameter's size starts there.
            word.get_mut(..size)?.copy_from_slice(unsafe { std::slice::from_raw_parts(start, size) });
            Some(u64::from_le_bytes(word))
        };
        self.winner().layout.iter().enumerate().map(number).collect()
    }
}

/// Whether the arguments of a launch under way are such.
fn are(pieces: &[Piece], arguments: &LaunchArguments) -> bool {
    // SAFETY: the pieces are of the kernel's parameters, and the launch is under way.
    let places = unsafe { arguments.places() };
    pieces.iter().all(|piece| {
        let length = if let Expected::Bytes(bytes) = &piece.expected { bytes.len() } else { 8 };
        // SAFETY: as above.
        let start = places.and_then(|places| unsafe { places.of(piece.index, piece.offset, piece.size) });
        // SAFETY: a value of the parameter's size starts there, of which the piece is a part.
        let found = start.map(|start| unsafe { std::slice::from_raw_parts(start.add(piece.at), length) });
        found.is_some_and(|found| match &piece.expected {
            Expected::Bytes(bytes) => found == &**bytes,
            Expected::Address => may_be_address(found),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use mneme_core::launch::{Dim3, LaunchAttributes};
    use mneme_core::recording::manifest::RecordedArgument;
    use mneme_core::tuned::{DimensionRule, Folded};

    const LARGE: u64 = 5_000_000_000;

    fn shape(grid: u32, block: u32) -> LaunchDimensions {
        LaunchDimensions { grid: Dim3::new(grid, 1, 1), block: Dim3::new(block, 1, 1), shared_mem: 0 }
    }

    fn winner(folded: &[u32], tuned: LaunchDimensions, rule: Option<DimensionRule>) -> &'static Winner {
        Box::leak(Box::new(Winner {
            kernel: "k".into(),
            static_hash: 1,
            architecture: "cpu".into(),
            code: "code".into(),
            checksum: 0,
            layout: vec![(0, 8)],
            recorded: shape(40, 256),
            tuned,
            cluster: None,
            arguments: vec![RecordedArgument { offset: 0, bytes: LARGE.to_le_bytes().into() }],
            folded: Folded { arguments: folded.into(), ..Folded::default() },
            numbers: Vec::new(),
            keeps_dimensions: false,
            max_threads: None,
            rule,
            image: None,
            prints: false,
            before: None,
            after: None,
            source: "results".into(),
        }))
    }

    /// Whether a launch with this argument is the recorded one, and what another is to be.
    fn judge(
        candidate: &WinnerCandidate,
        asked: LaunchDimensions,
        mut argument: u64,
    ) -> (bool, Option<LaunchDimensions>) {
        let mut place = std::ptr::from_mut(&mut argument).cast();
        let arguments = LaunchArguments::new(&raw mut place, std::ptr::null_mut());
        let attributes = LaunchAttributes::default();
        let launch = Launch { grid: asked.grid, block: asked.block, shared_mem: asked.shared_mem, attributes };
        (candidate.is_recorded(&launch, &arguments), candidate.shape_for(&launch, &arguments))
    }

    #[test]
    fn a_folded_number_that_looks_like_an_address_has_to_be_the_same() {
        let (parameters, asked) = (Parameters::of_kinds(&[""]), shape(40, 256));
        let of_number = Winner { numbers: vec![(0, 0)], ..winner(&[0], asked, None).clone() };
        let folded = WinnerCandidate::new(Box::leak(Box::new(of_number)), &parameters, false).unwrap();
        assert_eq!(judge(&folded, asked, LARGE), (true, Some(asked)));
        assert_eq!(judge(&folded, asked, LARGE + 1), (false, None));
        let address = WinnerCandidate::new(winner(&[0], asked, None), &parameters, false).unwrap();
        assert_eq!(judge(&address, asked, LARGE + 1), (true, Some(asked)), "an address is not in the code");
        let plain = WinnerCandidate::new(winner(&[], asked, None), &parameters, false).unwrap();
        assert_eq!(judge(&plain, asked, LARGE + 1), (true, Some(asked)), "as an address may be any");
        let number = Winner { numbers: vec![(0, 0)], ..winner(&[], asked, None).clone() };
        let number = WinnerCandidate::new(Box::leak(Box::new(number)), &parameters, false).unwrap();
        assert_eq!(judge(&number, asked, LARGE + 1), (false, Some(asked)), "in no recorded allocation");
    }

    #[test]
    fn a_rule_does_not_leave_out_threads_unless_its_winner_did() {
        let parameters = Parameters::of_kinds(&["i64"]);
        let blocks = |text: &str| {
            Some(DimensionRule { derived: vec![("grid.x".into(), text.into())], ..DimensionRule::default() })
        };
        let same =
            WinnerCandidate::new(winner(&[], shape(80, 128), Some(DimensionRule::same_threads())), &parameters, false)
                .unwrap();
        assert_eq!(judge(&same, shape(10, 256), 7).1, Some(shape(20, 128)));
        let constant = WinnerCandidate::new(winner(&[], shape(80, 128), blocks("80")), &parameters, false).unwrap();
        assert_eq!(judge(&constant, shape(50, 256), 7).1, Some(shape(50, 256)), "the code alone");
        assert_eq!(judge(&constant, shape(10, 256), 7).1, Some(shape(10, 256)), "the code alone");
        let kept = Winner {
            keeps_dimensions: true,
            ..winner(&[], shape(80, 128), Some(DimensionRule::same_threads())).clone()
        };
        let kept = WinnerCandidate::new(Box::leak(Box::new(kept)), &parameters, false).unwrap();
        assert_eq!(judge(&kept, shape(40, 256), LARGE), (false, Some(shape(40, 256))));
        assert_eq!(judge(&same, shape(i32::MAX as u32, 256), 7).1, Some(shape(i32::MAX as u32, 256)), "too many");
        let fewer =
            WinnerCandidate::new(winner(&[], shape(20, 256), blocks("recorded.grid.x / 2")), &parameters, false)
                .unwrap();
        assert_eq!(judge(&fewer, shape(10, 256), 7).1, Some(shape(5, 256)));
    }

    #[test]
    fn code_for_a_launch_of_this_run_is_for_no_other_dimensions_and_folded_numbers() {
        let (parameters, asked) = (Parameters::of_kinds(&["i64"]), shape(40, 256));
        let variant = WinnerCandidate::variant(winner(&[0], asked, None), &parameters, false, None).unwrap();
        assert!(judge(&variant, asked, LARGE).0 && !judge(&variant, asked, LARGE + 1).0);
        assert!(!judge(&variant, shape(41, 256), LARGE).0);
        let of_any = WinnerCandidate::variant(winner(&[], asked, None), &parameters, false, None).unwrap();
        assert!(judge(&of_any, asked, LARGE + 1).0);
    }
}
