use crate::content::{Content, EndpointSet};
use crate::limits::ControllerLimits;
use crate::lookups::{LookupLog, canonical};
use crate::mesh::MeshTargets;
use crate::stream::{OpenStream, StreamBuffer};
use crate::table::TargetTable;
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_api_proto::outbound::OutboundPolicy;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;

/// State shared by the handles, the servers and the streams of one controller.
pub(crate) struct ControllerState {
    pub(crate) limits: ControllerLimits,
    pub(crate) tables: Mutex<ControllerTables>,
    /// Counts look-ups and changes of streams, so that a test can wait for them.
    changed: watch::Sender<u64>,
}

pub(crate) struct ControllerTables {
    pub(crate) destinations: TargetTable<EndpointSet>,
    pub(crate) profiles: TargetTable<DestinationProfile>,
    pub(crate) policies: TargetTable<OutboundPolicy>,
    pub(crate) lookups: LookupLog,
    /// The current targets of the mesh file.
    pub(crate) mesh: MeshTargets,
}

impl ControllerState {
    pub(crate) fn new(limits: ControllerLimits) -> Self {
        let (streams, queued) = (limits.streams, limits.queued_messages);
        Self {
            tables: Mutex::new(ControllerTables {
                destinations: TargetTable::new(streams, queued),
                profiles: TargetTable::new(streams, queued),
                policies: TargetTable::new(streams, queued),
                lookups: LookupLog::new(limits.recorded_lookups),
                mesh: MeshTargets::default(),
            }),
            changed: watch::Sender::new(0),
            limits,
        }
    }

    /// Records a look-up, delays it as scripted, and opens its stream.
    pub(crate) async fn open<C: Content>(
        self: Arc<Self>,
        target: String,
        context: String,
    ) -> Result<OpenStream<C>, Status> {
        let key = canonical(&target);
        let delay = {
            let mut tables = self.tables.lock();
            let table = C::table(&mut tables);
            let delay = table.delay(&key);
            let open = table.open_streams(&crate::table::TargetKey::One(key.clone()));
            tables.lookups.record(&key, C::KIND, target, context, open);
            delay
        };
        self.notify();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let buffer = C::table(&mut self.tables.lock()).open(&key)?;
        self.notify();
        Ok(OpenStream::new(self, key, buffer))
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
}
