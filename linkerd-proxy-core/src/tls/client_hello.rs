//! The first message of a TLS client (ClientHello; RFC 8446, 4.1.2), and the server name in it (SNI; RFC 6066, 3).

use crate::{Error, Reason, drain, limits};
use bytes::{Bytes, BytesMut};
use rustls::server::{Accepted, Acceptor};
use std::{io, time::Duration};
use tokio::io::{AsyncRead, AsyncReadExt};

/// The first bytes of a client, as far as they were read.
#[derive(Debug)]
pub struct FirstBytes {
    /// The bytes.
    pub read: Bytes,
    /// The ClientHello in the bytes, or the reason why there is none.
    pub hello: Result<ClientHello, NoClientHello>,
}

/// The first message of a TLS client that names a server.
pub struct ClientHello {
    /// The name, in lower case.
    pub server_name: String,
    pub(super) accepted: Accepted,
}

/// Why a client's first bytes are not a ClientHello with a server name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoClientHello {
    /// The bytes belong to another protocol.
    #[error("corrupt message: {0}")]
    NotTls(String),
    /// The ClientHello names no server.
    #[error("the client names no server")]
    Unnamed,
    /// The client ended its side, or sent too much.
    #[error("the client's first message is not whole")]
    Incomplete,
    /// The client has paused.
    #[error("SNI detection timed out after {0:?}")]
    TimedOut(Duration),
}

/// Reads until a client's first message is complete, or certain not to be a ClientHello, for at most `timeout` or until drain.
/// Not cancel safe: bytes that were read are lost.
///
/// A message that does not arrive in one piece must be whole soon after its first bytes ([`limits::HELLO_TIMEOUT`]). It calls
/// `begun`, and reading ends with the error of that future if there is one before.
///
/// Fails as `ClosedBeforeDetection`, and as `begun`.
pub async fn read_client_hello<F>(
    io: &mut (impl AsyncRead + Unpin),
    timeout: Duration,
    drain: &mut drain::Watch,
    begun: impl FnOnce() -> F,
) -> Result<FirstBytes, Error>
where
    F: Future<Output = Error>,
{
    let mut read = BytesMut::new();
    let reading = async {
        let mut reader = HelloReader::default();
        let first = tokio::time::timeout(timeout, reader.more(io, &mut read)).await;
        match first {
            Err(_) => return Ok(Err(NoClientHello::TimedOut(timeout))),
            Ok(Ok(Ok(None))) => {}
            Ok(Ok(Ok(Some(hello)))) => return Ok(Ok(hello)),
            Ok(Ok(Err(none))) => return Ok(Err(none)),
            Ok(Err(error)) => return Err(error),
        }
        let rest = timeout.min(limits::HELLO_TIMEOUT);
        tokio::select! {
            biased;
            hello = tokio::time::timeout(rest, reader.rest(io, &mut read)) => {
                hello.unwrap_or(Ok(Err(NoClientHello::TimedOut(rest))))
            }
            error = begun() => Err(error),
        }
    };
    let hello = tokio::select! {
        biased;
        hello = reading => hello?,
        () = drain.signaled() => {
            let detail = "the listener is draining";
            return Err(Error::new(Reason::ClosedBeforeDetection).detail(detail));
        }
    };
    let read = read.freeze();
    Ok(FirstBytes { read, hello })
}

/// Reads a ClientHello incrementally.
#[derive(Default)]
struct HelloReader {
    acceptor: Acceptor,
    has_begun: bool,
}

impl HelloReader {
    /// Reads once; `None`: the message is not complete.
    async fn more(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        read: &mut BytesMut,
    ) -> Result<Result<Option<ClientHello>, NoClientHello>, Error> {
        let before = read.len();
        read.reserve(CAPACITY);
        let count = io.read_buf(read).await.map_err(closed)?;
        if read.is_empty() {
            return Err(Error::new(Reason::ClosedBeforeDetection));
        }
        Ok(match self.read(&read[before..]) {
            Ok(None) if count == 0 || read.len() >= MAX => Err(NoClientHello::Incomplete),
            other => other,
        })
    }

    /// Reads until the message is complete.
    async fn rest(
        &mut self,
        io: &mut (impl AsyncRead + Unpin),
        read: &mut BytesMut,
    ) -> Result<Result<ClientHello, NoClientHello>, Error> {
        loop {
            match self.more(io, read).await? {
                Ok(None) => {}
                Ok(Some(hello)) => return Ok(Ok(hello)),
                Err(none) => return Ok(Err(none)),
            }
        }
    }

    /// Reads the next bytes. `None`: the message is not complete.
    fn read(&mut self, mut bytes: &[u8]) -> Result<Option<ClientHello>, NoClientHello> {
        if !std::mem::replace(&mut self.has_begun, true)
            && let Some(first) = bytes.first().filter(|first| **first != HANDSHAKE)
        {
            let problem = format!("it begins with {first:#04x}, not with a handshake");
            return Err(NoClientHello::NotTls(problem));
        }
        let not_tls = |error: io::Error| NoClientHello::NotTls(error.to_string());
        // All bytes at once: bytes left here would be missing in the handshake.
        while !bytes.is_empty() {
            let taken = self.acceptor.read_tls(&mut bytes).map_err(not_tls)?;
            if taken == 0 {
                return Err(NoClientHello::Incomplete);
            }
        }
        match self.acceptor.accept() {
            Ok(None) => Ok(None),
            Ok(Some(accepted)) => {
                let name = accepted.client_hello();
                let name = name.server_name().map(str::to_ascii_lowercase);
                let server_name = name.ok_or(NoClientHello::Unnamed)?;
                Ok(Some(ClientHello {
                    server_name,
                    accepted,
                }))
            }
            Err((error, _)) => Err(NoClientHello::NotTls(error.to_string())),
        }
    }
}

impl std::fmt::Debug for ClientHello {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ClientHello")
            .field(&self.server_name)
            .finish()
    }
}

fn closed(error: io::Error) -> Error {
    Error::new(Reason::ClosedBeforeDetection).source(error)
}

impl From<NoClientHello> for Error {
    fn from(none: NoClientHello) -> Self {
        Error::new(Reason::NoServerName).detail(format!("could not find SNI: {none}"))
    }
}

/// The type of a record of the handshake (RFC 8446, 5.1).
const HANDSHAKE: u8 = 22;

/// Room for the first message of most clients.
const CAPACITY: usize = 2048;

/// The longest first message that is read.
const MAX: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;

    /// A client's first message with these extensions.
    fn client_hello(extensions: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let prefixed = |body: &[u8]| {
            let length = u16::try_from(body.len()).unwrap().to_be_bytes();
            [&length[..], body].concat()
        };
        let extension =
            |(kind, body): &(u16, Vec<u8>)| [&kind.to_be_bytes()[..], &prefixed(body)].concat();
        let extensions: Vec<u8> = extensions.iter().flat_map(extension).collect();
        let body = [
            &[3, 3][..],
            &[7; 32],
            &[0],
            &prefixed(&[0x13, 0x01]),
            &[1, 0],
            &prefixed(&extensions),
        ]
        .concat();
        let length = u32::try_from(body.len()).unwrap().to_be_bytes();
        let message = [&[1][..], &length[1..], &body].concat();
        [&[22, 3, 1][..], &prefixed(&message)].concat()
    }

    fn named(name: &str) -> Vec<u8> {
        let length = |bytes: usize| u16::try_from(bytes).unwrap().to_be_bytes();
        let list = [&[0][..], &length(name.len()), name.as_bytes()].concat();
        let list = [&length(list.len())[..], &list].concat();
        client_hello(&[(0, list), signatures()])
    }

    fn signatures() -> (u16, Vec<u8>) {
        (13, vec![0, 2, 4, 3])
    }

    /// Reads from a client that writes these pieces one by one.
    async fn read(pieces: &[&[u8]], is_open: bool) -> Result<FirstBytes, Error> {
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        let (_signal, drain) = drain::channel();
        let writes = async {
            for piece in pieces {
                client.write_all(piece).await.unwrap();
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            if is_open {
                std::future::pending::<()>().await;
            }
            drop(client);
            std::future::pending().await
        };
        let mut drain = drain.watch();
        tokio::select! {
            read = read_client_hello(&mut server, Duration::from_secs(10), &mut drain, std::future::pending) => read,
            () = writes => unreachable!(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_read_however_it_is_cut_and_the_bytes_stay() {
        let hello = named("Web.Example");
        for cut in 0..hello.len() {
            let (first, rest) = hello.split_at(cut);
            let first = read(&[first, rest, b"more"], true).await.unwrap();
            assert_eq!(first.hello.unwrap().server_name, "web.example");
            assert!(first.read.starts_with(&hello));
        }
        let bytewise: Vec<_> = hello.chunks(1).collect();
        let first = read(&bytewise, true).await.unwrap();
        assert_eq!(first.hello.unwrap().server_name, "web.example");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_name_the_error_says_what_came_instead() {
        let hello = named("web.example");
        let unnamed = client_hello(&[signatures()]);
        for (bytes, is_open, expected) in [
            (&unnamed[..], true, "names no server"),
            (b"GET / HTTP/1.1\r\n\r\n", true, "corrupt message"),
            (&hello[..20], false, "not whole"),
            (&hello[..20], true, "timed out after 2s"),
        ] {
            let first = read(&[bytes], is_open).await.unwrap();
            assert_eq!(first.read, bytes);
            let error = Error::from(first.hello.unwrap_err());
            assert_eq!(error.reason(), Reason::NoServerName, "{expected}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let error = read(&[], false).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ClosedBeforeDetection);
    }

    #[tokio::test(start_paused = true)]
    async fn a_message_that_has_begun_and_not_ended_is_counted_while_it_is_read() {
        let hello = named("web.example");
        let (_signal, drain) = drain::channel();
        for (bytes, counted) in [
            (&hello[..20], true),
            (&hello[..], false),
            (b"GET /", false),
            (b"", false),
        ] {
            let (mut client, mut server) = tokio::io::duplex(1 << 16);
            client.write_all(bytes).await.unwrap();
            let open = std::rc::Rc::new(());
            let begun = || {
                let held = open.clone();
                async move {
                    let error = std::future::pending().await;
                    drop(held);
                    error
                }
            };
            let mut drain = drain.watch();
            let mut reading = Box::pin(read_client_hello(
                &mut server,
                Duration::from_secs(10),
                &mut drain,
                begun,
            ));
            let _ = futures::poll!(&mut reading);
            assert_eq!(std::rc::Rc::strong_count(&open) == 2, counted, "{bytes:?}");
            drop(reading);
            assert_eq!(std::rc::Rc::strong_count(&open), 1);
        }
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        client.write_all(&hello[..20]).await.unwrap();
        let displaced = || std::future::ready(Error::new(Reason::HandshakeLimit));
        let mut drain = drain.watch();
        let refused =
            read_client_hello(&mut server, Duration::from_secs(10), &mut drain, displaced);
        assert_eq!(refused.await.unwrap_err().reason(), Reason::HandshakeLimit);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at in 0usize..100, cut in 0usize..200) {
            let mut hello = named("web.example");
            let at = at.min(hello.len());
            let end = hello.len().min(at + bytes.len());
            hello.splice(at..end, bytes);
            let (first, rest) = hello.split_at(cut.min(hello.len()));
            let mut reader = HelloReader::default();
            if let Ok(None) = reader.read(first) {
                let _ = reader.read(rest);
            }
        }
    }
}
