//! The libFuzzer target `cpu_object`.

#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| mneme_fuzz::libfuzzer("cpu_object", input));
