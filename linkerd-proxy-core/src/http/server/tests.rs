//! Connections that wait for a request: clients must not notice that hyper was detached. Clocks are paused, and advance
//! when all tasks wait.

mod http2;
mod uploads;

use super::*;
use crate::{
    Reason,
    drain::Signal,
    metrics::{Labels, Registry},
    task::spawn_local,
    transport::{Socket, TransportMetrics},
};
use http::HeaderMap;
use http_body_util::{BodyExt, Full, combinators::UnsyncBoxBody};
use std::{cell::RefCell, task::Context};
use tokio::{
    io::{AsyncBufRead, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream},
    net::{TcpListener, TcpStream},
    task::{JoinHandle, LocalSet},
    time::{Instant, sleep},
};

/// Stands for a socket: a real socket does not work with a paused clock.
impl Duplex for BufReader<DuplexStream> {
    fn is_socket(&self) -> bool {
        true
    }

    fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        Pin::new(self).poll_fill_buf(cx).map(drop)
    }
}

/// A client's connection, and its server.
struct Served<C = DuplexStream> {
    client: C,
    connection: Rc<Connection>,
    /// The end of the last upload to `/early`.
    uploaded: Uploaded,
    serving: JoinHandle<Result<(), ServeError>>,
    drain: Signal,
}

type Uploaded = Rc<RefCell<Option<hyper::Result<Option<HeaderMap>>>>>;

impl Served {
    fn new() -> Self {
        let (client, server) = tokio::io::duplex(1 << 16);
        Self::over(client, BufReader::new(server))
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Served<C> {
    fn over(client: C, server: impl Duplex + Send + 'static) -> Self {
        let series = TransportMetrics::register(&Registry::new()).series(Labels::new());
        let io = Io::new(server, series);
        let connection = Rc::new(Connection::default());
        let (drain, handle) = drain::channel();
        let (served, uploaded) = (connection.clone(), Uploaded::default());
        let ended = uploaded.clone();
        let service = hyper::service::service_fn(move |request| {
            answer(served.clone(), ended.clone(), request)
        });
        let settings = ServerSettings {
            header_timeout: HEADER_TIMEOUT,
            http2: Http2Settings::default(),
            half_sent: HalfSent::default(),
        };
        let (watch, shared) = (handle.watch(), connection.clone());
        let serving =
            spawn_local(async move { serve_http1(io, service, &settings, shared, watch).await });
        Self {
            client,
            connection,
            uploaded,
            serving,
            drain,
        }
    }

    async fn send(&mut self, bytes: &str) {
        self.client.write_all(bytes.as_bytes()).await.unwrap();
    }

    /// Reads until the bytes end with `end`.
    async fn receive(&mut self, end: &str) -> String {
        let mut read = Vec::new();
        while !read.ends_with(end.as_bytes()) {
            assert_ne!(self.client.read_buf(&mut read).await.unwrap(), 0);
        }
        String::from_utf8(read).unwrap()
    }

    async fn exchange(&mut self, path: &str) {
        self.send(&format!("GET {path} HTTP/1.1\r\n\r\n")).await;
        let answer = self.receive(path).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    /// Waits until the connection is parked.
    async fn park(&self) {
        let start = Instant::now();
        while !self.connection.is_parked() {
            sleep(Duration::from_millis(100)).await;
            assert!(start.elapsed() < 3 * IDLE, "it is never parked");
        }
    }
}

/// The delay of an answer to `/slow`.
const SLOW: Duration = Duration::from_secs(60);

/// Answers with the path, after a minute for `/slow`, and with many bytes for `/large`.
async fn answer(
    connection: Rc<Connection>,
    uploaded: Uploaded,
    request: Request<Incoming>,
) -> Result<Response<Held>, h2::Error> {
    let busy = connection.busy();
    let path = request.uri().path().to_owned();
    if path == "/early" {
        let (head, body) = request.into_parts();
        let upload = connection.uploading(&head);
        spawn_local(async move {
            let ended = body.collect().await.map(|body| body.trailers().cloned());
            uploaded.replace(Some(ended));
            drop(upload);
        });
        // As the proxy does with an endpoint that answers at once.
        tokio::task::yield_now().await;
        let body = Full::from(path).map_err(|never| match never {});
        return Ok(Response::new(Held(body.boxed_unsync(), busy)));
    }
    request.into_body().collect().await.unwrap();
    if path == "/close" {
        connection.close();
    }
    if path == "/slow" {
        sleep(SLOW).await;
    }
    if path == "/elsewhere" {
        let upload = connection.busy();
        spawn_local(async move {
            sleep(Duration::from_secs(5)).await;
            drop(upload);
        });
    }
    if path == "/unwritable" {
        let body = Full::default().map_err(|never| match never {});
        let mut response = Response::new(Held(body.boxed_unsync(), busy));
        for coding in ["chunked", "gzip"] {
            let coding = http::HeaderValue::from_static(coding);
            response.headers_mut().append("transfer-encoding", coding);
        }
        response.headers_mut().insert("content-length", 5.into());
        return Ok(response);
    }
    let body = match path == "/large" {
        true => "x".repeat(LARGE),
        false => path,
    };
    let body = Full::from(body).map_err(|never| match never {});
    Ok(Response::new(Held(body.boxed_unsync(), busy)))
}

/// A body that keeps the connection busy.
struct Held(
    UnsyncBoxBody<Bytes, hyper::Error>,
    #[expect(dead_code, reason = "dropping it ends the exchange")] Busy,
);

impl Body for Held {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.0).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.0.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.0.size_hint()
    }
}

async fn local(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_parked_serves_the_next_request() {
    local(async {
        let mut served = Served::new();
        for path in ["/a", "/b", "/c"] {
            served.exchange(path).await;
            assert!(!served.connection.is_parked(), "not at once");
            served.park().await;
        }
        // Several requests at once, the last of them in pieces.
        served
            .send("GET /d HTTP/1.1\r\n\r\nGET /e HTTP/1.1\r\n\r\nGET /f")
            .await;
        served.receive("/e").await;
        sleep(HEADER_TIMEOUT / 2).await;
        assert!(!served.connection.is_parked(), "a request has begun");
        served.send(" HTTP/1.1\r\n\r\n").await;
        served.receive("/f").await;
        served.park().await;
        drop(served.client);
        served.serving.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_real_socket_is_parked_and_served_again() {
    local(async {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap());
        let (client, accepted) = tokio::join!(client, listener.accept());
        let mut served = Served::over(client.unwrap(), Socket::from(accepted.unwrap().0));
        served.exchange("/a").await;
        served.park().await;
        served.exchange("/b").await;
        served.park().await;
        drop(served.client);
        served.serving.await.unwrap().unwrap();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_in_use_is_not_parked() {
    local(async {
        let mut served = Served::new();
        for _ in 0..10 {
            served.exchange("/a").await;
            sleep(IDLE * 9 / 10).await;
            assert!(!served.connection.is_parked());
        }
        let start = Instant::now();
        served.send("GET /slow HTTP/1.1\r\n\r\n").await;
        while start.elapsed() < Duration::from_secs(59) {
            sleep(Duration::from_secs(1)).await;
            assert!(!served.connection.is_parked());
        }
        served.receive("/slow").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_not_sent_yet_keeps_it_from_being_parked() {
    local(async {
        let mut served = Served::new();
        served.send("GET /large HTTP/1.1\r\n\r\n").await;
        for _ in 0..60 {
            sleep(Duration::from_secs(1)).await;
            assert!(!served.connection.is_parked());
        }
        let mut read = 0;
        let mut buf = vec![0; 1 << 16];
        while read < LARGE {
            read += served.client.read(&mut buf).await.unwrap();
        }
        served.park().await;
        served.exchange("/after").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn the_start_of_a_request_that_came_with_the_one_before_is_not_lost() {
    local(async {
        let mut served = Served::new();
        served
            .send("POST /a HTTP/1.1\r\ncontent-length: 4\r\n\r\nbodyGET /b HT")
            .await;
        served.receive("/a").await;
        sleep(HEADER_TIMEOUT / 2).await;
        served.send("TP/1.1\r\n\r\n").await;
        served.receive("/b").await;
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_parked_connection_ends_with_the_proxy_at_once() {
    local(async {
        let mut served = Served::new();
        served.exchange("/a").await;
        served.park().await;
        let start = Instant::now();
        served.drain.drain().await;
        served.serving.await.unwrap().unwrap();
        assert_eq!(served.client.read(&mut [0; 1]).await.unwrap(), 0);
        assert_eq!(start.elapsed(), Duration::ZERO);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn headers_that_begin_after_parking_have_to_end_in_time() {
    local(async {
        let mut served = Served::new();
        served.exchange("/a").await;
        served.park().await;
        let start = Instant::now();
        served.send("GET /b HT").await;
        let mut answer = String::new();
        served.client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        let took = start.elapsed().as_secs();
        assert_eq!(took, HEADER_TIMEOUT.as_secs());
        drop(served.client);
        let ended = served.serving.await.unwrap();
        assert!(
            matches!(ended, Err(ServeError::HeaderTimeout(_))),
            "{ended:?}"
        );
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_long_head_that_comes_byte_by_byte_has_to_end_in_time() {
    local(async {
        let mut served = Served::new();
        let start = Instant::now();
        let long = "a".repeat(8000);
        served.send(&format!("GET / HTTP/1.1\r\nx: {long}")).await;
        while !served.serving.is_finished() {
            sleep(Duration::from_secs(1)).await;
            let _ = served.client.write_all(b"a").await;
            assert!(start.elapsed() < 2 * HEADER_TIMEOUT, "it never ends");
        }
        let answer = served.receive("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn half_a_head_behind_an_upload_that_ends_elsewhere_has_to_end_in_time() {
    local(async {
        let mut served = Served::new();
        let start = Instant::now();
        let both = "GET /elsewhere HTTP/1.1\r\n\r\nGET /b HT";
        served.send(both).await;
        served.receive("/elsewhere").await;
        let mut answer = String::new();
        let answered = served.client.read_to_string(&mut answer);
        let answered = tokio::time::timeout(4 * HEADER_TIMEOUT, answered).await;
        answered.expect("it is answered").unwrap();
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(start.elapsed() < HEADER_TIMEOUT + Duration::from_secs(15));
    })
    .await;
}

const LARGE: usize = 10_000_000;
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

#[tokio::test(start_paused = true)]
async fn a_response_that_the_codec_cannot_write_is_a_failure_and_no_200() {
    let test = async {
        let mut served = Served::new();
        served.send("GET /unwritable HTTP/1.1\r\n\r\n").await;
        let mut answer = Vec::new();
        served.client.read_to_end(&mut answer).await.unwrap();
        assert_eq!(answer, b"");
        let failure = served.serving.await.unwrap().unwrap_err().failure();
        assert_eq!(failure.unwrap().reason(), Reason::Unexpected);
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_request_that_the_codec_refuses_is_counted_as_the_clients() {
    let test = async {
        let mut served = Served::new();
        served.send("GET  / HTTP/1.1\r\n\r\n").await;
        let answer = served.receive("\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{answer}");
        let failure = served.serving.await.unwrap().unwrap_err().failure();
        assert_eq!(failure.unwrap().reason(), Reason::MalformedRequest);
    };
    LocalSet::new().run_until(test).await;
}
