//! The fuzz targets.

mod certify;
mod detect;
mod discovery;
mod environment;
mod handshake;
mod head;
mod mesh;
mod messages;
mod names;
mod policy;
mod replay;
mod tap;
mod trace;

/// A fuzz target.
pub struct Target {
    /// The name on the command line.
    pub name: &'static str,
    /// Processes an input, and panics on an error.
    pub run: fn(&[u8]),
    /// Valid inputs. The corpus has each of them as a file.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Tokens of valid inputs.
    pub words: &'static [&'static [u8]],
}

/// All targets.
pub const TARGETS: &[Target] = &[
    certify::TARGET,
    detect::TARGET,
    discovery::TARGET,
    environment::TARGET,
    handshake::TARGET,
    head::TARGET,
    mesh::TARGET,
    messages::TARGET,
    names::TARGET,
    policy::TARGET,
    replay::TARGET,
    tap::TARGET,
    trace::TARGET,
];

/// Texts as seeds.
fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Splits an input into parts: each is a byte with the length, then the bytes.
fn parts(mut input: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (len, rest) = input.split_first()?;
        let (part, rest) = rest.split_at(usize::from(*len).min(rest.len()));
        input = rest;
        Some(part)
    })
}

/// The inverse of [`parts`].
fn join(parts: &[Vec<u8>]) -> Vec<u8> {
    let mut all = Vec::new();
    for part in parts {
        all.push(u8::try_from(part.len()).expect("seeds are short"));
        all.extend_from_slice(part);
    }
    all
}

/// A runtime for one input, so that no task outlives it.
fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime can be made")
}
