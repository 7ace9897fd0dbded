//! Fuzz targets: all parsers and decoders of input from peers, controllers and people.
//!
//! A target is a function of bytes that panics on an error. The runner of this crate mutates inputs on the stable
//! compiler; the programs in `libfuzzer/` run the same targets under `cargo fuzz`.

mod corpus;
mod mutate;
mod targets;

pub use corpus::corpus;
pub use mutate::Mutator;
pub use targets::{TARGETS, Target};

/// Runs one input of the target with this name.
///
/// # Panics
///
/// If there is no such target, or the input makes it fail.
pub fn run(target: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|known| known.name == target);
    (target.expect("a target of this crate").run)(input);
}

#[cfg(test)]
mod tests;
