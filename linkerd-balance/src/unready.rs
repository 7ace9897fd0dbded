//! The state of the endpoints, for a request that stops waiting for one.

use crate::{member::Slot, state::BalanceState};
use linkerd_proxy_core::{
    EndpointState,
    endpoint::{EndpointQueue, Unready, UnreadyEndpoint},
};
use std::{fmt::Display, hash::Hash};

impl<K, S> EndpointQueue for BalanceState<K, S>
where
    K: Hash + Eq + Clone + Display + 'static,
    S: 'static,
{
    /// With the error of the endpoint that failed last.
    fn unready(&self) -> Unready {
        let slots = self.slots.borrow();
        let outages = slots
            .values()
            .flat_map(Slot::candidates)
            .filter_map(|candidate| match candidate.status.state() {
                EndpointState::BackingOff(outage) => Some((&candidate.key, outage)),
                _ => None,
            });
        let last = outages.max_by_key(|(_, outage)| outage.since);
        let error = last.map(|(key, outage)| UnreadyEndpoint {
            name: key.to_string(),
            addr: outage.peer,
            text: outage.error,
        });
        Unready {
            cause: self.cause(),
            error,
        }
    }
}
