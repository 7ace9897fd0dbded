//! Start and drain of the proxy.

mod control_thread;
mod error;
mod shutdown_record;
mod state;

pub use error::StartError;

use crate::{
    access_log::AccessLog,
    config::{self, Config, Cores, LoadedConfig, decide_workers},
    control::IdentityParts,
    dialers::Dialers,
    identity,
    listeners::{ConfiguredSockets, ListenAddresses, ProxyListeners},
    logging::Logger,
    metrics::Families,
    process,
    tap::TapRegistry,
    trace::Tracing,
    worker::Worker,
};
use control_thread::ControlParts;
use linkerd_proxy_core::{
    drain,
    metrics::Registry,
    readiness::Readiness,
    transport::{OwnConnections, OwnListeners},
};
use shutdown_record::{ShutdownPhase, ShutdownRecord};
use state::{WorkerInspector, all_answer};
use std::{net::SocketAddr, sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// A running proxy, on its threads.
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
    record: ShutdownRecord,
}

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
    let registry = match config.admin.native_histograms {
        true => Registry::with_native_histograms(),
        false => Registry::new(),
    };
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
    // The admin server answers before the workers have their conditions.
    let starting = readiness.wait_for("the start of the proxy");
    let (signal, drain) = drain::channel();
    let record = ShutdownRecord::serving();
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
    let admin = ControlParts {
        sockets: control_sockets,
        readiness: readiness.clone(),
        env,
        log,
        access_log: access_log.clone(),
        taps: taps.clone(),
        tracing: tracing.clone(),
        exporter,
        shutdown: config.admin.shutdown_enabled.then_some(shutdown_tx.clone()),
        configuration: loaded.effective,
        workers: inspectors.clone(),
        own,
        identity,
        record: record.clone(),
    };
    let (discovery, policies, server_policies, service_profiles) = control_thread::spawn(
        config.clone(),
        registry,
        families.clone(),
        runtimes.clone(),
        admin,
        drain.clone(),
    )?;

    let (mut listeners, messages) = ProxyListeners::channel(decision.workers, own_listeners);
    let mut pending = vec![starting];
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
        record,
    })
}

impl RunningProxy {
    /// A probe of the workers' threads, for a watchdog: `false`, or no answer at all, if one is stuck or has ended.
    pub fn liveness_probe(&self) -> impl AsyncFn() -> bool + use<> {
        let workers = self.workers.clone();
        async move || all_answer(&workers).await
    }

    /// Ends readiness; asks clients to move, evenly over `window`, and serves until no connection was open or new for a window;
    /// then closes the listeners, and returns when all connections have ended.
    pub async fn end(self, window: Duration) {
        self.readiness.drain();
        self.record.enter(ShutdownPhase::Leaving);
        self.drain.leave(window).await;
        self.record.enter(ShutdownPhase::Draining);
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
        None => tracing::info!("Tap DISABLED for others; the admin server has /tap for this host"),
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
