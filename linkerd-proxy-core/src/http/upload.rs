//! The client's side of a request's body.

use super::{BodyError, Uploading};
use crate::{Error, Reason};
use std::cell::{Cell, OnceCell};
use tokio::time::Instant;

/// The client's side of a request's body: shared by all attempts to send it, and by the response.
#[derive(Debug)]
pub struct Upload {
    /// Keeps the client's connection from counting as waiting for a request.
    _busy: Option<Uploading>,
    /// The failure of the request that the body's error causes.
    broken: OnceCell<(Reason, String)>,
    ended: Cell<Option<Instant>>,
}

impl Upload {
    /// A body that is being read.
    pub fn new(busy: Option<Uploading>) -> Self {
        Self {
            _busy: busy,
            broken: OnceCell::new(),
            ended: Cell::new(None),
        }
    }

    /// The failure of a request whose body broke off: the client's, whatever happened at the endpoint.
    pub fn failure(&self) -> Option<Error> {
        let (reason, detail) = self.broken.get()?;
        Some(Error::new(*reason).detail(detail.clone()))
    }

    /// Whether the body broke off.
    pub fn is_broken(&self) -> bool {
        self.broken.get().is_some()
    }

    /// Notes the error that ended the body; the first error of several attempts counts.
    pub(super) fn broke_off(&self, error: &BodyError) {
        self.broken.get_or_init(|| error.request_failure());
    }

    /// Notes that an attempt has sent all of the body.
    pub(super) fn end(&self, now: Instant) {
        self.ended.set(Some(now));
    }

    /// Notes that another attempt begins to send the body.
    pub fn begin_again(&self) {
        self.ended.set(None);
    }

    /// The time at which the last attempt had sent all of the body.
    pub fn ended(&self) -> Option<Instant> {
        self.ended.get()
    }
}
