//! Dialling.

use super::{Socket, SocketOptions};
use crate::{Error, Reason};
use std::{io, net::SocketAddr, time::Duration};
use tokio::net::TcpStream;

/// How addresses are dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// How long a connection attempt may take.
    pub timeout: Duration,
    /// Options of the socket.
    pub socket: SocketOptions,
}

/// Dials `addr`. The error tells why, and that nothing was sent. Cancel safe.
pub async fn connect(addr: SocketAddr, options: &ConnectOptions) -> Result<Socket, Error> {
    match tokio::time::timeout(options.timeout, TcpStream::connect(addr)).await {
        Ok(Ok(stream)) => {
            options.socket.apply(&stream);
            Ok(stream.into())
        }
        Ok(Err(error)) => Err(connect_error(addr, error)),
        Err(_) => Err(Error::new(Reason::ConnectTimeout)
            .peer(addr)
            .detail(format!("connect timed out after {:?}", options.timeout))),
    }
}

/// Classifies the system's answer to a connection attempt.
pub fn connect_error(addr: SocketAddr, error: io::Error) -> Error {
    let reason = match error.kind() {
        io::ErrorKind::ConnectionRefused => Reason::ConnectRefused,
        io::ErrorKind::TimedOut => Reason::ConnectTimeout,
        _ => Reason::ConnectFailed,
    };
    Error::new(reason)
        .peer(addr)
        .detail(error.to_string())
        .source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: ConnectOptions = ConnectOptions {
        timeout: Duration::from_secs(1),
        socket: SocketOptions {
            keepalive: None,
            user_timeout: None,
        },
    };

    #[tokio::test]
    async fn a_refused_connection_says_so() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        drop(socket);
        let error = connect(addr, &OPTIONS).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectRefused);
        assert_eq!(error.to_string(), "Connection refused (os error 111)");
        assert_eq!(error.peer_addr(), Some(addr));
    }
}
