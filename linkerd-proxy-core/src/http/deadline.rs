//! Time limits of a body that has begun.

use super::{BodyError, Now};
use crate::{Error, Reason};
use std::{
    cell::{Cell, RefCell},
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::{Instant, Sleep, sleep_until};

/// The time limits of a body, with one timer: when the first limit passes, the body ends with an error of that limit's
/// reason.
///
/// - A response ends with trailers for gRPC, with a reset for HTTP/2, and with its connection for HTTP/1. The endpoint is
///   released at once.
/// - A request's stream or connection ends the same way, and the request fails for that reason.
///
/// Ends a body that waits for its sender, or that goes on without end. A body that waits for its receiver is not polled by
/// the codec: it ends when the receiver takes something.
///
/// The timer runs only while the body waits for a frame, and is moved only to an earlier time, or when it has elapsed.
#[derive(Debug, Default)]
pub struct Deadline(Box<Timer>);

#[derive(Debug, Default)]
struct Timer {
    sleep: Option<Pin<Box<Sleep>>>,
    /// The earliest of the limits with a fixed time.
    end: Option<(Instant, Reason)>,
    idle: Option<IdleLimit>,
    /// A limit that had passed before the body began.
    overdue: Option<Reason>,
    /// Takes the timer when it is no longer needed.
    pool: Option<TimerPool>,
}

/// Timers left by the requests of a route while still running, for later requests. Most have the same limits, so that an early
/// timer is moved once for many requests, and none is put into the runtime's wheel and taken out of it.
#[derive(Clone, Debug, Default)]
pub struct TimerPool(Rc<RefCell<Vec<Pin<Box<Sleep>>>>>);

impl TimerPool {
    /// A deadline without limits, which takes its timer from the pool and returns it.
    pub fn deadline(&self) -> Deadline {
        Deadline(Box::new(Timer {
            sleep: self.0.borrow_mut().pop(),
            end: None,
            idle: None,
            overdue: None,
            pool: Some(self.clone()),
        }))
    }

    /// Keeps a timer. A timer beyond the bound is dropped outside of the borrow: it may own a task.
    fn put(&self, sleep: Pin<Box<Sleep>>) {
        if self.0.borrow().len() < MAX_FREE {
            self.0.borrow_mut().push(sleep);
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        if let (Some(pool), Some(sleep)) = (&self.pool, self.sleep.take()) {
            pool.put(sleep);
        }
    }
}

/// Room for the timers of requests that end before others begin. Each keeps the memory of the task that it would have woken.
const MAX_FREE: usize = 8;

/// The time without a frame after which a body ends.
#[derive(Clone, Debug)]
struct IdleLimit {
    last: LastFrame,
    limit: Duration,
    reason: Reason,
}

/// The time of the last frame of an exchange: of its response only, or in either direction.
#[derive(Clone, Debug)]
pub struct LastFrame(FrameTime);

/// `None`: something has passed, and the clock was not read since.
#[derive(Clone, Debug)]
enum FrameTime {
    Own(Cell<Option<Instant>>),
    Shared(Rc<Cell<Option<Instant>>>),
}

impl LastFrame {
    /// The last frame of a response alone.
    pub fn of_response() -> Self {
        Self(FrameTime::Own(Cell::default()))
    }

    /// The last frame of both bodies of an exchange; the limits of each have a copy.
    pub fn of_both() -> Self {
        Self(FrameTime::Shared(Rc::default()))
    }

    /// Notes the passing of something other than a frame, such as the headers of a response.
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
    /// A deadline with one limit, at `at`.
    pub fn new(at: Instant, reason: Reason) -> Self {
        let mut deadline = Self::default();
        deadline.end_at(at, reason);
        deadline
    }

    /// Adds a limit that passes at `at`.
    pub fn end_at(&mut self, at: Instant, reason: Reason) {
        let end = &mut self.0.end;
        if end.is_none_or(|(known, _)| at < known) {
            *end = Some((at, reason));
        }
    }

    /// Adds a limit that had passed before the body began: frames that are there pass, and the first wait for another one ends
    /// the body.
    pub fn end_at_wait(&mut self, reason: Reason) {
        self.0.overdue = Some(reason);
    }

    /// Adds a limit that passes after `limit` without a frame.
    pub fn end_idle(&mut self, last: LastFrame, limit: Duration, reason: Reason) {
        let idle = IdleLimit {
            last,
            limit,
            reason,
        };
        self.0.idle = Some(idle);
    }

    /// The same limits, for another attempt to send a request.
    pub(super) fn another(&self) -> Self {
        Self(Box::new(Timer {
            sleep: None,
            end: self.0.end,
            idle: self.0.idle.clone(),
            overdue: self.0.overdue,
            pool: self.0.pool.clone(),
        }))
    }

    /// Combines these limits with others.
    pub(super) fn and(mut self, others: Option<Self>) -> Self {
        let Some(mut others) = others else {
            return self;
        };
        if let Some((at, reason)) = others.0.end {
            self.end_at(at, reason);
        }
        let idle = &mut self.0.idle;
        *idle = idle.take().or_else(|| others.0.idle.take());
        let overdue = &mut self.0.overdue;
        *overdue = overdue.or(others.0.overdue);
        self
    }

    /// Waits until `at`, before the body has begun. Ready earlier if the timer already runs to an earlier time.
    pub fn poll_at(&mut self, at: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let sleep = &mut self.0.sleep;
        let sleep = sleep.get_or_insert_with(|| Box::pin(sleep_until(at)));
        let deadline = sleep.deadline();
        if at < deadline || (at != deadline && sleep.is_elapsed()) {
            sleep.as_mut().reset(at);
        }
        sleep.as_mut().poll(cx)
    }

    /// Notes a frame or the end of the body. Returns the body's error if a limit had passed before.
    pub(super) fn pass(&mut self, now: &Now) -> Option<BodyError> {
        let timer = &*self.0;
        let passed = match nearest(&timer.end, &timer.idle, now) {
            Some((at, reason)) if at <= now.get() => Some(Error::new(reason).into()),
            _ => None,
        };
        if let Some(idle) = &timer.idle {
            idle.last.set(now);
        }
        passed
    }

    /// Waits for the first limit while no frame comes. Ready with the body's error as soon as the limit has passed.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, now: &Now) -> Poll<BodyError> {
        let timer = &mut *self.0;
        if let Some(reason) = timer.overdue {
            return Poll::Ready(Error::new(reason).into());
        }
        while let Some((at, reason)) = nearest(&timer.end, &timer.idle, now) {
            match &mut timer.sleep {
                None => timer.sleep = Some(Box::pin(sleep_until(at))),
                Some(sleep) if sleep.is_elapsed() && at <= Instant::now() => {
                    return Poll::Ready(Error::new(reason).into());
                }
                Some(sleep) if sleep.is_elapsed() || at < sleep.deadline() => {
                    sleep.as_mut().reset(at);
                }
                Some(sleep) => ready!(sleep.as_mut().poll(cx)),
            }
        }
        Poll::Pending
    }
}

/// The earliest limit, if there is one.
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

    /// The reason and the time of the end of a body that yields no more frames.
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
            // The timer as it ran for the headers of the response.
            let mut headers = spawn(());
            let at = Instant::now() + end * SEC;
            assert_pending!(headers.enter(|cx, _| deadline.poll_at(at, cx)));
            assert_eq!(ends(deadline).await, (expected.0, expected.1 * SEC));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_limit_that_had_passed_before_lets_frames_pass_and_ends_the_first_wait() {
        let mut deadline = Deadline::new(Instant::now() + 3 * SEC, END);
        deadline.end_at_wait(Reason::ResponseTimeout);
        assert!(deadline.pass(&Now::default()).is_none());
        let ended = ends(deadline).await;
        assert_eq!(ended, (Reason::ResponseTimeout, Duration::ZERO));
    }

    #[tokio::test(start_paused = true)]
    async fn a_timer_that_another_request_has_left_ends_a_body_in_time() {
        let timers = TimerPool::default();
        for (given_up, limit) in [(5, 9), (9, 5), (1, 1), (5, 20)] {
            let mut other = timers.deadline();
            let mut task = spawn(());
            let at = Instant::now() + given_up * SEC;
            assert_pending!(task.enter(|cx, _| other.poll_at(at, cx)));
            drop(other);
            tokio::time::advance(2 * SEC).await;
            let mut deadline = timers.deadline();
            assert_eq!(timers.0.borrow().len(), 0);
            let at = Instant::now() + limit * SEC;
            deadline.end_at(at, END);
            assert_pending!(task.enter(|cx, _| deadline.poll_at(at, cx)));
            assert_eq!(ends(deadline).await, (END, limit * SEC));
            assert_eq!(timers.0.borrow().len(), 1);
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
