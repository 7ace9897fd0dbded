use crate::content::{EndpointSet, StreamContent};
use crate::issuance::IdentityState;
use crate::limits::ControllerLimits;
use crate::lookups::{ExpectationError, Lookup, LookupKind, LookupLog};
use crate::stream::StreamBuffer;
use crate::table::TargetTable;
use crate::target::TargetKey;
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_api_proto::inbound::Server;
use linkerd_api_proto::outbound::OutboundPolicy;
use parking_lot::Mutex;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// State shared by the handles, the servers and the streams of one controller.
pub(crate) struct ControllerState {
    pub(crate) limits: ControllerLimits,
    pub(crate) tables: Mutex<ControllerTables>,
    pub(crate) identity: Mutex<IdentityState>,
    /// Each connection holds a clone.
    pub(crate) connections: Arc<()>,
    /// Counts look-ups and changes of streams, so that a test can wait for them.
    changed: watch::Sender<u64>,
}

pub(crate) struct ControllerTables {
    pub(crate) destinations: TargetTable<EndpointSet>,
    pub(crate) profiles: TargetTable<DestinationProfile>,
    pub(crate) policies: TargetTable<OutboundPolicy>,
    /// Servers by `:port`.
    pub(crate) servers: TargetTable<Server>,
    pub(crate) lookups: LookupLog,
    /// The current targets of the mesh file.
    pub(crate) mesh: MeshTargets,
}

/// The targets of the last applied mesh.
#[derive(Default)]
pub(crate) struct MeshTargets {
    pub(crate) destinations: HashSet<String>,
    pub(crate) profiles: HashSet<String>,
    pub(crate) policies: HashSet<String>,
    pub(crate) servers: HashSet<String>,
    /// Whether ports without a server have a policy.
    pub(crate) has_default: bool,
}

/// The answers of one kind of look-up.
///
/// Sealed: they are [`EndpointSet`], [`DestinationProfile`], [`OutboundPolicy`] and [`Server`].
#[allow(private_interfaces, reason = "the table is private to this crate")]
pub trait Content: StreamContent {
    /// The table of the controller that holds the answers.
    #[doc(hidden)]
    fn table(tables: &mut ControllerTables) -> &mut TargetTable<Self>;
}

impl ControllerState {
    pub(crate) fn new(limits: ControllerLimits) -> Self {
        let (streams, queued) = (limits.streams, limits.queued_messages);
        Self {
            tables: Mutex::new(ControllerTables {
                destinations: TargetTable::new(streams, queued),
                profiles: TargetTable::new(streams, queued),
                policies: TargetTable::new(streams, queued),
                servers: TargetTable::new(streams, queued),
                lookups: LookupLog::new(limits.recorded_lookups),
                mesh: MeshTargets::default(),
            }),
            identity: Mutex::default(),
            connections: Arc::default(),
            changed: watch::Sender::new(0),
            limits,
        }
    }

    pub(crate) fn close<C: Content>(&self, target: &str, buffer: &Arc<StreamBuffer<C>>) {
        C::table(&mut self.tables.lock()).close(target, buffer);
        self.notify();
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn notify(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }

    pub(crate) async fn expect(
        &self,
        kind: LookupKind,
        key: &TargetKey,
        within: Duration,
    ) -> Result<Lookup, ExpectationError> {
        let take = || self.tables.lock().lookups.take(kind, key);
        let saw = || {
            let tables = self.tables.lock();
            let lookups: Vec<_> = tables.lookups.all().collect();
            let last = lookups.iter().rev().take(10);
            let last: Vec<_> = last.map(|l| format!("{} {}", l.kind, l.target)).collect();
            format!("{} lookups, last first: {}", lookups.len(), last.join(", "))
        };
        self.wait_for(within, format!("{kind} lookup of {key}"), take, saw)
            .await
    }

    pub(crate) async fn wait_for<T>(
        &self,
        within: Duration,
        what: String,
        check: impl Fn() -> Option<T>,
        saw: impl Fn() -> String,
    ) -> Result<T, ExpectationError> {
        let mut changes = self.changes();
        let deadline = tokio::time::Instant::now() + within;
        loop {
            if let Some(found) = check() {
                return Ok(found);
            }
            let changed = tokio::time::timeout_at(deadline, changes.changed()).await;
            if !matches!(changed, Ok(Ok(()))) {
                return Err(ExpectationError {
                    what,
                    within,
                    saw: saw(),
                });
            }
        }
    }
}

#[allow(private_interfaces, reason = "the table is private to this crate")]
impl Content for EndpointSet {
    fn table(tables: &mut ControllerTables) -> &mut TargetTable<Self> {
        &mut tables.destinations
    }
}

#[allow(private_interfaces, reason = "the table is private to this crate")]
impl Content for DestinationProfile {
    fn table(tables: &mut ControllerTables) -> &mut TargetTable<Self> {
        &mut tables.profiles
    }
}

#[allow(private_interfaces, reason = "the table is private to this crate")]
impl Content for OutboundPolicy {
    fn table(tables: &mut ControllerTables) -> &mut TargetTable<Self> {
        &mut tables.policies
    }
}

#[allow(private_interfaces, reason = "the table is private to this crate")]
impl Content for Server {
    fn table(tables: &mut ControllerTables) -> &mut TargetTable<Self> {
        &mut tables.servers
    }
}
