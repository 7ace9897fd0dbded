use crate::content::EndpointSet;
use crate::endpoint::Endpoint;
use crate::lookups::{ExpectationError, Lookup};
use crate::state::{Content, ControllerState};
use crate::table::{Behaviour, Failure, TargetTable};
use crate::target::TargetKey;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tonic::Status;

/// The content and behaviour of one target; or, for `any_…`, the content of all targets without their own, and the
/// behaviour of all targets.
///
/// A stream gets the whole current state first and differences later. The order of all calls is kept, but states that a
/// stream had no time to send are combined.
#[derive(Clone)]
pub struct Script<C> {
    state: Arc<ControllerState>,
    key: TargetKey,
    content: std::marker::PhantomData<fn() -> C>,
}

impl<C: Content> Script<C> {
    pub(crate) fn new(state: Arc<ControllerState>, key: TargetKey) -> Self {
        Self {
            state,
            key,
            content: std::marker::PhantomData,
        }
    }

    /// Sets the state and pushes it to open streams.
    pub fn set(&self, content: impl Into<C>) -> &Self {
        let content = content.into();
        self.with(|table| table.set(&self.key, Some(Arc::new(content))))
    }

    /// Removes the state: the target is unknown again, and open streams are updated.
    pub fn unset(&self) -> &Self {
        self.with(|table| table.set(&self.key, None))
    }

    /// Sends a message verbatim, valid or not, to all open streams, even silent ones. The message does not become part of
    /// the state. Returns the number of streams.
    pub fn send(&self, message: C::Message) -> usize {
        let mut sent = 0;
        self.with(|table| sent = table.send(&self.key, &message));
        sent
    }

    /// Answers the next lookup with a status.
    pub fn fail_next(&self, status: Status) -> &Self {
        self.behave(|b| b.fail = Some(Failure { status, once: true }))
    }

    /// Answers each lookup with a status, until [`Script::restore`].
    pub fn fail(&self, status: Status) -> &Self {
        self.behave(|b| {
            b.fail = Some(Failure {
                status,
                once: false,
            });
        })
    }

    /// Accepts streams and sends nothing on any stream, until [`Script::restore`].
    pub fn silent(&self) -> &Self {
        self.behave(|b| b.silent = true)
    }

    /// Delays the answer to each look-up, response headers included. Pending look-ups are not affected. `Duration::MAX`
    /// never answers.
    pub fn delay(&self, delay: Duration) -> &Self {
        self.behave(|b| b.delay = delay)
    }

    /// Ends failures, silence and delays: open streams get the withheld state.
    pub fn restore(&self) -> &Self {
        self.with(|table| table.restore(&self.key))
    }

    /// Ends the open streams cleanly; returns their number.
    pub fn drop_streams(&self) -> usize {
        self.end_streams(None)
    }

    /// Ends the open streams with a status; returns their number.
    pub fn drop_streams_with(&self, status: Status) -> usize {
        self.end_streams(Some(&status))
    }

    /// The number of open streams.
    pub fn open_streams(&self) -> usize {
        C::table(&mut self.state.tables.lock()).open_streams(&self.key)
    }

    /// Waits for a look-up of this target that no earlier call returned, so that two calls expect two look-ups. For
    /// `any_…`, of any target.
    pub async fn expect_lookup(&self, within: Duration) -> Result<Lookup, ExpectationError> {
        self.state.expect(C::KIND, &self.key, within).await
    }

    /// Waits until this number of streams is open.
    pub async fn expect_open_streams(
        &self,
        count: usize,
        within: Duration,
    ) -> Result<(), ExpectationError> {
        let reached = || (self.open_streams() == count).then_some(());
        let what = format!("{count} open {} streams of {}", C::KIND, self.key);
        self.state
            .wait_for(within, what, reached, || self.open_streams().to_string())
            .await
    }

    fn end_streams(&self, status: Option<&Status>) -> usize {
        let mut dropped = 0;
        self.with(|table| dropped = table.drop_streams(&self.key, status));
        dropped
    }

    fn behave(&self, change: impl FnOnce(&mut Behaviour)) -> &Self {
        self.with(|table| table.behave(&self.key, change))
    }

    fn with(&self, change: impl FnOnce(&mut TargetTable<C>)) -> &Self {
        change(C::table(&mut self.state.tables.lock()));
        self.state.notify();
        self
    }
}

impl Script<EndpointSet> {
    /// Adds endpoints, or replaces those with the same address.
    pub fn add<E: Into<Endpoint>>(&self, endpoints: impl IntoIterator<Item = E>) -> &Self {
        self.update(|set| set.with(endpoints))
    }

    /// Removes endpoints by their addresses.
    pub fn remove(&self, addrs: impl IntoIterator<Item = SocketAddr>) -> &Self {
        self.update(|set| set.without(addrs))
    }

    /// Sets an empty set of endpoints, of a service that exists or does not.
    pub fn no_endpoints(&self, exists: bool) -> &Self {
        self.set(EndpointSet::none(exists))
    }

    fn update(&self, change: impl FnOnce(EndpointSet) -> EndpointSet) -> &Self {
        self.with(|table| {
            let set = table.content(&self.key);
            let set = set.map(|set| EndpointSet::clone(set));
            let changed = change(set.unwrap_or_default());
            table.set(&self.key, Some(Arc::new(changed)));
        })
    }
}
