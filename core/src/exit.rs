//! Exit statuses of the programs.
//!
//! The table for users is docs/reference/exit-status.md.

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
/// The replay ran and memory is as recorded, but too little of it shows that the kernel did anything. The number is
/// free in `mneme-tune` as well.
pub const UNPROVEN: i32 = 6;
/// The command line makes no sense (`EX_USAGE` of sysexits.h).
pub const BAD_USAGE: i32 = 64;
/// The recording is missing, damaged or of an unknown version (`EX_DATAERR`).
pub const BAD_RECORDING: i32 = 65;
/// No such device, or one that cannot run this recording (`EX_UNAVAILABLE`).
pub const NO_DEVICE: i32 = 69;
/// Something that was to be recorded could not be (`EX_CANTCREAT`).
pub const NOT_RECORDED: i32 = 73;
/// Something of ours broke (`EX_SOFTWARE`).
pub const INTERNAL: i32 = 70;
/// Another process is at work on what is asked for; later it can be done (`EX_TEMPFAIL`).
pub const IN_USE: i32 = 75;
