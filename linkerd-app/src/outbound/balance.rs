//! Stage 6: a balancer over the endpoints of a destination.

use super::context::Context;
use crate::{config::BalancerConfig, metrics::BalancerFamilies};
use futures::StreamExt;
use linkerd_balance::{Balance, LoadSettings, Member, Params, Preferences};
use linkerd_profiles::{Endpoint, PeakEwma};
use linkerd_proxy_core::{
    Destination, Error, NewService, Reason, Rejected, http::QueueSettings, metrics::LabelSet,
};
use std::{net::SocketAddr, rc::Rc, sync::Arc};
use tower::discover::Change;
use tower_service::Service;

/// The settings of a balancer.
pub struct BalanceTarget<'a> {
    /// The estimation of load.
    pub load: PeakEwma,
    /// The balancer settings of the environment; `None` where they do not apply.
    pub config: Option<&'a BalancerConfig>,
    /// The bounds of its queue.
    pub queue: QueueSettings,
    /// The metric families of its protocol.
    pub families: &'a BalancerFamilies,
    /// The labels of its series.
    pub labels: LabelSet,
}

impl BalanceTarget<'_> {
    fn load_settings(&self) -> LoadSettings {
        LoadSettings {
            kind: self.config.map(|config| config.load).unwrap_or_default(),
            default_rtt: self.load.default_rtt,
            decay: self.load.decay,
            penalty: self
                .load
                .penalty
                .as_deref()
                .map(|penalty| Rc::new(*penalty)),
        }
    }

    fn preferences(&self) -> Option<Box<Preferences>> {
        let preferences = &self.config?.preferences;
        (!preferences.is_none()).then(|| Box::new(preferences.clone()))
    }

    fn params(&self, ctx: &Context, name: String, on_unreachable: Box<dyn Fn()>) -> Params {
        let queue = ctx.queue(self.queue);
        Params {
            name,
            queue,
            load: self.load_settings(),
            preferences: self.preferences(),
            metrics: self.families.series(&self.labels, queue.failfast),
            rng: ctx.rng(),
            on_unreachable,
        }
    }
}

/// A balancer over the endpoints of a destination; `new_endpoint` builds its members.
pub fn balance<N, S, Req>(
    ctx: &Context,
    destination: &Destination,
    target: BalanceTarget<'_>,
    new_endpoint: N,
) -> Result<Balance<SocketAddr, S>, Error>
where
    N: NewService<Arc<Endpoint>, Service = Member<S>> + 'static,
    S: Service<Req, Error = Rejected<Req>> + 'static,
    Req: 'static,
{
    let watch = ctx
        .discovery
        .endpoints(destination)
        .map_err(|error| Error::new(Reason::DestinationLimit).detail(error.to_string()))?;
    let reporter = watch.clone();
    let on_unreachable = Box::new(move || reporter.report_unreachable());
    let params = target.params(ctx, destination.to_string(), on_unreachable);
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
                Change::Insert(addr, new_endpoint.new_service(endpoint))
            }
            Change::Remove(addr) => {
                updates.remove.incr();
                Change::Remove(addr)
            }
        });
        Ok(changes.collect())
    });
    Ok(Balance::new::<Req, _>(changes.boxed_local(), params))
}

/// A balancer over one endpoint that never changes.
pub fn balance_one<S, Req>(
    ctx: &Context,
    endpoint: SocketAddr,
    member: Member<S>,
    target: BalanceTarget<'_>,
) -> Balance<SocketAddr, S>
where
    S: Service<Req, Error = Rejected<Req>> + 'static,
    Req: 'static,
{
    let params = target.params(ctx, endpoint.to_string(), Box::new(|| {}));
    Balance::one::<Req>(endpoint, member, params)
}
