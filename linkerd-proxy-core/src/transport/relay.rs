//! Carrying bytes both ways.

use std::io;
use tokio::io::{AsyncRead, AsyncWrite};

/// Copies bytes both ways until both sides have ended; an end of one side is passed on to the other at once.
///
/// Returns the bytes from `client` to `server` and back.
pub async fn relay(
    client: &mut (impl AsyncRead + AsyncWrite + Unpin),
    server: &mut (impl AsyncRead + AsyncWrite + Unpin),
) -> io::Result<(u64, u64)> {
    tokio::io::copy_bidirectional_with_sizes(client, server, BUFFER, BUFFER).await
}

/// The buffer of one direction, in bytes. Larger ones save system calls on bulk transfers, but an idle connection holds
/// them too.
const BUFFER: usize = 16 * 1024;
