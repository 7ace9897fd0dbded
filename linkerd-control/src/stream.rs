use crate::content::StreamContent;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::sync::Notify;
use tonic::Status;

/// Unsent content of one stream.
///
/// Only the latest state is kept: states that a slow reader missed are never sent. Raw messages keep their order among
/// the states, and their number is bounded.
pub(crate) struct StreamBuffer<C: StreamContent> {
    state: Mutex<BufferState<C>>,
    pub(crate) changed: Notify,
    max_queued: usize,
}

struct BufferState<C: StreamContent> {
    latest: Option<Arc<C>>,
    queue: VecDeque<Item<C::Message>>,
    raw: usize,
    end: Option<Option<Status>>,
}

enum Item<M> {
    /// The latest state.
    State,
    Raw(M),
}

/// The next step of a stream.
pub(crate) enum Next<C: StreamContent> {
    State(Arc<C>),
    Raw(C::Message),
    End(Option<Status>),
    Wait,
}

impl<C: StreamContent> StreamBuffer<C> {
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

    /// Sets the state that the stream has to reach.
    pub(crate) fn show(&self, content: Arc<C>) {
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

    pub(crate) fn next(&self) -> Next<C> {
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
