//! A worker: a thread with its runtime, its listeners and the stacks that serve them.

use crate::{
    access_log::AccessLog,
    config::Config,
    dialers::Dialers,
    explain::BackendsQuery,
    failures::{ADMIN_FAILURES, FailureLog, MAX_FAILURES},
    identity::MeshIdentity,
    inbound::{self, Inbound},
    listeners::{Direction, ListenerMessage, WorkerListeners},
    metrics::Families,
    observers::Observers,
    outbound::{self, Outbound},
    server::{InFlightLimit, share},
    tap::{TapRegistry, WorkerTaps},
    trace::Tracing,
};
use futures::FutureExt;
use linkerd_discover::Discovery;
use linkerd_profiles::{Policies, ServerPolicies, ServiceProfiles};
use linkerd_proxy_core::{
    drain,
    http::{HalfSent, client::Http1Pools},
    task::spawn_local,
    transport::Pipes,
};
use serde_json::{Value, json};
use std::{cell::Cell, io, rc::Rc, sync::Arc, thread, time::Duration};
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
    /// Policies of inbound ports.
    pub server_policies: ServerPolicies,
    /// Profiles of the services that inbound requests are for.
    pub service_profiles: ServiceProfiles,
    /// Dialers of both directions.
    pub dialers: Dialers,
    /// The identity of the proxy; `None`: nothing is encrypted.
    pub mesh: Option<MeshIdentity>,
    /// The access log. `None`: it is off.
    pub access_log: Option<AccessLog>,
    /// Taps that come and go.
    pub taps: TapRegistry,
    /// Tracing. `None`: it is off.
    pub tracing: Option<Tracing>,
    /// Listeners to be added and removed.
    pub listeners: mpsc::Receiver<ListenerMessage>,
    /// Signals drain of the process.
    pub drain: drain::Handle,
    /// Queries for the worker's state.
    pub inspect: mpsc::Receiver<WorkerQuery>,
}

/// A query for the state of a worker, with the channel for the answer.
#[derive(Debug)]
pub enum WorkerQuery {
    /// The whole state, for `/state`.
    State(oneshot::Sender<Value>),
    /// The states of backends, for `/explain`.
    Backends(BackendsQuery, oneshot::Sender<Value>),
    /// The listeners, for the drain in `/state`.
    Listeners(oneshot::Sender<Value>),
    /// The last failures, for `/state`.
    Failures(oneshot::Sender<Value>),
    /// A sign of life, `true`.
    Alive(oneshot::Sender<Value>),
}

impl Worker {
    /// Runs the worker on a new thread until drain is signalled and its connections have ended.
    pub fn spawn(self, runtimes: &crate::process::Runtimes) -> io::Result<thread::JoinHandle<()>> {
        crate::runtime::spawn("proxy", runtimes, || self.run())
    }

    async fn run(self) {
        let pipes = Rc::new(Pipes::default());
        let failures = FailureLog::new(
            share(MAX_FAILURES - ADMIN_FAILURES, self.workers),
            self.families.failures.clone(),
        );
        let observers = Rc::new(Observers {
            tracer: self.tracing.as_ref().map(Tracing::tracer),
            access_log: self.access_log.as_ref().map(AccessLog::writer),
            taps: WorkerTaps::follow(&self.taps),
        });
        let outbound = Outbound::new(Rc::new(outbound::Context {
            config: self.config.clone(),
            families: self.families.clone(),
            discovery: self.discovery,
            policies: self.policies,
            dialer: self.dialers.outbound,
            mesh: self.mesh.clone(),
            workers: self.workers,
            observers: observers.clone(),
            in_flight: InFlightLimit::new(share(self.config.outbound.max_in_flight, self.workers)),
            pipes: pipes.clone(),
            half_sent: HalfSent::default(),
            failures: failures.clone(),
            http1: Http1Pools::new(self.config.outbound.pool),
            costs: outbound::Costs::default(),
            route_bytes: Cell::default(),
            client_bytes: Cell::default(),
        }));
        let suffixes = &self.config.inbound.gateway_suffixes;
        let gateway = (!suffixes.is_empty()).then(|| outbound.forwarded_targets());
        let inbound = Inbound::new(
            Rc::new(inbound::Context {
                config: self.config.clone(),
                policies: Rc::new(inbound::PolicyContext {
                    families: self.families.clone(),
                    server_policies: self.server_policies,
                    authority_labels: self.config.inbound.authority_labels,
                    client_identities: Default::default(),
                }),
                profiles: inbound::InboundProfiles::new(
                    self.service_profiles,
                    self.families.profile_route.clone(),
                    self.config.inbound.profile_timeout,
                ),
                families: self.families,
                dialer: self.dialers.inbound,
                mesh: self.mesh,
                workers: self.workers,
                observers: observers.clone(),
                in_flight: InFlightLimit::new(share(
                    self.config.inbound.max_in_flight,
                    self.workers,
                )),
                pipes: pipes.clone(),
                half_sent: HalfSent::default(),
                failures: failures.clone(),
                handshakes: inbound::Handshakes::default(),
                server_names: inbound::ServerNames::default(),
                peers: inbound::Peers::default(),
                http1: Http1Pools::bound(self.config.inbound.pool),
            }),
            gateway,
        );
        let (to_outbound, to_inbound) = (outbound.clone(), inbound.clone());
        let accept = move |direction, listener| match direction {
            Direction::Outbound => to_outbound.clone().serve(listener).boxed_local(),
            Direction::Inbound => to_inbound.clone().serve(listener).boxed_local(),
        };
        let listeners = WorkerListeners::new(&self.config, self.drain, accept);
        spawn_local(outbound.clone().sweep());
        spawn_local(inbound.clone().sweep());
        spawn_local(sweep(pipes.clone()));
        let parts = InspectedParts {
            index: self.index,
            outbound,
            inbound,
            observers,
            pipes,
            failures,
            listeners: listeners.clone(),
        };
        spawn_local(parts.answer(self.inspect));
        listeners.run(self.listeners).await;
        // Listeners close when drain is signalled; connections hold drain until they have ended, and then the process
        // ends.
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

/// The parts of a worker that `/state` shows.
struct InspectedParts {
    index: usize,
    outbound: Rc<Outbound>,
    inbound: Rc<Inbound>,
    observers: Rc<Observers>,
    pipes: Rc<Pipes>,
    failures: Rc<FailureLog>,
    listeners: Rc<WorkerListeners>,
}

impl InspectedParts {
    /// Answers queries for the worker's state.
    async fn answer(self, mut asked: mpsc::Receiver<WorkerQuery>) {
        while let Some(query) = asked.recv().await {
            let (state, reply) = match query {
                WorkerQuery::State(reply) => (self.inspect(), reply),
                WorkerQuery::Backends(query, reply) => {
                    (self.outbound.backend_states(&query), reply)
                }
                WorkerQuery::Listeners(reply) => (self.listeners.inspect(), reply),
                WorkerQuery::Failures(reply) => (self.failures.inspect(), reply),
                WorkerQuery::Alive(reply) => (Value::Bool(true), reply),
            };
            // The requester may have been dropped.
            let _ = reply.send(state);
        }
    }

    fn inspect(&self) -> Value {
        let access_log = self.observers.access_log.as_ref();
        json!({
            "worker": self.index,
            "listeners": self.listeners.inspect(),
            "outbound": self.outbound.inspect(),
            "inbound": self.inbound.inspect(),
            "access_log": access_log.map(|log| log.inspect()),
            "pipes": self.pipes.inspect(),
        })
    }
}

/// Interval at which unused pipes are closed: a burst of bulk flows leaves few for long.
const PIPES_SWEEP: Duration = Duration::from_secs(2);
