//! The failure of a call to the control plane, in gRPC's terms but without its library.

use serde::Serialize;

/// The failed end of a call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[error("{code:?}: {message}")]
pub struct Status {
    /// The kind of failure.
    pub code: Code,
    /// The message of the peer, or of the client on its behalf.
    pub message: String,
    /// Whether the connection ended, and the stream with it: a controller that is replaced, not one that answers wrongly.
    #[serde(skip)]
    pub is_connection_end: bool,
}

/// The status codes of gRPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[allow(missing_docs)]
pub enum Code {
    Ok,
    Cancelled,
    Unknown,
    InvalidArgument,
    DeadlineExceeded,
    NotFound,
    AlreadyExists,
    PermissionDenied,
    ResourceExhausted,
    FailedPrecondition,
    Aborted,
    OutOfRange,
    Unimplemented,
    Internal,
    Unavailable,
    DataLoss,
    Unauthenticated,
}

impl Status {
    /// A status with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self {
            code,
            message: message.into(),
            is_connection_end: false,
        }
    }

    /// The end of an open stream with its connection.
    pub fn connection_end(message: impl Into<String>) -> Self {
        Self {
            is_connection_end: true,
            ..Self::new(Code::Unavailable, message)
        }
    }
}

impl From<i32> for Code {
    /// Numbers that gRPC does not define are `Unknown`.
    fn from(code: i32) -> Self {
        match code {
            0 => Self::Ok,
            1 => Self::Cancelled,
            3 => Self::InvalidArgument,
            4 => Self::DeadlineExceeded,
            5 => Self::NotFound,
            6 => Self::AlreadyExists,
            7 => Self::PermissionDenied,
            8 => Self::ResourceExhausted,
            9 => Self::FailedPrecondition,
            10 => Self::Aborted,
            11 => Self::OutOfRange,
            12 => Self::Unimplemented,
            13 => Self::Internal,
            14 => Self::Unavailable,
            15 => Self::DataLoss,
            16 => Self::Unauthenticated,
            _ => Self::Unknown,
        }
    }
}
