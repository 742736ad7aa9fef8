//! Exit statuses of the programs: outcomes below 64, mistakes and failures from 64 on.
//!
//! A mistake has the same status in every program. The numbers from 64 on come from sysexits.h. Users find the table in
//! docs/reference/exit-status.md.

/// The replay ran and every recorded byte matched (or passed its tolerance).
pub const VERIFIED: i32 = 0;
/// The replay ran and memory differs from the recording.
pub const NOT_VERIFIED: i32 = 1;
/// The kernel could not be built with this configuration: an unknown pass, a crash in LLVM, an error of the assembler.
pub const BUILD_FAILED: i32 = 2;
/// The launch was refused, or the kernel failed while it ran.
pub const LAUNCH_FAILED: i32 = 3;
/// The build or the kernel exceeded its time limit.
pub const TIMED_OUT: i32 = 4;
/// Memory is as recorded, but too little of it proves that the kernel did anything. In `mneme-tune`: the same for the
/// baseline.
pub const UNPROVEN: i32 = 6;

/// `mneme-tune`: the baseline failed, so comparison is impossible.
pub const BASELINE_FAILED: i32 = 1;
/// `mneme-tune`: the baseline verified but every candidate failed.
pub const NOTHING_VERIFIED: i32 = 2;

/// The command line, or a file named on it, is invalid (`EX_USAGE`).
pub const BAD_USAGE: i32 = 64;
/// The recording is damaged or of an unknown version (`EX_DATAERR`).
pub const BAD_RECORDING: i32 = 65;
/// A file or folder named on the command line is missing or cannot be read (`EX_NOINPUT`).
pub const NO_INPUT: i32 = 66;
/// The device does not exist, or cannot run this recording (`EX_UNAVAILABLE`).
pub const NO_DEVICE: i32 = 69;
/// A part of Mneme failed or is missing, or a file cannot be written (`EX_SOFTWARE`).
pub const INTERNAL: i32 = 70;
/// A requested recording failed (`EX_CANTCREAT`).
pub const NOT_RECORDED: i32 = 73;
/// Another process is using the requested resource; try again later (`EX_TEMPFAIL`).
pub const IN_USE: i32 = 75;
