//! Start and drain of the proxy.

use crate::{
    admin::{self, AdminContext, StateSection},
    config::{self, Config, Cores, LoadedConfig, decide_workers},
    control::{self, ControlPlane},
    dialers::{Dialers, OwnListeners},
    logging::Logger,
    metrics::Families,
    process::{self, Runtimes},
    worker::Worker,
};
use futures::FutureExt;
use linkerd_discover::Discovery;
use linkerd_profiles::Policies;
use linkerd_proxy_core::{
    drain,
    metrics::Registry,
    readiness::Readiness,
    transport::{self, OwnConnections},
};
use serde_json::{Value, json};
use std::{
    io,
    net::{SocketAddr, TcpListener},
    rc::Rc,
    sync::{Arc, mpsc as std_mpsc},
};
use tokio::sync::{mpsc, oneshot};

/// A proxy that runs on threads of its own.
pub struct RunningProxy {
    /// Addresses of the outbound listener.
    pub outbound: Vec<SocketAddr>,
    /// Address of the inbound listener, if there is one.
    pub inbound: Option<SocketAddr>,
    /// Address of the admin server.
    pub admin: SocketAddr,
    /// Readiness of the proxy.
    pub readiness: Readiness,
    /// Receives requests for shutdown of the admin server.
    pub shutdown: mpsc::Receiver<()>,
    drain: drain::Signal,
}

/// Errors at the start of the proxy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be bound.
    #[error(
        "Failed to bind {what} listener on {addr}: {error}; is another process using it? `{variable}` sets it"
    )]
    Bind {
        /// The listener.
        what: &'static str,
        /// The address.
        addr: SocketAddr,
        /// The system's error.
        error: io::Error,
        /// The variable that sets the address.
        variable: &'static str,
    },
    /// The controllers cannot be resolved.
    #[error(transparent)]
    Control(#[from] control::ControlStartError),
    /// A thread or its runtime does not start.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}

/// The listening sockets of all workers.
struct Sockets {
    /// For each address, one socket for each worker.
    outbound: Vec<Vec<TcpListener>>,
    /// One socket for each worker; none without inbound traffic.
    inbound: Vec<TcpListener>,
    admin: TcpListener,
}

/// The result of the control thread's start.
type Started = Result<(Discovery, Policies), control::ControlStartError>;

/// Starts the proxy. Its listeners are bound when this returns.
pub fn start(
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
    let sockets = Sockets::bind(&config, decision.workers)?;
    let registry = Registry::new();
    let families = Families::register(&registry);
    process::register(&registry);
    let runtimes = process::runtimes(&registry);
    if let Some(log) = &log {
        log.register(&registry);
    }
    let readiness = Readiness::new();
    let (signal, drain) = drain::channel();
    let (shutdown_tx, shutdown) = mpsc::channel(1);
    let addresses = sockets.addresses()?;
    let own = OwnConnections::default();
    let dialers = Dialers::new(&config, &addresses.own(), &own);
    announce(&addresses, &config);

    let (inspectors, inspected): (Vec<_>, Vec<_>) =
        (0..decision.workers).map(|_| mpsc::channel(4)).unzip();
    let admin = AdminParts {
        listener: sockets.admin,
        readiness: readiness.clone(),
        env,
        log,
        shutdown: config.admin.shutdown_enabled.then_some(shutdown_tx.clone()),
        inspectors,
        own,
    };
    let (discovery, policies) = spawn_control(
        config.clone(),
        registry,
        families.clone(),
        runtimes.clone(),
        admin,
        drain.clone(),
    )?;

    let mut outbound: Vec<_> = sockets.outbound.into_iter().map(Vec::into_iter).collect();
    let mut inbound = sockets.inbound.into_iter();
    for (index, inspect) in inspected.into_iter().enumerate() {
        let worker = Worker {
            index,
            workers: decision.workers,
            config: config.clone(),
            families: families.clone(),
            discovery: discovery.clone(),
            policies: policies.clone(),
            dialers: dialers.clone(),
            outbound: outbound.iter_mut().filter_map(Iterator::next).collect(),
            inbound: inbound.next(),
            drain: drain.clone(),
            pending: readiness.wait_for(format!("worker {index} to take connections")),
            inspect,
        };
        worker.spawn(&runtimes)?;
    }
    Ok(RunningProxy {
        outbound: addresses.outbound,
        inbound: addresses.inbound,
        admin: addresses.admin,
        readiness,
        shutdown,
        drain: signal,
    })
}

impl RunningProxy {
    /// Ends readiness, closes the listeners, and returns when all connections have ended.
    pub async fn drain(self) {
        self.readiness.drain();
        self.drain.drain().await;
    }
}

impl Sockets {
    fn bind(config: &Config, workers: usize) -> Result<Self, StartError> {
        use config::variables::{ADMIN_LISTEN_ADDR, INBOUND_LISTEN_ADDR, OUTBOUND_LISTEN_ADDRS};
        let bind = |what, addr, backlog, count, variable| {
            transport::bind(addr, backlog, count).map_err(|error| StartError::Bind {
                what,
                addr,
                error,
                variable,
            })
        };
        let (outbound, inbound, admin) = (&config.outbound, &config.inbound, &config.admin);
        // Outbound first: an application that starts with the proxy is not refused.
        let outbound = outbound
            .listen
            .iter()
            .map(|addr| {
                let variable = OUTBOUND_LISTEN_ADDRS.name();
                bind("outbound", *addr, outbound.backlog, workers, variable)
            })
            .collect::<Result<_, _>>()?;
        let variable = INBOUND_LISTEN_ADDR.name();
        let backlog = inbound.backlog;
        let inbound = match inbound.listen {
            Some(addr) => bind("inbound", addr, backlog, workers, variable)?,
            None => Vec::new(),
        };
        let mut admin = bind("admin", admin.listen, backlog, 1, ADMIN_LISTEN_ADDR.name())?;
        Ok(Self {
            outbound,
            inbound,
            admin: admin.swap_remove(0),
        })
    }

    fn addresses(&self) -> io::Result<ListenAddresses> {
        let first = |sockets: &Vec<TcpListener>| sockets[0].local_addr();
        Ok(ListenAddresses {
            outbound: self.outbound.iter().map(first).collect::<Result<_, _>>()?,
            inbound: self
                .inbound
                .first()
                .map(TcpListener::local_addr)
                .transpose()?,
            admin: self.admin.local_addr()?,
        })
    }
}

/// Addresses of the listeners.
struct ListenAddresses {
    outbound: Vec<SocketAddr>,
    inbound: Option<SocketAddr>,
    admin: SocketAddr,
}

impl ListenAddresses {
    fn own(&self) -> OwnListeners {
        let mut proxy = self.outbound.clone();
        proxy.extend(self.inbound);
        OwnListeners {
            proxy,
            admin: self.admin,
        }
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
    tracing::info!("Tap DISABLED");
    let destination = &config.control.destination;
    match &destination.tls_name {
        None => tracing::info!("Destinations resolved via {}", destination.addr),
        Some(name) => tracing::info!("Destinations resolved via {} ({name})", destination.addr),
    }
}

/// The parts of the admin server.
struct AdminParts {
    listener: TcpListener,
    readiness: Readiness,
    env: config::Env,
    log: Option<Logger>,
    shutdown: Option<mpsc::Sender<()>>,
    inspectors: Vec<Inspector>,
    own: OwnConnections,
}

/// Requests a thread's state.
type Inspector = mpsc::Sender<oneshot::Sender<Value>>;

/// Starts the control thread: discovery, DNS and the admin server, away from the workers.
fn spawn_control(
    config: Arc<Config>,
    registry: Registry,
    families: Families,
    runtimes: Runtimes,
    parts: AdminParts,
    drain: drain::Handle,
) -> Result<(Discovery, Policies), StartError> {
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
    parts: AdminParts,
    drain: drain::Handle,
    started: std_mpsc::Sender<Started>,
) {
    let control = match ControlPlane::start(&config, &registry, &families, &parts.own) {
        Ok(control) => control,
        Err(error) => {
            // The starting thread waits for it.
            let _ = started.send(Err(error));
            return;
        }
    };
    let handles = (control.discovery.clone(), control.policies.clone());
    let _ = started.send(Ok(handles));
    let (inspect, inspected) = mpsc::channel(4);
    let control = Rc::new(control);
    let asked = control.clone();
    let admin = AdminContext {
        unreached: Box::new(move || asked.unreached()),
        retain: config.admin.metrics_retain_idle,
        sections: sections(
            &registry,
            &control,
            parts.log.clone(),
            inspect,
            parts.own,
            parts.inspectors,
        ),
        registry,
        readiness: parts.readiness,
        log: parts.log.map(|log| log.filter),
        hostname: admin::hostname(),
        env: parts.env,
        shutdown: parts.shutdown,
    };
    // Discovery continues while the workers drain.
    tokio::task::spawn_local(inspect_control(control, inspected));
    admin::serve(parts.listener, Rc::new(admin), drain.watch()).await;
    std::future::pending().await
}

/// Answers requests for the state of the controllers' clients, and owns the clients.
async fn inspect_control(
    control: Rc<ControlPlane>,
    mut asked: mpsc::Receiver<oneshot::Sender<Value>>,
) {
    while let Some(reply) = asked.recv().await {
        // The requester may have been dropped.
        let _ = reply.send(control.inspect());
    }
    std::future::pending::<()>().await;
}

/// The sections of `/state`.
fn sections(
    registry: &Registry,
    control: &ControlPlane,
    log: Option<Logger>,
    controllers: Inspector,
    own: OwnConnections,
    workers: Vec<Inspector>,
) -> Vec<StateSection> {
    let (discovery, policies) = (control.discovery.clone(), control.policies.clone());
    let registry = registry.clone();
    vec![
        section("discovery", move || discovery.inspect()),
        section("policies", move || policies.inspect()),
        section("own_connections", move || own.inspect()),
        section("metrics", move || {
            let sizes = registry.sizes().into_iter();
            sizes
                .map(|(name, series, limit)| {
                    json!({ "family": name, "series": series, "limit": limit })
                })
                .collect()
        }),
        section("log", move || {
            log.as_ref().map_or(Value::Null, |log| log.lines.inspect())
        }),
        StateSection {
            name: "controllers",
            collect: Box::new(move || ask(controllers.clone()).boxed()),
        },
        StateSection {
            name: "workers",
            collect: Box::new(move || inspect_workers(workers.clone()).boxed()),
        },
    ]
}

fn section(
    name: &'static str,
    collect: impl Fn() -> Value + Send + Sync + 'static,
) -> StateSection {
    StateSection {
        name,
        collect: Box::new(move || futures::future::ready(collect()).boxed()),
    }
}

async fn inspect_workers(workers: Vec<Inspector>) -> Value {
    let states = futures::future::join_all(workers.into_iter().map(ask));
    Value::Array(states.await)
}

/// Requests a thread's state. A stuck thread shows as the section's timeout.
async fn ask(thread: Inspector) -> Value {
    let (reply, state) = oneshot::channel();
    match thread.send(reply).await {
        Ok(()) => state.await.unwrap_or(Value::Null),
        Err(_) => Value::Null,
    }
}
