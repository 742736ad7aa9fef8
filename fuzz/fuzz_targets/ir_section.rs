//! The libFuzzer target `ir_section`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer("ir_section", input));
