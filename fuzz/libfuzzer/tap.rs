#![no_main]
//! The target `tap` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("tap", input));
