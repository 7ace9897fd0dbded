//! Stage 6: the endpoints of a destination, as changes for a balancer.

use super::context::Context;
use crate::metrics::Balancer;
use futures::StreamExt;
use linkerd_balance::{Balance, Params};
use linkerd_profiles::{Endpoint, PeakEwma};
use linkerd_proxy_core::{
    Availability, Error, Failed, NewService, Reason, http::QueueSettings, metrics::LabelSet,
};
use std::{net::SocketAddr, sync::Arc};
use tower::discover::Change;
use tower_service::Service;

/// What a balancer is made for.
pub struct Target<'a> {
    /// The destination, a `name:port`.
    pub path: &'a str,
    /// How load is estimated.
    pub load: PeakEwma,
    /// The bounds of its queue.
    pub queue: QueueSettings,
    /// The families of its kind.
    pub families: &'a Balancer,
    /// The labels of its series.
    pub labels: LabelSet,
}

/// A balancer over the endpoints of a destination, each served by what `new_endpoint` makes.
pub fn new_balance<N, S, Req>(
    ctx: &Context,
    target: Target<'_>,
    new_endpoint: N,
) -> Result<Balance<SocketAddr, S>, Error>
where
    N: NewService<Arc<Endpoint>, Service = S> + 'static,
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    let watch = ctx.discovery.endpoints(target.path).map_err(|error| {
        let reason = match &error {
            linkerd_discover::Error::Full(_) => Reason::DestinationLimit,
            linkerd_discover::Error::InvalidDestination(_) => Reason::InvalidBackend,
        };
        Error::new(reason).detail(error.to_string())
    })?;
    let queue = ctx.queue(target.queue);
    let reporter = watch.clone();
    let params = Params {
        name: target.path.to_owned(),
        queue,
        default_rtt: target.load.default_rtt,
        decay: target.load.decay,
        metrics: target.families.series(&target.labels, queue.failfast),
        rng: ctx.rng(),
        on_unreachable: Box::new(move || reporter.report_unreachable()),
    };
    let updates = target.families.updates(&target.labels);
    let changes = watch.into_changes().map(move |batch| {
        let batch = batch
            .map_err(|status| Error::new(Reason::DiscoveryRejected).detail(status.to_string()))?;
        if batch.reset {
            updates.reset.incr();
        }
        let changes = batch.changes.into_iter().map(|change| match change {
            Change::Insert(addr, endpoint) => {
                updates.add.incr();
                let weight = endpoint.weight;
                Change::Insert(addr, (new_endpoint.new_service(endpoint), weight))
            }
            Change::Remove(addr) => {
                updates.remove.incr();
                Change::Remove(addr)
            }
        });
        Ok(changes.collect())
    });
    Ok(Balance::new(changes.boxed_local(), params))
}

/// A balancer over one endpoint that never changes.
pub fn new_static<S, Req>(
    ctx: &Context,
    endpoint: SocketAddr,
    service: S,
    target: Target<'_>,
) -> Balance<SocketAddr, S>
where
    S: Service<Req, Error = Failed<Req>> + Availability + 'static,
    Req: 'static,
{
    let queue = ctx.queue(target.queue);
    let params = Params {
        name: endpoint.to_string(),
        queue,
        default_rtt: target.load.default_rtt,
        decay: target.load.decay,
        metrics: target.families.series(&target.labels, queue.failfast),
        rng: ctx.rng(),
        on_unreachable: Box::new(|| {}),
    };
    let only = vec![Change::Insert(endpoint, (service, 1))];
    Balance::new(futures::stream::iter([Ok(only)]), params)
}
