use super::{Abort, Answer, Ask, Ending, Framing, Service, Version, chunk, length, one_in};
use crate::cuts::Cuts;
use rand::{RngExt, rngs::StdRng};

impl Answer {
    pub(super) fn generate(
        rng: &mut StdRng,
        version: Version,
        service: Service,
        ask: &Ask,
    ) -> Self {
        let status = STATUSES[rng.random_range(0..STATUSES.len())];
        // A response to HEAD has only the fields of a body.
        let body = status != 204 && status != 304 && ask.method != "HEAD";
        let length = if body { length(rng) } else { 0 };
        let http2 = version == Version::Http2 || service == Service::Carried;
        let mut end = Ending::generate(rng, length, http2);
        let framing = match rng.random_range(0..10) {
            _ if !body => Framing::None,
            0..5 => Framing::Length,
            // The body ends with the connection, which cannot stay.
            9 if !http2 && !matches!(end, Ending::Keep | Ending::CloseIdle(_)) => Framing::Close,
            _ => Framing::Chunked,
        };
        if let Ending::Break { how, .. } = &mut end
            && framing == Framing::Close
        {
            // Otherwise the cut would not be recognisable.
            *how = Abort::Reset;
        }
        let early = ask.length > 0 && one_in(rng, 10);
        Self {
            after: early.then(|| rng.random_range(0..ask.length)),
            delay: match rng.random_range(0..20) {
                0..3 => rng.random_range(1..30),
                _ => 0,
            },
            interims: match rng.random_range(0..12) {
                0 => vec![103],
                1 => vec![102, 103, 103],
                2 => vec![100],
                _ => Vec::new(),
            },
            status,
            framing,
            length,
            chunk: chunk(rng, length),
            empty_frames: http2 && one_in(rng, 10),
            trailers: framing == Framing::Chunked && one_in(rng, 3),
            cuts: Cuts::generate(rng),
            end,
        }
    }

    /// Whether it is sent completely.
    pub fn is_whole(&self) -> bool {
        !matches!(self.end, Ending::Break { .. } | Ending::Refuse)
    }
}

impl Ending {
    fn generate(rng: &mut StdRng, length: usize, http2: bool) -> Self {
        match rng.random_range(0..40) {
            0..3 => Self::Close,
            3..5 => Self::CloseIdle(rng.random_range(0..30)),
            5..9 => Self::Break {
                at: match one_in(rng, 3) {
                    true => 0,
                    false => rng.random_range(0..length + 120),
                },
                how: match rng.random_bool(0.5) {
                    true => Abort::Reset,
                    false => Abort::Close,
                },
                code: CODES[rng.random_range(0..CODES.len())],
            },
            9..11 if http2 => Self::Refuse,
            _ => Self::Keep,
        }
    }
}

const STATUSES: [u16; 12] = [200, 200, 200, 201, 204, 206, 304, 404, 413, 429, 500, 503];

/// Codes of RST_STREAM: all of RFC 9113 but NO_ERROR and REFUSED_STREAM.
const CODES: [u32; 6] = [1, 2, 8, 9, 11, 13];
