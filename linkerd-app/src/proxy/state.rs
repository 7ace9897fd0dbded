//! The sections of `/state`, and the queries to the threads that hold them.

use super::shutdown_record::ShutdownRecord;
use crate::{
    access_log::AccessLog,
    admin::StateSection,
    config::{EffectiveValue, ShutdownConfig, inspect_effective},
    control::ControlPlane,
    failures::{self, FailureLog},
    listeners,
    logging::Logger,
    process,
    tap::TapRegistry,
    trace::Tracing,
    worker::WorkerQuery,
};
use futures::{
    FutureExt,
    future::{join, join_all},
};
use linkerd_proxy_core::{metrics::Registry, transport::OwnConnections};
use serde_json::{Value, json};
use std::rc::Rc;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};

/// Queries a worker's state.
pub(super) type WorkerInspector = mpsc::Sender<WorkerQuery>;

/// Requests a part of the control thread's state.
pub(super) type ControlInspector = mpsc::Sender<ControlQuery>;

/// A query for a part of the control thread's state, with the channel for the answer.
pub(super) enum ControlQuery {
    /// The controllers' clients.
    Controllers(oneshot::Sender<Value>),
    /// The certificate of the proxy.
    Identity(oneshot::Sender<Value>),
    /// The failures of the admin port.
    Failures(oneshot::Sender<Value>),
}

/// Answers requests for the state of the control thread, and owns the controllers' clients.
pub(super) async fn inspect_control(
    control: Rc<ControlPlane>,
    failures: Rc<FailureLog>,
    mut asked: mpsc::Receiver<ControlQuery>,
) {
    while let Some(query) = asked.recv().await {
        // The requester may have been dropped.
        let _ = match query {
            ControlQuery::Controllers(reply) => reply.send(control.inspect()),
            ControlQuery::Identity(reply) => reply.send(control.inspect_identity()),
            ControlQuery::Failures(reply) => reply.send(failures.inspect()),
        };
    }
    std::future::pending::<()>().await;
}

/// The parts of the proxy that `/state` shows, beside the control plane.
pub(super) struct StateParts {
    pub(super) configuration: Vec<EffectiveValue>,
    pub(super) log: Option<Logger>,
    pub(super) access_log: Option<AccessLog>,
    pub(super) taps: TapRegistry,
    pub(super) tracing: Option<Tracing>,
    pub(super) controllers: ControlInspector,
    pub(super) own: OwnConnections,
    pub(super) shutdown: (ShutdownRecord, ShutdownConfig),
    pub(super) workers: Vec<WorkerInspector>,
}

/// The sections of `/state`.
pub(super) fn sections(
    registry: &Registry,
    control: &ControlPlane,
    parts: StateParts,
) -> Vec<StateSection> {
    let StateParts {
        configuration,
        log,
        access_log,
        taps,
        tracing,
        controllers,
        own,
        shutdown,
        workers,
    } = parts;
    let (discovery, policies) = (control.discovery.clone(), control.policies.clone());
    let server_policies = control.server_policies.clone();
    let service_profiles = control.service_profiles.clone();
    let registry = registry.clone();
    let identity = controllers.clone();
    let failing = (workers.clone(), controllers.clone());
    let (listening, number) = (workers.clone(), workers.len());
    let started = Instant::now();
    vec![
        section("process", move || process::inspect(started, number)),
        StateSection {
            name: "drain",
            collect: Box::new(move || inspect_drain(shutdown.clone(), listening.clone()).boxed()),
        },
        section("configuration", move || inspect_effective(&configuration)),
        section("discovery", move || discovery.inspect()),
        section("policies", move || policies.inspect()),
        section("server_policies", move || server_policies.inspect()),
        section("service_profiles", move || service_profiles.inspect()),
        section("own_connections", move || own.inspect()),
        section("metrics", move || {
            let sizes = registry.sizes().into_iter();
            sizes
                .map(|size| {
                    json!({
                        "family": size.name,
                        "series": size.series,
                        "limit": size.limit,
                        "refused": size.refused,
                    })
                })
                .collect()
        }),
        section("log", move || {
            log.as_ref().map_or(Value::Null, |log| {
                let mut state = log.lines.inspect();
                state["streams"] = log.streams.inspect();
                state["left_out_of_libraries"] = log.libraries.left_out().into();
                state
            })
        }),
        section("access_log", move || {
            access_log.as_ref().map_or(Value::Null, AccessLog::inspect)
        }),
        section("taps", move || taps.inspect()),
        section("trace", move || {
            tracing.as_ref().map_or(Value::Null, Tracing::inspect)
        }),
        StateSection {
            name: "identity",
            collect: Box::new(move || ask(identity.clone(), ControlQuery::Identity).boxed()),
        },
        StateSection {
            name: "controllers",
            collect: Box::new(move || ask(controllers.clone(), ControlQuery::Controllers).boxed()),
        },
        StateSection {
            name: "failures",
            collect: Box::new(move || inspect_failures(failing.clone()).boxed()),
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

async fn inspect_workers(workers: Vec<WorkerInspector>) -> Value {
    let states = workers
        .into_iter()
        .map(|worker| ask(worker, WorkerQuery::State));
    Value::Array(join_all(states).await)
}

/// The state of the shutdown, and the listeners of all workers as one list.
async fn inspect_drain(
    (shutdown, config): (ShutdownRecord, ShutdownConfig),
    workers: Vec<WorkerInspector>,
) -> Value {
    let workers = workers
        .into_iter()
        .map(|worker| ask(worker, WorkerQuery::Listeners));
    let listeners = listeners::merge(join_all(workers).await);
    shutdown.inspect(&config, listeners)
}

/// The failures of all workers and of the admin port as one list.
async fn inspect_failures((workers, control): (Vec<WorkerInspector>, ControlInspector)) -> Value {
    let workers = workers
        .into_iter()
        .map(|worker| ask(worker, WorkerQuery::Failures));
    let (mut threads, admin) = join(join_all(workers), ask(control, ControlQuery::Failures)).await;
    threads.push(admin);
    failures::merge(threads)
}

/// Whether all workers run their tasks. Waits for stuck workers without a limit.
pub(super) async fn all_answer(workers: &[WorkerInspector]) -> bool {
    let answers = workers
        .iter()
        .map(|worker| ask(worker.clone(), WorkerQuery::Alive));
    let answers = join_all(answers).await;
    answers.iter().all(|answer| *answer == Value::Bool(true))
}

/// Queries a thread's state. A stuck thread shows as the timeout of the section.
pub(super) async fn ask<Q>(
    thread: mpsc::Sender<Q>,
    query: impl FnOnce(oneshot::Sender<Value>) -> Q,
) -> Value {
    let (reply, state) = oneshot::channel();
    match thread.send(query(reply)).await {
        Ok(()) => state.await.unwrap_or(Value::Null),
        Err(_) => Value::Null,
    }
}
