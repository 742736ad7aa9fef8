//! Exit statuses of the programs: outcomes below 64, mistakes and failures from 64 on.
//!
//! A mistake has the same status in every program. The numbers from 64 on are those of sysexits.h. The table for users
//! is docs/reference/exit-status.md.

/// The replay ran and every recorded byte matched (or passed its tolerance).
pub const VERIFIED: i32 = 0;
/// The replay ran and memory differs from the recording.
pub const NOT_VERIFIED: i32 = 1;
/// The kernel could not be built under this configuration: an unknown pass, a crash in LLVM, an assembler's error.
pub const BUILD_FAILED: i32 = 2;
/// The launch was refused, or the kernel failed while it ran.
pub const LAUNCH_FAILED: i32 = 3;
/// The build or the kernel ran out of its time limit.
pub const TIMED_OUT: i32 = 4;
/// Memory is as recorded, but too little of it shows that the kernel did anything. In `mneme-tune`: that of the
/// baseline.
pub const UNPROVEN: i32 = 6;

/// `mneme-tune`: the baseline failed, so that nothing can be compared with it.
pub const BASELINE_FAILED: i32 = 1;
/// `mneme-tune`: the baseline verified and no candidate did.
pub const NOTHING_VERIFIED: i32 = 2;

/// The command line, or a file that it names, makes no sense (`EX_USAGE`).
pub const BAD_USAGE: i32 = 64;
/// The recording is damaged or of an unknown version (`EX_DATAERR`).
pub const BAD_RECORDING: i32 = 65;
/// A file or folder that the command line names is missing or cannot be read (`EX_NOINPUT`).
pub const NO_INPUT: i32 = 66;
/// No such device, or one that cannot run this recording (`EX_UNAVAILABLE`).
pub const NO_DEVICE: i32 = 69;
/// Something of ours broke or is missing, or a file cannot be written (`EX_SOFTWARE`).
pub const INTERNAL: i32 = 70;
/// Something that was to be recorded could not be (`EX_CANTCREAT`).
pub const NOT_RECORDED: i32 = 73;
/// Another process is at work on what is asked for; later it can be done (`EX_TEMPFAIL`).
pub const IN_USE: i32 = 75;
