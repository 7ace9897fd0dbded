//! Closing a connection while its client may still send (RFC 9112, section 9.6).

use crate::transport::Io;
use std::{
    future::poll_fn,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf};

/// Closes a client's connection so that it receives all that was written.
///
/// A system that has something unread when a socket is closed, or gets something for it later, answers with an RST. That
/// overtakes what was written before, and discards what was not sent yet: 220 KB of a response were lost to a client that
/// had sent more requests than were answered. Libraries of HTTP/2 give up what they have received and not looked at when
/// they cannot write: answers to other streams of a connection that ended with a failure were lost so. So the proxy ends
/// its own side, and closes the socket when the client has ended the other, or after [`TIMEOUT`].
pub(super) async fn close<I>(mut io: Io<I>)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let ended = tokio::time::timeout(TIMEOUT, async {
        io.shutdown().await?;
        let mut dropped = 0;
        while dropped < MAX_DROPPED {
            match poll_fn(|cx| poll_drop(&mut io, cx)).await? {
                0 => return Ok(()),
                count => dropped += count,
            }
        }
        // What else comes has to wait in the system, and so has the client.
        std::future::pending().await
    });
    if let Ok(Err(error)) = ended.await {
        let error: std::io::Error = error;
        tracing::debug!(%error, "a client was gone before its connection was closed");
    }
}

/// Reads and drops some bytes; 0 at the end. They need no place beyond the call.
fn poll_drop<I>(io: &mut Io<I>, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>>
where
    I: AsyncRead + Unpin,
{
    let mut bytes = [MaybeUninit::uninit(); 4 * 1024];
    let mut buf = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(io).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// How long a client may take to receive the rest, and to close: long enough for networks, short enough for a shutdown.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The most that is read from a client whose requests are not served any more.
const MAX_DROPPED: usize = 64 * 1024;
