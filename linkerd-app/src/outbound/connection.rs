//! Stages 1 to 3: an application's connection, from its acceptance to the protocol that it speaks.

use super::{
    context::Context,
    explain::backend_states,
    explicit::ByAuthority,
    forwarded::ForwardedTargets,
    http::{count_error, serve_named, serve_target},
    ingress::ByOverride,
    target::{TargetStack, Targets},
    tcp_route::RoutedConnection,
    tunnel,
};
use crate::{
    explain::BackendsQuery,
    metrics::{meta_labels, target_labels},
    server::{
        BROKEN_OFF, DetectSettings, RelayEnd, SilentDestinations, accept, detect,
        wait_for_certificate,
    },
};
use ::http::Version;
use hyper::upgrade::OnUpgrade;
use linkerd_profiles::{Meta, ProtocolKind, Target};
use linkerd_proxy_core::{
    Error, Reason,
    http::{Responder, ServeError},
    metrics::{LabelSet, Labels},
    subscription::RateLimit,
    tls::read_client_hello,
    transport::{Accepted, ClientInfo, Detected, Io, Listener, Lookalikes, Side, TransportStream},
};
use std::{
    cell::{Cell, RefCell},
    net::SocketAddr,
    rc::Rc,
    sync::LazyLock,
    time::Duration,
};

/// The outbound side of one worker.
pub struct Outbound {
    pub(super) ctx: Rc<Context>,
    pub(super) targets: Rc<Targets>,
    pub(super) silent: SilentDestinations<Target>,
    /// Targets whose clients begin with a word that might become a request, and never does.
    pub(super) unfinished: SilentDestinations<Target>,
    /// Limits the log's lines about clients of the explicit proxy.
    pub(super) not_http: RefCell<RateLimit>,
    /// The size of the future of a connection.
    connection_bytes: Cell<usize>,
}

impl Outbound {
    /// An outbound side without connections.
    pub fn new(ctx: Rc<Context>) -> Rc<Self> {
        Rc::new(Self {
            ctx,
            targets: Rc::default(),
            silent: SilentDestinations::default(),
            unfinished: SilentDestinations::default(),
            not_http: RefCell::new(RateLimit::new(NOT_HTTP_INTERVAL)),
            connection_bytes: Cell::default(),
        })
    }

    /// The targets, for the inbound side when it is a gateway.
    pub fn forwarded_targets(&self) -> ForwardedTargets {
        ForwardedTargets {
            ctx: self.ctx.clone(),
            targets: self.targets.clone(),
        }
    }

    /// Takes connections until the listener's drain is signalled.
    pub async fn serve(self: Rc<Self>, listener: Listener) {
        let bytes = &self.connection_bytes;
        accept(listener, bytes, |accepted| self.clone().accepted(accepted)).await;
    }

    /// Drops targets that are not in use, as long as the worker runs.
    pub async fn sweep(self: Rc<Self>) {
        let idle = self.ctx.config.outbound.discovery_idle;
        self.targets.sweep(idle).await;
    }

    /// The outbound side in `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "in_flight": self.ctx.in_flight.count(),
            "max_in_flight": self.ctx.in_flight.limit(),
            // Heap sizes of the futures of a connection and of a request; those of a request are from the last one.
            "future_bytes": {
                "connection": self.connection_bytes.get(),
                "request": {
                    "route": self.ctx.route_bytes.get(),
                    "client": self.ctx.client_bytes.get(),
                },
            },
            "half_sent": self.ctx.half_sent.inspect(),
            "http1_pools": self.ctx.http1.inspect(),
            "silent_clients": self.silent.inspect(Target::to_string),
            "unfinished_clients": self.unfinished.inspect(Target::to_string),
            "targets": self.targets.inspect(),
        })
    }

    /// The states of backends, for `/explain`.
    pub fn backend_states(&self, query: &BackendsQuery) -> serde_json::Value {
        backend_states(&self.targets, query)
    }

    /// All stages of a connection, until it ends or its listener cuts it off.
    pub(super) async fn accepted(self: Rc<Self>, accepted: Accepted) {
        let Accepted {
            stream,
            client,
            guard,
        } = accepted;
        let going_to = client.going_to();
        let served = guard
            .until_cut_off(self.discover(stream, client.clone()))
            .await;
        if let Err(error) = served {
            self.failed(&client, going_to, &error);
        }
    }

    /// Stages 1 and 2: the target of a connection.
    async fn discover(self: &Rc<Self>, mut stream: TransportStream, client: Rc<ClientInfo>) {
        let explicit = self.ctx.config.outbound.explicit;
        let going_to = client.going_to();
        let own = &self.ctx.dialer.own;
        if let Err(error) = own.check_accepted(Side::Outbound, client.addr, going_to) {
            return self.failed(&client, going_to, &error);
        }
        if let Some(mesh) = self.ctx.mesh.as_ref()
            && !mesh.server().has_certificate()
        {
            let timeout = self.ctx.config.outbound.detect_timeout;
            let answers = self.refusals(explicit && client.orig_dst.is_none());
            let waiting =
                wait_for_certificate(mesh, &mut stream, &client, timeout, answers.without_text());
            if let Err(error) = Box::pin(waiting).await {
                return self.failed(&client, going_to, &error);
            }
        }
        let destination = match client.destination() {
            Ok(destination) => destination,
            Err(_) if explicit => return self.explicit(stream, client).await,
            Err(error) => return self.failed(&client, client.local, &error),
        };
        if self.ctx.config.outbound.ingress_mode {
            return self.ingress(stream, client, destination).await;
        }
        match self.targets.get(&self.ctx, destination.into()).await {
            Ok(stack) => {
                let io = Io::new(stream, stack.client_series());
                self.connection(io, client, stack).await;
            }
            Err(error) => self.failed(&client, destination, &error),
        }
    }

    /// Stage 3: the protocol of a connection to a target.
    pub(super) async fn connection(
        self: &Rc<Self>,
        mut io: Io,
        client: Rc<ClientInfo>,
        stack: Rc<TargetStack>,
    ) {
        let protocol = stack.discovered().protocol();
        self.count_protocol(protocol, &stack);
        let detected = match protocol {
            ProtocolKind::Http1 => Ok((Detected::Http1, None)),
            ProtocolKind::Http2 => Ok((Detected::Http2, None)),
            ProtocolKind::Opaque => Ok((Detected::Opaque, None)),
            ProtocolKind::Tls => return self.tls(io, &client, &stack).await,
            ProtocolKind::Detect { .. } => self.detect_or_connect(&mut io, &client, &stack).await,
        };
        let version = match detected {
            Ok((Detected::Http1, _)) => Version::HTTP_11,
            Ok((Detected::Http2, _)) => Version::HTTP_2,
            Ok((Detected::Opaque, server)) => {
                return self.opaque(io, server, &client, &stack).await;
            }
            Err(error) => return self.failed_target(&client, stack.target(), &error),
        };
        let served = serve_target(&self.ctx, io, client.clone(), version, &stack).await;
        self.served(&client, stack.target(), served);
    }

    /// A connection in ingress mode: requests may name their targets; other protocols go to the original destination.
    async fn ingress(
        self: &Rc<Self>,
        stream: TransportStream,
        client: Rc<ClientInfo>,
        original: SocketAddr,
    ) {
        let series = TargetStack::client_series_of(&self.ctx, &original.into());
        let mut io = Io::new(stream, series);
        let version = match self
            .detect(&mut io, &client, &INGRESS, Lookalikes::Opaque)
            .await
        {
            Ok(Some(Detected::Http1)) => Version::HTTP_11,
            Ok(Some(Detected::Http2)) => Version::HTTP_2,
            Ok(Some(Detected::Opaque) | None) => {
                return match self.targets.get(&self.ctx, original.into()).await {
                    Ok(stack) => self.opaque(io, None, &client, &stack).await,
                    Err(error) => self.failed(&client, original, &error),
                };
            }
            Err(error) => return self.failed(&client, original, &error),
        };
        let by_override = ByOverride::new(&self.ctx, &self.targets, version, Some(original));
        let served = serve_named(&self.ctx, io, client.clone(), version, false, by_override).await;
        self.served(&client, &original.into(), served);
    }

    /// Routes the requests of a client of the explicit proxy. A tunnel is served as a separate connection.
    pub(super) fn by_authority(
        self: &Rc<Self>,
        client: &Rc<ClientInfo>,
        version: Version,
    ) -> ByAuthority<impl Fn(Rc<TargetStack>, OnUpgrade) + use<>> {
        let (outbound, client) = (self.clone(), client.clone());
        let open_tunnel = move |stack: Rc<TargetStack>, upgrade| {
            let outbound = outbound.clone();
            let (client, series) = (client.clone(), stack.client_series());
            let guard = client.listener.connection();
            tunnel::spawn(guard, series, upgrade, async move |io, guard| {
                let served = outbound.connection(io, client.clone(), stack.clone());
                if let Err(error) = guard.until_cut_off(served).await {
                    outbound.failed_target(&client, stack.target(), &error);
                }
            });
        };
        ByAuthority::new(&self.ctx, &self.targets, version, open_tunnel)
    }

    /// The protocol by the first bytes of the client; `None` if it was silent, or the bytes undecided, until the detect timeout.
    pub(super) async fn detect(
        &self,
        io: &mut Io,
        client: &ClientInfo,
        parent: &Meta,
        lookalikes: Lookalikes,
    ) -> Result<Option<Detected>, Error> {
        let outbound = &self.ctx.families.outbound;
        let parent = meta_labels(Labels::new(), "parent", parent);
        let count = |result, took| {
            let parent = LabelSet::from(parent);
            let result = Labels::new().with("result", result);
            outbound.detect_results.get(parent.after(result)).incr();
            outbound.detect_duration.get(parent).observe_duration(took);
        };
        let drain = &mut client.listener.drain().watch();
        detect(io, self.detect_settings(lookalikes), drain, count).await
    }

    pub(super) fn detect_settings(&self, lookalikes: Lookalikes) -> DetectSettings {
        DetectSettings {
            timeout: self.ctx.config.outbound.detect_timeout,
            lookalikes,
            answers: self.refusals(false),
        }
    }

    /// The form of answers to requests that no stage sees.
    pub(super) fn refusals(&self, is_explicit: bool) -> Responder {
        let emit_headers = self.ctx.config.outbound.emit_headers;
        Responder::of_connection(Side::Outbound, emit_headers, is_explicit)
    }

    async fn opaque(
        &self,
        io: Io,
        server: Option<RoutedConnection>,
        client: &ClientInfo,
        stack: &TargetStack,
    ) {
        let relayed = stack.opaque(&self.ctx).relay(io, server).await;
        self.relayed(client, stack.target(), relayed);
    }

    /// A TLS connection, routed by its server name.
    async fn tls(&self, mut io: Io, client: &ClientInfo, stack: &TargetStack) {
        let timeout = self.ctx.config.outbound.detect_timeout;
        let mut drain = client.listener.drain().watch();
        let relayed = async {
            let first =
                read_client_hello(&mut io, timeout, &mut drain, std::future::pending).await?;
            io.put_back(first.read);
            let server_name = first.hello?.server_name;
            stack.tls(&self.ctx).relay(io, server_name).await
        };
        // Boxed: rarely needed, and it would enlarge the future of every connection.
        let relayed = Box::pin(relayed).await;
        self.relayed(client, stack.target(), relayed);
    }

    fn relayed(&self, client: &ClientInfo, target: &Target, relayed: Result<RelayEnd, Error>) {
        match relayed {
            Ok(RelayEnd::Complete) => {}
            Ok(RelayEnd::BrokenOff) => self.count_error(address(target), BROKEN_OFF),
            Err(error) => self.failed_target(client, target, &error),
        }
    }

    pub(super) fn served(
        &self,
        client: &ClientInfo,
        target: &Target,
        served: Result<(), ServeError>,
    ) {
        let Err(error) = served else { return };
        match error.failure() {
            // The connection is closed, and no request failed.
            Some(failure)
                if matches!(
                    failure.reason(),
                    Reason::HeaderTimeout | Reason::HalfSentLimit
                ) =>
            {
                self.failed_target(client, target, &failure);
            }
            Some(failure) => {
                self.record(client, address(target), &failure);
                count_error(&self.ctx, &failure);
            }
            None => tracing::debug!(%target, %error, "connection closed"),
        }
    }

    pub(super) fn failed_target(&self, client: &ClientInfo, target: &Target, error: &Error) {
        self.failed(client, address(target), error);
    }

    /// Reports a connection that the proxy closes.
    pub(super) fn failed(&self, client: &ClientInfo, destination: SocketAddr, error: &Error) {
        self.record(client, destination, error);
        let reason = error.reason();
        tracing::debug!(%destination, reason = reason.label(), %error, hint = reason.hint(), "connection failed");
        self.count_error(destination, reason.error_label());
    }

    fn count_error(&self, destination: SocketAddr, error: &'static str) {
        let labels = target_labels(Labels::new(), destination).with("error", error);
        self.ctx.families.outbound.tcp_errors.get(labels).incr();
    }

    /// Keeps a failure for `/state` and, if it is that of a request, for the access log.
    fn record(&self, client: &ClientInfo, destination: SocketAddr, error: &Error) {
        let failures = &self.ctx.failures;
        failures.connection(Side::Outbound, client, destination, error);
        self.ctx.observers.refused(Side::Outbound, client, error);
    }

    fn count_protocol(&self, protocol: ProtocolKind, stack: &TargetStack) {
        let protocol = match protocol {
            ProtocolKind::Http1 => "http/1",
            ProtocolKind::Http2 => "http/2",
            ProtocolKind::Opaque => "opaq",
            ProtocolKind::Tls => "tls",
            ProtocolKind::Detect { .. } => "detect",
        };
        let labels = Labels::new().with("protocol", protocol);
        let labels = meta_labels(labels, "parent", &stack.discovered().policy.parent);
        let family = &self.ctx.families.outbound.protocol_connections;
        family.get(labels).incr();
    }
}

/// The address of a target; for a name 0.0.0.0 and its port, as in the incumbent's labels.
fn address(target: &Target) -> SocketAddr {
    match target {
        Target::Addr(addr) => *addr,
        Target::Name(name) => SocketAddr::from(([0, 0, 0, 0], name.port())),
    }
}

/// The parent of connections whose protocol is detected before they have a target.
static INGRESS: LazyLock<Meta> = LazyLock::new(|| Meta::new_default("ingress"));

/// The least time between lines about clients that do not speak HTTP. The line counts those in between.
const NOT_HTTP_INTERVAL: Duration = Duration::from_secs(60);
