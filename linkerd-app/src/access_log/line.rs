//! A line that is being formatted: begun when the request arrives, and completed at the end of the exchange.

/// A line that is being formatted. The facts of a request are written at its arrival, so that the request need not be kept.
#[derive(Debug, Default)]
pub struct Line {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The beginning of the line. Bytes before it are appended at the end.
    pub start: usize,
    /// Places for insertions at the end of the exchange, by the form of the line.
    pub marks: [usize; 3],
}

impl Line {
    /// An empty line, in the memory of another.
    pub fn new(mut memory: Vec<u8>) -> Self {
        memory.clear();
        Self {
            bytes: memory,
            ..Self::default()
        }
    }

    /// Inserts at a place.
    pub fn insert(&mut self, at: usize, push: impl FnOnce(&mut Vec<u8>)) {
        let rest = self.bytes.split_off(at);
        push(&mut self.bytes);
        self.bytes.extend_from_slice(&rest);
    }
}
