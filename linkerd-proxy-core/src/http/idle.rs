//! Telling when a connection has had no request for a while.

use super::server::Connection;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::time::Sleep;

/// Looks at a connection now and then, so that a request costs no timer: an idle one is noticed between one and two
/// times `every` after its last request.
pub struct IdleTimer {
    every: Duration,
    /// Runs when the connection was idle lately.
    sleep: Option<Pin<Box<Sleep>>>,
    /// How many requests there were at the last look.
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

    /// Ready when the connection is idle, and there was no request since the last look. The task has to be the same
    /// at each call.
    pub fn poll(&mut self, connection: &Connection, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            match &mut self.sleep {
                None if !connection.is_idle() => return Poll::Pending,
                None => {
                    self.seen = connection.requests();
                    let sleep = self.sleep.insert(Box::pin(tokio::time::sleep(self.every)));
                    ready!(sleep.as_mut().poll(cx));
                }
                // It was polled once, to be woken by.
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
