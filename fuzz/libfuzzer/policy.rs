#![no_main]
//! The target `policy` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("policy", input));
