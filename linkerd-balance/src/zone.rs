//! Preference for the endpoints of the own zone.

/// Keeps requests in the zone until its endpoints have clearly more in flight than those of other zones.
///
/// Requests in flight are compared, not latency estimates: the estimate of an endpoint without requests decays, so that a
/// trickle of requests would always leave the zone just to refresh it. Each request compares another random pair, so the
/// share that leaves the zone grows gradually with the difference, and falls with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZonePreference;

impl ZonePreference {
    /// Whether a request stays with a local endpoint rather than one in another zone: `local` and `remote` are their requests in
    /// flight, for each unit of weight.
    pub fn keeps_local(self, local: f64, remote: f64) -> bool {
        local <= remote * MAX_RATIO + HEADROOM
    }
}

/// The requests in flight that a local endpoint may have beside an idle remote one. Without it, bursts of a few requests
/// would leave the zone.
const HEADROOM: f64 = 3.0;

/// The ratio up to which a busy local endpoint is preferred: no zone runs hot while another has room.
const MAX_RATIO: f64 = 1.2;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spills_when_the_zone_has_clearly_more_in_flight() {
        let keeps = |local, remote| ZonePreference.keeps_local(local, remote);
        assert!(keeps(0.0, 0.0) && keeps(3.0, 0.0) && !keeps(4.0, 0.0));
        assert!(keeps(15.0, 10.0) && !keeps(16.0, 10.0));
        assert!(keeps(0.0, 100.0));
    }
}
