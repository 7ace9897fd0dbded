//! The schedule of reconnects to an endpoint, and the task that makes them.

use crate::{
    Backoff, Error,
    endpoint::{EndpointStatus, Outage},
    limits,
    task::spawn_local,
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::{Cell, RefCell},
    rc::Rc,
};
use tokio::time::{Instant, sleep_until, timeout};

/// Connection attempts to an endpoint after a failed attempt.
///
/// - **Sits** in the client of an endpoint; the balancer sees it in the endpoint's [status](EndpointStatus).
/// - **Bounds**: one attempt at a time while it backs off. While requests wait, attempts are made at least once a second,
///   however long the endpoint was gone, so that recovery never takes a whole long backoff.
#[derive(Debug)]
pub struct Reconnect {
    backoff: Backoff,
    status: EndpointStatus,
    failures: Cell<u32>,
    running: Cell<bool>,
    rng: RefCell<SmallRng>,
}

/// A client that connects to its endpoint in the background.
pub trait Connects: 'static {
    /// The state of the attempts.
    fn reconnect(&self) -> &Reconnect;

    /// Makes one attempt. A successful attempt ends with [`Reconnect::succeeded`] or [`Reconnect::allow`].
    fn attempt(self: &Rc<Self>) -> impl Future<Output = Result<(), Error>>;
}

impl Reconnect {
    /// Attempts to an endpoint that counts as accepting connections until an attempt fails.
    pub fn new(backoff: Backoff, status: EndpointStatus) -> Self {
        Self {
            backoff,
            status,
            failures: Cell::new(0),
            running: Cell::new(false),
            rng: RefCell::new(SmallRng::from_rng(&mut rand::rng())),
        }
    }

    /// The endpoint's status.
    pub fn status(&self) -> &EndpointStatus {
        &self.status
    }

    /// Notes a failed attempt. `true` unless the outage is known: several requests may fail at the same time.
    pub fn failed(&self, error: &Error) -> bool {
        let now = Instant::now();
        let known = self.status.outage();
        if known.is_some_and(|outage| now < outage.until) {
            return false;
        }
        let failures = self.failures.get();
        let delay = self.backoff.delay(failures, &mut *self.rng.borrow_mut());
        self.failures.set(failures + 1);
        self.status.set_outage(Some(Outage {
            until: now + delay,
            failures: failures + 1,
            reason: error.reason(),
            error: error.to_string().into(),
            peer: error.peer_addr(),
            since: now,
        }));
        true
    }

    /// Notes that a connection was made.
    pub fn succeeded(&self) {
        self.failures.set(0);
        self.allow();
    }

    /// Lets the next request make an attempt. The backoff still grows with another failure.
    pub fn allow(&self) {
        self.status.set_outage(None);
        self.status.wake();
    }

    /// Waits until the next attempt is due, or requests wait for the endpoint. Cancel safe.
    pub async fn due(&self) {
        let Some(outage) = self.status.outage() else {
            return;
        };
        tokio::select! {
            () = sleep_until(outage.until) => {}
            () = self.status.demand() => {
                // The attempt is due now: its failure starts another backoff.
                let until = Instant::now();
                self.status.set_outage(Some(Outage { until, ..outage }));
            }
        }
    }
}

/// Makes attempts in a task until one succeeds, unless such a task is running. The task does not keep the client alive.
pub fn reconnect<C: Connects>(client: &Rc<C>) {
    if client.reconnect().running.replace(true) {
        return;
    }
    let client = Rc::downgrade(client);
    spawn_local(async move {
        while let Some(client) = client.upgrade() {
            let reconnect = client.reconnect();
            let due = timeout(limits::PROBE_CHECK, reconnect.due());
            if due.await.is_err() {
                continue;
            }
            match client.attempt().await {
                Ok(()) => {
                    reconnect.running.set(false);
                    return;
                }
                Err(error) => {
                    tracing::debug!(%error, "failed to connect");
                    reconnect.failed(&error);
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, endpoint::Capacity};
    use std::time::Duration;
    use tokio::task::LocalSet;

    fn backing_off() -> Reconnect {
        let (min, max) = (Duration::from_millis(100), Duration::from_secs(60));
        let backoff = Backoff::new(min, max, 0.0).unwrap();
        Reconnect::new(backoff, EndpointStatus::new(Capacity::OnDemand))
    }

    fn fail(reconnect: &Reconnect) -> bool {
        reconnect.failed(&Error::new(Reason::ConnectRefused))
    }

    #[tokio::test(start_paused = true)]
    async fn the_delays_grow_until_a_connection_is_made() {
        let reconnect = backing_off();
        for millis in [100, 200, 400] {
            assert!(fail(&reconnect));
            assert!(!fail(&reconnect), "already known");
            let start = Instant::now();
            reconnect.due().await;
            assert_eq!(start.elapsed(), Duration::from_millis(millis));
            reconnect.allow();
        }
        reconnect.succeeded();
        assert!(!reconnect.status().is_down());
        assert!(fail(&reconnect));
        assert_eq!(reconnect.status().outage().unwrap().failures, 1);
    }

    #[tokio::test(start_paused = true)]
    async fn an_endpoint_that_is_wanted_is_tried_within_a_second() {
        let reconnect = backing_off();
        for _ in 0..10 {
            fail(&reconnect);
            reconnect.due().await;
        }
        fail(&reconnect);
        tokio::time::advance(Duration::from_millis(500)).await;
        reconnect.status().wanted();
        let due = reconnect.due();
        tokio::pin!(due);
        assert!(futures::poll!(&mut due).is_pending());
        tokio::time::advance(Duration::from_millis(500)).await;
        reconnect.status().wanted();
        assert!(futures::poll!(&mut due).is_ready());
        assert!(fail(&reconnect), "the attempt's failure counts");
    }

    /// A client whose third attempt succeeds.
    struct Third(Reconnect, Cell<u32>);

    impl Connects for Third {
        fn reconnect(&self) -> &Reconnect {
            &self.0
        }

        async fn attempt(self: &Rc<Self>) -> Result<(), Error> {
            self.1.set(self.1.get() + 1);
            if self.1.get() < 3 {
                return Err(Reason::ConnectRefused.into());
            }
            self.0.succeeded();
            Ok(())
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_task_tries_until_an_attempt_succeeds() {
        let test = async {
            let client = Rc::new(Third(backing_off(), Cell::new(0)));
            fail(&client.0);
            let start = Instant::now();
            reconnect(&client);
            reconnect(&client);
            client.0.status().up().await;
            assert_eq!((client.1.get(), start.elapsed().as_millis()), (3, 700));
            tokio::task::yield_now().await;
            assert_eq!(Rc::strong_count(&client), 1);
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn the_task_ends_when_its_client_is_gone() {
        let test = async {
            let client = Rc::new(Third(backing_off(), Cell::new(0)));
            let gone = Rc::downgrade(&client);
            fail(&client.0);
            reconnect(&client);
            drop(client);
            tokio::time::sleep(2 * limits::PROBE_CHECK).await;
            assert!(gone.upgrade().is_none());
        };
        LocalSet::new().run_until(test).await;
    }
}
