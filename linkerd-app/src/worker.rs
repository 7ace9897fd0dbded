//! A worker: a thread with its runtime, its listening sockets and the stacks that serve them.

use crate::{
    config::Config,
    dialers::Dialers,
    inbound::{self, Inbound},
    metrics::Families,
    outbound::{self, Outbound},
    server::{InFlightLimit, share},
};
use linkerd_discover::Discovery;
use linkerd_profiles::Policies;
use linkerd_proxy_core::{
    drain,
    http::{HalfSent, client::Http1Pools},
    readiness,
    transport::{Listener, NoTlsReason, Pipes, TlsStatus},
};
use serde_json::{Value, json};
use std::{cell::Cell, io, net::TcpListener, rc::Rc, sync::Arc, thread, time::Duration};
use tokio::sync::{mpsc, oneshot};

/// The parts of a worker.
pub struct Worker {
    /// Its number, from 0.
    pub index: usize,
    /// The number of workers.
    pub workers: usize,
    /// The configuration.
    pub config: Arc<Config>,
    /// Metric families.
    pub families: Families,
    /// Endpoint discovery.
    pub discovery: Discovery,
    /// Policies and profiles.
    pub policies: Policies,
    /// Dialers of both directions.
    pub dialers: Dialers,
    /// Its outbound sockets.
    pub outbound: Vec<TcpListener>,
    /// Its inbound socket; `None` without inbound traffic.
    pub inbound: Option<TcpListener>,
    /// Signals drain.
    pub drain: drain::Handle,
    /// Dropped when the worker accepts connections.
    pub pending: readiness::PendingCondition,
    /// Requests for the worker's state.
    pub inspect: mpsc::Receiver<oneshot::Sender<Value>>,
}

impl Worker {
    /// Runs the worker on a thread of its own until drain is signalled and its connections have ended.
    pub fn spawn(self, runtimes: &crate::process::Runtimes) -> io::Result<thread::JoinHandle<()>> {
        crate::runtime::spawn("proxy", runtimes, || self.run())
    }

    async fn run(self) {
        let index = self.index;
        if let Err(error) = self.serve().await {
            tracing::error!(%error, worker = index, "worker failed");
        }
    }

    async fn serve(self) -> io::Result<()> {
        let pipes = Rc::new(Pipes::default());
        let outbound = Outbound::new(Rc::new(outbound::Context {
            config: self.config.clone(),
            families: self.families.clone(),
            discovery: self.discovery,
            policies: self.policies,
            dialer: self.dialers.outbound,
            drain: self.drain.clone(),
            workers: self.workers,
            in_flight: InFlightLimit::new(share(self.config.outbound.max_in_flight, self.workers)),
            pipes: pipes.clone(),
            half_sent: HalfSent::default(),
            http1: Http1Pools::new(self.config.outbound.pool),
            costs: outbound::Costs::default(),
            route_bytes: Cell::default(),
            client_bytes: Cell::default(),
        }));
        let inbound = Inbound::new(Rc::new(inbound::Context {
            config: self.config.clone(),
            families: self.families,
            dialer: self.dialers.inbound,
            drain: self.drain,
            workers: self.workers,
            in_flight: InFlightLimit::new(share(self.config.inbound.max_in_flight, self.workers)),
            pipes: pipes.clone(),
            half_sent: HalfSent::default(),
            http1: Http1Pools::new(self.config.inbound.pool),
        }));
        let mut accepting = tokio::task::JoinSet::new();
        for socket in self.outbound {
            let listener = Listener::new(socket, self.config.outbound.accept, LOOPBACK)?;
            accepting.spawn_local(outbound.clone().serve(listener));
        }
        if let Some(socket) = self.inbound {
            let listener = Listener::new(socket, self.config.inbound.accept, FROM_REMOTE)?;
            accepting.spawn_local(inbound.clone().serve(listener));
        }
        tokio::task::spawn_local(outbound.clone().sweep());
        tokio::task::spawn_local(inbound.clone().sweep());
        tokio::task::spawn_local(sweep(pipes.clone()));
        tokio::task::spawn_local(inspect(self.inspect, self.index, outbound, inbound, pipes));
        drop(self.pending);
        // Listeners close when drain is signalled; connections hold drain until they have ended, and then the process
        // ends.
        while accepting.join_next().await.is_some() {}
        std::future::pending().await
    }
}

/// Closes unused pipes regularly, for as long as the worker runs.
async fn sweep(pipes: Rc<Pipes>) {
    let mut ticks = tokio::time::interval(PIPES_SWEEP);
    loop {
        ticks.tick().await;
        pipes.sweep();
    }
}

/// Answers requests for the worker's state.
async fn inspect(
    mut asked: mpsc::Receiver<oneshot::Sender<Value>>,
    index: usize,
    outbound: Rc<Outbound>,
    inbound: Rc<Inbound>,
    pipes: Rc<Pipes>,
) {
    while let Some(reply) = asked.recv().await {
        let state = json!({
            "worker": index,
            "outbound": outbound.inspect(),
            "inbound": inbound.inspect(),
            "pipes": pipes.inspect(),
        });
        // The requester may have been dropped.
        let _ = reply.send(state);
    }
}

/// Outbound clients are in this pod.
const LOOPBACK: TlsStatus = TlsStatus::None(NoTlsReason::Loopback);

/// Inbound clients are other pods.
const FROM_REMOTE: TlsStatus = TlsStatus::None(NoTlsReason::NoTlsFromRemote);

/// Interval at which unused pipes are closed: a burst of bulk flows leaves few for long.
const PIPES_SWEEP: Duration = Duration::from_secs(2);
