//! A controller as a gRPC service, balanced like any backend.
//!
//! - **Sits** under the generated clients.
//! - **Waits for** an address and a connection, at most 30 s; calls beyond 1,000 that wait are refused.
//! - **Fails as** the balancer fails.
//! - **Metrics**: the `control_request_total` group, `control_*_balancer_*`.

use super::{
    addresses::address_changes,
    body::{CallEnd, ControlBody},
    connect::Connect,
    dns::NameLookup,
};
use crate::{
    config, dialers,
    metrics::{BalancerFamilies, EndpointFamilies, server_tls_labels},
};
use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, uri::Authority};
use linkerd_balance::{Balance, LoadSettings, Member, Params};
use linkerd_discover::dns::Resolutions;
use linkerd_proxy_core::{
    EndpointStatus, Error, Reason,
    endpoint::Capacity,
    http::{
        Http2Settings, HttpRequest, QueueSettings, RequestContext, client::Http2Client, grpc_status,
    },
    metrics::{LabelSet, Labels},
    task::spawn_local,
    tls::{MeshClient, NoTlsReason, TlsStatus},
    transport::OwnConnections,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::Cell,
    net::SocketAddr,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tower_service::Service;

type RequestBody = tonic::body::Body;
type Endpoint = Http2Client<Connect, RequestBody>;

/// A handle that calls a controller, from any thread.
#[derive(Clone, Debug)]
pub struct ControlClient(mpsc::Sender<Call>);

struct Call {
    request: Request<RequestBody>,
    reply: oneshot::Sender<Result<Response<ControlBody>, Error>>,
}

/// A controller's client, on the control thread.
pub(super) struct ControllerClient {
    role: &'static str,
    name: String,
    client: ControlClient,
    balance: Balance<SocketAddr, Endpoint>,
    resolutions: Arc<Resolutions>,
    reached: Rc<Cell<bool>>,
}

/// A controller, and the parts that it does not share.
pub(super) struct Controller<'a> {
    /// Its name in `/ready`.
    pub(super) role: &'static str,
    /// Its address.
    pub(super) config: &'a config::ControlAddr,
    /// Resolves its name.
    pub(super) dns: NameLookup,
    /// Counts its balancer.
    pub(super) balancer: &'a BalancerFamilies,
    /// Encrypts connections to it; `None` leaves them plain.
    pub(super) tls: Option<MeshClient>,
}

impl ControllerClient {
    /// Starts to resolve the controller and accepts calls.
    pub(super) fn start(
        controller: Controller<'_>,
        http2: &Http2Settings,
        families: &EndpointFamilies,
        own: &OwnConnections,
    ) -> Self {
        let Controller {
            role,
            config,
            dns,
            balancer,
            tls,
        } = controller;
        let name = config.addr.to_string();
        let labels = Labels::new().with("addr", &name);
        let backoff = config.connect.backoff;
        let dialer = dialers::controller(&config.connect, own);
        let http2 = http2.clone();
        let tls = tls.map(Arc::new);
        let status = match (&tls, config.is_loopback) {
            (Some(tls), _) => TlsStatus::Meshed(Some(tls.identity().clone())),
            (None, true) => TlsStatus::None(NoTlsReason::Loopback),
            (None, false) => TlsStatus::None(NoTlsReason::NotProvidedByServiceDiscovery),
        };
        let logged: Rc<str> = format!("{role} {name}").into();
        let new_endpoint = move |addr| {
            let connect = Connect::new(logged.clone(), addr, dialer.clone(), tls.clone());
            let status = EndpointStatus::new(Capacity::Connecting);
            let settings = http2.clone();
            let service = Http2Client::new(connect, settings, 1, backoff, status.clone());
            Member::new(service, status, 1)
        };
        let params = Params {
            name: name.clone(),
            queue: QUEUE,
            load: LoadSettings::default(),
            preferences: None,
            metrics: balancer.series(&labels.clone().into(), QUEUE.failfast),
            rng: SmallRng::from_rng(&mut rand::rng()),
            on_unreachable: Box::new(|| {}),
        };
        let resolutions = dns.resolutions.clone();
        let addresses = dns.watch(&config.addr, backoff);
        let updates = balancer.updates(&labels.clone().into());
        let updates = address_changes(addresses, updates, new_endpoint);
        let balance = Balance::new::<HttpRequest<RequestBody>, _>(updates, params);
        let (tx, rx) = mpsc::channel(QUEUE.capacity);
        let reached = Rc::new(Cell::new(false));
        let server = Rc::new(CallServer {
            reached: reached.clone(),
            authority: authority(&name),
            balance: balance.clone(),
            families: families.clone(),
            labels: server_tls_labels(labels, &status).into(),
        });
        spawn_local(server.take(rx));
        Self {
            role,
            name,
            client: ControlClient(tx),
            balance,
            resolutions,
            reached,
        }
    }

    pub(super) fn client(&self) -> ControlClient {
        self.client.clone()
    }

    /// The controller and the cause if no attempt has reached it; `None` before the first failed attempt.
    pub(super) fn unreached(&self) -> Option<String> {
        if self.reached.get() {
            return None;
        }
        let state = self.balance.inspect();
        let endpoints = state["endpoints"].as_array()?;
        if endpoints
            .iter()
            .any(|endpoint| endpoint["state"] == "ready")
        {
            self.reached.set(true);
            return None;
        }
        let refused = endpoints
            .iter()
            .find_map(|endpoint| endpoint["last_error"].as_str());
        let cause = match refused {
            Some(error) => error,
            None if endpoints.is_empty() && self.name_is_unknown() => "its name cannot be resolved",
            None => return None,
        };
        Some(format!("{} controller {} ({cause})", self.role, self.name))
    }

    /// Whether the look-up of its name failed.
    fn name_is_unknown(&self) -> bool {
        let counts = self.resolutions.series();
        let mut counts = counts.into_iter();
        counts
            .any(|(record, result, count)| (record, result) == ("A/AAAA", "not_found") && count > 0)
    }

    pub(super) fn inspect(&self) -> serde_json::Value {
        serde_json::json!({
            "role": self.role,
            "controller": self.name,
            "dns": self.resolutions.inspect(),
            "balancer": self.balance.inspect(),
        })
    }
}

impl Service<Request<RequestBody>> for ControlClient {
    type Response = Response<ControlBody>;
    type Error = Error;
    type Future = BoxFuture<'static, Result<Response<ControlBody>, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> Self::Future {
        let (reply, response) = oneshot::channel();
        let calls = self.0.clone();
        async move {
            let gone = || Error::new(Reason::Unexpected).detail("the control thread has ended");
            if calls.send(Call { request, reply }).await.is_err() {
                return Err(gone());
            }
            response.await.unwrap_or_else(|_| Err(gone()))
        }
        .boxed()
    }
}

/// The task that serves the calls of one controller.
struct CallServer {
    reached: Rc<Cell<bool>>,
    authority: Authority,
    balance: Balance<SocketAddr, Endpoint>,
    families: EndpointFamilies,
    labels: LabelSet,
}

impl CallServer {
    async fn take(self: Rc<Self>, mut calls: mpsc::Receiver<Call>) {
        while let Some(call) = calls.recv().await {
            let server = self.clone();
            spawn_local(async move {
                let Call { request, mut reply } = call;
                tokio::select! {
                    response = server.call(request) => {
                        // The caller may have been dropped.
                        let _ = reply.send(response);
                    }
                    () = reply.closed() => {}
                }
            });
        }
    }

    async fn call(&self, request: Request<RequestBody>) -> Result<Response<ControlBody>, Error> {
        let start = Instant::now();
        self.families.requests.get(self.labels.clone()).incr();
        let context = RequestContext::arriving(None);
        let request = HttpRequest::new(self.address(request), context);
        let called = self.balance.clone().call(request).await;
        let response = called.map_err(|error| {
            let labels = Labels::new()
                .with("classification", "failure")
                .with("grpc_status", "")
                .with("error", "unclassified");
            self.families.responses.get(self.labels.and(labels)).incr();
            error.context(format!("controller {}", self.authority))
        })?;
        self.reached.set(true);
        let status = Labels::new().with("status_code", response.status().as_u16());
        let labels = self.labels.and(status);
        let latency = self.families.latency.get(labels.clone());
        latency.observe_duration(start.elapsed());
        let end = CallEnd {
            family: self.families.responses.clone(),
            labels,
            status: response.status(),
            code: grpc_status(response.headers()),
        };
        Ok(response.map(|body| ControlBody::new(body.into_incoming(), end)))
    }

    /// Adds scheme and authority: gRPC clients set only the path.
    fn address(&self, mut request: Request<RequestBody>) -> Request<RequestBody> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        parts.scheme = Some(http::uri::Scheme::HTTP);
        parts.authority = Some(self.authority.clone());
        *request.uri_mut() = http::Uri::from_parts(parts).expect("a gRPC call has a path");
        request
    }
}

fn authority(name: &str) -> Authority {
    Authority::try_from(name).unwrap_or_else(|_| Authority::from_static("controller"))
}

/// The incumbent's queue in front of controllers.
const QUEUE: QueueSettings = QueueSettings {
    capacity: 1000,
    failfast: Duration::from_secs(30),
};
