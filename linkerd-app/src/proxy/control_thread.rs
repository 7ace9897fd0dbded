//! The control thread: the control plane, the admin server and the tap server, away from the workers.

use super::{
    error::StartError,
    shutdown_record::ShutdownRecord,
    state::{StateParts, WorkerInspector, ask, inspect_control, sections},
};
use crate::{
    access_log::AccessLog,
    admin::{self, AdminContext, AdminPolicy},
    config::{self, Config, EffectiveValue},
    control::{self, ControlPlane, IdentityParts},
    explain::{ExplainAnswer, Explainer, explain_inbound, explain_known},
    failures::{ADMIN_FAILURES, FailureLog},
    inbound::PolicyContext,
    listeners::ControlSockets,
    logging::Logger,
    metrics::Families,
    process::Runtimes,
    tap::{TapRegistry, TapServer},
    trace::{ExporterParts, Tracing},
    worker::WorkerQuery,
};
use futures::{FutureExt, future::join_all};
use linkerd_api_client::GrpcSpanExporter;
use linkerd_discover::Discovery;
use linkerd_profiles::{DiscoveryWatch, Policies, ServerPolicies, ServiceProfiles, Target};
use linkerd_proxy_core::{
    drain, metrics::Registry, readiness::Readiness, task::spawn_local, transport::OwnConnections,
};
use std::{
    cell::Cell,
    io,
    rc::Rc,
    sync::{Arc, mpsc as std_mpsc},
    time::Duration,
};
use tokio::sync::mpsc;

/// The result of the control thread's start.
type Started = Result<ControlHandles, control::ControlStartError>;

/// The workers' handles of discovery, policies and profiles.
pub(super) type ControlHandles = (Discovery, Policies, ServerPolicies, ServiceProfiles);

/// The parts of the proxy that the control thread has.
pub(super) struct ControlParts {
    pub(super) sockets: ControlSockets,
    pub(super) readiness: Readiness,
    pub(super) env: config::Env,
    pub(super) log: Option<Logger>,
    pub(super) access_log: Option<AccessLog>,
    pub(super) taps: TapRegistry,
    pub(super) tracing: Option<Tracing>,
    pub(super) exporter: Option<ExporterParts>,
    pub(super) configuration: Vec<EffectiveValue>,
    pub(super) shutdown: Option<mpsc::Sender<()>>,
    pub(super) workers: Vec<WorkerInspector>,
    pub(super) own: OwnConnections,
    pub(super) identity: Option<IdentityParts>,
    pub(super) record: ShutdownRecord,
}

/// Starts the control thread: discovery, DNS and the admin server, away from the workers.
pub(super) fn spawn(
    config: Arc<Config>,
    registry: Registry,
    families: Families,
    runtimes: Runtimes,
    parts: ControlParts,
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
    mut parts: ControlParts,
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
            // The starting thread waits for the error.
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
    let failures = FailureLog::new(ADMIN_FAILURES, families.failures.clone());
    let admin = AdminContext {
        policy: config.inbound.listen.map(|_| {
            let ctx = Rc::new(PolicyContext {
                families,
                server_policies: control.server_policies.clone(),
                authority_labels: false,
                client_identities: Default::default(),
            });
            AdminPolicy::new(&ctx, admin_addr, mesh, drain.clone(), failures.clone())
                .expect("the policy of the admin port is watched from the start")
        }),
        connections: Cell::default(),
        unreached: Box::new(move || asked.unreached()),
        console: config.admin.console,
        retain: config.admin.metrics_retain_idle,
        sections: sections(
            &registry,
            &control,
            StateParts {
                configuration: parts.configuration,
                log: parts.log.clone(),
                access_log: parts.access_log,
                taps: parts.taps.clone(),
                tracing: parts.tracing,
                controllers: inspect,
                own: parts.own,
                shutdown: (parts.record, config.shutdown),
                workers: parts.workers.clone(),
            },
        ),
        explain: explainer(
            control.policies.clone(),
            parts.workers,
            config.outbound.ingress_mode,
        ),
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
    spawn_local(inspect_control(control, failures, inspected));
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

/// Ends the taps when drain is signalled: their clients would delay it.
async fn end_taps(taps: TapRegistry, mut drain: drain::Watch) {
    drain.signaled().await;
    taps.end();
}

/// Asks the control plane for a target, as its first request would, and waits for the answer. The target is in use as long as this
/// is kept.
async fn discovered(policies: &Policies, target: &Target) -> Option<DiscoveryWatch> {
    let mut watch = policies.discover(target.clone()).ok()?;
    // The explanation names the refusal, or that there is no answer yet.
    let _ = tokio::time::timeout(EXPLAIN_WAIT, watch.ready()).await;
    Some(watch)
}

/// The longest wait of an explanation for the control plane.
const EXPLAIN_WAIT: Duration = Duration::from_secs(2);

/// Answers `/explain` from the policies that the proxy holds, and from the workers' backends.
fn explainer(policies: Policies, workers: Vec<WorkerInspector>, is_ingress: bool) -> Explainer {
    Box::new(move |mut query| {
        let named = match is_ingress {
            true => query.take_override(),
            false => Ok(()),
        };
        let (policies, workers) = (policies.clone(), workers.clone());
        async move {
            if let Err(answer) = named {
                return answer;
            }
            let _in_use = match query.discover {
                true => discovered(&policies, &query.target).await,
                false => None,
            };
            let mut explanation = match explain_known(&policies, &query) {
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
