//! Start and drain of the proxy.

mod state;

use crate::{
    access_log::AccessLog,
    admin::{self, AdminContext, AdminPolicy},
    config::{self, Config, Cores, LoadedConfig, decide_workers},
    control::{self, ControlPlane, IdentityParts},
    dialers::Dialers,
    explain::{ExplainAnswer, Explainer, explain_inbound, explain_known},
    identity::{self, IdentityStartError},
    inbound::PolicyContext,
    listeners::{
        BindError, ConfiguredSockets, ControlSockets, ListenAddresses, ListenerError,
        ProxyListeners,
    },
    logging::Logger,
    metrics::Families,
    process::{self, Runtimes},
    tap::{TapRegistry, TapServer},
    trace::{ExporterParts, Tracing},
    worker::{Worker, WorkerQuery},
};
use futures::{FutureExt, future::join_all};
use linkerd_api_client::GrpcSpanExporter;
use linkerd_discover::Discovery;
use linkerd_profiles::{Policies, ServerPolicies, ServiceProfiles};
use linkerd_proxy_core::{
    drain,
    metrics::Registry,
    readiness::Readiness,
    task::spawn_local,
    transport::{OwnConnections, OwnListeners},
};
use state::{StateParts, WorkerInspector, all_answer, ask, inspect_control, sections};
use std::{
    io,
    net::SocketAddr,
    rc::Rc,
    sync::{Arc, mpsc as std_mpsc},
    time::Duration,
};
use tokio::sync::mpsc;

/// A proxy that runs on threads of its own.
pub struct RunningProxy {
    /// Addresses of the outbound listener.
    pub outbound: Vec<SocketAddr>,
    /// Address of the inbound listener, if there is one.
    pub inbound: Option<SocketAddr>,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Adds and removes listeners while the proxy runs.
    pub listeners: ProxyListeners,
    /// Readiness of the proxy.
    pub readiness: Readiness,
    /// Receives requests for shutdown of the admin server.
    pub shutdown: mpsc::Receiver<()>,
    /// The access log, if it is on.
    pub access_log: Option<AccessLog>,
    /// Tracing, if it is on.
    pub tracing: Option<Tracing>,
    workers: Vec<WorkerInspector>,
    drain: drain::Signal,
}

/// Errors at the start of the proxy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A worker does not take a listener.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// The controllers cannot be resolved.
    #[error(transparent)]
    Control(#[from] control::ControlStartError),
    /// The proxy cannot have an identity.
    #[error(transparent)]
    Identity(#[from] IdentityStartError),
    /// The output of the access log cannot be opened.
    #[error("{0}")]
    AccessLog(#[source] io::Error),
    /// The output of traces cannot be opened.
    #[error("{0}")]
    Trace(#[source] io::Error),
    /// A thread or its runtime does not start.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// The result of the control thread's start.
type Started = Result<ControlHandles, control::ControlStartError>;

/// The workers' handles of what the control thread follows.
type ControlHandles = (Discovery, Policies, ServerPolicies, ServiceProfiles);

/// Starts the proxy. Its workers accept connections when this returns.
pub async fn start(
    loaded: LoadedConfig,
    env: config::Env,
    log: Option<Logger>,
) -> Result<RunningProxy, StartError> {
    let cores = Cores::detect();
    let decision = decide_workers(&loaded.config.workers, &cores);
    match decision.workers {
        1 => tracing::info!("Using single-threaded proxy runtime ({cores}; {decision})"),
        _ => tracing::info!("Using multi-threaded proxy runtime ({cores}; {decision})"),
    }
    let config = Arc::new(loaded.config);
    let sockets = ConfiguredSockets::bind(&config, decision.workers)?;
    let registry = Registry::new();
    let families = Families::register(&registry);
    process::register(&registry);
    let runtimes = process::runtimes(&registry);
    if let Some(log) = &log {
        log.register(&registry);
    }
    let access_log = config.access_log.as_ref();
    let access_log = access_log.map(|config| AccessLog::start(config, log.as_ref()));
    let access_log = access_log.transpose().map_err(StartError::AccessLog)?;
    if let Some(log) = &access_log {
        log.register(&registry);
    }
    let taps = TapRegistry::new(config.tap.shows_secrets);
    taps.register(&registry);
    let tracing = config.trace.as_ref();
    let tracing = tracing.map(|config| Tracing::start(config, log.as_ref()));
    let (tracing, exporter) = tracing.transpose().map_err(StartError::Trace)?.unzip();
    if let Some(tracing) = &tracing {
        tracing.register(&registry);
    }
    let readiness = Readiness::new();
    let (signal, drain) = drain::channel();
    let (shutdown_tx, shutdown) = mpsc::channel(1);
    let addresses = sockets.addresses()?;
    let own = OwnConnections::default();
    let own_listeners = OwnListeners::default();
    let dialers = Dialers::new(&config, &own_listeners, addresses.admin, &own);
    announce(&addresses, &config);
    let (mesh, identity) = match &config.identity {
        None => (None, None),
        Some(config) => {
            let (mesh, renewal) = identity::prepare(config)?;
            let pending = readiness.wait_for(renewal.condition());
            let parts = IdentityParts {
                mesh: mesh.clone(),
                renewal,
                pending,
            };
            (Some(mesh), Some(parts))
        }
    };

    let (inspectors, inspected): (Vec<_>, Vec<_>) =
        (0..decision.workers).map(|_| mpsc::channel(4)).unzip();
    let (control_sockets, configured) = sockets.into_parts();
    let admin = AdminParts {
        sockets: control_sockets,
        readiness: readiness.clone(),
        env,
        log,
        access_log: access_log.clone(),
        taps: taps.clone(),
        tracing: tracing.clone(),
        exporter,
        shutdown: config.admin.shutdown_enabled.then_some(shutdown_tx.clone()),
        workers: inspectors.clone(),
        own,
        identity,
    };
    let (discovery, policies, server_policies, service_profiles) = spawn_control(
        config.clone(),
        registry,
        families.clone(),
        runtimes.clone(),
        admin,
        drain.clone(),
    )?;

    let (mut listeners, messages) = ProxyListeners::channel(decision.workers, own_listeners);
    let mut pending = Vec::new();
    for (index, (inspect, listeners)) in inspected.into_iter().zip(messages).enumerate() {
        pending.push(readiness.wait_for(format!("worker {index} to take connections")));
        let worker = Worker {
            index,
            workers: decision.workers,
            config: config.clone(),
            families: families.clone(),
            discovery: discovery.clone(),
            policies: policies.clone(),
            server_policies: server_policies.clone(),
            service_profiles: service_profiles.clone(),
            dialers: dialers.clone(),
            mesh: mesh.clone(),
            access_log: access_log.clone(),
            taps: taps.clone(),
            tracing: tracing.clone(),
            listeners,
            drain: drain.clone(),
            inspect,
        };
        worker.spawn(&runtimes)?;
    }
    listeners.add_configured(configured).await?;
    drop(pending);
    Ok(RunningProxy {
        outbound: addresses.outbound,
        inbound: addresses.inbound,
        admin: addresses.admin,
        listeners,
        readiness,
        shutdown,
        access_log,
        tracing,
        workers: inspectors,
        drain: signal,
    })
}

impl RunningProxy {
    /// A probe of the workers' threads, for a watchdog: `false`, or no answer at all, if one is stuck or has ended.
    pub fn liveness_probe(&self) -> impl AsyncFn() -> bool + use<> {
        let workers = self.workers.clone();
        async move || all_answer(&workers).await
    }

    /// Ends readiness; asks clients to move over `window`, and serves until there was none for so long; then closes the
    /// listeners, and returns when all connections have ended.
    pub async fn end(self, window: Duration) {
        self.readiness.drain();
        self.drain.leave(window).await;
        self.drain.drain().await;
    }
}

/// Logs the lines that tools read, in the incumbent's order.
fn announce(addresses: &ListenAddresses, config: &Config) {
    tracing::info!("Admin interface on {}", addresses.admin);
    if let Some(inbound) = addresses.inbound {
        tracing::info!("Inbound interface on {inbound}");
    }
    for outbound in &addresses.outbound {
        tracing::info!("Outbound interface on {outbound}");
    }
    match addresses.tap {
        Some(tap) => tracing::info!("Tap interface on {tap}"),
        None => tracing::info!("Tap DISABLED"),
    }
    if let Some(identity) = &config.identity {
        tracing::info!("SNI is {}", identity.local.server_name);
        tracing::info!("Local identity is {}", identity.local.identity);
    }
    let destination = &config.control.destination;
    match &destination.tls_name {
        None => tracing::info!("Destinations resolved via {}", destination.addr),
        Some(name) => tracing::info!("Destinations resolved via {} ({name})", destination.addr),
    }
    let collector = config.trace.as_ref();
    if let Some(collector) = collector.and_then(|trace| trace.collector.as_ref()) {
        match &collector.tls_name {
            None => tracing::info!("Tracing collector at {}", collector.addr),
            Some(name) => tracing::info!("Tracing collector at {} ({name})", collector.addr),
        }
    }
}

/// The parts of the admin server.
struct AdminParts {
    sockets: ControlSockets,
    readiness: Readiness,
    env: config::Env,
    log: Option<Logger>,
    access_log: Option<AccessLog>,
    taps: TapRegistry,
    tracing: Option<Tracing>,
    exporter: Option<ExporterParts>,
    shutdown: Option<mpsc::Sender<()>>,
    workers: Vec<WorkerInspector>,
    own: OwnConnections,
    identity: Option<IdentityParts>,
}

/// Starts the control thread: discovery, DNS and the admin server, away from the workers.
fn spawn_control(
    config: Arc<Config>,
    registry: Registry,
    families: Families,
    runtimes: Runtimes,
    parts: AdminParts,
    drain: drain::Handle,
) -> Result<ControlHandles, StartError> {
    let (started, wait) = std_mpsc::channel::<Started>();
    crate::runtime::spawn("admin", &runtimes, move || {
        run_control(config, registry, families, parts, drain, started)
    })?;
    match wait.recv() {
        Ok(started) => Ok(started?),
        Err(_) => Err(io::Error::other("the control thread ended at once").into()),
    }
}

/// The control thread's main task, for as long as the process runs.
async fn run_control(
    config: Arc<Config>,
    registry: Registry,
    families: Families,
    mut parts: AdminParts,
    drain: drain::Handle,
    started: std_mpsc::Sender<Started>,
) {
    let identity = parts.identity.take();
    let mesh = identity.as_ref().map(|identity| identity.mesh.clone());
    let tap_mesh = mesh.clone();
    let admin_addr = parts.sockets.admin.local_addr();
    let admin_addr = admin_addr.unwrap_or(config.admin.listen);
    let control = ControlPlane::start(
        &config,
        &registry,
        &families,
        &parts.own,
        identity,
        admin_addr.port(),
    );
    let control = match control {
        Ok(control) => control,
        Err(error) => {
            // The starting thread waits for it.
            let _ = started.send(Err(error));
            return;
        }
    };
    let handles = (
        control.discovery.clone(),
        control.policies.clone(),
        control.server_policies.clone(),
        control.service_profiles.clone(),
    );
    let _ = started.send(Ok(handles));
    if let Some(exporter) = parts.exporter.take() {
        let resource = exporter.resource.clone();
        let collector = control.collector();
        let collector = collector.map(|client| GrpcSpanExporter::new(client, resource));
        spawn_local(exporter.run(collector));
    }
    let (inspect, inspected) = mpsc::channel(4);
    let control = Rc::new(control);
    let asked = control.clone();
    let admin = AdminContext {
        policy: config.inbound.listen.map(|_| {
            let ctx = Rc::new(PolicyContext {
                families,
                server_policies: control.server_policies.clone(),
            });
            AdminPolicy::new(&ctx, admin_addr, mesh, drain.clone())
                .expect("the policy of the admin port is watched from the start")
        }),
        unreached: Box::new(move || asked.unreached()),
        console: config.admin.console,
        retain: config.admin.metrics_retain_idle,
        sections: sections(
            &registry,
            &control,
            StateParts {
                log: parts.log.clone(),
                access_log: parts.access_log,
                taps: parts.taps.clone(),
                tracing: parts.tracing,
                controllers: inspect,
                own: parts.own,
                workers: parts.workers.clone(),
            },
        ),
        explain: explainer(control.policies.clone(), parts.workers),
        explain_inbound: {
            let policies = control.server_policies.clone();
            let opaque = config.inbound.proxy_protocol_ports.clone();
            Box::new(move |query| explain_inbound(&policies, &opaque, query))
        },
        taps: parts.taps.clone(),
        registry,
        readiness: parts.readiness,
        log: parts.log,
        hostname: admin::hostname(),
        env: parts.env,
        shutdown: parts.shutdown,
    };
    // Discovery continues while the workers drain.
    spawn_local(inspect_control(control, inspected));
    if let (Some(listener), Some(server)) = (parts.sockets.tap, &config.tap.server) {
        let server = TapServer {
            registry: parts.taps.clone(),
            client: server.client.clone(),
            mesh: tap_mesh,
            accept: config.inbound.accept,
        };
        spawn_local(server.serve(listener, drain.watch()));
    }
    spawn_local(end_taps(parts.taps, drain.watch()));
    admin::serve(parts.sockets.admin, Rc::new(admin), drain.watch()).await;
    std::future::pending().await
}

/// Ends the taps when drain is signalled: their clients would hold it up.
async fn end_taps(taps: TapRegistry, mut drain: drain::Watch) {
    drain.signaled().await;
    taps.end();
}

/// Answers `/explain` from the policies that the proxy holds, and from the workers' backends.
fn explainer(policies: Policies, workers: Vec<WorkerInspector>) -> Explainer {
    Box::new(move |query| {
        let explained = explain_known(&policies, &query);
        let workers = workers.clone();
        async move {
            let mut explanation = match explained {
                Ok(explanation) => explanation,
                Err(answer) => return answer,
            };
            if let Some(backends) = explanation.backends.take() {
                let states = workers.into_iter().map(|worker| {
                    let backends = backends.clone();
                    ask(worker, |reply| WorkerQuery::Backends(backends, reply))
                });
                explanation.add_states(join_all(states).await);
            }
            ExplainAnswer::Explained(explanation.document)
        }
        .boxed()
    })
}
