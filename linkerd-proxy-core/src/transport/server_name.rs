//! The server name that a TLS client asks for (SNI; RFC 6066, section 3), without an end of TLS here.

use crate::{Error, Reason, drain};
use bytes::{Bytes, BytesMut};
use rustls::server::Acceptor;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads until a client's first message is whole, for `timeout` or until drain at most. Returns the server name, in lower
/// case, and the bytes that were read. Not cancel safe: bytes that were read are lost.
///
/// Fails as `NoServerName`, `ClosedBeforeDetection`.
pub async fn read_server_name(
    io: &mut (impl AsyncRead + Unpin),
    timeout: Duration,
    drain: &mut drain::Watch,
) -> Result<(String, Bytes), Error> {
    let mut read = BytesMut::with_capacity(CAPACITY);
    let named = async {
        let mut hello = ClientHello::default();
        loop {
            let before = read.len();
            let count = io
                .read_buf(&mut read)
                .await
                .map_err(|error| Error::new(Reason::ClosedBeforeDetection).source(error))?;
            if read.is_empty() {
                return Err(Error::new(Reason::ClosedBeforeDetection));
            }
            if let Some(name) = hello.read(&read[before..])? {
                return Ok(name);
            }
            if count == 0 || read.len() >= MAX {
                return Err(no_name("the client's first message is not whole"));
            }
        }
    };
    let name = tokio::select! {
        biased;
        name = tokio::time::timeout(timeout, named) => match name {
            Ok(name) => name?,
            Err(_) => return Err(no_name(&format!("SNI detection timed out after {timeout:?}"))),
        },
        () = drain.signaled() => {
            let detail = "the listener is draining";
            return Err(Error::new(Reason::ClosedBeforeDetection).detail(detail));
        }
    };
    Ok((name, read.freeze()))
}

/// The first message of a TLS client, as it comes.
#[derive(Default)]
struct ClientHello(Acceptor);

impl ClientHello {
    /// Reads its next bytes. `None`: it is not whole.
    fn read(&mut self, mut bytes: &[u8]) -> Result<Option<String>, Error> {
        while !bytes.is_empty() {
            let taken = self.0.read_tls(&mut bytes);
            let taken = taken.map_err(|error| no_name(&error.to_string()))?;
            match self.0.accept() {
                Ok(None) if taken == 0 => break,
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    let hello = accepted.client_hello();
                    let name = hello.server_name();
                    let name = name.ok_or_else(|| no_name("the client names no server"))?;
                    return Ok(Some(name.to_ascii_lowercase()));
                }
                Err((error, _)) => return Err(no_name(&error.to_string())),
            }
        }
        Ok(None)
    }
}

fn no_name(problem: &str) -> Error {
    Error::new(Reason::NoServerName).detail(format!("could not find SNI: {problem}"))
}

/// Room for the first message of most clients.
const CAPACITY: usize = 1024;

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

    /// Reads what a client writes piece by piece.
    async fn read(pieces: &[&[u8]], is_open: bool) -> Result<(String, Bytes), Error> {
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
            read = read_server_name(&mut server, Duration::from_secs(10), &mut drain) => read,
            () = writes => unreachable!(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_read_however_it_is_cut_and_the_bytes_stay() {
        let hello = named("Web.Example");
        for cut in 0..hello.len() {
            let (first, rest) = hello.split_at(cut);
            let (name, read) = read(&[first, rest, b"more"], true).await.unwrap();
            assert_eq!(name, "web.example");
            assert!(read.starts_with(&hello));
        }
        let bytewise: Vec<_> = hello.chunks(1).collect();
        assert_eq!(read(&bytewise, true).await.unwrap().0, "web.example");
    }

    #[tokio::test(start_paused = true)]
    async fn without_a_name_the_error_says_what_came_instead() {
        let hello = named("web.example");
        let unnamed = client_hello(&[signatures()]);
        for (bytes, is_open, expected) in [
            (&unnamed[..], true, "names no server"),
            (b"GET / HTTP/1.1\r\n\r\n", true, "corrupt message"),
            (&hello[..20], false, "not whole"),
            (&hello[..20], true, "timed out after 10s"),
        ] {
            let error = read(&[bytes], is_open).await.unwrap_err();
            assert_eq!(error.reason(), Reason::NoServerName, "{expected}");
            assert!(error.to_string().contains(expected), "{error}");
        }
        let error = read(&[], false).await.unwrap_err();
        assert_eq!(error.reason(), Reason::ClosedBeforeDetection);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes: Vec<u8>, at in 0usize..100, cut in 0usize..200) {
            let mut hello = named("web.example");
            let at = at.min(hello.len());
            let end = hello.len().min(at + bytes.len());
            hello.splice(at..end, bytes);
            let (first, rest) = hello.split_at(cut.min(hello.len()));
            let mut reader = ClientHello::default();
            if let Ok(None) = reader.read(first) {
                let _ = reader.read(rest);
            }
        }
    }
}
