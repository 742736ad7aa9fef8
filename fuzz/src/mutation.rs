//! The fuzzing loop of our own, which changes seeds in the ways that break parsers.

use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::targets::FuzzTarget;

/// An input that takes longer hangs its parser.
const LONGEST: Duration = Duration::from_secs(10);
/// Inputs do not grow beyond this, bytes.
const LARGEST: usize = 1 << 16;

/// SplitMix64.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ word >> 31
    }

    /// Below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }
}

/// Runs `target` on `runs` inputs, made of its own and `further` ones.
pub fn run(target: &'static FuzzTarget, runs: u64, seed: u64, further: &[Vec<u8>]) {
    static DONE: AtomicU64 = AtomicU64::new(0);
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let name = target.name;
    let watchdog = std::thread::spawn(move || {
        let mut last = DONE.load(Ordering::Relaxed);
        while stopped.recv_timeout(LONGEST) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let now = DONE.load(Ordering::Relaxed);
            if now == last {
                eprintln!("{name}: an input takes more than {LONGEST:?} (seed {seed})");
                std::process::abort();
            }
            last = now;
        }
    });
    let mut seeds = (target.seeds)();
    seeds.extend_from_slice(further);
    let mut random = SplitMix64(seed ^ name.bytes().fold(0, |sum, byte| sum * 31 + u64::from(byte)));
    for seed in &seeds {
        (target.run)(seed);
        DONE.fetch_add(1, Ordering::Relaxed);
    }
    for _ in 0..runs {
        let mut input = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(6) {
            mutate(&mut input, &seeds, &mut random);
        }
        if random.below(2) == 0 {
            (target.seal)(&mut input);
        }
        if catch_unwind(AssertUnwindSafe(|| (target.run)(&input))).is_err() {
            let mut file = tempfile::Builder::new().prefix(&format!("{name}-")).tempfile().expect("a temporary file");
            file.write_all(&input).expect("the input can be written");
            let (_, path) = file.keep().expect("the input can be kept");
            panic!("{name}: the input in {} makes it panic", path.display());
        }
        DONE.fetch_add(1, Ordering::Relaxed);
    }
    drop(stop);
    watchdog.join().expect("the watchdog ends by itself");
}

/// Values at which sizes and counts go wrong.
const NUMBERS: [u64; 14] =
    [0, 1, 2, 7, 8, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, i64::MAX as u64, u64::MAX];

fn mutate(input: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut SplitMix64) {
    if input.is_empty() {
        input.push(random.next() as u8);
        return;
    }
    let at = random.below(input.len());
    match random.below(10) {
        0 | 1 => input[at] ^= 1 << random.below(8),
        2 => input[at] = random.next() as u8,
        3 | 4 => {
            let width = [1, 2, 4, 8][random.below(4)].min(input.len() - at);
            let mut number = NUMBERS[random.below(NUMBERS.len())];
            if random.below(3) == 0 {
                number = (input.len() as u64).wrapping_add(random.below(17) as u64).wrapping_sub(8);
            }
            input[at..at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        }
        5 => input.truncate(at),
        6 => {
            let end = at + random.below(input.len() - at) + 1;
            input.drain(at..end);
        }
        7 => {
            let end = at + random.below((input.len() - at).min(64)) + 1;
            let copy = input[at..end].to_vec();
            let place = random.below(input.len());
            if input.len() + copy.len() <= LARGEST {
                input.splice(place..place, copy);
            }
        }
        8 => {
            let other = &seeds[random.below(seeds.len())];
            if !other.is_empty() {
                let start = random.below(other.len());
                let length = (random.below(other.len() - start) + 1).min(input.len() - at);
                input[at..at + length].copy_from_slice(&other[start..start + length]);
            }
        }
        // Digits and punctuation, for what is text.
        _ => input[at] = b"0123456789-.eE\"{}[]:,\\nul"[random.below(25)],
    }
}
