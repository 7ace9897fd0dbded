//! Options of accepted and dialled sockets.

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;

/// TCP options in addition to TCP_NODELAY and SO_KEEPALIVE, which are always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_KEEPIDLE and TCP_KEEPINTVL: silence before the kernel probes the connection, and between two probes. The
    /// connection ends when three probes are not answered, or at the user timeout if that comes first. `None` leaves the
    /// system's defaults, which send the first probe after hours.
    pub keepalive: Option<Duration>,
    /// TCP_USER_TIMEOUT: limit of unacknowledged data before the kernel closes the connection.
    pub user_timeout: Option<Duration>,
}

impl SocketOptions {
    /// Sets the options; on a listening socket, for the connections that it accepts. A socket that refuses an option is still
    /// usable, so a failure is only logged.
    pub fn apply<'a>(&self, socket: impl Into<SockRef<'a>>) {
        let socket = socket.into();
        if let Err(error) = socket.set_tcp_nodelay(true) {
            tracing::warn!(%error, "failed to set nodelay");
        }
        let probes = |silence| {
            TcpKeepalive::new()
                .with_time(silence)
                .with_interval(silence)
                .with_retries(PROBES)
        };
        let keepalive = match self.keepalive {
            Some(silence) => socket.set_tcp_keepalive(&probes(silence)),
            None => socket.set_keepalive(true),
        };
        if let Err(error) = keepalive {
            tracing::warn!(%error, "failed to set keepalive");
        }
        if self.user_timeout.is_some()
            && let Err(error) = socket.set_tcp_user_timeout(self.user_timeout)
        {
            tracing::warn!(%error, "failed to set user timeout");
        }
    }
}

/// Probes without an answer before the connection ends.
const PROBES: u32 = 3;
