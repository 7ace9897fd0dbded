//! When to dial an endpoint again.

use crate::{Backoff, EndpointState, Error, Reason};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::RefCell,
    rc::Rc,
    task::{Context, Waker},
    time::Duration,
};
use tokio::{sync::Notify, time::Instant};

/// Whether an endpoint accepts connections, and when to try again if it does not.
///
/// - **Sits** in the client of an endpoint; the balancer sees it as readiness.
/// - **Bounds**: one attempt at a time while it backs off; an attempt that is waited for is made at least once a second,
///   however long the endpoint was gone, so that recovery never takes the whole of a long backoff.
#[derive(Debug)]
pub struct Redial {
    backoff: Backoff,
    down: RefCell<Option<Down>>,
    hurry: Notify,
    waker: RefCell<Option<Waker>>,
    up: Notify,
    rng: RefCell<SmallRng>,
}

#[derive(Clone, Debug)]
struct Down {
    failures: u32,
    since: Instant,
    until: Instant,
    /// Whether somebody may try.
    on_trial: bool,
    reason: Reason,
    error: Rc<str>,
}

impl Redial {
    /// An endpoint that is thought to accept connections until one fails.
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            down: RefCell::default(),
            hurry: Notify::new(),
            waker: RefCell::default(),
            up: Notify::new(),
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
        }
    }

    /// Whether the last attempt failed and nobody may try yet.
    pub fn is_down(&self) -> bool {
        self.down
            .borrow()
            .as_ref()
            .is_some_and(|down| !down.on_trial)
    }

    /// The state, if the endpoint is down.
    pub fn state(&self) -> Option<EndpointState> {
        let down = self.down.borrow();
        let down = down.as_ref().filter(|down| !down.on_trial)?;
        Some(EndpointState::BackingOff {
            until: down.until,
            failures: down.failures,
            reason: down.reason,
            error: down.error.clone(),
        })
    }

    /// An attempt failed. Returns whether that is news: several requests may find out at the same time.
    pub fn failed(&self, error: &Error) -> bool {
        let now = Instant::now();
        let mut down = self.down.borrow_mut();
        if down
            .as_ref()
            .is_some_and(|down| now < down.until && !down.on_trial)
        {
            return false;
        }
        let failures = down.as_ref().map_or(0, |down| down.failures);
        let delay = self.backoff.delay(failures, &mut *self.rng.borrow_mut());
        *down = Some(Down {
            failures: failures + 1,
            since: now,
            until: now + delay,
            on_trial: false,
            reason: error.reason(),
            error: error.to_string().into(),
        });
        true
    }

    /// A connection was made.
    pub fn succeeded(&self) {
        *self.down.borrow_mut() = None;
        self.wake();
    }

    /// The wait is over: whoever is next may try. Another failure waits longer.
    pub fn forgive(&self) {
        if let Some(down) = &mut *self.down.borrow_mut() {
            down.on_trial = true;
        }
        self.wake();
    }

    /// Waits until the next attempt is due, or wanted.
    pub async fn due(&self) {
        let down = self.down.borrow().clone();
        if let Some(down) = down {
            tokio::select! {
                () = tokio::time::sleep_until(down.until) => {}
                () = self.hurry.notified() => {
                    // What was due later is due now: a failure of this attempt is news.
                    if let Some(down) = &mut *self.down.borrow_mut() {
                        down.until = Instant::now();
                    }
                }
            }
        }
    }

    /// Somebody waits for the endpoint.
    pub fn wanted(&self) {
        let patient = match &*self.down.borrow() {
            Some(down) => down.since.elapsed() < HURRY || down.until <= Instant::now() + HURRY / 10,
            None => true,
        };
        if !patient {
            self.hurry.notify_one();
        }
    }

    /// Wakes the task when the endpoint is up again. The last one that registers is woken: the balancer's driver.
    pub fn register(&self, cx: &Context<'_>) {
        *self.waker.borrow_mut() = Some(cx.waker().clone());
    }

    /// Waits until the endpoint is up again, or somebody may try. Any number of tasks may wait. Cancel safe.
    pub async fn up(&self) {
        loop {
            let up = self.up.notified();
            if !self.is_down() {
                return;
            }
            up.await;
        }
    }

    /// Wakes who waits for the endpoint.
    pub fn wake(&self) {
        self.up.notify_waiters();
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

/// How often an endpoint that is waited for is tried at least.
const HURRY: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    fn redial() -> Redial {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(60));
        Redial::new(Backoff::new(min, max, 0.0).unwrap())
    }

    fn fail(redial: &Redial) -> bool {
        redial.failed(&Error::new(Reason::ConnectRefused))
    }

    #[tokio::test(start_paused = true)]
    async fn the_delays_grow_until_a_connection_is_made() {
        let redial = redial();
        for millis in [100, 200, 400] {
            assert!(fail(&redial));
            assert!(!fail(&redial), "already known");
            let start = Instant::now();
            redial.due().await;
            assert_eq!(start.elapsed(), Duration::from_millis(millis));
        }
        redial.succeeded();
        assert!(!redial.is_down());
    }

    #[test]
    fn everybody_who_waits_learns_that_the_endpoint_is_up() {
        let redial = redial();
        fail(&redial);
        let mut waiting = [(); 3].map(|()| tokio_test::task::spawn(redial.up()));
        for waits in &mut waiting {
            assert!(waits.poll().is_pending());
        }
        redial.succeeded();
        for waits in &mut waiting {
            assert!(waits.is_woken() && waits.poll().is_ready());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_is_wanted_is_tried_within_a_second() {
        let redial = redial();
        for _ in 0..10 {
            fail(&redial);
            redial.due().await;
        }
        fail(&redial);
        tokio::time::advance(Duration::from_millis(500)).await;
        redial.wanted();
        let due = redial.due();
        tokio::pin!(due);
        assert!(futures::poll!(&mut due).is_pending());
        tokio::time::advance(Duration::from_millis(500)).await;
        redial.wanted();
        assert!(futures::poll!(&mut due).is_ready());
        assert!(fail(&redial), "the attempt's failure counts");
    }
}
