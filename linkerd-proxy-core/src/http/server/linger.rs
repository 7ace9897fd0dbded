//! Closing a connection while its client may still send (RFC 9112, section 9.6).

use crate::{drain, transport::Io};
use std::{
    future::poll_fn,
    mem::MaybeUninit,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf},
    time::sleep,
};

/// Closes a client's connection so that the client receives all written bytes.
///
/// If bytes are unread when a socket is closed, or arrive later, the system answers with an RST. It overtakes bytes written
/// before, and discards those not sent yet: a client that had sent more requests than were answered lost 220 KB of a response.
/// HTTP/2 libraries discard frames that they have received and not processed when they cannot write: answers to other
/// streams of a failed connection were lost. So the proxy shuts down its own side, and closes the socket when the client has
/// closed the other side, or after `patience`. A shutdown of the proxy waits for [`SHORT`] at most.
pub(super) async fn close<I>(mut io: Io<I>, patience: Duration, drain: drain::Watch)
where
    I: AsyncRead + AsyncWrite + Unpin,
{
    let ended = async {
        io.shutdown().await?;
        let mut dropped = 0;
        while dropped < MAX_DROPPED {
            match poll_fn(|cx| poll_drop(&mut io, cx)).await? {
                0 => return Ok(()),
                count => dropped += count,
            }
        }
        // Further bytes have to wait in the system, and so has the client.
        std::future::pending().await
    };
    let ended: std::io::Result<()> = tokio::select! {
        ended = ended => ended,
        () = over(patience, drain) => return,
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a client was gone before its connection was closed");
    }
}

/// Reads and drops some bytes; 0 at the end. Their buffer is needed for the call only.
fn poll_drop<I>(io: &mut Io<I>, cx: &mut Context<'_>) -> Poll<std::io::Result<usize>>
where
    I: AsyncRead + Unpin,
{
    let mut bytes = [MaybeUninit::uninit(); 4 * 1024];
    let mut buf = ReadBuf::uninit(&mut bytes);
    ready!(Pin::new(io).poll_read(cx, &mut buf))?;
    Poll::Ready(Ok(buf.filled().len()))
}

/// Waits for `patience`, or for [`SHORT`] after drain was signalled.
async fn over(patience: Duration, mut drain: drain::Watch) {
    let drained = async {
        drain.signaled().await;
        sleep(SHORT).await;
    };
    tokio::select! {
        () = sleep(patience) => {}
        () = drained => {}
    }
}

/// Time for a client to receive a response, and to close. A client that reads more slowly loses the end of the response.
pub(super) const LONG: Duration = Duration::from_secs(10);

/// Time for a client that receives little, or when the proxy shuts down.
pub(super) const SHORT: Duration = Duration::from_secs(1);

/// The most bytes read from a client whose requests are no longer served.
const MAX_DROPPED: usize = 64 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Labels, Registry};
    use crate::transport::TransportMetrics;
    use tokio::{io::AsyncReadExt, time::Instant};

    /// The time until a connection is closed whose client does not close it, with a drain after `drained`.
    async fn closes_after(drained: Duration) -> Duration {
        let (mut client, server) = tokio::io::duplex(64);
        let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
        let (signal, handle) = drain::channel();
        let start = Instant::now();
        let closing = close(Io::new(server, series), LONG, handle.watch());
        let drain = async {
            sleep(drained).await;
            signal.drain().await;
        };
        let client = async {
            assert_eq!(client.read(&mut [0; 1]).await.unwrap(), 0, "told at once");
            assert_eq!(start.elapsed(), Duration::ZERO);
            client
        };
        let (_client, ()) = tokio::select! {
            closed = async { tokio::join!(client, closing) } => closed,
            () = async { drain.await; std::future::pending().await } => unreachable!(),
        };
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_close_is_waited_for_and_not_for_ever() {
        assert_eq!(closes_after(2 * LONG).await, LONG);
    }

    #[tokio::test(start_paused = true)]
    async fn a_shutdown_does_not_wait_as_long() {
        assert_eq!(closes_after(Duration::ZERO).await, SHORT);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_closes_is_let_go_at_once() {
        let (client, server) = tokio::io::duplex(64);
        let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
        let (_signal, handle) = drain::channel();
        let start = Instant::now();
        drop(client);
        close(Io::new(server, series), LONG, handle.watch()).await;
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
