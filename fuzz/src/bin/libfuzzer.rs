//! The program for libFuzzer: `libfuzzer --target=NAME` and libFuzzer's own arguments.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer(input));
