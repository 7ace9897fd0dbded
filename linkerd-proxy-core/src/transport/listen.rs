//! Listening sockets, and the original destination of accepted connections.

use super::{ClientInfo, ConnectionGuard, ListenerContext, SocketOptions, TransportStream};
use crate::tls::TlsStatus;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use std::{
    io,
    net::{IpAddr, SocketAddr},
    os::fd::AsFd,
    rc::{Rc, Weak},
};
use tokio::net::{TcpListener, TcpStream};

/// A listening socket of one worker.
#[derive(Debug)]
pub struct Listener {
    inner: Rc<TcpListener>,
    tls: TlsStatus,
    context: Rc<ListenerContext>,
}

/// The socket of a listener, available while the listener accepts connections.
#[derive(Clone, Debug)]
pub struct ListeningSocket(Weak<TcpListener>);

impl ListeningSocket {
    /// Another descriptor of the socket. Fails as `NotConnected` once the listener is dropped.
    pub fn try_clone(&self) -> io::Result<std::net::TcpListener> {
        let open = self.0.upgrade();
        let open = open.ok_or(io::ErrorKind::NotConnected)?;
        Ok(open.as_fd().try_clone_to_owned()?.into())
    }
}

/// An accepted connection.
#[derive(Debug)]
pub struct Accepted {
    /// The connection.
    pub stream: TransportStream,
    /// The client.
    pub client: Rc<ClientInfo>,
    /// Delays the listener's drain.
    pub guard: ConnectionGuard,
}

/// Binds `count` sockets to one address: one for each worker. The kernel spreads connections between them.
///
/// An address in use is an error even if its owner would share it: two proxies on one port would each get half of
/// the connections, without any error.
pub fn bind(
    addr: SocketAddr,
    backlog: Option<u32>,
    count: usize,
) -> io::Result<Vec<std::net::TcpListener>> {
    if count == 1 {
        return Ok(vec![listener(addr, backlog, false)?]);
    }
    // Fails without SO_REUSEPORT if the address is in use, and picks the port if `addr` leaves it open.
    let addr = listener(addr, backlog, false)?.local_addr()?;
    (0..count).map(|_| listener(addr, backlog, true)).collect()
}

fn listener(
    addr: SocketAddr,
    backlog: Option<u32>,
    share: bool,
) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(share)?;
    socket.set_nonblocking(true)?;
    socket.bind(&addr.into())?;
    let backlog = backlog.map_or(DEFAULT_BACKLOG, |n| n.try_into().unwrap_or(i32::MAX));
    socket.listen(backlog)?;
    Ok(socket.into())
}

impl Listener {
    /// Registers a bound socket with the current runtime. Its clients are not encrypted, for the reason in `tls`; they share
    /// `context`. Its connections inherit the `options` of the socket.
    pub fn new(
        socket: std::net::TcpListener,
        options: SocketOptions,
        tls: TlsStatus,
        context: Rc<ListenerContext>,
    ) -> io::Result<Self> {
        options.apply(&socket);
        Ok(Self {
            inner: Rc::new(TcpListener::from_std(socket)?),
            tls,
            context,
        })
    }

    /// The address of the listener.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.inner.local_addr()
    }

    /// The socket, for another listener that is to share it.
    pub fn socket(&self) -> ListeningSocket {
        ListeningSocket(Rc::downgrade(&self.inner))
    }

    /// The context of its connections.
    pub fn context(&self) -> &Rc<ListenerContext> {
        &self.context
    }

    /// The next connection. Cancel safe.
    pub async fn accept(&self) -> io::Result<Accepted> {
        let (stream, client) = self.inner.accept().await?;
        let local = unmapped(stream.local_addr()?);
        let orig_dst = original_dst(&stream).filter(|dst| *dst != local);
        let stream: TransportStream = super::Socket::from(stream).into();
        let guard = self.context.connection();
        guard.resets(&stream);
        Ok(Accepted {
            stream,
            client: Rc::new(ClientInfo {
                addr: unmapped(client),
                local,
                orig_dst,
                tls: self.tls.clone(),
                listener: self.context.clone(),
            }),
            guard,
        })
    }
}

/// The destination of a connection before netfilter redirected it (`SO_ORIGINAL_DST`).
///
/// For an IPv4 connection on a dual-stack socket the IPv4 option is read, as the kernel stores the destination there.
pub fn original_dst(stream: &TcpStream) -> Option<SocketAddr> {
    let socket = SockRef::from(stream);
    let v4 = stream.peer_addr().ok()?.ip().to_canonical().is_ipv4();
    let addr = match v4 {
        true => socket.original_dst_v4(),
        false => socket.original_dst_v6(),
    };
    addr.ok()?.as_socket().map(unmapped)
}

/// An IPv4-mapped IPv6 address as IPv4.
fn unmapped(addr: SocketAddr) -> SocketAddr {
    match addr.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, addr.port()),
        IpAddr::V6(_) => addr,
    }
}

/// The standard library's backlog, and the incumbent's if none is set.
const DEFAULT_BACKLOG: i32 = 128;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, drain, tls::NoTlsReason};

    #[test]
    fn a_port_in_use_is_refused_even_for_sharing() {
        let first = bind(([127, 0, 0, 1], 0).into(), None, 2).unwrap();
        let addr = first[0].local_addr().unwrap();
        assert_eq!(first[1].local_addr().unwrap(), addr);
        for count in [1, 2] {
            let error = bind(addr, None, count).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        }
    }

    #[tokio::test]
    async fn a_direct_connection_has_no_original_destination() {
        let socket = bind("[::]:0".parse().unwrap(), None, 1).unwrap().remove(0);
        let tls = TlsStatus::None(NoTlsReason::Loopback);
        let (_signal, drain) = drain::channel();
        let context = ListenerContext::new(drain);
        let listener = Listener::new(socket, SocketOptions::default(), tls, context).unwrap();
        let port = listener.local_addr().unwrap().port();
        let _client = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let accepted = listener.accept().await.unwrap();
        assert_eq!(listener.context().connections(), 1);
        drop(accepted.guard);
        assert_eq!(listener.context().connections(), 0);
        let accepted = accepted.client;
        assert_eq!(accepted.addr.ip(), IpAddr::from([127, 0, 0, 1]));
        assert_eq!(accepted.orig_dst, None);
        assert_eq!(
            accepted.destination().unwrap_err().reason(),
            Reason::NoDestination
        );
    }
}
