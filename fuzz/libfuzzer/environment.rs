#![no_main]
//! The target `environment` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("environment", input));
