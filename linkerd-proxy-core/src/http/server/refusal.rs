//! Answers to HTTP/1 requests that no stage has seen: the codec refuses their heads, or the heads do not arrive in time.

use crate::{Error, http::Responder};
use http::{Response, StatusCode};
use std::{fmt::Write as _, time::Duration};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// Answers a request whose head did not arrive in time, or not as HTTP. Does not wait for a client that does not read.
///
/// Without a `responder` the answer has a status only.
pub async fn refuse(
    io: &mut (impl AsyncWrite + Unpin),
    responder: Option<Responder>,
    error: &Error,
) {
    let answer = match responder {
        Some(responder) => responder.answer(error),
        None => bare(error.status()),
    };
    let bytes = rendered(&answer);
    // In a box: few connections need it, and all would have to reserve its space.
    let written = Box::pin(tokio::time::timeout(ANSWER_TIMEOUT, async {
        io.write_all(bytes.as_bytes()).await?;
        io.shutdown().await
    }));
    if let Ok(Err(error)) = written.await {
        tracing::debug!(%error, "a client has left before its request was refused");
    }
}

fn bare(status: StatusCode) -> Response<String> {
    let mut answer = Response::new(String::new());
    *answer.status_mut() = status;
    answer
}

/// An answer as it is written. It is the last of its connection.
fn rendered(answer: &Response<String>) -> String {
    let status = answer.status();
    let text = answer.body();
    let reason = status.canonical_reason().unwrap_or_default();
    let mut bytes = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16());
    let mut field = |name: &str, value: &str| {
        // Writing to a string cannot fail.
        let _ = write!(bytes, "{name}: {value}\r\n");
    };
    for (name, value) in answer.headers() {
        if let Ok(value) = value.to_str()
            && !IN_ALL.contains(&name.as_str())
        {
            field(name.as_str(), value);
        }
    }
    field("connection", "close");
    field("content-length", &text.len().to_string());
    bytes + "\r\n" + text
}

/// Fields that each refusal has.
const IN_ALL: [&str; 2] = ["connection", "content-length"];

/// Time to send a refusal.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, transport::Side};

    #[tokio::test]
    async fn a_refusal_has_the_headers_of_every_answer_and_a_text_for_a_person() {
        let error = Error::new(Reason::HeadTooLarge);
        let plain = Responder::of_connection(Side::Outbound, true, false);
        for (responder, has_headers, has_text) in [
            (None, false, false),
            (Some(plain), true, false),
            (
                Some(Responder::of_connection(Side::Inbound, false, false)),
                false,
                false,
            ),
            (
                Some(Responder::of_connection(Side::Outbound, true, true)),
                true,
                true,
            ),
        ] {
            let mut written = Vec::new();
            refuse(&mut written, responder, &error).await;
            let text = String::from_utf8(written).unwrap();
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            let first = "HTTP/1.1 431 Request Header Fields Too Large\r\n";
            assert!(head.starts_with(first), "{head}");
            assert!(head.contains("\r\nconnection: close\r\n"), "{head}");
            assert!(head.ends_with(&format!("content-length: {}", body.len())));
            assert_eq!(head.contains("details=\"head_too_large\""), has_headers);
            assert_eq!(body.contains("reason: head_too_large"), has_text);
        }
    }
}
