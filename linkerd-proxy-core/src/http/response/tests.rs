//! The end of a response's body, as clients of either version see it.

use super::*;
use crate::{
    Reason, drain,
    http::{
        Connection, HalfSent, Http2Settings, LocalExec, ObservedResponse, ServerSettings,
        client::tests::incoming, serve_http1, serve_http2,
    },
    metrics::{Labels, Registry},
    task::spawn_local,
    transport::{Duplex, Io, Side, Socket, TransportMetrics},
};
use http::{HeaderMap, Request, Version, header::CONTENT_TYPE};
use http_body_util::{BodyExt, Empty};
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::{cell::RefCell, io::ErrorKind, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, DuplexStream},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};

mod peek;

struct NoLease;

impl Lease for NoLease {
    fn complete(self: Box<Self>, _: &Now) {}
}

/// An observer that records its notifications.
#[derive(Default)]
struct Notes(RefCell<Vec<String>>);

impl ObserveResponse for Notes {
    fn data(&self, response: &ObservedResponse<'_>, len: usize, _: &Now) {
        let status = response.status;
        self.0.borrow_mut().push(format!("{status}: {len}"));
    }

    fn end(&self, _: &ObservedResponse<'_>, end: BodyEnd<'_>, _: &Now) {
        let end = match end {
            BodyEnd::Complete(_) => "complete".to_owned(),
            BodyEnd::Failed(error) => error.reason().label().to_owned(),
            BodyEnd::Dropped => "dropped".to_owned(),
        };
        self.0.borrow_mut().push(end);
    }
}

/// A client's connection to a proxy that answers `/full` itself, and all other requests with an endpoint's response that
/// stops after five bytes and has a limit, or breaks off for `/broken`.
fn serve(version: Version, notes: &Rc<Notes>) -> DuplexStream {
    let (client, server) = tokio::io::duplex(1 << 16);
    serve_over(server, version, notes);
    client
}

fn serve_over(server: impl Duplex + Send + 'static, version: Version, notes: &Rc<Notes>) {
    let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
    let io = Io::new(server, series);
    let connection = Rc::new(Connection::default());
    let (served, notes) = (connection.clone(), notes.clone());
    let service = service_fn(move |request| answer(served.clone(), notes.clone(), request));
    let settings = ServerSettings {
        header_timeout: LIMIT * 10,
        http2: Http2Settings::default(),
        half_sent: HalfSent::default(),
    };
    spawn_local(async move {
        let (_signal, drain) = drain::channel();
        let watch = drain.watch();
        let served = match version {
            Version::HTTP_2 => serve_http2(io, service, &settings, connection, watch).await,
            _ => serve_http1(io, service, &settings, connection, watch).await,
        };
        drop(served);
    });
}

async fn answer(
    connection: Rc<Connection>,
    notes: Rc<Notes>,
    request: Request<Incoming>,
) -> Result<Response<ResponseBody>, h2::Error> {
    let responder = Responder::new(&request, Side::Inbound, true);
    let busy = connection.busy();
    let mut response = if request.uri().path() == "/full" {
        let answer = Response::builder().status(403).body("denied");
        ResponseBody::full(answer.unwrap())
    } else {
        let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
        let rest = match request.uri().path() {
            "/broken" => "not a chunk\r\n",
            _ => "",
        };
        let response = incoming(&format!("{head}5\r\nhello\r\n{rest}")).await;
        let mut response = ResponseBody::of_endpoint(response, Box::new(NoLease), None);
        let limit = Deadline::new(Instant::now() + LIMIT, Reason::ConnectTimeout);
        response.body_mut().end_by(limit);
        response
    };
    let body = response.body_mut();
    body.observe(notes, Instant::now());
    body.end_well(responder, Rc::new(Unobserved));
    body.hold(Some(busy));
    Ok(response)
}

/// The bytes that an HTTP/1 client receives until the connection ends.
async fn http1(path: &str) -> (String, Vec<String>) {
    let notes = Rc::new(Notes::default());
    let mut client = serve(Version::HTTP_11, &notes);
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
    client.write_all(request.as_bytes()).await.unwrap();
    let mut received = String::new();
    client.read_to_string(&mut received).await.unwrap();
    (received, notes.0.take())
}

/// The response that an HTTP/2 client receives: the status, then the body or the error.
async fn http2(
    path: &str,
    content_type: &'static str,
) -> (
    StatusCode,
    Result<(Bytes, HeaderMap), h2::Reason>,
    Vec<String>,
) {
    let notes = Rc::new(Notes::default());
    let client = serve(Version::HTTP_2, &notes);
    let io = TokioIo::new(client);
    let (mut sender, connection) = hyper::client::conn::http2::handshake(LocalExec, io)
        .await
        .unwrap();
    spawn_local(connection);
    let request = Request::builder()
        .uri(format!("http://a{path}"))
        .header(CONTENT_TYPE, content_type)
        .body(Empty::<Bytes>::new());
    let response = sender.send_request(request.unwrap()).await.unwrap();
    let status = response.status();
    let received = match response.into_body().collect().await {
        Ok(body) => {
            let trailers = body.trailers().cloned().unwrap_or_default();
            Ok((body.to_bytes(), trailers))
        }
        Err(error) => Err(BodyError::from(error).reset_code().unwrap()),
    };
    (status, received, notes.0.take())
}

async fn local(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_closes_an_http1_connection_before_the_last_chunk() {
    local(async {
        let start = Instant::now();
        let (received, notes) = http1("/").await;
        assert!(received.ends_with("\r\n\r\n5\r\nhello\r\n"), "{received}");
        assert_eq!(start.elapsed(), LIMIT);
        assert_eq!(notes, ["200 OK: 5", "connect_timeout"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_resets_an_http2_stream() {
    local(async {
        let start = Instant::now();
        let (status, received, notes) = http2("/", "text/plain").await;
        assert_eq!(status, 200);
        assert_eq!(received, Err(h2::Reason::CANCEL));
        assert_eq!(start.elapsed(), LIMIT);
        assert_eq!(notes, ["200 OK: 5", "connect_timeout"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_grpc_response_with_trailers() {
    local(async {
        let start = Instant::now();
        let (_, received, notes) = http2("/", "application/grpc").await;
        let (data, trailers) = received.unwrap();
        assert_eq!(data, "hello");
        assert_eq!(trailers["grpc-status"], "4");
        assert_eq!(trailers["grpc-message"], "connect timed out");
        assert_eq!(start.elapsed(), LIMIT);
        assert_eq!(notes, ["200 OK: 5", "connect_timeout"]);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_the_proxy_is_observed_and_has_a_length_in_either_version() {
    local(async {
        let (received, notes) = http1("/full").await;
        assert!(received.starts_with("HTTP/1.1 403"), "{received}");
        assert!(received.contains("content-length: 6"), "{received}");
        assert!(received.ends_with("\r\n\r\ndenied"), "{received}");
        assert_eq!(notes, ["403 Forbidden: 6", "complete"]);
        let (status, received, notes) = http2("/full", "text/plain").await;
        assert_eq!(status, 403);
        assert_eq!(received.unwrap().0, "denied");
        assert_eq!(notes, ["403 Forbidden: 6", "complete"]);
    })
    .await;
}

#[tokio::test]
async fn a_body_without_a_length_that_breaks_off_does_not_look_complete_to_http_1_0() {
    local(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        for (version, resets) in [("1.0", true), ("1.1", false)] {
            let client = TcpStream::connect(addr);
            let (client, accepted) = tokio::join!(client, listener.accept());
            let socket = Socket::from(accepted.unwrap().0);
            serve_over(socket, Version::HTTP_11, &Rc::default());
            let mut client = client.unwrap();
            let request = format!("GET /broken HTTP/{version}\r\nhost: a\r\n\r\n");
            client.write_all(request.as_bytes()).await.unwrap();
            let mut received = Vec::new();
            let ended = client.read_to_end(&mut received).await;
            let received = String::from_utf8(received).unwrap();
            assert!(received.contains("hello"), "{received}");
            let reset = ended.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset);
            assert_eq!(reset, resets, "{received}");
        }
    })
    .await;
}

#[tokio::test]
async fn an_answer_without_text_has_ended_when_it_is_observed() {
    let notes = Rc::new(Notes::default());
    let mut response = ResponseBody::full(Response::new(""));
    response.body_mut().observe(notes.clone(), Instant::now());
    drop(response);
    assert_eq!(notes.0.take(), ["complete"]);
}

const LIMIT: Duration = Duration::from_secs(5);

struct Unobserved;

impl ObserveBrokenResponse for Unobserved {
    fn broke_off(&self, _: &Responder, _: &Error) {}
}
