//! Power of two choices: of two random candidates the less loaded one.
//!
//! Mitzenmacher, "The Power of Two Choices in Randomized Load Balancing" (1996): almost as even as comparing all candidates,
//! at the cost of two, and without the herd that follows a single best candidate.

use rand::{Rng, RngExt};

/// Picks one of `count` candidates by their load. On a tie the first one drawn wins. `None` if there is none.
pub fn pick(count: usize, rng: &mut impl Rng, load: impl Fn(usize) -> f64) -> Option<usize> {
    match count {
        0 => None,
        1 => Some(0),
        _ => {
            let (a, b) = two(count, rng);
            Some(if load(b) < load(a) { b } else { a })
        }
    }
}

/// Two different indices below `count`, which is at least 2. All pairs are equally likely.
pub(crate) fn two(count: usize, rng: &mut impl Rng) -> (usize, usize) {
    let a = rng.random_range(0..count);
    let b = rng.random_range(0..count - 1);
    (a, if b >= a { b + 1 } else { b })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rand::{SeedableRng, rngs::SmallRng};

    proptest! {
        #[test]
        fn draws_two_different_ones(count in 2usize..100, seed: u64) {
            let (a, b) = two(count, &mut SmallRng::seed_from_u64(seed));
            prop_assert!(a != b && a < count && b < count);
        }

        #[test]
        fn never_picks_the_most_loaded(loads in prop::collection::vec(0.0f64..1e6, 2..20), seed: u64) {
            let picked = pick(loads.len(), &mut SmallRng::seed_from_u64(seed), |i| loads[i]);
            let picked = picked.expect("there are candidates");
            let above = loads.iter().filter(|load| **load > loads[picked]).count();
            let equal = loads.iter().filter(|load| **load == loads[picked]).count();
            prop_assert!(above > 0 || equal > 1);
        }
    }

    #[test]
    fn every_pair_is_as_likely() {
        let mut rng = SmallRng::seed_from_u64(7);
        let mut seen = [0u32; 5];
        for _ in 0..50_000 {
            seen[pick(5, &mut rng, |_| 1.0).unwrap()] += 1;
        }
        assert!(seen.iter().all(|n| (9_500..10_500).contains(n)), "{seen:?}");
    }
}
