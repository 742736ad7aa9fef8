//! A winner for a kernel, and the launches that it applies to.
//!
//! The winner applies to a launch only if the values that are folded into its code equal those of the launch. The
//! launch then gets the first of these dimensions that is possible:
//!
//! 1. The tuned dimensions, if the winner verified on an equal launch: same dimensions, and same arguments except for
//!    addresses.
//! 2. The dimensions that the winner's grid rule computes. `mneme apply` drops the rule unless the winner verified on
//!    several launches, or the user passes `--any-launch`.
//! 3. The launch's own dimensions, if the code verified with the dimensions of the recorded launch.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;

use mneme_model::launch::Launch;
use mneme_recording::manifest::RecordedArgument;
use mneme_winners::{LaunchDimensions, ReadRule, RuleInputs, Winner};

use super::error::ApplyError;
use super::index::{self, ArgumentBytes, Needs};
use super::loaded::TunedCode;
use super::trials::Trials;
use super::{ALWAYS_OWN, UNFIT, UNRULED, UNVERIFIED};
use crate::kernels::key::may_be_address;
use crate::kernels::parameters::Parameters;
use crate::kernels::request::LaunchArguments;
use crate::process::settings::settings;

/// A winner whose code can replace a kernel.
pub struct WinnerCandidate {
    pub code: TunedCode,
    /// Launches that may have the winner's dimensions.
    verified: Vec<Verified>,
    /// Argument values that the code requires.
    folded: Vec<Piece>,
    rule: Option<ReadRule>,
    /// Whether the kernel prints.
    prints: bool,
    pub trials: Trials,
    /// Why it is not used any more.
    pub broken: OnceLock<String>,
    /// How many launches of it the driver refused.
    pub refusals: AtomicU32,
    /// It was made for launches like one of this run, and is for no others.
    pub is_variant: bool,
    /// For such code: which of the kernel's winners those launches had before.
    base: Option<usize>,
}

/// A launch on which the winner verified.
struct Verified {
    /// The dimensions that the application requests, and the replacement's.
    asked: LaunchDimensions,
    shape: LaunchDimensions,
    arguments: Vec<Piece>,
}

/// The dimensions of a launch of tuned code.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fit {
    pub shape: LaunchDimensions,
    /// Why these are the application's own dimensions although the winner has others.
    pub kept: Option<&'static str>,
}

/// Bytes of an argument.
#[derive(Clone)]
struct Piece {
    index: u32,
    /// Offset of the argument in the parameter buffer and its size, bytes.
    offset: u32,
    size: usize,
    /// Offset of the bytes in the argument.
    at: usize,
    expected: Expected,
}

#[derive(Clone, Debug, PartialEq)]
enum Expected {
    Bytes(Box<[u8]>),
    /// Any address matches, because the type is unknown.
    Address,
}

/// The dimensions of a launch.
pub fn shape_of(launch: &Launch) -> LaunchDimensions {
    LaunchDimensions { grid: launch.grid, block: launch.block, shared_mem: launch.shared_mem }
}

impl WinnerCandidate {
    /// Checks that the winner matches this kernel: same parameters. `prints` tells whether the kernel prints.
    pub fn new(winner: &'static Winner, parameters: &Parameters, prints: bool) -> Result<Self, ApplyError> {
        if !parameters.layout().eq(winner.layout.iter().copied()) {
            return Err(ApplyError::Parameters);
        }
        let sizes = || winner.arguments.iter().map(|argument| argument.bytes.len());
        if !sizes().eq(winner.layout.iter().map(|(_, size)| *size as usize)) {
            return Err(ApplyError::NoArguments);
        }
        let recorded = pieces(parameters, &winner.arguments, &winner.numbers);
        // Addresses are never folded. A value that looks like an address but is in no recorded memory is a number.
        let is_folded =
            |piece: &&Piece| winner.folded.arguments.contains(&piece.index) && piece.expected != Expected::Address;
        let folded: Vec<Piece> = recorded.iter().filter(is_folded).cloned().collect();
        let others = winner
            .verified
            .iter()
            .filter(|launch| launch.arguments.iter().map(|argument| argument.bytes.len()).eq(sizes()));
        let others = others.map(|launch| Verified {
            asked: launch.recorded,
            shape: launch.tuned,
            arguments: pieces(parameters, &launch.arguments, &launch.numbers),
        });
        let own = Verified { asked: winner.recorded, shape: winner.tuned, arguments: recorded };
        let mut verified: Vec<Verified> = std::iter::once(own).chain(others).collect();
        // The output of a kernel that prints often depends on the number of the thread.
        if winner.keeps_dimensions || prints {
            verified.retain(|launch| launch.asked == launch.shape);
        }
        let rule = winner.rule.as_ref().and_then(|rule| rule.read().ok());
        Ok(Self {
            code: TunedCode::new(winner),
            verified,
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

    /// Code that was made for launches like one of this run, which had the winner at `base` before. Values that are not
    /// folded into it may differ.
    pub fn variant(
        winner: &'static Winner,
        parameters: &Parameters,
        prints: bool,
        base: Option<usize>,
    ) -> Result<Self, ApplyError> {
        let mut variant = Self::new(winner, parameters, prints)?;
        variant.verified.iter_mut().for_each(|launch| launch.arguments.clear());
        Ok(Self { is_variant: true, base, rule: None, ..variant })
    }

    pub fn winner(&self) -> &'static Winner {
        self.code.winner
    }

    /// The values that a launch needs before [`verified_shape`](Self::verified_shape) or [`fit`](Self::fit) can accept
    /// it.
    pub fn needs(&self) -> Needs {
        let (mut arguments, mut values) = (Vec::new(), Vec::new());
        for &Piece { index, offset, size, at, ref expected } in &self.folded {
            if let Expected::Bytes(bytes) = expected {
                arguments.push(ArgumentBytes { index, offset, size, at, length: bytes.len() });
                values.extend_from_slice(bytes);
            }
        }
        let Winner { tuned, folded, .. } = self.winner();
        // A rule may result in the dimensions that the code requires.
        let is_for_some = folded.dimensions && (self.rule.is_none() || self.keeps_dimensions());
        let dimensions = is_for_some.then(|| {
            let verified = self.verified.iter().map(|launch| &launch.asked);
            verified.chain([tuned]).map(|shape| index::dimensions(shape.grid, shape.block)).collect()
        });
        Needs { arguments, values, dimensions }
    }

    /// All bytes of the kernel's arguments.
    pub fn all_arguments(&self) -> Vec<ArgumentBytes> {
        let bytes = |(index, (offset, size)): (usize, &(u32, u32))| {
            let (index, offset, size) = (index as u32, *offset, *size as usize);
            ArgumentBytes { index, offset, size, at: 0, length: size }
        };
        self.winner().layout.iter().enumerate().map(bytes).collect()
    }

    /// Whether it is only launched with the dimensions that the application requests.
    fn keeps_dimensions(&self) -> bool {
        self.winner().keeps_dimensions || self.prints
    }

    /// The dimensions for a launch that equals, except for addresses, one on which the winner verified.
    pub fn verified_shape(&self, launch: &Launch, arguments: &LaunchArguments) -> Option<LaunchDimensions> {
        let &Winner { cluster, cooperative, .. } = self.winner();
        let asked = shape_of(launch);
        let is_alike = || {
            // For code that was made at run time, the same dimensions imply the same kind of launch, cooperative or
            // not.
            launch.attributes.cluster == cluster
                && (self.is_variant || launch.attributes.cooperative == cooperative)
                && are(&self.folded, arguments)
        };
        let mut known = self.verified.iter().filter(|known| known.asked == asked && is_alike());
        known.find(|known| are(&known.arguments, arguments)).map(|known| known.shape)
    }

    /// Whether it was made for launches like this one, which otherwise has the winner at `base` and these dimensions.
    pub fn is_for(
        &self,
        launch: &Launch,
        arguments: &LaunchArguments,
        base: Option<usize>,
        shape: &LaunchDimensions,
    ) -> bool {
        self.base == base
            && self.winner().tuned == *shape
            && self.verified_shape(launch, arguments).is_some_and(|of_code| of_code == *shape)
    }

    /// The dimensions for a launch on which the winner was not verified, or the reason why it does not apply.
    pub fn fit(&self, launch: &Launch, arguments: &LaunchArguments) -> Result<Fit, &'static str> {
        if !are(&self.folded, arguments) {
            return Err(UNFIT);
        }
        let asked = shape_of(launch);
        let by_rule = self.by_rule(launch, arguments).filter(|shape| *shape != asked && self.winner().allows(shape));
        if let Some(shape) = by_rule {
            return Ok(Fit { shape, kept: None });
        }
        if !self.winner().allows(&asked) {
            return Err(UNFIT);
        }
        let Winner { recorded, tuned, bears_own_dimensions, .. } = self.winner();
        if tuned == recorded || asked == *tuned {
            return Ok(Fit { shape: asked, kept: None });
        }
        let kept = match &self.rule {
            _ if self.keeps_dimensions() => ALWAYS_OWN,
            Some(_) => UNRULED,
            None => UNVERIFIED,
        };
        if *bears_own_dimensions { Ok(Fit { shape: asked, kept: Some(kept) }) } else { Err(UNVERIFIED) }
    }

    fn by_rule(&self, launch: &Launch, arguments: &LaunchArguments) -> Option<LaunchDimensions> {
        let rule = self.rule.as_ref().filter(|_| !self.keeps_dimensions())?;
        let Winner { recorded, tuned, cluster, .. } = self.winner();
        if launch.attributes.cluster != *cluster || launch.attributes.cooperative {
            return None;
        }
        let values = self.numbers(arguments);
        let inputs = RuleInputs { launch: shape_of(launch), recorded: *recorded, tuned: *tuned, arguments: &values };
        rule.shape_elsewhere(&inputs).filter(|shape| !super::has_too_many_blocks(shape))
    }

    /// The arguments as numbers, the form that spaces use.
    fn numbers(&self, arguments: &LaunchArguments) -> Vec<Option<u64>> {
        // SAFETY: the layout is that of the kernel's parameters, and the launch is in progress.
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

/// The argument values that a launch must have to equal these, except for addresses.
fn pieces(parameters: &Parameters, arguments: &[RecordedArgument], numbers: &[(u32, u32)]) -> Vec<Piece> {
    let pointers: Vec<(usize, u32)> = parameters.pointers().map(|(index, _, offset)| (index, offset)).collect();
    let is_number = |index: usize, word: usize| numbers.contains(&(index as u32, 8 * word as u32));
    let mut pieces = Vec::new();
    for (index, argument) in arguments.iter().enumerate() {
        let is_typed = parameters.is_typed(index);
        for (word, bytes) in argument.bytes.chunks(8).enumerate() {
            let is_pointer = pointers.contains(&(index, 8 * word as u32));
            let expected = match is_pointer {
                true if is_typed => continue,
                true if may_be_address(bytes) && !is_number(index, word) => Expected::Address,
                _ => Expected::Bytes(bytes.into()),
            };
            pieces.push(Piece {
                index: index as u32,
                offset: argument.offset,
                size: argument.bytes.len(),
                at: 8 * word,
                expected,
            });
        }
    }
    pieces
}

/// Whether the arguments of a launch in progress have these values.
fn are(pieces: &[Piece], arguments: &LaunchArguments) -> bool {
    // SAFETY: the pieces are of the kernel's parameters, and the launch is in progress.
    let places = unsafe { arguments.places() };
    pieces.iter().all(|piece| {
        let length = if let Expected::Bytes(bytes) = &piece.expected { bytes.len() } else { 8 };
        // SAFETY: as above.
        let start = places.and_then(|places| unsafe { places.of(piece.index, piece.offset, piece.size) });
        // SAFETY: a value of the parameter's size starts there, and the piece is a part of it.
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
    use mneme_model::launch::{Dim3, LaunchAttributes};
    use mneme_winners::{DimensionRule, Folded, VerifiedLaunch};

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
            cooperative: false,
            arguments: vec![RecordedArgument { offset: 0, bytes: LARGE.to_le_bytes().into() }],
            folded: Folded { arguments: folded.into(), ..Folded::default() },
            numbers: Vec::new(),
            keeps_dimensions: false,
            max_threads: None,
            bears_own_dimensions: true,
            verified: Vec::new(),
            rule,
            image: None,
            prints: false,
            before: None,
            after: None,
            source: "results".into(),
        }))
    }

    fn candidate(winner: Winner, kind: &str) -> WinnerCandidate {
        WinnerCandidate::new(Box::leak(Box::new(winner)), &Parameters::of_kinds(&[kind]), false).unwrap()
    }

    /// The dimensions for a launch with this argument as a verified one, and as another.
    fn fits(
        candidate: &WinnerCandidate,
        asked: LaunchDimensions,
        mut argument: u64,
    ) -> (Option<LaunchDimensions>, Result<Fit, &'static str>) {
        let mut place = std::ptr::from_mut(&mut argument).cast();
        let arguments = LaunchArguments::new(&raw mut place, std::ptr::null_mut());
        let attributes = LaunchAttributes::default();
        let launch = Launch { grid: asked.grid, block: asked.block, shared_mem: asked.shared_mem, attributes };
        (candidate.verified_shape(&launch, &arguments), candidate.fit(&launch, &arguments))
    }

    /// Whether a launch with this argument counts as verified, and the dimensions for another one.
    fn judge(candidate: &WinnerCandidate, asked: LaunchDimensions, argument: u64) -> (bool, Option<LaunchDimensions>) {
        let (verified, other) = fits(candidate, asked, argument);
        (verified.is_some(), other.ok().map(|fit| fit.shape))
    }

    #[test]
    fn tuned_dimensions_are_for_verified_launches_alone() {
        let (recorded, tuned, other) = (shape(40, 256), shape(80, 128), shape(10, 256));
        let known = |argument: u64, asked, tuned| VerifiedLaunch {
            recorded: asked,
            tuned,
            arguments: vec![RecordedArgument { offset: 0, bytes: argument.to_le_bytes().into() }],
            numbers: Vec::new(),
        };
        let plain = winner(&[], tuned, None);
        let several = Winner { verified: vec![known(7, other, shape(20, 128))], ..plain.clone() };
        let several = candidate(several, "i64");
        assert_eq!(fits(&several, recorded, LARGE).0, Some(tuned));
        assert_eq!(fits(&several, other, 7).0, Some(shape(20, 128)));
        for (asked, argument) in [(recorded, 7), (other, LARGE), (shape(41, 256), LARGE), (shape(40, 128), LARGE)] {
            let own = Fit { shape: asked, kept: Some(UNVERIFIED) };
            assert_eq!(fits(&several, asked, argument), (None, Ok(own)), "{argument}");
        }
        let unborne = candidate(Winner { bears_own_dimensions: false, ..plain.clone() }, "i64");
        assert_eq!(fits(&unborne, recorded, LARGE).0, Some(tuned));
        assert_eq!(fits(&unborne, recorded, 7), (None, Err(UNVERIFIED)));
        let as_tuned = Fit { shape: tuned, kept: None };
        assert_eq!(fits(&unborne, tuned, 7), (None, Ok(as_tuned)), "the application asks for what was verified");
        let code_alone = candidate(winner(&[], recorded, None).clone(), "i64");
        assert_eq!(fits(&code_alone, other, 7).1, Ok(Fit { shape: other, kept: None }));
        let kept = Winner { keeps_dimensions: true, ..plain.clone() };
        let own = Fit { shape: recorded, kept: Some(ALWAYS_OWN) };
        assert_eq!(fits(&candidate(kept, "i64"), recorded, LARGE), (None, Ok(own)));
    }

    #[test]
    fn code_for_a_size_of_blocks_is_for_no_other() {
        let tuned = shape(80, 128);
        let folded = Folded { dimensions: true, ..Folded::default() };
        let of_dimensions = candidate(Winner { folded, ..winner(&[], tuned, None).clone() }, "i64");
        assert_eq!(fits(&of_dimensions, shape(40, 256), LARGE), (Some(tuned), Err(UNFIT)));
        let bounded = candidate(Winner { max_threads: Some(128), ..winner(&[], tuned, None).clone() }, "i64");
        assert_eq!(fits(&bounded, shape(40, 256), 7), (None, Err(UNFIT)));
        assert_eq!(fits(&bounded, shape(40, 64), 7).1.map(|fit| fit.shape), Ok(shape(40, 64)));
    }

    #[test]
    fn a_cooperative_launch_is_no_plain_one() {
        let mut argument = LARGE;
        let mut place = std::ptr::from_mut(&mut argument).cast();
        let arguments = LaunchArguments::new(&raw mut place, std::ptr::null_mut());
        let attributes = LaunchAttributes { cooperative: true, ..LaunchAttributes::default() };
        let launch = Launch { grid: Dim3::new(40, 1, 1), block: Dim3::new(256, 1, 1), shared_mem: 0, attributes };
        let plain = winner(&[], shape(80, 128), Some(DimensionRule::same_threads())).clone();
        let own = Fit { shape: shape(40, 256), kept: Some(UNRULED) };
        let is = |cooperative: bool| {
            let one = candidate(Winner { cooperative, ..plain.clone() }, "i64");
            (one.verified_shape(&launch, &arguments), one.fit(&launch, &arguments))
        };
        assert_eq!(is(true), (Some(shape(80, 128)), Ok(own)));
        assert_eq!(is(false), (None, Ok(own)));
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

    /// `benches/growth winners` prints the times.
    #[test]
    fn a_launch_that_none_of_a_thousand_winners_fits() {
        use super::super::{KernelReplacement, by_winner};
        let parameters = Parameters::of_kinds(&["i64"]);
        let measure = |what: &str, change: fn(&mut Winner, u64), varies: bool| {
            let winners = (0..1000).map(|number| {
                let mut winner = winner(&[], shape(80, 128), None).clone();
                change(&mut winner, number);
                WinnerCandidate::new(Box::leak(Box::new(winner)), &parameters, false).unwrap()
            });
            let replacement = KernelReplacement::new(Ok(winners.collect()), None);
            let attributes = LaunchAttributes::default();
            let launch = Launch { grid: Dim3::new(7, 1, 1), block: Dim3::new(256, 1, 1), shared_mem: 0, attributes };
            let start = std::time::Instant::now();
            let launches = 100_000u64;
            for number in 0..launches {
                let mut argument = if varies { LARGE + number } else { LARGE };
                let mut place = std::ptr::from_mut(&mut argument).cast();
                let arguments = LaunchArguments::new(&raw mut place, std::ptr::null_mut());
                assert!(by_winner(&replacement, &launch, &arguments).is_err());
            }
            println!("{:.0} ns a launch, {what}", start.elapsed().as_nanos() as f64 / launches as f64);
        };
        let folds_value = |winner: &mut Winner, number: u64| {
            winner.folded.arguments = vec![0];
            winner.arguments[0].bytes = number.to_le_bytes().into();
        };
        let folds_dimensions = |winner: &mut Winner, number: u64| {
            winner.folded.dimensions = true;
            winner.tuned.grid = Dim3::new(1000 + number as u32, 1, 1);
        };
        let is_bounded = |winner: &mut Winner, _: u64| winner.max_threads = Some(128);
        measure("each with another value in its code", folds_value, true);
        measure("each with another grid in its code", folds_dimensions, true);
        measure("all for smaller blocks, of a launch that repeats", is_bounded, false);
    }
}
