//! A time limit of a body that has begun.

use super::{BodyError, Now};
use crate::{Error, Reason};
use pin_project_lite::pin_project;
use std::{
    cell::Cell,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// The time limits of a body, with one timer: when the first of them passes, the body ends with an error of that limit's
/// reason.
///
/// - A response ends with trailers for gRPC, with a reset for HTTP/2, and with its connection for HTTP/1. The endpoint is
///   let go at once.
/// - A request's stream or connection ends the same way, and the request fails for that reason.
///
/// It ends a body that waits for its sender, or that goes on without end. One that waits for its receiver is not polled by
/// the codec: it ends when the receiver takes something.
///
/// The timer runs only while something is waited for, and is moved only to an earlier time, or when it has run down.
#[derive(Debug, Default)]
pub struct Deadline(Pin<Box<Timer>>);

pin_project! {
    #[derive(Debug, Default)]
    struct Timer {
        #[pin]
        sleep: Option<Sleep>,
        // The nearest of the limits that pass at a fixed time.
        end: Option<(Instant, Reason)>,
        idle: Option<IdleLimit>,
    }
}

/// The time without a frame after which a body ends.
#[derive(Clone, Debug)]
struct IdleLimit {
    last: LastFrame,
    limit: Duration,
    reason: Reason,
}

/// The time of the last frame of an exchange: of its response, or in either direction.
#[derive(Clone, Debug)]
pub struct LastFrame(FrameTime);

/// `None`: something passed since the clock was read.
#[derive(Clone, Debug)]
enum FrameTime {
    Own(Cell<Option<Instant>>),
    Shared(Rc<Cell<Option<Instant>>>),
}

impl LastFrame {
    /// Of a response alone.
    pub fn of_response() -> Self {
        Self(FrameTime::Own(Cell::default()))
    }

    /// Of both bodies, whose limits have copies.
    pub fn of_both() -> Self {
        Self(FrameTime::Shared(Rc::default()))
    }

    /// Notes that something passed that is no frame, such as the headers of a response.
    pub fn passed(&self) {
        self.cell().set(None);
    }

    fn get(&self, now: &Now) -> Instant {
        let last = self.cell().get().unwrap_or_else(|| now.get());
        self.cell().set(Some(last));
        last
    }

    fn set(&self, now: &Now) {
        self.cell().set(Some(now.get()));
    }

    fn cell(&self) -> &Cell<Option<Instant>> {
        match &self.0 {
            FrameTime::Own(cell) => cell,
            FrameTime::Shared(cell) => cell,
        }
    }
}

impl Deadline {
    /// A limit that passes at `at`.
    pub fn new(at: Instant, reason: Reason) -> Self {
        let mut deadline = Self::default();
        deadline.end_at(at, reason);
        deadline
    }

    /// Adds a limit that passes at `at`.
    pub fn end_at(&mut self, at: Instant, reason: Reason) {
        let end = self.0.as_mut().project().end;
        if end.is_none_or(|(known, _)| at < known) {
            *end = Some((at, reason));
        }
    }

    /// Adds the limit that passes when there was no frame for `limit`.
    pub fn end_idle(&mut self, last: LastFrame, limit: Duration, reason: Reason) {
        let idle = IdleLimit {
            last,
            limit,
            reason,
        };
        *self.0.as_mut().project().idle = Some(idle);
    }

    /// The same limits, for another attempt to send a request.
    pub(super) fn another(&self) -> Self {
        Self(Box::pin(Timer {
            sleep: None,
            end: self.0.end,
            idle: self.0.idle.clone(),
        }))
    }

    /// These limits and others.
    pub(super) fn and(mut self, others: Option<Self>) -> Self {
        let Some(mut others) = others else {
            return self;
        };
        let others = others.0.as_mut().project();
        if let Some((at, reason)) = *others.end {
            self.end_at(at, reason);
        }
        let idle = self.0.as_mut().project().idle;
        *idle = idle.take().or_else(|| others.idle.take());
        self
    }

    /// Ready at a time before the body, which is `at` or, if the timer runs already, that of the call which started it.
    pub fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut sleep = self.0.as_mut().project().sleep;
        match sleep.as_mut().as_pin_mut() {
            None => sleep.set(Some(sleep_until(at))),
            Some(sleep) if sleep.is_elapsed() && sleep.deadline() != at => sleep.reset(at),
            Some(_) => {}
        }
        let sleep = sleep.as_pin_mut().expect("it was set");
        sleep.poll(cx)
    }

    /// Takes note of a frame or the end of the body. The body's error if a limit had passed before it.
    pub(super) fn pass(&mut self, now: &Now) -> Option<BodyError> {
        let timer = self.0.as_mut().project();
        let passed = match nearest(timer.end, timer.idle, now) {
            Some((at, reason)) if at <= now.get() => Some(Error::new(reason).into()),
            _ => None,
        };
        if let Some(idle) = timer.idle {
            idle.last.set(now);
        }
        passed
    }

    /// Waits for the first of the limits while nothing comes. Ready with the body's error as soon as it has passed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: &Now) -> Poll<BodyError> {
        let mut timer = self.0.as_mut().project();
        while let Some((at, reason)) = nearest(timer.end, timer.idle, now) {
            match timer.sleep.as_mut().as_pin_mut() {
                None => timer.sleep.set(Some(sleep_until(at))),
                Some(sleep) if sleep.is_elapsed() && at <= Instant::now() => {
                    return Poll::Ready(Error::new(reason).into());
                }
                Some(sleep) if sleep.is_elapsed() || at < sleep.deadline() => sleep.reset(at),
                Some(sleep) => ready!(sleep.poll(cx)),
            }
        }
        Poll::Pending
    }
}

/// The first limit that passes, if there is one.
fn nearest(
    end: &Option<(Instant, Reason)>,
    idle: &Option<IdleLimit>,
    now: &Now,
) -> Option<(Instant, Reason)> {
    let idle = idle.as_ref();
    let idle = idle.map(|idle| (idle.last.get(now) + idle.limit, idle.reason));
    match (*end, idle) {
        (Some(end), Some(idle)) if idle.0 < end.0 => Some(idle),
        (end, idle) => end.or(idle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio_test::{assert_pending, assert_ready, task::spawn};

    const SEC: Duration = Duration::from_secs(1);
    const END: Reason = Reason::RequestTimeout;
    const IDLE: Reason = Reason::IdleTimeout;

    /// The reason and the time of the end of a body for which nothing more comes.
    async fn ends(mut deadline: Deadline) -> (Reason, Duration) {
        let start = Instant::now();
        let error = std::future::poll_fn(|cx| deadline.poll(cx, &Now::default())).await;
        (error.reason(), start.elapsed())
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_limit_ends_a_body_and_its_timer_is_moved_to_it() {
        for (end, idle, expected) in [(3, 2, (IDLE, 2)), (2, 3, (END, 2)), (2, 2, (END, 2))] {
            let mut deadline = Deadline::new(Instant::now() + end * SEC, END);
            deadline.end_idle(LastFrame::of_response(), idle * SEC, IDLE);
            // As it ran for the headers of the response.
            let mut headers = spawn(());
            let at = Instant::now() + end * SEC;
            assert_pending!(headers.enter(|cx, _| deadline.poll_at(at, cx)));
            assert_eq!(ends(deadline).await, (expected.0, expected.1 * SEC));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn frames_of_both_directions_put_the_idle_limit_off_and_a_late_one_does_not() {
        let last = LastFrame::of_both();
        let mut request = Deadline::default();
        request.end_idle(last.clone(), 2 * SEC, IDLE);
        let mut response = Deadline::default();
        response.end_idle(last, 2 * SEC, IDLE);
        let mut waits = spawn(());
        assert_pending!(waits.enter(|cx, _| response.poll(cx, &Now::default())));
        tokio::time::advance(SEC).await;
        assert!(request.pass(&Now::default()).is_none());
        tokio::time::advance(SEC).await;
        assert!(waits.is_woken());
        assert_pending!(waits.enter(|cx, _| response.poll(cx, &Now::default())));
        tokio::time::advance(SEC).await;
        let error = assert_ready!(waits.enter(|cx, _| response.poll(cx, &Now::default())));
        assert_eq!(error.reason(), IDLE);
        assert_eq!(request.pass(&Now::default()).unwrap().reason(), IDLE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_goes_on_without_a_pause_ends_and_the_wait_before_it_is_no_pause() {
        let mut deadline = Deadline::new(Instant::now() + 3 * SEC, END);
        let last = LastFrame::of_response();
        deadline.end_idle(last.clone(), SEC, IDLE);
        tokio::time::advance(2 * SEC).await;
        assert!(deadline.pass(&Now::default()).is_none(), "the first frame");
        tokio::time::advance(SEC - Duration::from_millis(1)).await;
        assert!(deadline.pass(&Now::default()).is_none());
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(deadline.pass(&Now::default()).unwrap().reason(), END);
    }
}
