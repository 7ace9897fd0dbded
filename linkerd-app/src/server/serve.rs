//! Serving the HTTP of a client's connection.

use http::{Request, Response, Version};
use hyper::{body::Incoming, service::Service as HyperService};
use linkerd_proxy_core::{
    drain,
    http::{
        Connection, HttpRequest, RequestBody, RequestContext, ResponseBody, ServeError,
        ServerSettings, Upload, serve_http1, serve_http2,
    },
    transport::{ClientInfo, Io},
};
use std::{cell::RefCell, rc::Rc};
use tower_service::Service;

/// Serves requests by `stack` until the connection ends, or until its exchanges have ended when `drain` is signalled.
pub fn serve<S>(
    io: Io,
    client: Rc<ClientInfo>,
    version: Version,
    connection: Rc<Connection>,
    stack: S,
    settings: ServerSettings,
    drain: drain::Watch,
) -> impl Future<Output = Result<(), ServeError>> + use<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error, Future: 'static>
        + 'static,
{
    // Shared, as the futures of a connection would hold several copies otherwise.
    let server = Rc::new(Server {
        stack: RefCell::new(stack),
        connection: connection.clone(),
        client,
    });
    async move {
        match version {
            Version::HTTP_2 => serve_http2(io, server, &settings, connection, drain).await,
            _ => serve_http1(io, server, &settings, connection, drain).await,
        }
    }
}

/// The stack of one connection, as hyper calls it.
struct Server<S> {
    stack: RefCell<S>,
    connection: Rc<Connection>,
    client: Rc<ClientInfo>,
}

impl<S> HyperService<Request<Incoming>> for Server<S>
where
    S: Service<HttpRequest, Response = Response<ResponseBody>, Error = h2::Error>,
{
    type Response = Response<ResponseBody>;
    type Error = h2::Error;
    type Future = S::Future;

    /// Puts the request into its context. A ready endpoint has the request when this returns.
    fn call(&self, request: Request<Incoming>) -> S::Future {
        let (head, body) = request.into_parts();
        let upload = || Upload::new(Some(self.connection.uploading(&head)));
        let body = RequestBody::new(body, head.version, upload);
        let request = Request::from_parts(head, body);
        let context = RequestContext::arriving(Some(self.client.clone()));
        let mut stack = self.stack.borrow_mut();
        stack.call(HttpRequest::new(request, context))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{BelowStage, MockStage, STREAM_BUFFER, TestClient, client};
    use linkerd_proxy_core::{
        http::{HalfSent, Http2Settings},
        metrics::{Labels, Registry},
        task::spawn_local,
        transport::TransportMetrics,
    };
    use std::time::Duration;
    use tokio::task::{JoinHandle, LocalSet};

    type Below = BelowStage<HttpRequest, Response<ResponseBody>, h2::Error>;

    /// A connection that is served by the stack of the test.
    struct Served {
        sender: TestClient,
        below: Below,
        drain: drain::Signal,
        ended: JoinHandle<Result<(), ServeError>>,
    }

    async fn served(version: Version) -> Served {
        let (near, far) = tokio::io::duplex(STREAM_BUFFER);
        let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
        let (stack, below) = MockStage::new();
        let (drain, handle) = drain::channel();
        let settings = ServerSettings {
            header_timeout: Duration::from_secs(10),
            http2: Http2Settings::default(),
            half_sent: HalfSent::default(),
        };
        let serving = serve(
            Io::new(far.into(), series),
            client(),
            version,
            Rc::new(Connection::default()),
            stack,
            settings,
            handle.watch(),
        );
        let ended = spawn_local(serving);
        let sender = match version {
            Version::HTTP_2 => TestClient::http2(near).await,
            _ => TestClient::http1(near).await,
        };
        Served {
            sender,
            below,
            drain,
            ended,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_stack_has_each_request_with_its_client() {
        let test = async {
            for version in [Version::HTTP_11, Version::HTTP_2] {
                let mut served = served(version).await;
                for n in 0..2 {
                    served.below.allow(1);
                    let answer = served.sender.send("/path", "body").await;
                    let (request, respond) = served.below.next_request().await.unwrap();
                    assert_eq!(request.uri().path(), "/path");
                    assert_eq!(request.version(), version);
                    let from = request.context().client.as_ref().unwrap();
                    assert_eq!(from.addr, client().addr);
                    assert!(request.context().arrived <= tokio::time::Instant::now());
                    let mut response = Response::new(ResponseBody::empty());
                    *response.status_mut() = http::StatusCode::ACCEPTED;
                    respond.send_response(Ok(response));
                    assert_eq!(answer.await.unwrap().status(), 202, "{n} {version:?}");
                }
            }
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_reset_of_the_stack_is_that_of_a_stream_and_not_of_others() {
        let test = async {
            let mut served = served(Version::HTTP_2).await;
            for code in [h2::Reason::REFUSED_STREAM, h2::Reason::CANCEL] {
                served.below.allow(1);
                let answer = served.sender.send("/", "").await;
                let (_, respond) = served.below.next_request().await.unwrap();
                respond.send_response(Err(code.into()));
                let error = answer.await.unwrap_err();
                let reset = std::error::Error::source(&error);
                let reset = reset.and_then(|error| error.downcast_ref::<h2::Error>());
                assert_eq!(reset.and_then(h2::Error::reason), Some(code));
            }
            assert!(!served.ended.is_finished());
        };
        LocalSet::new().run_until(test).await;
    }

    #[tokio::test(start_paused = true)]
    async fn drain_waits_for_the_exchange_in_flight() {
        let test = async {
            for version in [Version::HTTP_11, Version::HTTP_2] {
                let mut served = served(version).await;
                served.below.allow(1);
                let answer = served.sender.send("/", "").await;
                let (_, respond) = served.below.next_request().await.unwrap();
                let drained = spawn_local(served.drain.drain());
                tokio::time::sleep(Duration::from_secs(1)).await;
                assert!(!served.ended.is_finished(), "{version:?}");
                respond.send_response(Ok(Response::new(ResponseBody::empty())));
                assert_eq!(answer.await.unwrap().status(), 200);
                served.ended.await.unwrap().unwrap();
                drained.await.unwrap();
            }
        };
        LocalSet::new().run_until(test).await;
    }
}
