//! Session affinity: requests with the same key go to the same endpoint.
//!
//! Rendezvous hashing: each endpoint has a score for a key, and the endpoint with the best score gets it. If an endpoint
//! leaves, only its own keys move; a new one takes its share from all. No table has to be kept, but each pick examines all
//! ready endpoints, so affinity is optional. The load is bounded (Mirrokni, Thorup, Zadimoghaddam, "Consistent Hashing with
//! Bounded Loads", 2017): an endpoint with too many requests in flight is passed over for the next best. A few
//! are never too many: the parallel requests of one client stay together.

use http::{HeaderName, Request, header::COOKIE};

/// The part of a request that identifies its endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// The value of a header.
    Header(HeaderName),
    /// The value of a cookie.
    Cookie(String),
}

/// A hashed key of requests. The same in all proxies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AffinityKey(u64);

/// An endpoint among those that a key can go to.
#[derive(Clone, Copy, Debug)]
pub struct AffinityCandidate {
    /// The hash of the endpoint's name.
    pub hash: AffinityKey,
    /// The endpoint's share of the keys, relative to the others.
    pub weight: u32,
    /// The endpoint's requests in flight.
    pub pending: u32,
}

impl Affinity {
    /// The key of a request, if it has one.
    pub fn key<B>(&self, request: &Request<B>) -> Option<AffinityKey> {
        match self {
            Self::Header(name) => {
                let value = request.headers().get(name)?;
                Some(AffinityKey::of(value.as_bytes()))
            }
            Self::Cookie(name) => {
                let fields = request.headers().get_all(COOKIE).into_iter();
                let mut cookies =
                    fields.flat_map(|field| field.as_bytes().split(|byte| *byte == b';'));
                let value = cookies.find_map(|cookie| {
                    let value = cookie.trim_ascii().strip_prefix(name.as_bytes())?;
                    value.strip_prefix(b"=")
                })?;
                Some(AffinityKey::of(value))
            }
        }
    }
}

impl AffinityKey {
    /// The key of some bytes: FNV-1a, with its bits mixed.
    pub fn of(bytes: &[u8]) -> Self {
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(mixed(hash))
    }

    /// A number in (0, 1), random for each pair of keys.
    fn with(self, other: Self) -> f64 {
        let bits = mixed(self.0 ^ other.0.rotate_left(32)) >> 11;
        (bits as f64 + 0.5) / (1u64 << 53) as f64
    }
}

/// Picks the endpoint of a key. `None` if there is none.
pub fn pick(
    key: AffinityKey,
    count: usize,
    candidate: impl Fn(usize) -> AffinityCandidate,
) -> Option<usize> {
    let (pending, weight) = (0..count).map(&candidate).fold((1.0, 0.0), |sum, next| {
        (
            sum.0 + f64::from(next.pending),
            sum.1 + f64::from(next.weight.max(1)),
        )
    });
    let mut best: Option<(usize, f64)> = None;
    for index in 0..count {
        let AffinityCandidate {
            hash,
            weight: share,
            pending: own,
        } = candidate(index);
        let share = f64::from(share.max(1));
        // At least one endpoint is below the average, so that one is always left.
        let bound = (BOUND * pending * share / weight).ceil().max(FEW);
        if f64::from(own) >= bound {
            continue;
        }
        // An exponential variable of rate `share`: each endpoint has the least one with the probability of its share.
        let score = -key.with(hash).ln() / share;
        if best.is_none_or(|(_, best)| score < best) {
            best = Some((index, score));
        }
    }
    best.map(|(index, _)| index)
}

/// The finalizer of splitmix64.
fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

/// The load relative to the average at which an endpoint gets no more keys.
const BOUND: f64 = 1.25;

/// The requests in flight below which an endpoint is not passed over: about as many as a browser sends in parallel.
const FEW: f64 = 8.0;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn candidates(names: std::ops::Range<u32>) -> Vec<AffinityCandidate> {
        let new = |n: u32| AffinityCandidate {
            hash: AffinityKey::of(format!("10.0.0.{n}:80").as_bytes()),
            weight: 10_000,
            pending: 0,
        };
        names.map(new).collect()
    }

    fn picked(candidates: &[AffinityCandidate], keys: u32) -> Vec<AffinityKey> {
        let pick = |n: u32| {
            let key = AffinityKey::of(&n.to_be_bytes());
            pick(key, candidates.len(), |index| candidates[index]).unwrap()
        };
        (0..keys).map(|n| candidates[pick(n)].hash).collect()
    }

    #[test]
    fn keys_are_spread_by_weight() {
        let mut all = candidates(0..4);
        all[0].weight = 30_000;
        let picked = picked(&all, 12_000);
        let shares = all
            .iter()
            .map(|one| picked.iter().filter(|hash| **hash == one.hash).count());
        let shares: Vec<_> = shares.collect();
        assert!((5_700..6_300).contains(&shares[0]), "{shares:?}");
        assert!(
            shares[1..].iter().all(|n| (1_800..2_200).contains(n)),
            "{shares:?}"
        );
    }

    #[test]
    fn a_change_of_one_endpoint_moves_its_own_keys_only() {
        let (ten, nine) = (candidates(0..10), candidates(1..10));
        let (before, after) = (picked(&ten, 10_000), picked(&nine, 10_000));
        let moved = before
            .iter()
            .zip(&after)
            .filter(|(before, after)| before != after);
        assert!(moved.clone().all(|(before, _)| *before == ten[0].hash));
        assert!(moved.count() < 1_500);
    }

    #[test]
    fn a_header_or_a_cookie_is_the_key() {
        let request = Request::builder()
            .header("x-user", "amy")
            .header("cookie", "a=1; session=xyz; sessions=no")
            .header("cookie", "late=2")
            .body(())
            .unwrap();
        let header = |name| Affinity::Header(HeaderName::from_static(name)).key(&request);
        let cookie = |name: &str| Affinity::Cookie(name.to_owned()).key(&request);
        assert_eq!(header("x-user"), Some(AffinityKey::of(b"amy")));
        assert_eq!(header("x-other"), None);
        assert_eq!(cookie("session"), Some(AffinityKey::of(b"xyz")));
        assert_eq!(cookie("late"), Some(AffinityKey::of(b"2")));
        assert_eq!(cookie("sess"), None);
    }

    proptest! {
        /// For any number of requests in flight, an endpoint is found, and its load is not far above the average.
        #[test]
        fn the_load_is_bounded(pending in prop::collection::vec(0u32..1_000, 1..20), key: u64) {
            let mut all = candidates(0..pending.len() as u32);
            for (candidate, pending) in all.iter_mut().zip(&pending) {
                candidate.pending = *pending;
            }
            let index = pick(AffinityKey(key), all.len(), |index| all[index]);
            let index = index.expect("there is one");
            let average = f64::from(pending.iter().sum::<u32>() + 1) / all.len() as f64;
            prop_assert!(f64::from(all[index].pending) < (average * BOUND).ceil().max(FEW));
        }
    }
}
