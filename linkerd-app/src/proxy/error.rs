//! Errors at the start of the proxy.

use crate::{
    control::ControlStartError,
    identity::IdentityStartError,
    listeners::{BindError, ListenerError},
};
use std::io;

/// Errors at the start of the proxy.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A listener cannot be bound.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A worker does not take a listener.
    #[error(transparent)]
    Listener(#[from] ListenerError),
    /// The controllers cannot be resolved.
    #[error(transparent)]
    Control(#[from] ControlStartError),
    /// The proxy cannot have an identity.
    #[error(transparent)]
    Identity(#[from] IdentityStartError),
    /// The output of the access log cannot be opened.
    #[error("{0}")]
    AccessLog(#[source] io::Error),
    /// The output of traces cannot be opened.
    #[error("{0}")]
    Trace(#[source] io::Error),
    /// A thread or its runtime does not start.
    #[error("a thread cannot be started: {0}")]
    Thread(#[from] io::Error),
}
