//! One exchange over one connection.

use super::pool::Connection;
use crate::{
    Error, Reason, Rejected,
    http::{HttpRequest, ResponseBody, client::failure::classify},
};
use http::{
    HeaderMap, Request, Response, StatusCode, Version,
    header::{CONTENT_LENGTH, TRANSFER_ENCODING},
};
use http_body::Body;
use hyper::{body::Incoming, client::conn::TrySendError, upgrade::OnUpgrade};
use pin_project_lite::pin_project;
use std::{
    pin::Pin,
    task::{Context, Poll, ready},
};

/// The outcome of sending a request: a response, or the request if the connection did not begin to send it.
pub(super) type Exchanged<B> = Result<Response<ResponseBody>, Rejected<HttpRequest<B>>>;

impl<C: 'static, B: Body + 'static> Connection<C, B> {
    /// Sends a request. The connection has it when this returns.
    pub(super) fn exchange(
        mut self: Box<Self>,
        request: HttpRequest<B>,
    ) -> impl Future<Output = Exchanged<B>> + use<C, B> {
        self.reusable = is_reusable(&request) & self.binding.bind(&request);
        let (request, context) = request.into_parts();
        self.context = Some(context);
        let uploads = !request.body().is_end_stream();
        let upgrades = request.extensions().get::<OnUpgrade>().is_some();
        if upgrades {
            self.driven.detach();
        }
        let sender = self
            .driven
            .sender()
            .expect("a connection is ready when it is used");
        Exchange {
            sent: sender.try_send_request(request),
            connection: Some(self),
            uploads,
            upgrades,
        }
    }
}

pin_project! {
    /// The future of an exchange. Written by hand, as an async block would move the response three times more.
    struct Exchange<C, B, F> {
        #[pin]
        sent: F,
        connection: Option<Box<Connection<C, B>>>,
        // Whether the request has a body: the connection may have work beyond the response's body.
        uploads: bool,
        // Whether the request asks for an upgrade of the connection.
        upgrades: bool,
    }
}

impl<C, B, F> Future for Exchange<C, B, F>
where
    C: 'static,
    B: 'static,
    F: Future<Output = Result<Response<Incoming>, TrySendError<Request<B>>>>,
{
    type Output = Exchanged<B>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Exchanged<B>> {
        let this = self.project();
        let mut connection = this.connection.take().expect("an exchange has one end");
        let sent = this.sent.poll(&mut connection.driven.poll(cx));
        connection.driven.polled(sent.is_pending());
        if sent.is_pending() {
            *this.connection = Some(connection);
            return Poll::Pending;
        }
        let response = ready!(sent).map_err(|mut error| {
            let unsent = error.take_message().zip(connection.context.take());
            let request = unsent.map(|(request, context)| HttpRequest::new(request, context));
            Rejected::new(classify(error.into_error()), request)
        })?;
        // Dropped in place: a move is 200 bytes.
        connection.context = None;
        if response.status() == StatusCode::SWITCHING_PROTOCOLS && !*this.upgrades {
            let error = Error::new(Reason::InvalidResponse)
                .detail("the endpoint answered 101 to a request that asks for no upgrade");
            return Poll::Ready(Err(Rejected::lost(error)));
        }
        if has_two_ends(response.headers()) {
            connection.reusable = false;
        }
        if *this.uploads {
            connection.driven.detach();
        }
        Poll::Ready(Ok(ResponseBody::of_endpoint(response, connection, None)))
    }
}

/// Whether a response states its end in two ways (RFC 9112, section 6.3): the endpoint may have taken the other one for its end, so
/// that its next bytes are the rest of this response.
fn has_two_ends(headers: &HeaderMap) -> bool {
    headers.contains_key(TRANSFER_ENCODING) && headers.contains_key(CONTENT_LENGTH)
}

/// HTTP/1.0 connections end with their response, as with the incumbent.
pub(super) fn is_reusable<B>(request: &Request<B>) -> bool {
    request.version() != Version::HTTP_10
}
