//! Verifies the redirection: a connection to an unreachable address must reach a listener at the proxy's port.

use rand::Rng;
use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

/// A check of the redirection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkCheck {
    /// The address to listen at: the proxy's outbound port.
    pub listen: SocketAddr,
    /// The address to connect to. It has no listener, so that only a redirected connection succeeds.
    pub connect: SocketAddr,
    /// The time to connect, and then to read; not zero.
    pub timeout: Duration,
}

/// A redirection that does not work.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// The port is in use.
    #[error(
        "cannot listen at {addr}: {error}; is the proxy running already? The check has to be made before it starts"
    )]
    Listen {
        /// The address.
        addr: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// The connection failed.
    #[error(
        "connections are not redirected: {connect} cannot be reached ({error}); run `linkerd-proxy init` in this network namespace, or check the CNI plugin"
    )]
    Connect {
        /// The address.
        connect: SocketAddr,
        /// The cause.
        error: io::Error,
    },
    /// Another listener answered.
    #[error(
        "connections are not redirected: {connect} was reached, and it is not this process; run `linkerd-proxy init` in this network namespace, or check the CNI plugin"
    )]
    Other {
        /// The address.
        connect: SocketAddr,
    },
}

/// Makes the check.
pub fn check(check: &NetworkCheck) -> Result<(), CheckError> {
    let NetworkCheck {
        listen,
        connect,
        timeout,
    } = *check;
    let listener = TcpListener::bind(listen);
    let listener = listener.map_err(|error| CheckError::Listen {
        addr: listen,
        error,
    })?;
    let mut token = [0; TOKEN];
    rand::rng().fill_bytes(&mut token);
    // The thread ends with the process: an accept cannot be cancelled.
    thread::spawn(move || {
        for stream in listener.incoming() {
            // A client that leaves early is no failure.
            let _ = stream.and_then(|mut stream| stream.write_all(&token));
        }
    });
    let failed = |error| CheckError::Connect { connect, error };
    let mut stream = TcpStream::connect_timeout(&connect, timeout).map_err(failed)?;
    stream.set_read_timeout(Some(timeout)).map_err(failed)?;
    let mut read = [0; TOKEN];
    match stream.read_exact(&mut read) {
        Ok(()) if read == token => Ok(()),
        _ => Err(CheckError::Other { connect }),
    }
}

const TOKEN: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    fn at(listen: SocketAddr, connect: SocketAddr) -> Result<(), CheckError> {
        check(&NetworkCheck {
            listen,
            connect,
            timeout: Duration::from_secs(10),
        })
    }

    fn free() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    }

    #[test]
    fn a_connection_that_reaches_the_listener_is_redirected() {
        let addr = free();
        at(addr, addr).unwrap();
    }

    #[test]
    fn nobody_and_somebody_else_are_told_apart() {
        let refused = at(free(), free()).unwrap_err();
        assert!(matches!(refused, CheckError::Connect { .. }), "{refused}");
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let connect = other.local_addr().unwrap();
        let answering = thread::spawn(move || {
            let (mut stream, _) = other.accept().unwrap();
            stream.write_all(b"220 ready\r\n").unwrap();
        });
        let error = at(free(), connect).unwrap_err();
        assert!(matches!(error, CheckError::Other { .. }), "{error}");
        answering.join().unwrap();
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let error = at(taken.local_addr().unwrap(), connect).unwrap_err();
        assert!(matches!(error, CheckError::Listen { .. }), "{error}");
    }
}
