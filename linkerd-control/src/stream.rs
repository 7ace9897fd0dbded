use crate::content::Content;
use crate::state::ControllerState;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;
use tonic::Status;

/// Unsent content of one stream.
///
/// Only the latest state is kept: states that a slow reader missed are never sent. Raw messages keep their order among
/// the states, and their number is bounded.
pub(crate) struct StreamBuffer<C: Content> {
    state: Mutex<BufferState<C>>,
    changed: Notify,
    max_queued: usize,
}

struct BufferState<C: Content> {
    latest: Option<C>,
    queue: VecDeque<Item<C::Message>>,
    raw: usize,
    end: Option<Option<Status>>,
}

enum Item<M> {
    /// The latest state.
    State,
    Raw(M),
}

enum Next<C: Content> {
    State(C),
    Raw(C::Message),
    End(Option<Status>),
    Wait,
}

/// The controller's side of an open stream; the stream is closed when it is dropped.
pub(crate) struct OpenStream<C: Content> {
    state: Arc<ControllerState>,
    target: String,
    buffer: Arc<StreamBuffer<C>>,
    sent: Option<C>,
    pending: VecDeque<C::Message>,
}

impl<C: Content> StreamBuffer<C> {
    pub(crate) fn new(max_queued: usize) -> Self {
        Self {
            state: Mutex::new(BufferState {
                latest: None,
                queue: VecDeque::new(),
                raw: 0,
                end: None,
            }),
            changed: Notify::new(),
            max_queued,
        }
    }

    /// Brings the stream to a state.
    pub(crate) fn show(&self, content: C) {
        let mut state = self.state.lock();
        state.latest = Some(content);
        if !matches!(state.queue.back(), Some(Item::State)) {
            state.queue.push_back(Item::State);
        }
        self.changed.notify_one();
    }

    /// Queues a raw message; `false` if too many are pending, which ends the stream.
    pub(crate) fn send(&self, message: C::Message) -> bool {
        let mut state = self.state.lock();
        if state.raw >= self.max_queued {
            drop(state);
            self.end(Some(Status::resource_exhausted(
                "the stream is read too slowly",
            )));
            return false;
        }
        state.raw += 1;
        state.queue.push_back(Item::Raw(message));
        self.changed.notify_one();
        true
    }

    /// Ends the stream at once: pending messages are dropped.
    pub(crate) fn end(&self, status: Option<Status>) {
        let mut state = self.state.lock();
        state.queue.clear();
        state.end.get_or_insert(status);
        self.changed.notify_one();
    }

    fn next(&self) -> Next<C> {
        let mut state = self.state.lock();
        if let Some(status) = &mut state.end {
            // The status is sent once; a later poll sees a clean end.
            return Next::End(status.take());
        }
        match state.queue.pop_front() {
            Some(Item::Raw(message)) => {
                state.raw -= 1;
                Next::Raw(message)
            }
            Some(Item::State) => match state.latest.clone() {
                Some(content) => Next::State(content),
                None => Next::Wait,
            },
            None => Next::Wait,
        }
    }
}

impl<C: Content> OpenStream<C> {
    pub(crate) fn new(
        state: Arc<ControllerState>,
        target: String,
        buffer: Arc<StreamBuffer<C>>,
    ) -> Self {
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
                    self.pending = C::messages(self.sent.as_ref(), &content).into();
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
