#![no_main]
//! The target `mesh` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("mesh", input));
