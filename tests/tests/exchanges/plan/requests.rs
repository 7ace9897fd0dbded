use super::{Ask, Framing, Version, chunk, length, one_in};
use rand::{RngExt, rngs::StdRng};

impl Ask {
    pub(super) fn generate(rng: &mut StdRng, version: Version) -> Self {
        let method = METHODS[rng.random_range(0..METHODS.len())];
        let body = match method {
            "GET" | "HEAD" | "OPTIONS" => one_in(rng, 20),
            "DELETE" => one_in(rng, 4),
            _ => true,
        };
        let framing = match body {
            false => Framing::None,
            true if rng.random_bool(0.5) => Framing::Length,
            true => Framing::Chunked,
        };
        let length = if body { length(rng) } else { 0 };
        let http1 = version == Version::Http1;
        Self {
            method,
            absolute_form: rng.random_bool(0.5),
            framing,
            length,
            chunk: chunk(rng, length),
            empty_frames: !http1 && one_in(rng, 10),
            trailers: framing == Framing::Chunked && one_in(rng, 3),
            expect: http1 && length > 0 && one_in(rng, 10),
            close: http1 && one_in(rng, 30),
        }
    }

    /// Whether a request may be sent again after it may have been processed (RFC 9110, 9.2.2).
    pub fn is_idempotent(&self) -> bool {
        !matches!(self.method, "POST" | "PATCH")
    }
}

const METHODS: [&str; 9] = [
    "GET", "GET", "GET", "HEAD", "PUT", "DELETE", "POST", "POST", "PATCH",
];
