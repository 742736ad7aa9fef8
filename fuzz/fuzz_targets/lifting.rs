//! The libFuzzer target `lifting`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer("lifting", input));
