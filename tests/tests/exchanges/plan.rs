//! Plans: all decisions of a case, from the seed alone.

mod answers;
mod requests;

use crate::cuts::Cuts;
use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::ops::Range;

/// The version of HTTP between client and proxy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    Http1,
    Http2,
}

/// The service of a case's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Service {
    /// Several endpoints, one of which never stops.
    Web,
    /// One endpoint that stops and restarts.
    Lone,
    /// One endpoint that never stops, and is used so rarely that its connections are idle for long.
    Quiet,
    /// Endpoints with HTTP/2 from the proxy, for clients of either version.
    Carried,
}

/// One connection of a client, with its exchanges.
#[derive(Clone, Debug)]
pub struct Case {
    pub number: u64,
    pub version: Version,
    pub service: Service,
    pub exchanges: Vec<Exchange>,
    /// The most requests before a response is complete.
    pub depth: usize,
    pub cuts: Cuts,
    /// Whether the client reads slowly.
    pub slow: bool,
    /// Whether the client ends the connection with an RST.
    pub reset_at_end: bool,
}

/// A request, and the endpoints' responses.
#[derive(Clone, Debug)]
pub struct Exchange {
    pub id: u64,
    /// Milliseconds before the request is sent, after the earlier responses.
    pub pause: u64,
    pub ask: Ask,
    pub cancel: Option<Cancel>,
    /// One answer for each attempt; the last one also for further attempts.
    pub answers: [Answer; 3],
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub method: &'static str,
    pub absolute_form: bool,
    pub framing: Framing,
    pub length: usize,
    /// The largest chunk.
    pub chunk: usize,
    /// Whether an empty DATA frame comes behind each other one. Only over HTTP/2.
    pub empty_frames: bool,
    pub trailers: bool,
    pub expect: bool,
    pub close: bool,
}

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    None,
    Length,
    Chunked,
    Close,
}

/// An abort of the client.
#[derive(Clone, Copy, Debug)]
pub struct Cancel {
    /// Whether the abort is within the request, or else the response.
    pub sending: bool,
    /// Bytes of the message, head included.
    pub at: usize,
    pub how: Abort,
}

/// The kind of an abort.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    /// RST, or RST_STREAM.
    Reset,
    /// FIN, or a plain end of the connection.
    Close,
    /// FIN, then reading goes on.
    HalfClose,
    /// A stall, while reading goes on. Only within the head of a request.
    Stall,
}

/// An endpoint's response to an attempt.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Bytes of the request's body that are read before the response; all of it if `None`.
    pub after: Option<usize>,
    pub delay: u64,
    pub interims: Vec<u16>,
    pub status: u16,
    pub framing: Framing,
    pub length: usize,
    pub chunk: usize,
    /// As for a request.
    pub empty_frames: bool,
    pub trailers: bool,
    pub cuts: Cuts,
    pub end: Ending,
}

/// The end of a response, and perhaps of its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The connection stays. The rest of the request is read.
    Keep,
    /// `connection: close`, or GOAWAY.
    Close,
    /// The connection is closed without notice after this many idle milliseconds.
    CloseIdle(u64),
    /// The connection, or stream, ends at this byte of the response, head included.
    Break { at: usize, how: Abort, code: u32 },
    /// REFUSED_STREAM; with HTTP/1, a close before any response.
    Refuse,
}

impl Case {
    /// The n-th case of a seed. Without `carried`, no request changes its version on its path.
    pub fn generate(seed: u64, number: u64, carried: bool) -> Self {
        let mixed =
            seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number.wrapping_mul(0xd134_2543_de82_ef95);
        let mut rng = StdRng::seed_from_u64(mixed);
        let rng = &mut rng;
        let version = match rng.random_bool(0.5) {
            true => Version::Http1,
            false => Version::Http2,
        };
        let service = match rng.random_range(0..100) {
            0..70 => Service::Web,
            70..80 => Service::Lone,
            80..97 if carried => Service::Carried,
            80..97 => Service::Web,
            _ => Service::Quiet,
        };
        let count = match rng.random_range(0..10) {
            0..3 => 1,
            3..8 => rng.random_range(2..6),
            _ => rng.random_range(6..=MAX_EXCHANGES),
        };
        let depth = match rng.random_bool(0.5) {
            true => 1,
            false => rng.random_range(1..=count),
        };
        let exchanges =
            (0..count).map(|index| Exchange::generate(rng, number, index, version, service));
        let mut exchanges: Vec<_> = exchanges.collect();
        if version == Version::Http2 && one_in(rng, 15) {
            exchanges
                .iter_mut()
                .skip(1)
                .for_each(Exchange::leave_at_once);
        }
        Self {
            number,
            version,
            service,
            exchanges,
            depth: if version == Version::Http2 {
                count
            } else {
                depth
            },
            cuts: Cuts::generate(rng),
            slow: one_in(rng, 12),
            reset_at_end: one_in(rng, 6),
        }
    }
}

impl Exchange {
    fn generate(
        rng: &mut StdRng,
        case: u64,
        index: usize,
        version: Version,
        service: Service,
    ) -> Self {
        let ask = Ask::generate(rng, version);
        let answers = std::array::from_fn(|_| Answer::generate(rng, version, service, &ask));
        let cancel = one_in(rng, 20).then(|| Cancel::generate(rng, &ask, &answers[0], version));
        Self {
            id: case * 100 + index as u64,
            pause: match rng.random_range(0..300) {
                0 => rng.random_range(2_500..5_000),
                1..4 => rng.random_range(500..1_500),
                4..40 => rng.random_range(1..20),
                _ => 0,
            },
            ask,
            cancel,
            answers,
        }
    }

    /// Cancels the exchange with all others that do so.
    fn leave_at_once(&mut self) {
        self.pause = 0;
        self.cancel = Some(Cancel {
            sending: false,
            at: 150,
            how: Abort::Reset,
        });
    }

    /// The response to the n-th attempt.
    pub fn answer(&self, attempt: usize) -> &Answer {
        &self.answers[attempt.min(self.answers.len() - 1)]
    }
}

impl Cancel {
    fn generate(rng: &mut StdRng, ask: &Ask, answer: &Answer, version: Version) -> Self {
        let sending = rng.random_bool(0.5);
        let about = match sending {
            true => ask.length + 150,
            false => answer.length + 100,
        };
        let http1 = sending && version == Version::Http1;
        let how = match rng.random_range(0..12) {
            0..5 => Abort::Reset,
            9..11 if http1 => Abort::HalfClose,
            11 if http1 => Abort::Stall,
            _ => Abort::Close,
        };
        let at = match how {
            // After the first line, which decides whether it is HTTP at all and has a separate timeout.
            Abort::Stall => rng.random_range(STALL),
            _ => rng.random_range(0..about),
        };
        Self { sending, at, how }
    }
}

/// Lengths of bodies, few of them large.
fn length(rng: &mut StdRng) -> usize {
    match rng.random_range(0..20) {
        0..3 => 0,
        3..8 => rng.random_range(1..40),
        8..15 => rng.random_range(40..3_000),
        15..19 => rng.random_range(3_000..30_000),
        _ => rng.random_range(30_000..250_000),
    }
}

/// The largest chunk of a body: one byte only for small bodies, and a few for those that are not large.
fn chunk(rng: &mut StdRng, length: usize) -> usize {
    match rng.random_range(0..5) {
        0 if length < 400 => 1,
        4 if length < 30_000 => rng.random_range(5..60),
        0 | 1 => {
            rng.random_range(1.max(length / 300)..=length.clamp(2, 2_000).max(1 + length / 300))
        }
        2 => 16_384,
        _ => length.max(1),
    }
}

fn one_in(rng: &mut StdRng, count: u32) -> bool {
    rng.random_range(0..count) == 0
}

/// Bytes between the end of the longest first line and that of the shortest head.
const STALL: Range<usize> = 45..55;

/// The most exchanges of a case.
const MAX_EXCHANGES: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_decides_everything() {
        let plan = |seed, number| format!("{:?}", Case::generate(seed, number, true));
        for number in 0..50 {
            assert_eq!(plan(1, number), plan(1, number));
        }
        assert_ne!(plan(1, 0), plan(2, 0));
        assert_ne!(plan(1, 0), plan(1, 1));
    }
}
