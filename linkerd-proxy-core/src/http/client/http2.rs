//! HTTP/2 connections of one endpoint: as many as the endpoint's stream limit and unread responses require.

mod head_limit;
mod stream;
mod wear;

use super::{
    body::StreamBody,
    failure::classify,
    peer::{Reads, peer_limit},
    uploading::Uploading,
    watched::Watched,
};
use crate::{
    Backoff, EndpointStatus, Error, Rejected,
    endpoint::Capacity,
    http::{FlowControl, Http2Settings, HttpRequest, LocalExec, ResponseBody, merged::Merged},
    limits,
    reconnect::{Connects, Reconnect, reconnect},
    task::spawn_local,
    tls::EndpointTrust,
    transport::Duplex,
};
use bytes::Bytes;
use futures::future::{LocalBoxFuture, ready};
use head_limit::{head_size, may_be_for_head, too_large};
use http::Response;
use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    cell::{Cell, RefCell},
    future::{pending, poll_fn},
    pin::{Pin, pin},
    rc::{Rc, Weak},
    task::{Context, Poll},
};
use stream::{Connection, Stream};
use tokio::time::timeout;
use tower_service::Service;

/// Sends requests to one endpoint over HTTP/2. Copies of a client share the connections.
///
/// - **Waits for** nothing in a call: the client is ready only while a connection has room for a stream.
/// - **Fails as** `StreamRefused` and `StreamReset` with the endpoint's code, or `ConnectionLost`.
/// - **Bounds**: connections. Another is opened when the peer's stream limit would make requests wait, or when unread responses
///   may hold the window of all other responses.
pub struct Http2Client<C, B>(Rc<Connections<C, B>>);

struct Connections<C, B> {
    connect: C,
    settings: Http2Settings,
    max_connections: usize,
    reconnect: Reconnect,
    open: RefCell<Vec<Rc<Connection<B>>>>,
}

impl<C, B> Clone for Http2Client<C, B> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<C: 'static, B: 'static> Http2Client<C, B> {
    /// A client without connections, which writes `status`; it begins to connect when it is polled.
    pub fn new(
        connect: C,
        settings: Http2Settings,
        max_connections: usize,
        backoff: Backoff,
        status: EndpointStatus,
    ) -> Self {
        status.set_capacity(Capacity::Connecting);
        Self(Rc::new_cyclic(|client: &Weak<Connections<C, B>>| {
            let client = client.clone();
            status.set_inspect(move || client.upgrade().map(|client| client.inspect()).into());
            Connections {
                connect,
                settings,
                max_connections: max_connections.max(1),
                reconnect: Reconnect::new(backoff, status),
                open: RefCell::default(),
            }
        }))
    }

    /// The endpoint's status.
    pub fn status(&self) -> &EndpointStatus {
        self.0.reconnect.status()
    }
}

impl<C, B, I> Service<HttpRequest<B>> for Http2Client<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + Unpin + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = Rejected<HttpRequest<B>>;
    type Future = LocalBoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        let connections = &self.0;
        if connections.update() == Capacity::Ready {
            return Poll::Ready(Ok(()));
        }
        if connections.open.borrow().len() < connections.max_connections {
            reconnect(connections);
        }
        self.status().register(cx);
        Poll::Pending
    }

    /// Gives the request to a connection before the call returns, so that no future has to carry it.
    fn call(&mut self, request: HttpRequest<B>) -> Self::Future {
        let Some(mut stream) = self.0.open_stream() else {
            // The last connection went away between readiness and call.
            let error = Error::new(crate::Reason::ConnectionLost);
            return Box::pin(ready(Err(Rejected::returned(error, request))));
        };
        let (size, limit) = (head_size(&request), stream.max_head());
        if size > limit {
            return Box::pin(ready(Err(Rejected::lost(too_large(size, limit)))));
        }
        let (request, context) = request.into_parts();
        let (head, body) = request.into_parts();
        let (body, upload) = Uploading::new(body);
        let request = http::Request::from_parts(head, body);
        let sent = stream.sender().try_send_request(request);
        Box::pin(async move {
            match sent.await {
                Ok(response) => {
                    stream.set_unread(true);
                    let body = Some(StreamBody { upload });
                    let stream = Box::new(stream);
                    Ok(ResponseBody::of_endpoint(response, stream, body))
                }
                Err(mut error) => {
                    let unsent = error.take_message();
                    let unsent = unsent.map(|request| {
                        HttpRequest::new(request.map(Uploading::into_inner), context)
                    });
                    let error = error.into_error();
                    if size > head_limit::LARGE && may_be_for_head(&error) {
                        let error = too_large(size, head_limit::LARGE).source(error);
                        return Err(Rejected::lost(error));
                    }
                    let error = classify(error);
                    Err(Rejected::new(stream.peer().explain(error), unsent))
                }
            }
        })
    }
}

impl<C, B> Connections<C, B> {
    /// Removes closed connections, and notes whether there is room for a stream.
    fn update(&self) -> Capacity {
        let mut open = self.open.borrow_mut();
        open.retain(|connection| !connection.is_closed());
        let is_last = open.len() >= self.max_connections;
        let capacity = match open.iter().any(|connection| connection.has_room(is_last)) {
            true => Capacity::Ready,
            false if open.is_empty() => Capacity::Connecting,
            false => Capacity::StreamLimit,
        };
        self.reconnect.status().set_capacity(capacity);
        capacity
    }

    /// Takes a stream of the connection with the most room.
    fn open_stream(&self) -> Option<Stream<B>> {
        let open = self.open.borrow();
        let is_last = open.len() >= self.max_connections;
        let connection = open
            .iter()
            .filter(|connection| connection.has_room(is_last))
            .min_by_key(|connection| connection.load())?;
        Some(Stream::open(connection))
    }

    /// Wakes the balancer: there may be room, or a connection is closed.
    fn changed(&self) {
        self.update();
        self.reconnect.status().wake();
    }

    fn inspect(&self) -> serde_json::Value {
        let open = self.open.borrow();
        let connections = open.iter().map(|connection| connection.inspect());
        serde_json::json!({
            "protocol": "HTTP/2",
            "connections": connections.collect::<Vec<_>>(),
            "max_connections": self.max_connections,
        })
    }
}

impl<C, B, I> Connects for Connections<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + Unpin + 'static,
{
    fn reconnect(&self) -> &Reconnect {
        &self.reconnect
    }

    async fn attempt(self: &Rc<Self>) -> Result<(), Error> {
        let connection = self.dial().await?;
        self.open.borrow_mut().push(Rc::new(connection));
        self.update();
        self.reconnect.succeeded();
        Ok(())
    }
}

impl<C, B, I> Connections<C, B>
where
    C: Service<(), Response = I, Error = Error> + Clone + 'static,
    I: Duplex + 'static,
    B: Body<Data = Bytes, Error: Into<crate::BoxError>> + Unpin + 'static,
{
    async fn dial(self: &Rc<Self>) -> Result<Connection<B>, Error> {
        let mut connect = self.connect.clone();
        poll_fn(|cx| connect.poll_ready(cx)).await?;
        let io = connect.call(()).await?;
        let trust = io.endpoint_trust();
        let (watch, heard, peer) = Reads::new();
        let (io, server) = Merged::of_server(Watched::new(io, watch));
        let (sender, mut connection) = builder(&self.settings)
            .handshake(TokioIo::new(io))
            .await
            .map_err(classify)?;
        let limit = peer_limit(&mut connection, heard).await;
        let limit = limit.map_err(|error| peer.explain(error))?;
        let limit = Rc::new(Cell::new(limit));
        let (seen, client) = (limit.clone(), Rc::downgrade(self));
        let known = peer.clone();
        let retired = Rc::new(Cell::new(false));
        let retires = retired.clone();
        spawn_local(async move {
            let mut running = pin!(poll_fn(|cx| {
                let polled = Pin::new(&mut connection).poll(cx);
                let limit = connection.current_max_send_streams();
                if seen.replace(limit) < limit {
                    changed(&client);
                }
                polled
            }));
            let ended = tokio::select! {
                biased;
                ended = &mut running => ended,
                () = lost(trust) => {
                    // Its streams go on for a while, and the next ones take another connection.
                    retires.set(true);
                    changed(&client);
                    let left = timeout(limits::UNTRUSTED_GRACE, running);
                    left.await.unwrap_or(Ok(()))
                }
            };
            if let Err(error) = ended {
                tracing::debug!(%error, "endpoint connection ended");
                if peer.speaks_http1()
                    && let Some(client) = client.upgrade()
                {
                    client.reconnect.failed(&peer.explain(classify(error)));
                }
            }
            changed(&client);
        });
        let windows = self.settings.client_windows();
        let client = Rc::downgrade(self);
        let has_room_again = move || changed(&client);
        Ok(Connection::new(
            sender,
            known,
            limit,
            retired,
            server,
            windows,
            has_room_again,
        ))
    }
}

/// Waits until the endpoint is trusted no more.
async fn lost(trust: Option<EndpointTrust>) {
    match trust {
        Some(trust) => trust.lost().await,
        None => pending().await,
    }
}

fn changed<C, B>(client: &Weak<Connections<C, B>>) {
    if let Some(client) = client.upgrade() {
        client.changed();
    }
}

fn builder(settings: &Http2Settings) -> http2::Builder<LocalExec> {
    let mut builder = http2::Builder::new(LocalExec);
    builder
        .timer(TokioTimer::new())
        .initial_max_send_streams(limits::HTTP2_UNKNOWN_STREAM_LIMIT)
        .max_header_list_size(
            settings
                .max_header_list_size
                .unwrap_or(limits::HTTP2_CLIENT_HEADER_LIST),
        );
    match settings.client_windows() {
        FlowControl::Adaptive => builder.adaptive_window(true),
        FlowControl::Fixed { stream, connection } => builder
            .initial_stream_window_size(stream)
            .initial_connection_window_size(connection),
    };
    if let Some(keep_alive) = settings.keep_alive {
        builder
            .keep_alive_interval(keep_alive.interval)
            .keep_alive_timeout(keep_alive.timeout)
            .keep_alive_while_idle(keep_alive.while_idle);
    }
    if let Some(size) = settings.max_frame_size {
        builder.max_frame_size(size);
    }
    builder.max_local_error_reset_streams(limits::HTTP2_LOCAL_ERROR_RESET_STREAMS);
    builder.max_concurrent_reset_streams(
        settings
            .max_concurrent_reset_streams
            .unwrap_or(limits::HTTP2_REMEMBERED_RESETS),
    );
    builder.max_send_buf_size(
        settings
            .max_send_buf_size
            .unwrap_or(limits::HTTP2_CLIENT_SEND_BUFFER),
    );
    builder
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::Empty;
    use hyper::{server::conn, service::service_fn};
    use std::{convert::Infallible, time::Duration};
    use tokio::{io::DuplexStream, task::LocalSet, time::Instant};

    /// Connects to a server that takes this many streams.
    #[derive(Clone)]
    struct Dial(u32);

    impl Service<()> for Dial {
        type Response = DuplexStream;
        type Error = Error;
        type Future = std::future::Ready<Result<DuplexStream, Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, (): ()) -> Self::Future {
            let (client, server) = tokio::io::duplex(64 * 1024);
            let mut builder = conn::http2::Builder::new(LocalExec);
            builder.max_concurrent_streams(self.0);
            let service =
                service_fn(|_| async { Ok::<_, Infallible>(Response::new(Empty::<Bytes>::new())) });
            spawn_local(builder.serve_connection(TokioIo::new(server), service));
            std::future::ready(Ok(client))
        }
    }

    fn status() -> EndpointStatus {
        EndpointStatus::new(Capacity::Connecting)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_ready_as_soon_as_its_limit_is_known() {
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 0.0).unwrap();
        let test = async {
            let mut client: Http2Client<_, Empty<Bytes>> =
                Http2Client::new(Dial(7), Http2Settings::default(), 1, backoff, status());
            let start = Instant::now();
            poll_fn(|cx| Service::<HttpRequest<Empty<Bytes>>>::poll_ready(&mut client, cx))
                .await
                .unwrap();
            assert_eq!(start.elapsed(), Duration::ZERO);
            assert_eq!(client.status().inspect()["connections"][0]["limit"], 7);
        };
        LocalSet::new().run_until(test).await;
    }
}
