//! A line on its way: what is known when the request arrives, to which its end adds the rest.

/// A line that is being formatted. What a request shows is written when it arrives, so that nothing of it is kept.
#[derive(Debug, Default)]
pub struct Line {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the line begins. What is before it comes at its end.
    pub start: usize,
    /// Places to which the end of the exchange adds something, as the form of the line has them.
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
