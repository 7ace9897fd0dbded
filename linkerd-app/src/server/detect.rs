//! Detection of a client's protocol by its first bytes.

use linkerd_proxy_core::{
    Error, Reason, drain,
    http::{Responder, refuse},
    transport::{Detected, Io, Lookalikes, detect_until_drain},
};
use std::time::Duration;
use tokio::time::Instant;

/// Settings of protocol detection.
#[derive(Clone, Copy, Debug)]
pub struct DetectSettings {
    /// Time for the first bytes.
    pub timeout: Duration,
    /// The treatment of bytes that look like HTTP and are not.
    pub lookalikes: Lookalikes,
    /// The form of an answer to a request that begins and does not go on. It has no text: the method may be HEAD.
    pub answers: Responder,
}

/// Detects the protocol by the first bytes of a client, and puts them back. `None` if the client was silent, or the bytes
/// undecided, until the timeout. `count` gets the result, as the label `result`, and the time taken.
///
/// An HTTP request that begins and does not go on is answered.
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
                refuse(io, Some(settings.answers), error).await;
            }
            "error"
        }
    };
    count(result, start.elapsed());
    let (detected, read) = detected?;
    io.put_back(read);
    Ok(detected)
}
