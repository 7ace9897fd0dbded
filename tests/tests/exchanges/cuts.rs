//! Writes in pieces.

use rand::{RngExt, SeedableRng, rngs::StdRng};
use std::{io, time::Duration};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// The division of bytes into writes.
#[derive(Clone, Debug)]
pub struct Cuts {
    /// The largest write; a single one if 0.
    largest: usize,
    seed: u64,
}

impl Cuts {
    pub fn generate(rng: &mut StdRng) -> Self {
        let largest = match rng.random_range(0..6) {
            0 => rng.random_range(1..20),
            1 => rng.random_range(20..2_000),
            _ => 0,
        };
        let seed = rng.random_range(0..u64::MAX);
        Self { largest, seed }
    }

    /// Writes all of it.
    pub async fn write(&self, io: &mut (impl AsyncWrite + Unpin), bytes: &[u8]) -> io::Result<()> {
        if self.largest == 0 {
            return io.write_all(bytes).await;
        }
        let mut rng = StdRng::seed_from_u64(self.seed ^ bytes.len() as u64);
        // Thousands of small writes take long and test no more than hundreds.
        let largest = self.largest.max(bytes.len() / 200);
        let mut rest = bytes;
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(rng.random_range(1..=largest.min(rest.len())));
            io.write_all(piece).await?;
            rest = after;
            match rng.random_range(0..40) {
                0 => tokio::time::sleep(Duration::from_millis(1)).await,
                1..20 => tokio::task::yield_now().await,
                _ => {}
            }
        }
        Ok(())
    }
}
