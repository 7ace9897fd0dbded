#![no_main]
//! The target `discovery` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("discovery", input));
