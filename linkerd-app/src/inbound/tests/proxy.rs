//! An inbound side over a network of the test.

use super::source::{TestProfiles, TestServerPolicies};
use crate::{
    config::Config,
    control::default_policies,
    dialers::Dialers,
    identity,
    inbound::{Context, Handshakes, Inbound, InboundProfiles, Peers, PolicyContext, ServerNames},
    server::InFlightLimit,
    testing::{STREAM_BUFFER, TestClient, TestMetrics, TestNetwork, TestWire, config},
};
use linkerd_profiles::{
    ServerPolicies, ServerPoliciesConfig, ServiceProfiles, ServiceProfilesConfig,
};
use linkerd_proxy_core::{
    drain,
    http::{HalfSent, client::Http1Pools},
    task::spawn_local,
    tls::{NoTlsReason, TlsStatus},
    transport::{Accepted, ClientInfo, Dialer, ListenerContext, Network, OwnConnections, Pipes},
};
use std::{rc::Rc, sync::Arc, time::Duration};
use tokio::{io::DuplexStream, runtime::Handle, task::LocalSet};

/// An inbound side with its dependencies.
pub struct TestProxy {
    /// Its network.
    pub network: TestNetwork,
    /// The policies of its ports.
    pub policies: TestServerPolicies,
    /// The profiles of services.
    pub profiles: TestProfiles,
    /// Its shared parts.
    pub ctx: Rc<Context>,
    inbound: Rc<Inbound>,
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
        let (network, metrics) = (TestNetwork::default(), TestMetrics::new());
        let config = Arc::new(config(env));
        let policies = TestServerPolicies::default();
        let profiles = TestProfiles::default();
        let (signal, drain) = drain::channel();
        let ctx = Rc::new(Context {
            families: metrics.families.clone(),
            mesh: config.identity.as_ref().map(|identity| {
                let (mesh, _) = identity::prepare(identity).expect("its files are there");
                mesh
            }),
            handshakes: Handshakes::default(),
            server_names: ServerNames::default(),
            peers: Peers::default(),
            policies: Rc::new(PolicyContext {
                client_identities: Default::default(),
                families: metrics.families.clone(),
                server_policies: ServerPolicies::new(
                    policies.clone(),
                    ServerPoliciesConfig {
                        defaults: default_policies(&config),
                        eager_ports: Default::default(),
                        limits: Default::default(),
                        backoff: config.control.policy.connect.backoff,
                        idle_timeout: config.inbound.discovery_idle,
                        max_entries: config.discovery.max_destinations,
                    },
                    Handle::current(),
                ),
                authority_labels: config.inbound.authority_labels,
            }),
            profiles: InboundProfiles::new(
                ServiceProfiles::new(
                    profiles.clone(),
                    ServiceProfilesConfig {
                        names: {
                            let suffixes = config.control.profile_suffixes.clone();
                            Arc::new(move |name| suffixes.matches(name))
                        },
                        limits: Default::default(),
                        backoff: config.control.destination.connect.backoff,
                        idle_timeout: config.inbound.discovery_idle,
                        max_entries: config.discovery.max_destinations,
                    },
                    Handle::current(),
                ),
                metrics.families.profile_route.clone(),
                config.inbound.profile_timeout,
            ),
            dialer: dialer(&config, &network),
            workers: 1,
            observers: Rc::new(crate::observers::Observers::none()),
            in_flight: InFlightLimit::new(config.inbound.max_in_flight),
            pipes: Rc::new(Pipes::default()),
            half_sent: HalfSent::default(),
            failures: crate::failures::FailureLog::new(10, metrics.families.failures.clone()),
            http1: Http1Pools::bound(config.inbound.pool),
            config,
        });
        Self {
            network,
            policies,
            profiles,
            inbound: Inbound::new(ctx.clone(), None),
            ctx,
            metrics,
            listener: ListenerContext::new(drain),
            drain: signal,
        }
    }

    /// A peer's connection that was redirected on its way to an application.
    pub fn connect(&self, application: &str) -> DuplexStream {
        self.connect_as(application, TlsStatus::None(NoTlsReason::NoTlsFromRemote))
    }

    /// A peer's connection with this result of TLS.
    pub fn connect_as(&self, application: &str, tls: TlsStatus) -> DuplexStream {
        let (near, far) = tokio::io::duplex(STREAM_BUFFER);
        let client = Rc::new(ClientInfo {
            addr: ([10, 0, 0, 7], 40_000).into(),
            local: ([10, 0, 0, 9], 4143).into(),
            orig_dst: Some(application.parse().unwrap()),
            tls,
            listener: self.listener.clone(),
        });
        let accepted = Accepted {
            stream: far.into(),
            client,
            guard: self.listener.connection(),
        };
        spawn_local(self.inbound.clone().accepted(accepted));
        near
    }

    /// A peer's connection, byte by byte.
    pub fn wire(&self, application: &str) -> TestWire {
        self.connect(application).into()
    }

    /// A peer that speaks HTTP/1 to an application.
    pub async fn http1(&self, application: &str) -> TestClient {
        TestClient::http1(self.connect(application)).await
    }

    /// A peer that speaks HTTP/2 to an application.
    pub async fn http2(&self, application: &str) -> TestClient {
        TestClient::http2(self.connect(application)).await
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

fn dialer(config: &Config, network: &TestNetwork) -> Arc<Dialer> {
    let listeners = config.inbound.listen.into_iter().collect();
    let own = OwnConnections::default();
    let inbound = Dialers::new(config, &listeners, config.admin.listen, &own).inbound;
    Arc::new(Dialer {
        side: inbound.side,
        options: inbound.options,
        guard: inbound.guard.clone(),
        own,
        network: Network::InProcess(Arc::new(network.clone())),
    })
}
