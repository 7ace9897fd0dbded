//! Compares proxies side by side.
fn main() {}
