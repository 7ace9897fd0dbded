//! Explanations by a running proxy.

use super::failure::Failure;
use crate::{
    explain::{ExplainAnswer, QueryFields},
    runtime,
};
use bytes::Bytes;
use http::{Request, StatusCode, header::HOST};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use linkerd_proxy_core::task::spawn_local;
use serde_json::Value;
use std::{error::Error, net::SocketAddr, time::Duration};
use tokio::net::TcpStream;

/// Asks the admin server of a proxy.
pub(super) fn explain(addr: SocketAddr, fields: &QueryFields) -> Result<ExplainAnswer, Failure> {
    let unanswered = |error: String| {
        Failure::Unanswered(format!(
            "the admin server of a proxy does not answer at {addr}: {error}; --admin sets another address, --mesh \
             reads a mesh file instead"
        ))
    };
    let runtime = runtime::local().map_err(|error| unanswered(error.to_string()))?;
    let answered = runtime.block_on(async {
        tokio::time::timeout(TIMEOUT, get(addr, &fields.to_parameters())).await
    });
    let (status, body) = match answered {
        Ok(answered) => answered.map_err(|error| unanswered(error.to_string()))?,
        Err(_) => return Err(unanswered(format!("no answer within {TIMEOUT:?}"))),
    };
    let document = serde_json::from_slice::<Value>(&body);
    match (status, document) {
        (StatusCode::OK, Ok(document)) => Ok(ExplainAnswer::Explained(document)),
        (StatusCode::NOT_FOUND, Ok(document)) => Ok(ExplainAnswer::UnknownTarget(document)),
        (StatusCode::BAD_REQUEST, Ok(document)) => {
            let error = document["error"].as_str().unwrap_or_default();
            Err(Failure::Usage(error.to_owned()))
        }
        (status, _) => {
            let text = String::from_utf8_lossy(&body);
            Err(unanswered(format!("{status} {}", text.trim())))
        }
    }
}

async fn get(
    addr: SocketAddr,
    parameters: &str,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let stream = TcpStream::connect(addr).await?;
    let (mut client, connection) = http1::handshake(TokioIo::new(stream)).await?;
    // The client sees its errors.
    spawn_local(connection);
    let request = Request::get(format!("/explain?{parameters}"))
        .header(HOST, addr.to_string())
        .body(Empty::<Bytes>::new())?;
    let (head, body) = client.send_request(request).await?.into_parts();
    let body = Limited::new(body, MAX_BODY).collect().await?.to_bytes();
    Ok((head.status, body))
}

/// The proxy answers within a second, or not at all.
const TIMEOUT: Duration = Duration::from_secs(5);

/// An answer has the endpoints of each worker.
const MAX_BODY: usize = 64 << 20;
