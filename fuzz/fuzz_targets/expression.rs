//! The libFuzzer target `expression`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer("expression", input));
