use crate::content::{Content, EndpointSet};
use crate::limits::Limits;
use crate::lookups::{Log, canonical};
use crate::mesh::Keys;
use crate::stream::{Mailbox, Subscription};
use crate::table::Table;
use linkerd_api_proto::destination::DestinationProfile;
use linkerd_api_proto::outbound::OutboundPolicy;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::sync::watch;
use tonic::Status;

/// State shared by the handles, the servers and the streams of one controller.
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) state: Mutex<State>,
    /// Counts look-ups and changes of streams, so that a test can wait for them.
    changed: watch::Sender<u64>,
}

pub(crate) struct State {
    pub(crate) destinations: Table<EndpointSet>,
    pub(crate) profiles: Table<DestinationProfile>,
    pub(crate) policies: Table<OutboundPolicy>,
    pub(crate) lookups: Log,
    /// The current targets of the mesh file.
    pub(crate) mesh: Keys,
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Self {
        let (streams, queued) = (limits.streams, limits.queued_messages);
        Self {
            state: Mutex::new(State {
                destinations: Table::new(streams, queued),
                profiles: Table::new(streams, queued),
                policies: Table::new(streams, queued),
                lookups: Log::new(limits.recorded_lookups),
                mesh: Keys::default(),
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
    ) -> Result<Subscription<C>, Status> {
        let key = canonical(&target);
        let delay = {
            let mut state = self.state.lock();
            let table = C::table(&mut state);
            let delay = table.delay(&key);
            let open = table.open_streams(&crate::table::Key::One(key.clone()));
            state.lookups.record(&key, C::KIND, target, context, open);
            delay
        };
        self.notify();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let mailbox = C::table(&mut self.state.lock()).open(&key)?;
        self.notify();
        Ok(Subscription::new(self, key, mailbox))
    }

    pub(crate) fn close<C: Content>(&self, target: &str, mailbox: &Arc<Mailbox<C>>) {
        C::table(&mut self.state.lock()).close(target, mailbox);
        self.notify();
    }

    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    pub(crate) fn notify(&self) {
        self.changed.send_modify(|n| *n = n.wrapping_add(1));
    }
}
