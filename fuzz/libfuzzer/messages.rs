#![no_main]
//! The target `messages` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("messages", input));
