//! Stage 4: the application at the address that a peer dialled.
//!
//! - **Waits for** a connection: HTTP/1 dials for the request, HTTP/2 has one, for which requests wait at most for the
//!   inbound failfast timeout.
//! - **Bounds**: idle connections; applications that nobody uses are dropped.
//! - **Metrics**: `request_total` and its kin, `tcp_*{peer="dst"}`.

use super::{Context, policy::Policy};
use crate::{
    endpoint_metrics::{EndpointMetrics, EndpointMetricsLayer},
    forward::Forward,
    in_flight::share,
    metrics::{target_labels, tls_labels},
    outbound::Connect,
};
use http::{Response, Version};
use linkerd_balance::{Balance, Member, Metrics, Params};
use linkerd_proxy_core::{
    EndpointStatus, Error, Reason,
    endpoint::Capacity,
    http::{
        HttpRequest, QueueSettings, ReplayLayer, ReplayService, RequestBody, ResponseBody,
        client::{Http1Client, Http2Client},
        for_http2,
    },
    metrics::{LabelSet, Labels},
    transport::{NoTlsReason, TlsStatus, TransportSeries},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::{Cell, OnceCell, RefCell},
    collections::HashMap,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    time::Duration,
};
use tokio::time::Instant;
use tower::ServiceBuilder;
use tower_service::Service;

/// One application's port.
pub struct Application {
    ctx: Rc<Context>,
    addr: SocketAddr,
    client_series: Arc<TransportSeries>,
    server_series: Arc<TransportSeries>,
    labels: LabelSet,
    http1: OnceCell<(Http1, EndpointStatus)>,
    http2: OnceCell<Balance<SocketAddr, Http2>>,
    idle_since: Cell<Option<Instant>>,
}

type Http1 = Forward<EndpointMetrics<ReplayService<Http1Client<Connect, RequestBody>>>>;
type Http2 = EndpointMetrics<ReplayService<Http2Client<Connect, RequestBody>>>;

/// The applications in use on one worker.
#[derive(Default)]
pub struct Applications(RefCell<HashMap<SocketAddr, Rc<Application>>>);

impl Applications {
    /// The application at an address.
    pub fn get(
        &self,
        ctx: &Rc<Context>,
        addr: SocketAddr,
        policy: &Policy<'_>,
    ) -> Result<Rc<Application>, Error> {
        let mut applications = self.0.borrow_mut();
        if let Some(application) = applications.get(&addr) {
            return Ok(application.clone());
        }
        if applications.len() >= MAX_APPLICATIONS {
            applications.retain(|_, application| Rc::strong_count(application) > 1);
        }
        if applications.len() >= MAX_APPLICATIONS {
            let detail = format!("{MAX_APPLICATIONS} inbound addresses are in use");
            return Err(Error::new(Reason::DestinationLimit).detail(detail));
        }
        let application = Rc::new(Application::new(ctx, addr, policy));
        applications.insert(addr, application.clone());
        Ok(application)
    }

    /// Drops what nobody has used for the idle timeout. Called regularly.
    pub fn sweep(&self, idle: Duration, now: Instant) {
        self.0.borrow_mut().retain(|_, application| {
            if Rc::strong_count(application) > 1 {
                application.idle_since.set(None);
                return true;
            }
            let since = application.idle_since.get().unwrap_or(now);
            application.idle_since.set(Some(since));
            now.saturating_duration_since(since) < idle
        });
    }

    /// The applications, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let applications = self.0.borrow();
        let shown = applications.iter().map(|(addr, application)| {
            serde_json::json!({
                "address": addr.to_string(),
                "connections": Rc::strong_count(application) - 1,
                "http1": application.http1.get().map(|(_, status)| status.inspect()),
                "http2": application.http2.get().map(Balance::inspect),
            })
        });
        serde_json::json!({
            "limit": MAX_APPLICATIONS,
            "in_use": shown.collect::<serde_json::Value>(),
        })
    }
}

impl Application {
    fn new(ctx: &Rc<Context>, addr: SocketAddr, policy: &Policy<'_>) -> Self {
        let inbound = || Labels::new().with("direction", "inbound");
        let from_peer = |labels| tls_labels(labels, TlsStatus::None(NoTlsReason::NoTlsFromRemote));
        let client = from_peer(target_labels(inbound().with("peer", "src"), addr));
        let server = inbound().with("peer", "dst");
        let server = tls_labels(server, TlsStatus::None(NoTlsReason::Loopback));
        let transport = &ctx.families.transport;
        Self {
            addr,
            client_series: transport.series(policy.server_labels(client)),
            server_series: transport.series(server),
            labels: policy
                .request_labels(from_peer(target_labels(inbound(), addr)))
                .into(),
            http1: OnceCell::new(),
            http2: OnceCell::new(),
            idle_since: Cell::new(None),
            ctx: ctx.clone(),
        }
    }

    /// What counts the peers' connections.
    pub fn client_series(&self) -> Arc<TransportSeries> {
        self.client_series.clone()
    }

    /// A connector to the application: loopback is where applications live.
    pub fn connect(&self) -> Connect {
        Connect {
            addr: self.addr,
            dialer: self.ctx.dialer.clone(),
            series: self.server_series.clone(),
        }
    }

    /// Sends a request in the version that it has.
    pub async fn send(&self, mut request: HttpRequest) -> Result<Response<ResponseBody>, Error> {
        let sent = match request.version() {
            Version::HTTP_2 => {
                for_http2(&mut request);
                let mut balance = self.http2.get_or_init(|| self.new_http2()).clone();
                balance.call(request).await
            }
            _ => {
                let mut client = self.http1.get_or_init(|| self.new_http1()).0.clone();
                client.call(request).await
            }
        };
        sent.map_err(|error| match error.peer_addr() {
            Some(peer) => error.context(format!("endpoint {peer}")),
            None => error,
        })
    }

    fn new_http1(&self) -> (Http1, EndpointStatus) {
        let status = EndpointStatus::new(Capacity::OnDemand);
        let backoff = self.ctx.config.inbound.connect.backoff;
        let pools = &self.ctx.http1;
        let client = Http1Client::new(self.connect(), pools, backoff, status.clone());
        let service = ServiceBuilder::new()
            .layer(self.metrics())
            .layer(self.replay(false))
            .service(client);
        (Forward::new(service), status)
    }

    fn new_http2(&self) -> Balance<SocketAddr, Http2> {
        let config = &self.ctx.config;
        let status = EndpointStatus::new(Capacity::Connecting);
        let client = Http2Client::new(
            self.connect(),
            config.inbound.http2_client.clone(),
            config.outbound.http2_max_connections,
            config.inbound.connect.backoff,
            status.clone(),
        );
        let service = ServiceBuilder::new()
            .layer(self.metrics())
            .layer(self.replay(true))
            .service(client);
        let params = Params {
            name: self.addr.to_string(),
            queue: QueueSettings {
                capacity: share(config.inbound.http_queue.capacity, self.ctx.workers),
                ..config.inbound.http_queue
            },
            default_rtt: Duration::from_millis(30),
            decay: Duration::from_secs(10),
            metrics: Metrics::detached(),
            rng: SmallRng::from_rng(&mut rand::rng()),
            on_unreachable: Box::new(|| {}),
        };
        let member = Member {
            service,
            status,
            weight: 1,
        };
        Balance::one::<HttpRequest>(self.addr, member, params)
    }

    fn metrics(&self) -> EndpointMetricsLayer {
        EndpointMetricsLayer::new(&self.ctx.families.endpoint, self.labels.clone(), self.addr)
    }

    fn replay(&self, refusals: bool) -> ReplayLayer {
        ReplayLayer {
            max_bytes: self.ctx.config.outbound.replay_max_bytes,
            refusals,
        }
    }
}

/// The most inbound addresses kept at a time. A pod has a few addresses and ports; a scan of all ports must not fill memory.
const MAX_APPLICATIONS: usize = 1024;
