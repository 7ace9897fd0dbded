//! The protocol of a client, by its first bytes.

use linkerd_proxy_core::{
    Error, Reason, drain,
    http::answer_header_timeout,
    transport::{Detected, Io, Lookalikes, detect_until_drain},
};
use std::time::Duration;
use tokio::time::Instant;

/// How the protocol of a client is told.
#[derive(Clone, Copy, Debug)]
pub struct DetectSettings {
    /// Time for the first bytes.
    pub timeout: Duration,
    /// Bytes that look like HTTP and are not.
    pub lookalikes: Lookalikes,
}

/// Reads the first bytes of a client, which stay to be read. `None` if it was silent. `count` gets the result, as the label
/// `result`, and the time that it took.
///
/// A client that begins an HTTP request and does not go on is answered.
pub async fn detect(
    io: &mut Io,
    settings: DetectSettings,
    drain: &mut drain::Watch,
    count: impl FnOnce(&'static str, Duration),
) -> Result<Option<Detected>, Error> {
    let start = Instant::now();
    let detected = detect_until_drain(io, settings.timeout, settings.lookalikes, drain).await;
    let result = match &detected {
        Ok((Some(Detected::Http1), _)) => "http/1",
        Ok((Some(Detected::Http2), _)) => "http/2",
        Ok((Some(Detected::Opaque), _)) => "not_http",
        Ok((None, _)) => "read_timeout",
        Err(error) => {
            if error.reason() == Reason::HeaderTimeout {
                answer_header_timeout(io).await;
            }
            "error"
        }
    };
    count(result, start.elapsed());
    let (detected, read) = detected?;
    io.put_back(read);
    Ok(detected)
}
