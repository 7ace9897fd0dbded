//! HTTP settings that come from the environment or, for an endpoint, from the control plane.

use super::LocalExec;
use crate::limits;
use hyper::server::conn::http2;
use hyper_util::rt::TokioTimer;
use std::time::Duration;

/// HTTP/2 settings of one side. `None` means the value of `limits.rs`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Http2Settings {
    /// The bytes that a peer may send before it must wait.
    pub flow_control: Option<FlowControl>,
    /// PINGs that find dead connections.
    pub keep_alive: Option<KeepAlive>,
    /// SETTINGS_MAX_CONCURRENT_STREAMS (server). `None`: no limit is advertised.
    pub max_concurrent_streams: Option<u32>,
    /// SETTINGS_MAX_FRAME_SIZE, in bytes.
    pub max_frame_size: Option<u32>,
    /// SETTINGS_MAX_HEADER_LIST_SIZE, in bytes.
    pub max_header_list_size: Option<u32>,
    /// Streams that a peer opened and reset before we saw them (server).
    pub max_pending_accept_reset_streams: Option<usize>,
    /// Streams that we reset and still remember (client).
    pub max_concurrent_reset_streams: Option<usize>,
    /// Bytes buffered for sending, for each stream.
    pub max_send_buf_size: Option<usize>,
}

impl Http2Settings {
    /// The settings in a box, `None` if none is set.
    pub fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }

    /// The sizes of a client's windows: as set, or else the values of `limits.rs`.
    pub(super) fn client_windows(&self) -> FlowControl {
        self.windows(limits::HTTP2_CLIENT_CONNECTION_WINDOW)
    }

    fn windows(&self, connection: u32) -> FlowControl {
        self.flow_control.unwrap_or(FlowControl::Fixed {
            stream: limits::HTTP2_STREAM_WINDOW,
            connection,
        })
    }

    /// A server of connections with these settings.
    pub(super) fn server(&self) -> http2::Builder<LocalExec> {
        let mut builder = http2::Builder::new(LocalExec);
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.max_concurrent_streams)
            .max_header_list_size(
                self.max_header_list_size
                    .unwrap_or(limits::HTTP2_SERVER_HEADER_LIST),
            )
            .max_send_buf_size(
                self.max_send_buf_size
                    .unwrap_or(limits::HTTP2_SERVER_SEND_BUFFER),
            )
            .max_local_error_reset_streams(limits::HTTP2_LOCAL_ERROR_RESET_STREAMS)
            .max_pending_accept_reset_streams(
                self.max_pending_accept_reset_streams
                    .unwrap_or(limits::HTTP2_PENDING_ACCEPT_RESET_STREAMS),
            );
        match self.windows(limits::HTTP2_SERVER_CONNECTION_WINDOW) {
            FlowControl::Adaptive => builder.adaptive_window(true),
            FlowControl::Fixed { stream, connection } => builder
                .initial_stream_window_size(stream)
                .initial_connection_window_size(connection),
        };
        if let Some(keep_alive) = self.keep_alive {
            builder
                .keep_alive_interval(keep_alive.interval)
                .keep_alive_timeout(keep_alive.timeout);
        }
        if let Some(size) = self.max_frame_size {
            builder.max_frame_size(size);
        }
        builder
    }
}

/// The sizes of HTTP/2 windows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FlowControl {
    /// Windows follow the measured bandwidth-delay product.
    Adaptive,
    /// Windows of a fixed number of bytes.
    Fixed {
        /// The window of a stream, in bytes.
        stream: u32,
        /// The window of the connection, in bytes.
        connection: u32,
    },
}

/// HTTP/2 PINGs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeepAlive {
    /// The time between PINGs.
    pub interval: Duration,
    /// The time limit for the answer.
    pub timeout: Duration,
    /// Whether connections without streams are probed too.
    pub while_idle: bool,
}

/// Bounds of an endpoint's pool of idle HTTP/1 connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolSettings {
    /// The most connections kept idle.
    pub max_idle: usize,
    /// The time for which an idle connection is kept.
    pub idle_timeout: Duration,
}

/// Bounds of the queue in front of a balancer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSettings {
    /// The most requests that wait.
    pub capacity: usize,
    /// The time that requests wait with no endpoint ready before the queue fails fast.
    pub failfast: Duration,
}
