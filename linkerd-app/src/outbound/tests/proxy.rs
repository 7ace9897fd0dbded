//! An outbound side over a source and a network of the test.

use super::TestSource;
use crate::{
    config::Config,
    dialers::Dialers,
    outbound::{Context, Costs, Outbound},
    server::InFlightLimit,
    testing::{STREAM_BUFFER, TestClient, TestMetrics, TestNetwork, TestWire, config},
};
use linkerd_discover::{Discovery, DiscoveryConfig};
use linkerd_profiles::{
    Backend, ClientPolicy, Dispatcher, Distribution, HttpBackend, Meta, OpaqueRoute, PeakEwma,
    Policies, PoliciesConfig, Protocol, RouteRule, RouteTable,
};
use linkerd_proxy_core::{
    drain,
    endpoint::Endpoint,
    http::{HalfSent, client::Http1Pools},
    subscription::StreamLimits,
    task::spawn_local,
    tls::{NoTlsReason, TlsStatus},
    transport::{Accepted, ClientInfo, Dialer, ListenerContext, Network, OwnConnections, Pipes},
};
use std::{cell::Cell, net::SocketAddr, rc::Rc, sync::Arc, time::Duration};
use tokio::{io::DuplexStream, runtime::Handle, task::LocalSet};

/// An outbound side with its dependencies.
pub struct TestProxy {
    /// Its policies and endpoints.
    pub source: TestSource,
    /// Its network.
    pub network: TestNetwork,
    /// Its shared parts.
    pub ctx: Rc<Context>,
    outbound: Rc<Outbound>,
    metrics: TestMetrics,
    listener: Rc<ListenerContext>,
    drain: drain::Signal,
}

/// Runs a test with a new proxy.
pub async fn in_process(test: impl AsyncFnOnce(TestProxy)) {
    in_process_with(&[], test).await;
}

/// Runs a test with a new proxy in this environment.
pub async fn in_process_with(env: &[(&str, &str)], test: impl AsyncFnOnce(TestProxy)) {
    LocalSet::new()
        .run_until(async { test(TestProxy::new(env)).await })
        .await;
}

impl TestProxy {
    fn new(env: &[(&str, &str)]) -> Self {
        let (source, network) = (TestSource::default(), TestNetwork::default());
        let metrics = TestMetrics::new();
        let config = Arc::new(config(env));
        let (signal, drain) = drain::channel();
        let ctx = Rc::new(Context {
            families: metrics.families.clone(),
            discovery: discovery(&config, &source),
            policies: policies(&config, &source),
            mesh: None,
            dialer: dialer(&config, &network),
            workers: 1,
            observers: Rc::new(crate::observers::Observers::none()),
            in_flight: InFlightLimit::new(config.outbound.max_in_flight),
            pipes: Rc::new(Pipes::default()),
            half_sent: HalfSent::default(),
            failures: crate::failures::FailureLog::new(10, metrics.families.failures.clone()),
            http1: Http1Pools::new(config.outbound.pool),
            costs: Costs::default(),
            route_bytes: Cell::default(),
            client_bytes: Cell::default(),
            config,
        });
        Self {
            source,
            network,
            outbound: Outbound::new(ctx.clone()),
            ctx,
            metrics,
            listener: ListenerContext::new(drain),
            drain: signal,
        }
    }

    /// An application's connection that was redirected on its way to a target.
    pub fn connect(&self, target: &str) -> DuplexStream {
        self.connect_to(Some(target.parse().unwrap()))
    }

    /// An application's connection, byte by byte.
    pub fn wire(&self, target: &str) -> TestWire {
        self.connect(target).into()
    }

    /// An application's connection to the explicit proxy.
    pub fn connect_explicit(&self) -> DuplexStream {
        self.connect_to(None)
    }

    fn connect_to(&self, orig_dst: Option<SocketAddr>) -> DuplexStream {
        let (near, far) = tokio::io::duplex(STREAM_BUFFER);
        let client = Rc::new(ClientInfo {
            addr: ([127, 0, 0, 1], 40_000).into(),
            local: ([127, 0, 0, 1], 4140).into(),
            orig_dst,
            tls: TlsStatus::None(NoTlsReason::Loopback),
            listener: self.listener.clone(),
        });
        let stream = far.into();
        let guard = self.listener.connection();
        let accepted = Accepted {
            stream,
            client,
            guard,
        };
        spawn_local(self.outbound.clone().accepted(accepted));
        near
    }

    /// An application that speaks HTTP/1 to a target.
    pub async fn http1(&self, target: &str) -> TestClient {
        TestClient::http1(self.connect(target)).await
    }

    /// An application that speaks HTTP/2 to a target.
    pub async fn http2(&self, target: &str) -> TestClient {
        TestClient::http2(self.connect(target)).await
    }

    /// Lets all tasks run until they are idle.
    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }

    /// The sum of the series of this name that have all of `labels`.
    pub fn metric(&self, name: &str, labels: &[&str]) -> f64 {
        self.metrics.sum(name, labels)
    }

    /// Cuts off all connections, as a removal of the listener does.
    pub fn cut_off(&self) {
        self.listener
            .cut_off(linkerd_proxy_core::Reason::ListenerRemoved);
    }

    /// Signals drain, and waits until the last connection has ended.
    pub async fn drain(self) {
        self.drain.drain().await;
    }
}

/// A policy with one distribution for all traffic.
pub fn policy(distribution: Distribution) -> ClientPolicy {
    let meta = Arc::new(Meta::new_default("test"));
    let backends = distribution.clone().map(HttpBackend::from);
    let rule = RouteRule::for_all(meta.clone(), backends);
    let table = Arc::new(RouteTable::new(vec![rule]));
    let opaque = OpaqueRoute {
        meta,
        distribution,
        filter: None,
    };
    ClientPolicy {
        protocol: Protocol::Detect {
            timeout: Duration::from_secs(10),
            http1: table.clone(),
            http2: table,
            opaque: Some(opaque),
        },
        ..ClientPolicy::empty()
    }
}

/// A backend that is balanced over a destination.
pub fn backend(destination: &str) -> Distribution {
    let dispatcher = Dispatcher::Balance {
        destination: destination.parse().unwrap(),
        load: PeakEwma::default(),
        breaker: None,
    };
    Distribution::only(reached_by(destination, dispatcher))
}

/// A backend that is one endpoint.
pub fn forward(addr: &str) -> Distribution {
    only(Endpoint::new(addr.parse().unwrap()))
}

/// A backend that is this endpoint.
pub fn only(endpoint: Endpoint) -> Distribution {
    let addr = endpoint.addr.to_string();
    Distribution::only(reached_by(&addr, Dispatcher::Forward(Arc::new(endpoint))))
}

fn reached_by(name: &str, dispatcher: Dispatcher) -> Backend {
    Backend {
        meta: Arc::new(Meta::new_default(name)),
        dispatcher,
        filter: None,
    }
}

fn dialer(config: &Config, network: &TestNetwork) -> Arc<Dialer> {
    let listeners = config.outbound.listen.iter().copied().collect();
    let own = OwnConnections::default();
    let dialers = Dialers::new(config, &listeners, config.admin.listen, &own);
    Arc::new(Dialer {
        side: dialers.outbound.side,
        options: dialers.outbound.options,
        guard: dialers.outbound.guard.clone(),
        own: dialers.outbound.own.clone(),
        network: Network::InProcess(Arc::new(network.clone())),
    })
}

fn discovery(config: &Config, source: &TestSource) -> Discovery {
    let limits = DiscoveryConfig {
        limits: StreamLimits::default(),
        backoff: config.outbound.connect.backoff,
        idle_timeout: config.outbound.discovery_idle,
        max_destinations: config.discovery.max_destinations,
        max_endpoints: config.discovery.max_endpoints,
    };
    Discovery::new(source.clone(), limits, Handle::current())
}

fn policies(config: &Config, source: &TestSource) -> Policies {
    let backoff = config.outbound.connect.backoff;
    let limits = PoliciesConfig {
        profile_networks: Arc::new(|_| true),
        profile_names: Arc::new(|_| true),
        limits: StreamLimits::default(),
        policy_backoff: backoff,
        profile_backoff: backoff,
        idle_timeout: config.outbound.discovery_idle,
        max_entries: config.discovery.max_destinations,
        detect_timeout: config.outbound.detect_timeout,
        forward_unknown: config.outbound.allow_unknown,
    };
    Policies::new(source.clone(), source.clone(), limits, Handle::current())
}
