//! Stage 2: the policy and profile of a target, and the stacks that serve it, kept while connections use them.

use super::{HttpRouter, HttpRoutes, context::Context, opaque::Opaque, tls::TlsConnections};
use crate::{
    metrics::{client_tls_labels, target_labels},
    server::InUse,
};
use http::Version;
use linkerd_profiles::{Discovered, DiscoveryState, DiscoveryWatch, Target};
use linkerd_proxy_core::{
    Error, Reason,
    metrics::Labels,
    subscription::Code,
    tls::{NoTlsReason, TlsStatus},
    transport::TransportSeries,
};
use std::{
    cell::{OnceCell, RefCell},
    rc::Rc,
    sync::Arc,
    time::Duration,
};

/// Everything that serves one target on one worker.
pub struct TargetStack {
    watch: DiscoveryWatch,
    /// The last answer of the control plane.
    discovered: RefCell<Arc<Discovered>>,
    http1: OnceCell<HttpRouter>,
    http2: OnceCell<HttpRouter>,
    opaque: OnceCell<Opaque>,
    tls: OnceCell<TlsConnections>,
    series: Arc<TransportSeries>,
}

/// The targets in use on one worker.
///
/// - **Bounds**: those of discovery; a target that was unused for the idle timeout is dropped.
#[derive(Default)]
pub struct Targets(InUse<Target, TargetStack>);

impl Targets {
    /// The stack of a target, built if missing.
    ///
    /// Waits for the control plane's first answer, for a limited time.
    pub async fn get(&self, ctx: &Rc<Context>, target: Target) -> Result<Rc<TargetStack>, Error> {
        if let Some(stack) = self.0.get(&target) {
            return Ok(stack);
        }
        let mut watch = ctx
            .policies
            .discover(target.clone())
            .map_err(|error| Error::new(Reason::DestinationLimit).detail(error.to_string()))?;
        let ready = match tokio::time::timeout(DISCOVERY_TIMEOUT, watch.ready()).await {
            Ok(ready) => ready,
            Err(_) => return Err(Error::new(Reason::DiscoveryTimeout).context(target.to_string())),
        };
        let discovered = ready.map_err(|error| {
            let reason = match error.status.code {
                Code::NotFound | Code::Unimplemented => Reason::UnknownDestination,
                _ => Reason::DiscoveryRejected,
            };
            Error::new(reason).detail(error.to_string())
        })?;
        // Another connection may have waited for the same answer.
        let new = |target: &Target| TargetStack::new(ctx, target, watch, discovered);
        Ok(self.0.get_or_insert(target, new))
    }

    /// Drops the targets that no connection has used for the idle timeout, as long as the worker runs.
    pub async fn sweep(&self, idle: Duration) {
        self.0.sweep_regularly(idle, SWEEP_AT_LEAST).await;
    }

    /// The router of a target that is in use. The call does not count as a use.
    pub fn peek(&self, target: &Target, version: Version) -> Option<HttpRouter> {
        let stack = self.0.get(target)?;
        let router = match version {
            Version::HTTP_2 => &stack.http2,
            _ => &stack.http1,
        };
        router.get().cloned()
    }

    /// The targets, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        self.0.inspect(|target, stack, connections| {
            let routers = [&stack.http1, &stack.http2];
            let routers = routers.into_iter().filter_map(OnceCell::get);
            serde_json::json!({
                "target": target.to_string(),
                "connections": connections,
                "http": routers.map(HttpRouter::inspect).collect::<Vec<_>>(),
                "opaque": stack.opaque.get().map(Opaque::inspect),
                "tls": stack.tls.get().map(TlsConnections::inspect),
            })
        })
    }
}

impl TargetStack {
    fn new(
        ctx: &Rc<Context>,
        target: &Target,
        watch: DiscoveryWatch,
        discovered: Arc<Discovered>,
    ) -> Self {
        Self {
            watch,
            discovered: RefCell::new(discovered),
            http1: OnceCell::new(),
            http2: OnceCell::new(),
            opaque: OnceCell::new(),
            tls: OnceCell::new(),
            series: Self::client_series_of(ctx, target),
        }
    }

    /// Series of applications' connections to a target that may not be discovered yet.
    pub fn client_series_of(ctx: &Context, target: &Target) -> Arc<TransportSeries> {
        let labels = Labels::new()
            .with("direction", "outbound")
            .with("peer", "src");
        let labels = match target {
            Target::Addr(addr) => target_labels(labels, *addr),
            Target::Name(name) => labels
                .with("target_addr", name)
                .with("target_ip", name.name())
                .with("target_port", name.port()),
        };
        let labels = client_tls_labels(labels, &TlsStatus::None(NoTlsReason::Loopback));
        ctx.families.transport.series(labels)
    }

    /// The target.
    pub fn target(&self) -> &Target {
        self.watch.target()
    }

    /// Series of the application's connections to the target.
    pub fn client_series(&self) -> Arc<TransportSeries> {
        self.series.clone()
    }

    /// The present policy and profile.
    pub fn discovered(&self) -> Arc<Discovered> {
        if let DiscoveryState::Ready(discovered) = self.watch.current() {
            *self.discovered.borrow_mut() = discovered;
        }
        self.discovered.borrow().clone()
    }

    /// The router of requests of this version.
    pub fn router(&self, ctx: &Rc<Context>, version: Version) -> HttpRouter {
        let (router, version) = match version {
            Version::HTTP_2 => (&self.http2, Version::HTTP_2),
            _ => (&self.http1, Version::HTTP_11),
        };
        let new = || HttpRoutes::router(ctx, &self.watch, &self.discovered(), version);
        router.get_or_init(new).clone()
    }

    /// The route of opaque connections.
    pub fn opaque(&self, ctx: &Rc<Context>) -> &Opaque {
        let new = || Opaque::new(ctx, &self.watch, &self.discovered());
        self.opaque.get_or_init(new)
    }

    /// The routes of TLS connections.
    pub fn tls(&self, ctx: &Rc<Context>) -> &TlsConnections {
        let new = || TlsConnections::new(ctx, &self.watch, &self.discovered());
        self.tls.get_or_init(new)
    }
}

/// The longest wait of a connection for the control plane's first answer. The incumbent waits for ever; an application that
/// gets an error can react.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(30);

/// The longest time between two sweeps, so that the idle timeout is exact to a second.
const SWEEP_AT_LEAST: Duration = Duration::from_secs(1);
