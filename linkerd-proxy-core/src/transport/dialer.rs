//! The dialer of one side of the proxy.

use super::{
    DialGuard, OwnConnection, OwnConnections, Side, Socket, SocketOptions, TransportStream,
    address::reached, unanswered::dial_again,
};
use crate::{Error, Reason};
use futures::future::BoxFuture;
use rustix::io::Errno;
use socket2::{Domain, Protocol, Type};
use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};
use tokio::net::TcpStream;

/// Options of dialling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectOptions {
    /// Limit of a connection attempt.
    pub timeout: Duration,
    /// Options of the socket.
    pub socket: SocketOptions,
}

/// Dials for one side of the proxy.
///
/// - **Waits for** the connect timeout at most. An unanswered attempt is repeated in parallel, twice at most.
/// - **Fails as** `Prohibited` and `Loop` by its guard; `ConnectRefused`, `ConnectTimeout`, `ConnectFailed`,
///   `DescriptorLimit`. Nothing was sent in any of these cases.
#[derive(Debug)]
pub struct Dialer {
    /// The side that dials.
    pub side: Side,
    /// Options of its connections.
    pub options: ConnectOptions,
    /// Addresses that must not be dialled.
    pub guard: DialGuard,
    /// Open connections that the proxy has dialled.
    pub own: OwnConnections,
    /// The network to dial in.
    pub network: Network,
}

/// The network that a [`Dialer`] uses.
#[derive(Clone, Debug, Default)]
pub enum Network {
    /// The system's: TCP.
    #[default]
    System,
    /// A network within the process.
    InProcess(Arc<dyn OpenStream>),
}

/// A network within the process.
pub trait OpenStream: Send + Sync + fmt::Debug {
    /// Opens a stream to the peer that listens at `addr`. Fails like a TCP connection.
    fn open(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<TransportStream>>;
}

impl Dialer {
    /// Dials `addr`. Cancel safe.
    pub async fn connect(&self, addr: SocketAddr) -> Result<TransportStream, Error> {
        self.guard.check(addr)?;
        let stream = match &self.network {
            Network::System => {
                let dial = dial_again(self.pause(), || self.dial(addr));
                let (stream, own) = self.in_time(addr, dial).await?;
                self.check_connected(addr, &stream)?;
                self.options.socket.apply(&stream);
                Socket::dialled(stream, own).into()
            }
            Network::InProcess(network) => self.in_time(addr, network.open(addr)).await?,
        };
        tracing::debug!(peer = %addr, "connected");
        Ok(stream)
    }

    /// Waits for an attempt, for the connect timeout at most.
    async fn in_time<T>(
        &self,
        addr: SocketAddr,
        attempt: impl Future<Output = io::Result<T>>,
    ) -> Result<T, Error> {
        let timeout = self.options.timeout;
        match tokio::time::timeout(timeout, attempt).await {
            Ok(connected) => connected.map_err(|error| connect_error(addr, error)),
            Err(_) => {
                let detail = format!("connect timed out after {timeout:?}");
                Err(Error::new(Reason::ConnectTimeout).peer(addr).detail(detail))
            }
        }
    }

    /// The time without an answer after which another attempt is made in parallel.
    fn pause(&self) -> Duration {
        MOST_PAUSE.min(self.options.timeout / 3)
    }

    async fn dial(&self, addr: SocketAddr) -> io::Result<(TcpStream, OwnConnection)> {
        let addr = reached(addr);
        let kind = Type::STREAM.nonblocking().cloexec();
        let socket = socket2::Socket::new(Domain::for_address(addr), kind, Some(Protocol::TCP))?;
        let own = self.own.dial(self.side, addr, || {
            match socket.connect(&addr.into()) {
                Ok(()) => {}
                Err(error) if error.raw_os_error() == Some(libc::EINPROGRESS) => {}
                Err(error) => return Err(error),
            }
            let local = socket.local_addr()?.as_socket();
            local.ok_or_else(|| io::ErrorKind::AddrNotAvailable.into())
        })?;
        let stream = TcpStream::from_std(socket.into())?;
        stream.writable().await?;
        match stream.take_error()? {
            None => Ok((stream, own)),
            Some(error) => Err(error),
        }
    }

    /// Checks the two ends of an established connection.
    fn check_connected(&self, addr: SocketAddr, stream: &TcpStream) -> Result<(), Error> {
        let ends = (stream.local_addr(), stream.peer_addr());
        let (local, peer) = match ends {
            (Ok(local), Ok(peer)) => (local, peer),
            (Err(error), _) | (_, Err(error)) => return Err(connect_error(addr, error)),
        };
        if local == peer {
            // There is no listener: the system chose the dialled port for this end, and connected the socket to itself.
            let refused = io::ErrorKind::ConnectionRefused.into();
            return Err(connect_error(addr, refused));
        }
        self.guard.check_connected(local, peer)
    }
}

/// Longer than the round trip to another region; RFC 8305, section 8, has a similar figure.
const MOST_PAUSE: Duration = Duration::from_millis(300);

/// Classifies the system's answer to a connection attempt.
fn connect_error(addr: SocketAddr, error: io::Error) -> Error {
    let reason = match error.kind() {
        _ if is_descriptor_limit(&error) => Reason::DescriptorLimit,
        io::ErrorKind::ConnectionRefused => Reason::ConnectRefused,
        io::ErrorKind::TimedOut => Reason::ConnectTimeout,
        _ => Reason::ConnectFailed,
    };
    Error::new(reason)
        .peer(addr)
        .detail(error.to_string())
        .source(error)
}

/// Whether file descriptors have run out, of the process or of the system.
pub fn is_descriptor_limit(error: &io::Error) -> bool {
    let errno = error.raw_os_error().map(Errno::from_raw_os_error);
    matches!(errno, Some(Errno::MFILE | Errno::NFILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dialer(allow_loopback: bool, listeners: &[SocketAddr]) -> Dialer {
        Dialer {
            side: Side::Outbound,
            options: ConnectOptions {
                timeout: Duration::from_secs(1),
                socket: SocketOptions::default(),
            },
            guard: DialGuard {
                allow_loopback,
                listeners: listeners.iter().copied().collect(),
                admin: None,
                local_ips: [].into(),
            },
            own: OwnConnections::default(),
            network: Network::System,
        }
    }

    #[tokio::test]
    async fn a_refused_connection_says_so() {
        let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = socket.local_addr().unwrap();
        drop(socket);
        let error = dialer(true, &[]).connect(addr).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ConnectRefused);
        assert_eq!(error.to_string(), "Connection refused (os error 111)");
        assert_eq!(error.peer_addr(), Some(addr));
    }

    /// Refuses connections to port 1, and leaves all others unanswered.
    #[derive(Debug)]
    struct Unreachable;

    impl OpenStream for Unreachable {
        fn open(&self, addr: SocketAddr) -> BoxFuture<'_, io::Result<TransportStream>> {
            Box::pin(async move {
                match addr.port() {
                    1 => Err(io::ErrorKind::ConnectionRefused.into()),
                    _ => std::future::pending().await,
                }
            })
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_within_the_process_fails_as_tcp_does() {
        let dialer = Dialer {
            network: Network::InProcess(Arc::new(Unreachable)),
            ..dialer(false, &[])
        };
        let fails = async |addr: &str| {
            let error = dialer.connect(addr.parse().unwrap()).await.unwrap_err();
            error.reason()
        };
        assert_eq!(fails("10.0.0.1:1").await, Reason::ConnectRefused);
        assert_eq!(fails("127.0.0.1:1").await, Reason::Prohibited);
        let start = tokio::time::Instant::now();
        assert_eq!(fails("10.0.0.1:2").await, Reason::ConnectTimeout);
        assert_eq!(start.elapsed(), dialer.options.timeout);
    }

    #[tokio::test]
    async fn a_connection_is_known_by_its_other_end_until_it_is_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let dialer = dialer(true, &[]);
        // The unspecified address is loopback.
        let dialled = ([0, 0, 0, 0], addr.port()).into();
        let socket = dialer.connect(dialled).await.unwrap();
        let (_accepted, client) = listener.accept().await.unwrap();
        let check = || dialer.own.check_accepted(Side::Outbound, client, addr);
        assert_eq!(check().unwrap_err().reason(), Reason::Loop);
        drop(socket);
        assert!(check().is_ok());
    }

    #[tokio::test]
    async fn names_that_resolve_to_forbidden_addresses_are_not_dialled() {
        let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
        let own = listener.local_addr().unwrap();
        for (allowed, expected) in [(true, Reason::Loop), (false, Reason::Prohibited)] {
            let dialer = dialer(allowed, &[own]);
            for addr in tokio::net::lookup_host(("localhost", own.port()))
                .await
                .unwrap()
            {
                let error = dialer.connect(addr).await.unwrap_err();
                assert_eq!(error.reason(), expected, "{addr}");
            }
        }
    }

    #[test]
    fn running_out_of_descriptors_is_a_reason_of_its_own() {
        let addr = ([10, 0, 0, 1], 80).into();
        for errno in [libc::EMFILE, libc::ENFILE] {
            let error = connect_error(addr, io::Error::from_raw_os_error(errno));
            assert_eq!(error.reason(), Reason::DescriptorLimit);
        }
    }
}
