//! Options of accepted and dialled sockets.

use socket2::{SockRef, TcpKeepalive};
use std::time::Duration;
use tokio::net::TcpStream;

/// TCP options beside TCP_NODELAY and SO_KEEPALIVE, which are always on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// TCP_KEEPIDLE: silence before the kernel probes the connection. `None` leaves the system's default.
    pub keepalive: Option<Duration>,
    /// TCP_USER_TIMEOUT: limit of unacknowledged data before the kernel closes the connection.
    pub user_timeout: Option<Duration>,
}

impl SocketOptions {
    /// Sets the options. A socket that refuses one is still usable, so a failure is only logged.
    pub fn apply(&self, stream: &TcpStream) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::warn!(%error, "failed to set nodelay");
        }
        let socket = SockRef::from(stream);
        let keepalive = match self.keepalive {
            Some(idle) => socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(idle)),
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
