//! Stage 5: the application at the address that a peer dialled.
//!
//! - **Waits for** a connection: HTTP/1 opens one for a request if none is idle; HTTP/2 shares one, for which requests wait at
//!   most for the inbound failfast timeout.
//! - **Bounds**: idle connections; unused applications are dropped.
//! - **Metrics**: `request_total` and its kin, by the route of the request; `tcp_*{peer="dst"}`.

use super::{context::Context, policy::PortPolicy};
use crate::{
    endpoint_metrics::{EndpointMetrics, EndpointMetricsLayer, RouteSeries},
    forward::Forward,
    metrics::server_tls_labels,
    server::{InUse, share},
    trace::{AttemptSpans, AttemptSpansLayer},
};
use futures::future::LocalBoxFuture;
use http::{Response, Version};
use linkerd_balance::{Balance, LoadSettings, Member, Metrics, Params};
use linkerd_proxy_core::{
    EndpointStatus, Error,
    crowd::{Crowd, Place},
    endpoint::Capacity,
    http::{
        HttpRequest, QueueSettings, ReplayLayer, ReplayService, RequestBody, ResponseBody,
        client::{Http1Client, Http2Client},
        for_http2,
    },
    metrics::Labels,
    tls::{NoTlsReason, TlsStatus},
    transport::{Connect, TransportSeries},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::OnceCell,
    net::{IpAddr, SocketAddr},
    rc::Rc,
    sync::Arc,
    task::{Context as TaskContext, Poll},
    time::Duration,
};
use tower::ServiceBuilder;
use tower_service::Service;

/// One application's port.
pub struct Application {
    ctx: Rc<Context>,
    addr: SocketAddr,
    policy: Rc<PortPolicy>,
    server_series: Arc<TransportSeries>,
    place: Place<Rc<Crowd>>,
    http1: OnceCell<(Http1, EndpointStatus)>,
    http2: OnceCell<Balance<SocketAddr, Http2>>,
}

type Http1 = Forward<Counted<Http1Client<Connect, RequestBody>>>;
type Http2 = Counted<Http2Client<Connect, RequestBody>>;
type Counted<C> = EndpointMetrics<AttemptSpans<ReplayService<C>>, RouteSeries>;

/// The applications in use on one worker.
///
/// - **Bounds**: their number. Beyond it, an application is forgotten that a client of the source with the most has asked for first: a scan
///   of all ports displaces its own. Connections of a forgotten one go on, and later ones begin anew.
pub struct Applications {
    in_use: InUse<SocketAddr, Application>,
    crowd: Rc<Crowd>,
}

impl Default for Applications {
    fn default() -> Self {
        Self {
            in_use: InUse::default(),
            crowd: Rc::new(Crowd::new(MAX_APPLICATIONS)),
        }
    }
}

impl Applications {
    /// The application at an address, for a client. Fails as `DestinationLimit` if there are too many policies of ports.
    pub fn get(
        &self,
        ctx: &Rc<Context>,
        addr: SocketAddr,
        client: IpAddr,
    ) -> Result<Rc<Application>, Error> {
        if let Some(application) = self.in_use.get(&addr) {
            return Ok(application);
        }
        if self.crowd.is_full() {
            self.in_use.drop_unused();
        }
        let policy = PortPolicy::new(&ctx.policies, addr)?;
        let place = self.crowd.enter_shared(client);
        let is_kept = |application: &Application| !application.place.is_displaced();
        if self.in_use.count() >= MAX_APPLICATIONS {
            self.in_use.retain(is_kept);
        }
        let new = |addr: &SocketAddr| Application::new(ctx, *addr, policy, place);
        Ok(self.in_use.get_or_insert(addr, new))
    }

    /// Drops the applications that no peer has used for the idle timeout, as long as the worker runs.
    pub async fn sweep(&self, idle: Duration) {
        self.in_use.sweep_regularly(idle, SWEEP_AT_LEAST).await;
    }

    /// The applications, for `/state`.
    pub fn inspect(&self) -> serde_json::Value {
        let in_use = self.in_use.inspect(|addr, application, connections| {
            let http1 = application.http1.get();
            serde_json::json!({
                "address": addr.to_string(),
                "server": application.policy.present().policy().meta.kind_and_name().to_string(),
                "connections": connections,
                "http1": http1.map(|(_, status)| status.inspect()),
                "http2": application.http2.get().map(Balance::inspect),
            })
        });
        serde_json::json!({
            "limit": MAX_APPLICATIONS,
            "displaced": self.crowd.displaced(),
            "in_use": in_use,
        })
    }
}

/// Sends requests to an application.
#[derive(Clone)]
pub struct ApplicationService(Rc<Application>);

impl ApplicationService {
    /// Sends to `application`.
    pub fn new(application: Rc<Application>) -> Self {
        Self(application)
    }
}

impl Service<HttpRequest> for ApplicationService {
    type Response = Response<ResponseBody>;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Response<ResponseBody>, Error>>;

    fn poll_ready(&mut self, _: &mut TaskContext<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    /// Sends a request in its own version.
    fn call(&mut self, mut request: HttpRequest) -> Self::Future {
        let application = &self.0;
        match request.version() {
            Version::HTTP_2 => {
                for_http2(&mut request);
                let balance = application.http2.get_or_init(|| application.new_http2());
                Box::pin(balance.clone().call(request))
            }
            _ => {
                let (client, _) = application.http1.get_or_init(|| application.new_http1());
                client.clone().call(request)
            }
        }
    }
}

impl Application {
    fn new(
        ctx: &Rc<Context>,
        addr: SocketAddr,
        policy: PortPolicy,
        place: Place<Rc<Crowd>>,
    ) -> Self {
        let server = Labels::new()
            .with("direction", "inbound")
            .with("peer", "dst");
        let server = server_tls_labels(server, &TlsStatus::None(NoTlsReason::Loopback));
        Self {
            addr,
            policy: Rc::new(policy),
            server_series: ctx.families.transport.series(server),
            place,
            http1: OnceCell::new(),
            http2: OnceCell::new(),
            ctx: ctx.clone(),
        }
    }

    /// Its address, which peers dial.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// The policy of its port.
    pub fn policy(&self) -> &Rc<PortPolicy> {
        &self.policy
    }

    /// A connector to the application, without TLS: it is in this pod.
    pub fn connect(&self) -> Connect {
        Connect {
            addr: self.addr,
            dialer: self.ctx.dialer.clone(),
            tls: None,
            series: self.server_series.clone(),
        }
    }

    fn new_http1(&self) -> (Http1, EndpointStatus) {
        let status = EndpointStatus::new(Capacity::OnDemand);
        let backoff = self.ctx.config.inbound.connect.backoff;
        let pools = &self.ctx.http1;
        let client = Http1Client::new(self.connect(), pools, backoff, status.clone());
        let service = ServiceBuilder::new()
            .layer(EndpointMetricsLayer::of_routes())
            .layer(AttemptSpansLayer)
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
            .layer(EndpointMetricsLayer::of_routes())
            .layer(AttemptSpansLayer)
            .layer(self.replay(true))
            .service(client);
        let params = Params {
            name: self.addr.to_string(),
            queue: QueueSettings {
                capacity: share(config.inbound.http_queue.capacity, self.ctx.workers),
                ..config.inbound.http_queue
            },
            load: LoadSettings::default(),
            preferences: None,
            metrics: Metrics::detached(),
            rng: SmallRng::from_rng(&mut rand::rng()),
            on_unreachable: Box::new(|| {}),
        };
        let member = Member::new(service, status, 1);
        Balance::one::<HttpRequest>(self.addr, member, params)
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

/// The longest time between two sweeps.
const SWEEP_AT_LEAST: Duration = Duration::from_secs(5);
