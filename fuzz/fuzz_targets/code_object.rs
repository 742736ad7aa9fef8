//! The libFuzzer target `code_object`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer("code_object", input));
