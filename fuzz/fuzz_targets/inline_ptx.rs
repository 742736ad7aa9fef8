//! The libFuzzer target `inline_ptx`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer("inline_ptx", input));
