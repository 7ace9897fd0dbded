//! Detects connections without a request for a while.

use super::server::Connection;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;

/// Checks a connection now and then, so that a request costs no timer: an idle connection is noticed between one and two
/// times `every` after its last request.
pub struct IdleTimer {
    every: Duration,
    /// Runs while the connection was idle at the last check.
    sleep: Option<Pin<Box<Sleep>>>,
    /// The number of requests at the last check.
    seen: u32,
}

impl IdleTimer {
    /// A timer that runs as soon as the connection is idle.
    pub fn new(every: Duration) -> Self {
        Self {
            every,
            sleep: None,
            seen: 0,
        }
    }

    /// Ready when the connection is idle, and there was no request since the last check. Each call must come from the same
    /// task.
    pub fn poll(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.sleep {
                None if !connection.is_idle() => return Poll::Pending,
                None => {
                    self.seen = connection.requests();
                    let sleep = self.sleep.insert(Box::pin(tokio::time::sleep(self.every)));
                    ready!(sleep.as_mut().poll(cx));
                }
                // Polled once, to register the waker.
                Some(sleep) if !sleep.is_elapsed() => return Poll::Pending,
                Some(_) => {
                    self.sleep = None;
                    if connection.is_idle() && connection.requests() == self.seen {
                        return Poll::Ready(());
                    }
                }
            }
        }
    }
}
