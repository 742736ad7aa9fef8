//! Exit statuses of `mneme-tune` beyond those of [`mneme_core::exit`]; 1 and 3 to 5 are upstream's.

pub const BASELINE_FAILED: i32 = 1;
pub const NOTHING_VERIFIED: i32 = 2;
pub const INVALID_CONFIGURATION: i32 = 3;
pub const BAD_RECORD: i32 = 4;
pub const INTERNAL: i32 = 5;
