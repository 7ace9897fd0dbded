#![no_main]
//! The target `trace` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("trace", input));
