//! Addresses without a server.

use socket2::{Domain, SockAddr, Socket, Type};
use std::{
    net::{Ipv4Addr, SocketAddr},
    time::Duration,
};

/// A socket bound to a free loopback port without listening: connections are refused while it lives.
pub fn bound() -> Socket {
    bound_at((Ipv4Addr::LOCALHOST, 0).into())
}

/// A socket bound to an address without listening.
pub fn bound_at(addr: SocketAddr) -> Socket {
    let socket = Socket::new(Domain::for_address(addr), Type::STREAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    socket.bind(&addr.into()).unwrap();
    socket
}

/// The address of a socket.
pub fn addr_of(socket: &Socket) -> SocketAddr {
    socket.local_addr().unwrap().as_socket().unwrap()
}

/// An address that refuses connections while the guard lives.
pub fn refused() -> (SocketAddr, impl Sized) {
    let socket = bound();
    (addr_of(&socket), socket)
}

/// An address that does not answer connection attempts while the guard lives: its accept queue is full.
pub fn blackhole() -> (SocketAddr, impl Sized) {
    let listener = bound();
    listener.listen(0).unwrap();
    let addr = addr_of(&listener);
    let mut guard = vec![listener];
    // The kernel accepts one or two more than the backlog.
    loop {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        let connected = socket.connect_timeout(&SockAddr::from(addr), Duration::from_millis(200));
        guard.push(socket);
        if connected.is_err() {
            return (addr, guard);
        }
        assert!(guard.len() < 16, "the accept queue never fills");
    }
}
