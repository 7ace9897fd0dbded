//! The proxy's own answers.

use super::{
    PeerAnswer, PeerFailure, Responder, ResponseBody,
    classify::GRPC_STATUS,
    proxy_status::{PROXY_STATUS, proxy_status},
    responder::{GRPC_MESSAGE, UNEXPECTED},
};
use crate::Error;
use http::{
    HeaderMap, HeaderName, HeaderValue, Response, StatusCode, Version,
    header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, LOCATION},
};
use http_body::Body;

impl Responder {
    /// The answer to a failed request; `Err` if the stream must be reset with the endpoint's code.
    pub fn respond(&self, error: &Error) -> Result<Response<ResponseBody>, h2::Error> {
        if let Some(code) = error.reset_code()
            && self.version == Version::HTTP_2
        {
            return Err(code.into());
        }
        Ok(ResponseBody::full(self.answer(error)))
    }

    /// The answer to a failed request, with its text.
    pub(super) fn answer(&self, error: &Error) -> Response<String> {
        let reason = error.reason();
        let text = match self.has_text {
            true => text(error),
            false => String::new(),
        };
        let length = text.len();
        let mut response = Response::new(text);
        let headers = response.headers_mut();
        headers.insert(CONTENT_LENGTH, length.into());
        if self.has_text {
            headers.insert(CONTENT_TYPE, TEXT_PLAIN);
        }
        let message = message(error);
        if self.grpc {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
            headers.insert(GRPC_STATUS, error.grpc_code().into());
            if self.emit_headers {
                headers.insert(GRPC_MESSAGE, grpc_message(error));
            }
        } else if let Some(location) = error.location() {
            headers.insert(LOCATION, location.clone());
        }
        if reason.is_fatal() && self.version == Version::HTTP_11 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        if self.emit_headers {
            self.inform(error, message, headers);
        }
        *response.version_mut() = self.version;
        *response.status_mut() = match self.grpc {
            true => StatusCode::OK,
            false => error.status(),
        };
        response
    }

    /// Adds the text of a failure that the endpoint's proxy has answered without one, for a client that knows that it talks to a
    /// proxy.
    pub fn explain_peer(&self, response: Response<ResponseBody>) -> Response<ResponseBody> {
        let failure = response.peer_failure().filter(|_| self.has_text);
        let Some((reason, detail)) = failure.map(PeerFailure::describe) else {
            return response;
        };
        if !response.body().is_end_stream() {
            return response;
        }
        let text = text(&Error::new(reason).detail(detail));
        let (mut head, empty) = response.into_parts();
        head.headers.insert(CONTENT_LENGTH, text.len().into());
        head.headers.insert(CONTENT_TYPE, TEXT_PLAIN);
        // The empty body has ended for its observers; dropped, it gives the endpoint's connection back.
        drop(empty);
        ResponseBody::full(Response::from_parts(head, text))
    }

    fn inform(&self, error: &Error, message: HeaderValue, headers: &mut HeaderMap) {
        let reason = error.reason();
        headers.insert(L5D_PROXY_ERROR, message);
        if reason.is_fatal() {
            headers.insert(L5D_PROXY_CONNECTION, HeaderValue::from_static("close"));
        }
        if let Some(status) = proxy_status(error, self.side) {
            headers.insert(PROXY_STATUS, status);
        }
    }
}

/// The text of an answer: the failure, its reason, and a hint.
fn text(error: &Error) -> String {
    let reason = error.reason();
    format!(
        "error: {error}\nreason: {}\nhint: {}\n",
        reason.label(),
        error.hint()
    )
}

/// The text of an error as a header value.
fn message(error: &Error) -> HeaderValue {
    HeaderValue::try_from(error.to_string()).unwrap_or(UNEXPECTED)
}

/// The text for a gRPC client: the fields of the reason follow, as clients show no headers. A prescribed answer keeps its text.
fn grpc_message(error: &Error) -> HeaderValue {
    if error.is_prescribed() {
        return message(error);
    }
    let row = error.reason().row();
    let (origin, phase) = (error.origin().name(), row.phase.name());
    let text = format!(
        "{error} (reason {}, origin {origin}, phase {phase}; {})",
        row.label,
        error.hint()
    );
    HeaderValue::try_from(text).unwrap_or(UNEXPECTED)
}

const TEXT_PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");

/// The message of an answer that a proxy made.
pub const L5D_PROXY_ERROR: HeaderName = HeaderName::from_static("l5d-proxy-error");
/// The header by which a peer proxy closes its application's connection.
pub const L5D_PROXY_CONNECTION: HeaderName = HeaderName::from_static("l5d-proxy-connection");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Reason, transport::Side};
    use http::Request;

    fn request(version: Version, content_type: &'static str) -> Request<()> {
        let request = Request::builder().version(version);
        request.header(CONTENT_TYPE, content_type).body(()).unwrap()
    }

    fn respond(
        request: &Request<()>,
        error: Error,
        emit: bool,
    ) -> Result<Response<ResponseBody>, h2::Error> {
        Responder::new(request, Side::Outbound, emit).respond(&error)
    }

    #[test]
    fn a_fatal_error_says_why_and_closes() {
        let error = Error::new(Reason::ConnectRefused)
            .detail("Connection refused (os error 111)")
            .context("endpoint 10.0.0.1:80");
        let response = respond(&request(Version::HTTP_11, "text/plain"), error, true).unwrap();
        assert_eq!(response.status(), 502);
        let headers = response.headers();
        assert_eq!(
            headers["l5d-proxy-error"],
            "endpoint 10.0.0.1:80: Connection refused (os error 111)"
        );
        assert_eq!(headers["connection"], "close");
        assert_eq!(headers["l5d-proxy-connection"], "close");
        let status = headers["proxy-status"].to_str().unwrap();
        assert!(status.contains("details=\"connect_refused\"; side=outbound"));
    }

    #[test]
    fn without_permission_nothing_is_told() {
        let request = request(Version::HTTP_11, "text/plain");
        let response = respond(&request, Reason::NoRoute.into(), false).unwrap();
        assert_eq!(response.status(), 404);
        let names: Vec<_> = response.headers().keys().map(HeaderName::as_str).collect();
        assert_eq!(names, ["content-length"]);
    }

    #[test]
    fn grpc_clients_get_a_code() {
        let request = request(Version::HTTP_2, "application/grpc");
        let response = respond(&request, Reason::ConnectTimeout.into(), true).unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "4");
        let message = response.headers()["grpc-message"].to_str().unwrap();
        let start = "connect timed out (reason connect_timeout, origin network, phase connect; ";
        assert!(message.starts_with(start), "{message}");
        assert!(!response.headers().contains_key("connection"));
    }

    #[tokio::test]
    async fn an_explicit_proxy_says_what_failed_why_and_what_to_do() {
        use http_body_util::BodyExt;
        let request = request(Version::HTTP_11, "text/plain");
        let responder = Responder::new(&request, Side::Outbound, true).with_text();
        let error = Error::new(Reason::ConnectRefused).context("endpoint 10.0.0.1:80");
        let response = responder.respond(&error).unwrap();
        let length = response.headers()[CONTENT_LENGTH].clone();
        let text = response.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(length, text.len().to_string());
        let text = std::str::from_utf8(&text).unwrap();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[0], "error: endpoint 10.0.0.1:80: connection refused");
        assert_eq!(lines[1], "reason: connect_refused");
        assert!(
            lines[2].starts_with("hint: Is the application listening"),
            "{text}"
        );
    }

    #[test]
    fn a_reset_is_passed_on_to_http2_only() {
        let error = || Error::new(Reason::StreamReset).reset(h2::Reason::ENHANCE_YOUR_CALM);
        let reset = respond(&request(Version::HTTP_2, "text/plain"), error(), true).unwrap_err();
        assert_eq!(reset.reason(), Some(h2::Reason::ENHANCE_YOUR_CALM));
        let response = respond(&request(Version::HTTP_11, "text/plain"), error(), true).unwrap();
        assert_eq!(response.status(), 502);
    }

    #[test]
    fn text_that_no_header_can_carry_is_replaced() {
        let error = Error::new(Reason::ConnectFailed).detail("a\nb");
        let response = respond(&request(Version::HTTP_11, "text/plain"), error, true).unwrap();
        assert_eq!(response.headers()["l5d-proxy-error"], "unexpected error");
    }
}
