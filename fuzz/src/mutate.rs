//! Inputs made by mutation of seeds.

use rand::{Rng, RngExt, rngs::SmallRng};

/// A generator of inputs: a seed, changed a few times.
pub struct Mutator<'a> {
    rng: SmallRng,
    seeds: &'a [Vec<u8>],
    words: &'a [&'a [u8]],
}

impl<'a> Mutator<'a> {
    /// A mutator that also inserts `words`, which are tokens of the target's grammar.
    pub fn new(rng: SmallRng, seeds: &'a [Vec<u8>], words: &'a [&'a [u8]]) -> Self {
        Self { rng, seeds, words }
    }

    /// The next input.
    pub fn next_input(&mut self) -> Vec<u8> {
        let mut input = self.any_seed();
        for _ in 0..self.rng.random_range(1..=6) {
            self.mutate(&mut input);
        }
        input.truncate(MAX_INPUT);
        input
    }

    fn any_seed(&mut self) -> Vec<u8> {
        match self.seeds {
            [] => Vec::new(),
            seeds => seeds[self.rng.random_range(0..seeds.len())].clone(),
        }
    }

    fn mutate(&mut self, input: &mut Vec<u8>) {
        match self.rng.random_range(0..8) {
            0 => self.at_one(input, |byte, rng| *byte ^= 1 << rng.random_range(0..8)),
            1 => self.at_one(input, |byte, rng| *byte = rng.random()),
            2 => self.at_one(input, |byte, rng| {
                *byte = EDGES[rng.random_range(0..EDGES.len())];
            }),
            3 => {
                let mut random = vec![0; self.rng.random_range(1..=8)];
                self.rng.fill_bytes(&mut random);
                self.insert(input, &random);
            }
            4 => {
                let (from, to) = self.range(input);
                input.drain(from..to);
            }
            5 => {
                let (from, to) = self.range(input);
                let copy = input[from..to].to_vec();
                self.insert(input, &copy);
            }
            6 => {
                let other = self.any_seed();
                let (from, to) = self.range(&other);
                self.insert(input, &other[from..to]);
            }
            _ => {
                if let [_, ..] = self.words {
                    let word = self.words[self.rng.random_range(0..self.words.len())];
                    self.insert(input, word);
                }
            }
        }
    }

    fn at_one(&mut self, input: &mut [u8], change: impl FnOnce(&mut u8, &mut SmallRng)) {
        if !input.is_empty() {
            let at = self.rng.random_range(0..input.len());
            change(&mut input[at], &mut self.rng);
        }
    }

    fn insert(&mut self, input: &mut Vec<u8>, bytes: &[u8]) {
        let at = self.rng.random_range(0..=input.len());
        input.splice(at..at, bytes.iter().copied());
    }

    fn range(&mut self, input: &[u8]) -> (usize, usize) {
        let from = self.rng.random_range(0..=input.len());
        (from, self.rng.random_range(from..=input.len()))
    }
}

/// Boundary values of decoders.
const EDGES: &[u8] = &[
    0, 1, b'\t', b'\n', b'\r', b' ', b':', 0x7f, 0x80, 0xfe, 0xff,
];

/// The longest input: longer than the buffers that targets limit, short enough to be read.
const MAX_INPUT: usize = 4096;
