//! Identifiers of traces and spans.

use rand::{RngExt, SeedableRng, rngs::SmallRng};
use std::{cell::RefCell, fmt};

/// The id of a trace: 16 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct TraceId([u8; 16]);

/// The id of a span: 8 bytes, not all zero.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SpanId([u8; 8]);

/// Generator of ids, and of sampling decisions for traces that begin here. One for each worker.
#[derive(Debug)]
pub struct SpanIds(RefCell<SmallRng>);

impl TraceId {
    /// An id of these bytes; `None` if all are zero.
    pub fn new(bytes: [u8; 16]) -> Option<Self> {
        (bytes != [0; 16]).then_some(Self(bytes))
    }

    /// Reads 32 hexadecimal digits. 16 digits are the lower half, as B3 allows.
    pub(super) fn from_hex(text: &[u8], case: HexCase) -> Option<Self> {
        let mut bytes = [0; 16];
        match text.len() {
            32 => read_hex(text, &mut bytes, case)?,
            16 => read_hex(text, &mut bytes[8..], case)?,
            _ => return None,
        }
        Self::new(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl SpanId {
    /// An id of these bytes; `None` if all are zero.
    pub fn new(bytes: [u8; 8]) -> Option<Self> {
        (bytes != [0; 8]).then_some(Self(bytes))
    }

    /// Reads 16 hexadecimal digits.
    pub(super) fn from_hex(text: &[u8], case: HexCase) -> Option<Self> {
        let mut bytes = [0; 8];
        if text.len() != 16 {
            return None;
        }
        read_hex(text, &mut bytes, case)?;
        Self::new(bytes)
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8; 8] {
        &self.0
    }

    /// The 16 lower-case hexadecimal digits.
    pub(super) fn hex(&self) -> [u8; 16] {
        let mut text = [0; 16];
        write_hex(&self.0, &mut text);
        text
    }
}

impl SpanIds {
    /// A generator with this seed.
    pub fn new(seed: u64) -> Self {
        Self(RefCell::new(SmallRng::seed_from_u64(seed)))
    }

    /// An id of a new trace.
    pub fn trace(&self) -> TraceId {
        loop {
            if let Some(id) = TraceId::new(self.0.borrow_mut().random()) {
                return id;
            }
        }
    }

    /// An id of a new span.
    pub fn span(&self) -> SpanId {
        loop {
            if let Some(id) = SpanId::new(self.0.borrow_mut().random()) {
                return id;
            }
        }
    }

    /// `true` with a probability of `share`, from 0 to 1.
    pub fn draw(&self, share: f64) -> bool {
        share > 0.0 && (share >= 1.0 || self.0.borrow_mut().random::<f64>() < share)
    }
}

/// The hexadecimal digits that a format allows.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum HexCase {
    Lower,
    Any,
}

/// Reads `out.len()` bytes of two digits each.
pub(super) fn read_hex(text: &[u8], out: &mut [u8], case: HexCase) -> Option<()> {
    debug_assert_eq!(text.len(), out.len() * 2);
    for (pair, byte) in text.chunks_exact(2).zip(out) {
        *byte = digit(pair[0], case)? << 4 | digit(pair[1], case)?;
    }
    Some(())
}

/// Writes two lower-case digits for each byte.
pub(super) fn write_hex(bytes: &[u8], out: &mut [u8]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    for (byte, pair) in bytes.iter().zip(out.chunks_exact_mut(2)) {
        pair[0] = DIGITS[usize::from(byte >> 4)];
        pair[1] = DIGITS[usize::from(byte & 15)];
    }
}

fn digit(byte: u8, case: HexCase) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' if case == HexCase::Any => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn format_hex(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_hex(&self.0, f)
    }
}

impl fmt::Debug for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_hex(&self.0, f)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_hex(&self.0, f)
    }
}

impl fmt::Debug for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        format_hex(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_and_shown_as_hexadecimal_digits() {
        let text = "0af7651916cd43dd8448eb211c80319c";
        let id = TraceId::from_hex(text.as_bytes(), HexCase::Lower).unwrap();
        assert_eq!(id.to_string(), text);
        let half = TraceId::from_hex(b"8448eb211c80319c", HexCase::Lower).unwrap();
        assert_eq!(half.to_string(), "00000000000000008448eb211c80319c");
        let span = SpanId::from_hex(b"B7ad6b7169203331", HexCase::Any).unwrap();
        assert_eq!(&span.hex(), b"b7ad6b7169203331");
        assert_eq!(SpanId::from_hex(b"B7ad6b7169203331", HexCase::Lower), None);
    }

    #[test]
    fn zero_and_other_lengths_are_no_ids() {
        for text in [
            "",
            "0",
            "00000000000000000000000000000000",
            "0af7651916cd43dd8448eb211c80319",
        ] {
            assert_eq!(
                TraceId::from_hex(text.as_bytes(), HexCase::Any),
                None,
                "{text}"
            );
        }
        assert_eq!(SpanId::from_hex(b"0000000000000000", HexCase::Any), None);
    }

    #[test]
    fn a_share_decides_how_often_a_draw_is_true() {
        let ids = SpanIds::new(7);
        let drawn = |share| (0..1000).filter(|_| ids.draw(share)).count();
        assert_eq!((drawn(0.0), drawn(1.0)), (0, 1000));
        assert!((200..300).contains(&drawn(0.25)));
        assert_ne!(ids.span(), ids.span());
        assert_ne!(ids.trace(), ids.trace());
    }
}
