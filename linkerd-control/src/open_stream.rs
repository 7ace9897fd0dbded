//! An open stream of a proxy, from its look-up to its end.

use crate::state::{Content, ControllerState};
use crate::stream::{Next, StreamBuffer};
use crate::target::{TargetKey, canonical};
use std::collections::VecDeque;
use std::sync::Arc;
use tonic::Status;

/// The controller's side of an open stream. Dropping it closes the stream.
pub(crate) struct OpenStream<C: Content> {
    state: Arc<ControllerState>,
    target: String,
    buffer: Arc<StreamBuffer<C>>,
    sent: Option<Arc<C>>,
    pending: VecDeque<C::Message>,
}

impl<C: Content> OpenStream<C> {
    /// Records a look-up, delays it as scripted, and opens its stream.
    pub(crate) async fn open(
        state: Arc<ControllerState>,
        target: String,
        context: String,
    ) -> Result<Self, Status> {
        let key = canonical(&target);
        let delay = {
            let mut tables = state.tables.lock();
            let table = C::table(&mut tables);
            let delay = table.delay(&key);
            let open = table.open_streams(&TargetKey::One(key.clone()));
            tables.lookups.record(&key, C::KIND, target, context, open);
            delay
        };
        state.notify();
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        let buffer = C::table(&mut state.tables.lock()).open(&key)?;
        state.notify();
        Ok(Self::new(state, key, buffer))
    }

    fn new(state: Arc<ControllerState>, target: String, buffer: Arc<StreamBuffer<C>>) -> Self {
        Self {
            state,
            target,
            buffer,
            sent: None,
            pending: VecDeque::new(),
        }
    }

    /// The next message, the status that ends the stream, or its clean end.
    pub(crate) async fn next(&mut self) -> Option<Result<C::Message, Status>> {
        loop {
            if let Some(message) = self.pending.pop_front() {
                return Some(Ok(message));
            }
            match self.buffer.next() {
                Next::Raw(message) => return Some(Ok(message)),
                Next::End(status) => return status.map(Err),
                Next::Wait => self.buffer.changed.notified().await,
                Next::State(content) => {
                    self.pending = C::messages(self.sent.as_deref(), &content).into();
                    self.sent = Some(content);
                }
            }
        }
    }
}

impl<C: Content> Drop for OpenStream<C> {
    fn drop(&mut self) {
        self.state.close(&self.target, &self.buffer);
    }
}
