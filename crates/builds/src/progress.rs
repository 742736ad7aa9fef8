//! A build's progress, in memory that outlives the building process.
//!
//! A compiler that crashes, hangs or is killed for its memory use can no longer report its progress.

use std::sync::atomic::{AtomicU8, Ordering};

use serde::{Deserialize, Serialize};

/// The current stage of a build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    Start,
    /// Reading and linking IR.
    Read,
    Specialise,
    Pipeline,
    /// A pipeline in another program.
    External,
    CodeGeneration,
    Assembly,
    Done,
}

impl Stage {
    const ALL: [Self; 8] = [
        Self::Start,
        Self::Read,
        Self::Specialise,
        Self::Pipeline,
        Self::External,
        Self::CodeGeneration,
        Self::Assembly,
        Self::Done,
    ];

    fn activity(self) -> &'static str {
        match self {
            Self::Start | Self::Done => "",
            Self::Read => "reading the IR",
            Self::Specialise => "specialising the IR",
            Self::Pipeline => "running the pass pipeline",
            Self::External => "waiting for the program that runs the pass pipeline",
            Self::CodeGeneration => "generating code",
            Self::Assembly => "assembling",
        }
    }
}

/// One pass on one unit of IR.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invocation {
    /// 1 for the first.
    pub number: u64,
    /// The pass as pipelines name it.
    pub pass: String,
    /// "function f", "loop l of function f", "call graph component (f)", "the module".
    pub unit: String,
}

impl std::fmt::Display for Invocation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "pass {}: {} on {}", self.number, self.pass, self.unit)
    }
}

const SIZE: usize = 1024;
/// Stage, number of the pass (eight bytes), lengths of the text and of the pass's name in it (two bytes each), text;
/// all little endian.
const HEAD: usize = 13;

/// The position of a build.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BuildPosition {
    pub stage: Stage,
    /// The last pass of this stage that was noted; its number is 0 if the pass is mandatory.
    pub pass: Option<Invocation>,
}

/// A page shared by this process and its forked children.
///
/// Invariant: `page` points at `SIZE` bytes, mapped for as long as this lives.
pub struct BuildProgress {
    page: *mut libc::c_void,
}

impl BuildProgress {
    /// # Errors
    /// The system is out of memory.
    pub fn new() -> std::io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever there is room.
        let page = unsafe {
            libc::mmap(std::ptr::null_mut(), SIZE, protection, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0)
        };
        if page == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(Self { page }) }
    }

    fn bytes(&self) -> &[AtomicU8; SIZE] {
        // SAFETY: by the type's invariant; every access is atomic, in every process that has the page.
        unsafe { &*self.page.cast() }
    }

    pub fn stage(&self, stage: Stage) {
        self.write(0, "", "");
        self.bytes()[0]
            .store(Stage::ALL.iter().position(|other| *other == stage).unwrap_or(0) as u8, Ordering::Relaxed);
    }

    /// Notes the pass that is about to run. `number` is 0 if the pass is mandatory.
    pub fn pass(&self, number: u64, pass: &str, unit: &str) {
        self.write(number, pass, unit);
    }

    fn write(&self, number: u64, pass: &str, unit: &str) {
        let room = SIZE - HEAD;
        let pass = &pass.as_bytes()[..pass.len().min(room)];
        let unit = &unit.as_bytes()[..unit.len().min(room - pass.len())];
        let lengths = [(pass.len() + unit.len()) as u16, pass.len() as u16];
        let head = number.to_le_bytes().into_iter().chain(lengths.into_iter().flat_map(u16::to_le_bytes));
        for (place, byte) in self.bytes()[1..].iter().zip(head.chain(pass.iter().copied()).chain(unit.iter().copied()))
        {
            place.store(byte, Ordering::Relaxed);
        }
    }

    /// The last noted position; `None` before the first stage and after the last.
    pub fn last(&self) -> Option<BuildPosition> {
        let bytes = self.bytes().each_ref().map(|byte| byte.load(Ordering::Relaxed));
        let stage = *Stage::ALL.get(usize::from(bytes[0]))?;
        if stage.activity().is_empty() {
            return None;
        }
        let word = |at: usize| usize::from(u16::from_le_bytes([bytes[at], bytes[at + 1]]));
        let text = &bytes[HEAD..HEAD + word(9).min(SIZE - HEAD)];
        let (pass, unit) = text.split_at(word(11).min(text.len()));
        let number = bytes[1..9].iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte));
        let owned = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let pass = (!pass.is_empty()).then(|| Invocation { number, pass: owned(pass), unit: owned(unit) });
        Some(BuildPosition { stage, pass })
    }

    /// [`BuildProgress::last`] as the end of a sentence: "while running the pass pipeline, in loop-unroll on function
    /// f".
    pub fn place(&self) -> String {
        self.last().map_or_else(String::new, |place| place.to_string())
    }
}

impl std::fmt::Display for BuildPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, " while {}", self.stage.activity())?;
        match &self.pass {
            Some(Invocation { pass, unit, .. }) => write!(f, ", in {pass} on {unit}"),
            None => Ok(()),
        }
    }
}

impl Drop for BuildProgress {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing refers to it any more.
        unsafe { libc::munmap(self.page, SIZE) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_noted_last_is_told() {
        let progress = BuildProgress::new().unwrap();
        assert_eq!(progress.place(), "");
        progress.stage(Stage::Pipeline);
        progress.pass(7, "licm", "loop x of function f");
        let invocation = progress.last().unwrap().pass.unwrap();
        assert_eq!((invocation.number, invocation.pass.as_str()), (7, "licm"));
        assert_eq!(progress.place(), " while running the pass pipeline, in licm on loop x of function f");
        progress.pass(0, &"é".repeat(SIZE), "x");
        assert!(progress.place().len() > SIZE / 2, "cut, also within a letter");
        progress.stage(Stage::Assembly);
        assert_eq!(progress.place(), " while assembling");
        progress.stage(Stage::Done);
        assert_eq!(progress.place(), "");
    }
}
