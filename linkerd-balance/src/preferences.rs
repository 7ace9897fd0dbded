//! Optional preferences beyond power of two choices.

use crate::{
    affinity::{self, Affinity, AffinityCandidate, AffinityKey},
    member::{Candidate, ReadyList},
    p2c,
    slow_start::SlowStart,
    traits::PreferenceTraits,
    zone::ZonePreference,
};
use rand::Rng;
use std::{cell::Cell, fmt::Display, ops::Range};
use tokio::time::Instant;

/// Preferences among the endpoints of a balancer. Each may be absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Preferences {
    /// Requests with the same key go to the same endpoint.
    pub affinity: Option<Affinity>,
    /// Requests stay in the zone.
    pub zone: Option<ZonePreference>,
    /// New endpoints get their share gradually.
    pub slow_start: Option<SlowStart>,
}

impl Preferences {
    /// Whether no preference is set.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn traits(&self, name: &impl Display, is_local: bool) -> PreferenceTraits {
        PreferenceTraits {
            name: AffinityKey::of(name.to_string().as_bytes()),
            is_local: is_local && self.zone.is_some(),
            joined: Cell::default(),
        }
    }

    /// Picks an endpoint for a request with this key, if it has one.
    pub(crate) fn pick<K, S>(
        &self,
        ready: &ReadyList<K, S>,
        key: Option<AffinityKey>,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Option<usize> {
        let all = &ready.candidates;
        if let Some(key) = key {
            return affinity::pick(key, all.len(), |index| keyed(&all[index]));
        }
        let local = self.pick_within(ready, 0..ready.local, now, rng);
        let remote = self.pick_within(ready, ready.local..all.len(), now, rng);
        let (Some(near), Some(far), Some(zone)) = (local, remote, self.zone) else {
            return local.or(remote);
        };
        let in_flight = |index: usize| all[index].load.pending_by_weight();
        // Weights are relative: for equal weights this is the number of requests.
        let unit = f64::from(all[far].weight.max(1));
        match zone.keeps_local(in_flight(near) * unit, in_flight(far) * unit) {
            true => local,
            false => remote,
        }
    }

    /// Picks by power of two choices among some of the ready endpoints.
    fn pick_within<K, S>(
        &self,
        ready: &ReadyList<K, S>,
        among: Range<usize>,
        now: Instant,
        rng: &mut impl Rng,
    ) -> Option<usize> {
        let all = &ready.candidates[among.clone()];
        let index = match all.len() {
            0 => return None,
            1 => 0,
            count => {
                let (a, b) = p2c::two(count, rng);
                let load = |index: usize| all[index].load.value(now);
                let (less, more) = if load(b) < load(a) { (b, a) } else { (a, b) };
                match self.passes_over(&all[less], now, rng) {
                    true => more,
                    false => less,
                }
            }
        };
        Some(among.start + index)
    }

    fn passes_over<K, S>(
        &self,
        candidate: &Candidate<K, S>,
        now: Instant,
        rng: &mut impl Rng,
    ) -> bool {
        match (self.slow_start, candidate.joined()) {
            (Some(slow_start), Some(joined)) => slow_start.passes_over(joined, now, rng),
            _ => false,
        }
    }
}

fn keyed<K, S>(candidate: &Candidate<K, S>) -> AffinityCandidate {
    let name = candidate.traits.as_ref().map(|traits| traits.name);
    AffinityCandidate {
        hash: name.expect("a balancer with preferences gives all its endpoints traits"),
        weight: candidate.weight,
        pending: candidate.load.pending(),
    }
}
