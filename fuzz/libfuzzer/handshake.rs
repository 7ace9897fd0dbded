#![no_main]
//! The target `handshake` under libFuzzer.

libfuzzer_sys::fuzz_target!(|input: &[u8]| linkerd_fuzz::run("handshake", input));
