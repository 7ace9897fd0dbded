//! The addresses of a controller, as changes of its balancer.

use crate::metrics::UpdateSeries;
use futures::{
    StreamExt,
    stream::{LocalBoxStream, unfold},
};
use linkerd_discover::dns::AddressSet;
use linkerd_proxy_core::Error;
use std::{collections::HashSet, net::SocketAddr, sync::Arc};
use tokio::sync::watch;
use tower::discover::Change;

/// Changes that come together.
pub(super) type Batch<M> = Result<Vec<Change<SocketAddr, M>>, Error>;

/// Converts sets of addresses to changes, which are counted. Addresses that stay keep their members.
pub(super) fn address_changes<M: 'static>(
    mut addresses: watch::Receiver<Option<Arc<AddressSet>>>,
    counts: UpdateSeries,
    new_member: impl Fn(SocketAddr) -> M + 'static,
) -> LocalBoxStream<'static, Batch<M>> {
    addresses.mark_changed();
    let known: Option<HashSet<SocketAddr>> = None;
    let state = (addresses, known, counts, new_member);
    unfold(state, async |(mut addresses, known, counts, new_member)| {
        let set = next(&mut addresses).await;
        if known.is_none() {
            counts.reset.incr();
        }
        let known = known.unwrap_or_default();
        let now: HashSet<_> = set.addrs.iter().copied().collect();
        let added = now.difference(&known).map(|addr| {
            counts.add.incr();
            Change::Insert(*addr, new_member(*addr))
        });
        let removed = known.difference(&now).map(|addr| {
            counts.remove.incr();
            Change::Remove(*addr)
        });
        let changes = added.chain(removed).collect();
        Some((Ok(changes), (addresses, Some(now), counts, new_member)))
    })
    .boxed_local()
}

/// The next set. The set of a fixed address comes once.
async fn next(addresses: &mut watch::Receiver<Option<Arc<AddressSet>>>) -> Arc<AddressSet> {
    loop {
        if addresses.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        if let Some(set) = addresses.borrow_and_update().clone() {
            return set;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linkerd_proxy_core::metrics::{Counter, Metric};
    use tokio::time::Instant;

    fn set(ports: &[u16]) -> Option<Arc<AddressSet>> {
        let addr = |port: &u16| SocketAddr::from(([10, 0, 0, 1], *port));
        Some(Arc::new(AddressSet {
            addrs: ports.iter().map(addr).collect(),
            generation: 0,
            changed_at: Instant::now(),
        }))
    }

    #[tokio::test]
    async fn what_stays_is_no_change_and_all_others_are_counted() {
        let counts = UpdateSeries {
            reset: Counter::new(()),
            add: Counter::new(()),
            remove: Counter::new(()),
        };
        let (addresses, watched) = watch::channel(set(&[1, 2]));
        let mut changes = address_changes(watched, counts.clone(), |addr| addr.port());
        let first = changes.next().await.unwrap().unwrap();
        assert_eq!(first.len(), 2);
        addresses.send_replace(set(&[2, 3]));
        let second = changes.next().await.unwrap().unwrap();
        let ports: Vec<_> = second
            .iter()
            .map(|change| match change {
                Change::Insert(_, member) => (true, *member),
                Change::Remove(addr) => (false, addr.port()),
            })
            .collect();
        assert_eq!(ports, [(true, 3), (false, 1)]);
        let counted = [&counts.reset, &counts.add, &counts.remove].map(Counter::value);
        assert_eq!(counted, [1, 3, 1]);
    }
}
