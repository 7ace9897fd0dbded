#![no_main]
//! The target `detect` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("detect", input));
