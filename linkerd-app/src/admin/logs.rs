//! `/logs.json`: events of the log as they happen, by the reader's own filter.

use super::{
    context::AdminContext,
    reply::{self, Reply},
    request::{AdminRequest, read_body},
};
use crate::logging::{LogStream, LogStreamError};
use bytes::Bytes;
use futures::stream;
use http::{Method, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use std::{convert::Infallible, time::Duration};
use tokio::time::timeout;

/// Streams events, a line of JSON each. The filter is the query, or its parameter `filter`, or the body of a QUERY.
pub(super) async fn logs(admin: &AdminContext, request: AdminRequest) -> Reply {
    if let Some(refusal) = request.refuse_remote(admin) {
        return refusal;
    }
    let Some(log) = &admin.log else {
        return reply::json_error(StatusCode::NOT_FOUND, OFF);
    };
    let filter = match request.http.method().as_str() {
        "GET" => of_query(request.http.uri().query().unwrap_or_default()),
        "QUERY" => match read_body(request.http.into_body()).await {
            Ok(body) => String::from_utf8(body.into()).ok(),
            Err(refusal) => return refusal,
        },
        _ => {
            let query = Method::from_bytes(b"QUERY").unwrap_or(Method::GET);
            return reply::not_allowed(&[Method::GET, query]);
        }
    };
    let Some(filter) = filter else {
        return reply::json_error(StatusCode::BAD_REQUEST, NO_FILTER);
    };
    match log.streams.open(&filter) {
        Ok(stream) => reply::json_stream(lines(stream)),
        Err(error @ LogStreamError::Invalid(_)) => {
            reply::json_error(StatusCode::BAD_REQUEST, &error.to_string())
        }
    }
}

/// The filter of a query: that of the parameter `filter`, or all of the query, as with the incumbent.
fn of_query(query: &str) -> Option<String> {
    let mut parameters = form_urlencoded::parse(query.as_bytes());
    if let Some((_, filter)) = parameters.find(|(name, _)| name == "filter") {
        return Some(filter.into_owned());
    }
    // As a value of a parameter, it is decoded as such.
    let whole = format!("filter={query}");
    let mut whole = form_urlencoded::parse(whole.as_bytes());
    let filter = whole.next().map(|(_, filter)| filter.into_owned());
    filter.filter(|filter| !filter.is_empty())
}

/// The lines of a stream. While there are none, a regular heartbeat line detects a reader that is gone.
fn lines(
    stream: LogStream,
) -> StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    StreamBody::new(stream::unfold(stream, |mut stream| async move {
        let line = match timeout(HEARTBEAT, stream.next()).await {
            Ok(line) => line?,
            Err(_) => Bytes::from_static(NOTHING),
        };
        Some((Ok(Frame::data(line)), stream))
    }))
}

const HEARTBEAT: Duration = Duration::from_secs(15);
const NOTHING: &[u8] = b"{\"dropped_events\":0}\n";
const OFF: &str = "the log is off: set LINKERD2_PROXY_LOG to something else, such as warn";
const NO_FILTER: &str = "a filter is needed, such as /logs.json?filter=warn,linkerd=debug";
