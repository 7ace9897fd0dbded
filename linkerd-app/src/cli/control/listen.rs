//! The listening sockets of the controller.

use rustix::io::Errno;
use std::{
    io,
    net::{Ipv4Addr, SocketAddr},
};
use tokio::net::{TcpListener, TcpSocket};

/// Listens on an address. `[::]` accepts IPv4 as well, whatever the host's default is; on a host without IPv6 it means `0.0.0.0`.
pub(super) fn bind(addr: SocketAddr) -> io::Result<TcpListener> {
    let bound = socket(addr);
    match bound {
        Err(error) if addr.ip().is_unspecified() && addr.is_ipv6() && has_no_ipv6(&error) => {
            tracing::info!("This host has no IPv6: {addr} is 0.0.0.0");
            socket((Ipv4Addr::UNSPECIFIED, addr.port()).into())
        }
        bound => bound,
    }
}

fn socket(addr: SocketAddr) -> io::Result<TcpListener> {
    let socket = match addr {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if addr.is_ipv6() && addr.ip().is_unspecified() {
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
    }
    // A restart must not wait for connections of the last run.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    socket.listen(BACKLOG)
}

/// The family is unknown to the kernel, or switched off by `disable_ipv6`.
fn has_no_ipv6(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(errno, Some(Errno::AFNOSUPPORT | Errno::ADDRNOTAVAIL))
}

/// That of tokio: proxies of a whole mesh may call at once after a restart.
const BACKLOG: u32 = 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpStream;

    #[tokio::test]
    async fn the_unspecified_address_accepts_both_families() {
        let listener = bind("[::]:0".parse().unwrap()).unwrap();
        let port = listener.local_addr().unwrap().port();
        TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        if listener.local_addr().unwrap().is_ipv6() {
            TcpStream::connect(("::1", port)).await.unwrap();
        }
        let taken = bind(([0, 0, 0, 0], port).into()).unwrap_err();
        assert_eq!(taken.kind(), io::ErrorKind::AddrInUse);
    }
}
