//! One server-streaming call that is kept open: opened, limited, and opened again after it ended.

use super::{Code, Status};
use crate::Backoff;
use futures::{FutureExt, StreamExt, future::BoxFuture, stream::BoxStream};
use rand::rngs::SmallRng;
use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// A pending call: its stream, or its failure.
pub type Call<T> = BoxFuture<'static, Result<BoxStream<'static, Result<T, Status>>, Status>>;

/// Bounds of one stream. `None` is no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamLimits {
    /// The time from the call to the first message; beyond it the stream fails (`DeadlineExceeded`).
    pub initial: Option<Duration>,
    /// The time between two messages; beyond it the stream ends cleanly.
    pub idle: Option<Duration>,
    /// The time from the opening of the stream; beyond it the stream ends cleanly.
    pub lifetime: Option<Duration>,
}

/// Parameters of a subscription.
#[derive(Clone, Copy, Debug)]
pub struct StreamSettings {
    /// Bounds of each stream.
    pub limits: StreamLimits,
    /// Delays between streams. They start over after a stream that yielded a message. If that stream ended cleanly, the first delay
    /// counts from its opening: a stream that was open for longer is followed by another at once.
    pub backoff: Backoff,
    /// Whether a failure with this code is final.
    pub terminal: fn(Code) -> bool,
}

/// An event of a subscription.
#[derive(Clone, Debug, PartialEq)]
pub enum Event<T> {
    /// A stream was opened. Its first messages replace the state of an earlier stream.
    Opened,
    /// A message.
    Item(T),
    /// The stream ended, or could not be opened; another follows. `None`: it ended cleanly, or reached its idle limit
    /// or lifetime.
    Closed(Option<Status>),
    /// The control plane refused for good. No event follows.
    Rejected(Status),
}

/// Keeps a server-streaming call open.
///
/// Waits for: the call and its stream, within the limits; the backoff between streams. Fails as: [`Event::Rejected`],
/// for the codes that are terminal; every other failure is retried for ever. Bounds: one stream, nothing buffered.
pub struct Subscription<T> {
    call: Box<dyn FnMut() -> Call<T> + Send>,
    settings: Arc<StreamSettings>,
    rng: SmallRng,
    failures: u32,
    state: State<T>,
}

enum State<T> {
    Idle,
    Calling {
        call: Call<T>,
        deadline: Option<Deadline>,
    },
    Open {
        stream: BoxStream<'static, Result<T, Status>>,
        since: Instant,
        yielded: bool,
        deadline: Option<Deadline>,
        lifetime: Option<Deadline>,
    },
    Waiting(Deadline),
    Over,
}

type Deadline = Pin<Box<Sleep>>;

impl<T> Subscription<T> {
    /// A subscription that makes its first call when it is first polled.
    pub fn new(
        call: impl FnMut() -> Call<T> + Send + 'static,
        settings: impl Into<Arc<StreamSettings>>,
        rng: SmallRng,
    ) -> Self {
        Self {
            call: Box::new(call),
            settings: settings.into(),
            rng,
            failures: 0,
            state: State::Idle,
        }
    }

    /// The next event. Cancel safe. Pends forever after [`Event::Rejected`].
    pub async fn next(&mut self) -> Event<T> {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    /// The next event, if there is one already.
    ///
    /// Leaves no waker behind, so [`next`](Self::next) must be awaited again afterwards.
    pub fn ready(&mut self) -> Option<Event<T>> {
        match self.poll_event(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(event) => Some(event),
            Poll::Pending => None,
        }
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event<T>> {
        loop {
            match &mut self.state {
                State::Idle => {
                    self.state = State::Calling {
                        call: (self.call)(),
                        deadline: deadline(self.settings.limits.initial),
                    };
                }
                State::Calling { call, deadline } => match call.poll_unpin(cx) {
                    Poll::Ready(Ok(stream)) => {
                        self.state = State::Open {
                            stream,
                            since: Instant::now(),
                            yielded: false,
                            deadline: deadline.take(),
                            lifetime: self::deadline(self.settings.limits.lifetime),
                        };
                        return Poll::Ready(Event::Opened);
                    }
                    Poll::Ready(Err(status)) => return Poll::Ready(self.failed(status)),
                    Poll::Pending if expired(deadline, cx) => {
                        return Poll::Ready(self.failed(no_first_message()));
                    }
                    Poll::Pending => return Poll::Pending,
                },
                State::Open {
                    stream,
                    since,
                    yielded,
                    deadline,
                    lifetime,
                } => {
                    let progress = yielded.then_some(*since);
                    if expired(lifetime, cx) {
                        return Poll::Ready(self.ended(progress));
                    }
                    match stream.poll_next_unpin(cx) {
                        Poll::Ready(Some(Ok(item))) => {
                            *yielded = true;
                            *deadline = self::deadline(self.settings.limits.idle);
                            self.failures = 0;
                            return Poll::Ready(Event::Item(item));
                        }
                        Poll::Ready(Some(Err(status))) => return Poll::Ready(self.failed(status)),
                        Poll::Ready(None) => return Poll::Ready(self.ended(progress)),
                        Poll::Pending if expired(deadline, cx) => {
                            return Poll::Ready(match progress {
                                Some(_) => self.ended(progress),
                                None => self.failed(no_first_message()),
                            });
                        }
                        Poll::Pending => return Poll::Pending,
                    }
                }
                State::Waiting(wait) => match wait.poll_unpin(cx) {
                    Poll::Ready(()) => self.state = State::Idle,
                    Poll::Pending => return Poll::Pending,
                },
                State::Over => return Poll::Pending,
            }
        }
    }

    fn failed(&mut self, status: Status) -> Event<T> {
        if (self.settings.terminal)(status.code) {
            self.state = State::Over;
            return Event::Rejected(status);
        }
        self.wait_from(Instant::now());
        Event::Closed(Some(status))
    }

    /// A clean end. `progress` is the time from which the stream was open, if it yielded a message.
    ///
    /// The control plane ends streams to have them opened again, such as those whose answer a new egress network changes. A wait
    /// after that would delay the change. A stream that ends again at once does not get around the first delay.
    fn ended(&mut self, progress: Option<Instant>) -> Event<T> {
        self.wait_from(progress.unwrap_or_else(Instant::now));
        Event::Closed(None)
    }

    /// Waits for the next delay, counted from `since`.
    fn wait_from(&mut self, since: Instant) {
        let backoff = self.settings.backoff;
        let wait = backoff.delay(self.failures, &mut self.rng).max(MIN_WAIT);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Waiting(Box::pin(sleep_until(since + wait)));
    }
}

impl<T> std::fmt::Debug for Subscription<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subscription")
            .field("settings", &self.settings)
            .field("failures", &self.failures)
            .finish_non_exhaustive()
    }
}

fn deadline(after: Option<Duration>) -> Option<Deadline> {
    // A limit beyond the range of the clock is no limit.
    let at = Instant::now().checked_add(after?)?;
    Some(Box::pin(sleep_until(at)))
}

fn expired(deadline: &mut Option<Deadline>, cx: &mut Context<'_>) -> bool {
    deadline
        .as_mut()
        .is_some_and(|sleep| sleep.poll_unpin(cx).is_ready())
}

fn no_first_message() -> Status {
    Status::new(Code::DeadlineExceeded, "no first message in time")
}

/// Least delay: a backoff may start at 0, but a stream that ends at once must not become a busy loop.
const MIN_WAIT: Duration = Duration::from_millis(10);

#[cfg(test)]
mod tests;
