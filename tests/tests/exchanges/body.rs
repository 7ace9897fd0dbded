//! Bytes of a body: each record contains its exchange, attempt and offset, so that a misplaced byte shows its origin.

/// A body that differs from all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    side: char,
    id: u64,
    attempt: usize,
}

impl Body {
    /// The body of a request.
    pub fn request(id: u64) -> Self {
        Self {
            side: '>',
            id,
            attempt: 0,
        }
    }

    /// The body of the response to the n-th attempt at a request.
    pub fn response(id: u64, attempt: usize) -> Self {
        Self {
            side: '<',
            id,
            attempt,
        }
    }

    /// A piece of it.
    pub fn piece(self, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(length + RECORD);
        let first = offset / RECORD as u64;
        let skip = (offset % RECORD as u64) as usize;
        for index in (first..).take((skip + length).div_ceil(RECORD)) {
            bytes.extend_from_slice(&self.record(index));
        }
        bytes.drain(..skip);
        bytes.truncate(length);
        bytes
    }

    /// Checks bytes received at an offset.
    pub fn check(self, offset: u64, bytes: &[u8]) -> Result<(), String> {
        let expected = self.piece(offset, bytes.len());
        let Some(at) = (0..bytes.len()).find(|&at| bytes[at] != expected[at]) else {
            return Ok(());
        };
        let around = |bytes: &[u8]| {
            let end = (at + 2 * RECORD).min(bytes.len());
            String::from_utf8_lossy(&bytes[at.saturating_sub(4)..end]).into_owned()
        };
        Err(format!(
            "byte {} of {self:?} is wrong: expected {:?}, got {:?}",
            offset + at as u64,
            around(&expected),
            around(bytes)
        ))
    }

    /// The first character depends on everything, so that even bodies of one byte differ.
    fn record(self, index: u64) -> [u8; RECORD] {
        let mut record = *b"?? 0000000000.0@0000000000000  \n";
        let mut put = |range: std::ops::Range<usize>, mut number: u64| {
            for at in range.rev() {
                record[at] = b'0' + (number % 10) as u8;
                number /= 10;
            }
        };
        put(3..13, self.id);
        put(14..15, self.attempt as u64);
        put(16..29, index * RECORD as u64);
        record[1] = self.side as u8;
        let mixed = record[1..]
            .iter()
            .fold(self.id, |sum, &byte| sum.wrapping_mul(31) + u64::from(byte));
        record[0] = b'!' + (mixed % 90) as u8;
        record
    }
}

const RECORD: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_the_same_however_it_is_cut() {
        let body = Body::response(4711, 1);
        let whole = body.piece(0, 1000);
        for (from, to) in [(0, 1), (31, 33), (64, 64), (5, 999)] {
            assert_eq!(body.piece(from as u64, to - from), whole[from..to]);
            assert_eq!(body.check(from as u64, &whole[from..to]), Ok(()));
        }
    }

    #[test]
    fn a_swapped_byte_is_found() {
        let body = Body::request(7);
        let mut bytes = body.piece(100, 300);
        bytes[217] ^= 1;
        let error = body.check(100, &bytes).unwrap_err();
        assert!(error.starts_with("byte 317 of"), "{error}");
    }

    #[test]
    fn bytes_of_another_exchange_attempt_or_offset_are_found() {
        let body = Body::response(7, 0);
        let others = [
            Body::response(8, 0).piece(64, 64),
            Body::response(7, 1).piece(64, 64),
            Body::request(7).piece(64, 64),
            body.piece(96, 64),
        ];
        for other in others {
            assert!(body.check(64, &other).is_err());
        }
    }
}
