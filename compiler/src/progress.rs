//! Where a build is, in memory that outlives the building process: a compiler that crashes, hangs or is killed for its
//! memory cannot say any more what it was doing.

use std::sync::atomic::{AtomicU8, Ordering};

/// What a build is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    const ALL: [Self; 8] =
        [Self::Start, Self::Read, Self::Specialise, Self::Pipeline, Self::External, Self::CodeGeneration, Self::Assembly, Self::Done];

    fn words(self) -> &'static str {
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

const SIZE: usize = 1024;
/// Stage, length of the text (two bytes, little endian), text.
const HEAD: usize = 3;

/// A page that this process and those forked from it share.
///
/// Invariant: `page` points at `SIZE` bytes, mapped for as long as this lives.
pub struct Progress {
    page: *mut libc::c_void,
}

impl Progress {
    /// # Errors
    /// The system has no memory.
    pub fn new() -> std::io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping, wherever there is room.
        let page = unsafe { libc::mmap(std::ptr::null_mut(), SIZE, protection, libc::MAP_SHARED | libc::MAP_ANONYMOUS, -1, 0) };
        if page == libc::MAP_FAILED { Err(std::io::Error::last_os_error()) } else { Ok(Self { page }) }
    }

    fn bytes(&self) -> &[AtomicU8; SIZE] {
        // SAFETY: by the type's invariant; every access is atomic, in every process that has the page.
        unsafe { &*self.page.cast() }
    }

    pub fn stage(&self, stage: Stage) {
        self.write("");
        self.bytes()[0].store(Stage::ALL.iter().position(|other| *other == stage).unwrap_or(0) as u8, Ordering::Relaxed);
    }

    /// The pass that is about to run.
    pub fn pass(&self, pass: &str, unit: &str) {
        self.write(&format!("{pass} on {unit}"));
    }

    fn write(&self, text: &str) {
        let bytes = self.bytes();
        let length = text.len().min(SIZE - HEAD);
        for (place, byte) in bytes[HEAD..].iter().zip(&text.as_bytes()[..length]) {
            place.store(*byte, Ordering::Relaxed);
        }
        for (place, byte) in bytes[1..HEAD].iter().zip((length as u16).to_le_bytes()) {
            place.store(byte, Ordering::Relaxed);
        }
    }

    /// What was noted last, as the end of a sentence: "while running the pass pipeline, in loop-unroll on function f".
    /// Empty before the first stage and after the last.
    pub fn place(&self) -> String {
        let bytes = self.bytes().each_ref().map(|byte| byte.load(Ordering::Relaxed));
        let words = Stage::ALL.get(usize::from(bytes[0])).map_or("", |stage| stage.words());
        let length = usize::from(u16::from_le_bytes([bytes[1], bytes[2]])).min(SIZE - HEAD);
        let pass = String::from_utf8_lossy(&bytes[HEAD..HEAD + length]);
        match (words, pass.as_ref()) {
            ("", _) => String::new(),
            (words, "") => format!(" while {words}"),
            (words, pass) => format!(" while {words}, in {pass}"),
        }
    }
}

impl Drop for Progress {
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
        let progress = Progress::new().unwrap();
        assert_eq!(progress.place(), "");
        progress.stage(Stage::Pipeline);
        progress.pass("licm", "loop x of function f");
        assert_eq!(progress.place(), " while running the pass pipeline, in licm on loop x of function f");
        progress.pass(&"é".repeat(SIZE), "");
        assert!(progress.place().len() > SIZE / 2, "cut, also within a letter");
        progress.stage(Stage::Assembly);
        assert_eq!(progress.place(), " while assembling");
        progress.stage(Stage::Done);
        assert_eq!(progress.place(), "");
    }
}
