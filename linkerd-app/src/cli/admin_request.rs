//! Requests of commands to the admin server of a running proxy.

use crate::runtime;
use bytes::Bytes;
use http::{Request, StatusCode, header::HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::task::spawn_local;
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::{net::TcpStream, time::timeout};

/// An answer of the admin server.
pub(super) struct AdminReply {
    pub(super) status: StatusCode,
    pub(super) body: Bytes,
}

/// Gets a path with its query, within 5 s and with up to 64 MiB. Fails with the reason if there is no answer.
pub(super) async fn admin_get(addr: SocketAddr, path: &str) -> Result<AdminReply, String> {
    match timeout(TIMEOUT, get(addr, path)).await {
        Ok(reply) => reply.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no answer within {TIMEOUT:?}")),
    }
}

/// Gets a path as [`admin_get`], on a new runtime.
pub(super) fn admin_get_blocking(addr: SocketAddr, path: &str) -> Result<AdminReply, String> {
    let runtime = runtime::local().map_err(|error| error.to_string())?;
    runtime.block_on(admin_get(addr, path))
}

async fn get(addr: SocketAddr, path: &str) -> Result<AdminReply, Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(addr).await?;
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The client reports the errors of the connection.
    spawn_local(connection);
    let request = Request::get(path)
        .header(HOST, addr.to_string())
        .body(Empty::<Bytes>::new())?;
    let (head, body) = client.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
    Ok(AdminReply {
        status: head.status,
        body,
    })
}

/// The proxy answers within a second, or not at all.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer has the endpoints of each worker.
const MAX_BODY: usize = 64 << 20;
