#![no_main]
//! The target `certify` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("certify", input));
