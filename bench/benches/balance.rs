//! The cost of picking an endpoint.

#![allow(missing_docs)]

use criterion::{Criterion, criterion_group, criterion_main};
use linkerd_balance::{PeakEwma, p2c};
use rand::{SeedableRng, rngs::SmallRng};
use std::{hint::black_box, time::Duration};
use tokio::time::Instant;

/// Compares the loads of two of many endpoints; the loads decay until now.
fn pick(criterion: &mut Criterion) {
    let now = Instant::now();
    for count in [10, 1000] {
        let mut rng = SmallRng::seed_from_u64(1);
        let loads: Vec<PeakEwma> = (0..count)
            .map(|n| PeakEwma::new(Duration::from_millis(n), DECAY, now))
            .collect();
        criterion.bench_function(&format!("p2c/pick/{count}"), |bencher| {
            bencher.iter(|| {
                let now = now + Duration::from_millis(5);
                p2c::pick(loads.len(), &mut rng, |n| {
                    black_box(&loads)[n].estimate(now)
                })
            });
        });
    }
}

fn observe(criterion: &mut Criterion) {
    let mut now = Instant::now();
    let mut ewma = PeakEwma::new(Duration::from_millis(30), DECAY, now);
    criterion.bench_function("ewma/observe", |bencher| {
        bencher.iter(|| {
            now += Duration::from_micros(20);
            ewma.observe(black_box(Duration::from_micros(900)), now);
        });
    });
}

const DECAY: Duration = Duration::from_secs(10);

criterion_group!(benches, pick, observe);
criterion_main!(benches);
