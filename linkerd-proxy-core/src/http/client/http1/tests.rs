//! Connections between exchanges: reuse, parking and closing must not be visible to clients. Clocks are paused, and advance
//! when all tasks wait.

use super::*;
use crate::{endpoint::Capacity, http::RequestContext, task::spawn_local};
use crate::{http::PoolSettings, limits};
use http::Request;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use std::{cell::Cell, convert::Infallible, time::Duration};
use tokio::{
    io::DuplexStream,
    sync::{mpsc, oneshot},
    task::{JoinHandle, LocalSet},
};

mod binding;
mod unasked;

type TestBody = UnsyncBoxBody<Bytes, Infallible>;

/// Makes connections to a server that echoes request bodies.
#[derive(Clone, Default)]
struct Dial(Rc<Server>);

#[derive(Default)]
struct Server {
    connections: Cell<usize>,
    closes: Cell<bool>,
    serving: Cell<Option<JoinHandle<()>>>,
}

impl Service<()> for Dial {
    type Response = DuplexStream;
    type Error = Error;
    type Future = std::future::Ready<Result<DuplexStream, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let (client, server) = tokio::io::duplex(1 << 12);
        let count = self.0.connections.get() + 1;
        self.0.connections.set(count);
        let echo = service_fn(|request: Request<Incoming>| async {
            Ok::<_, Infallible>(Response::new(request.into_body()))
        });
        let closes = self.0.closes.get();
        let serving = spawn_local(async move {
            let mut builder = http1::Builder::new();
            let served = builder.keep_alive(!closes);
            drop(served.serve_connection(TokioIo::new(server), echo).await);
        });
        self.0.serving.set(Some(serving));
        std::future::ready(Ok(client))
    }
}

struct Test {
    pools: Http1Pools,
    client: Http1Client<Dial, TestBody>,
    server: Rc<Server>,
}

/// A request that arrives now.
fn arriving<B>(request: Request<B>) -> HttpRequest<B> {
    HttpRequest::new(request, RequestContext::arriving(None))
}

impl Test {
    fn new() -> Self {
        Self::beside(&Http1Pools::new(PoolSettings {
            max_idle: 8,
            idle_timeout: IDLE,
        }))
    }

    /// A client of another endpoint, in the same pools.
    fn beside(pools: &Http1Pools) -> Self {
        let dial = Dial::default();
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 0.0);
        let status = EndpointStatus::new(Capacity::OnDemand);
        Self {
            server: dial.0.clone(),
            client: Http1Client::new(dial, pools, backoff.unwrap(), status),
            pools: pools.clone(),
        }
    }

    /// `count` clients of different endpoints, each of which has an idle connection.
    async fn many(count: usize) -> Vec<Self> {
        let mut tests = vec![Self::new()];
        while tests.len() < count {
            tests.push(Self::beside(&tests[0].pools));
        }
        for test in &mut tests {
            test.exchange("").await;
        }
        tests
    }

    async fn send(&mut self, body: TestBody) -> Response<ResponseBody> {
        let request = Request::post("/").header("host", "test").body(body);
        self.client.call(arriving(request.unwrap())).await.unwrap()
    }

    async fn exchange(&mut self, text: &'static str) {
        let response = self.send(Full::from(text).boxed_unsync()).await;
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes(), text);
    }

    /// The connections in `/state`: open, idle.
    fn connections(&self) -> (u64, u64) {
        let shown = self.client.status().inspect();
        let count = |name: &str| shown[name].as_u64().unwrap();
        (count("open"), count("idle"))
    }

    /// The pools in `/state`: those with idle connections, and those with connections that are not parked.
    fn pools(&self) -> (usize, usize) {
        let shown = self.pools.inspect();
        let count = |name: &str| shown[name].as_u64().unwrap() as usize;
        (count("idle"), count("warm"))
    }
}

async fn local(test: impl Future<Output = ()>) {
    LocalSet::new().run_until(test).await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_serves_again_after_it_was_parked() {
    local(async {
        let mut test = Test::new();
        for pause in [0, 1, 2, 1, 0] {
            // Without a body: with one the connection has its own task.
            test.exchange("").await;
            assert_eq!(test.connections(), (1, 1));
            tokio::time::sleep(limits::HTTP1_PARK * pause).await;
        }
        assert_eq!(test.server.connections.get(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_while_nobody_looked_loses_nothing() {
    local(async {
        let mut test = Test::new();
        for pause in [Duration::ZERO, 2 * limits::HTTP1_PARK] {
            test.exchange("").await;
            tokio::time::sleep(pause).await;
            test.server.serving.take().unwrap().abort();
            tokio::task::yield_now().await;
            test.exchange("").await;
        }
        assert_eq!(test.server.connections.get(), 3);
        assert_eq!(test.connections(), (1, 1));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_the_endpoint_closes_with_its_answer_is_not_kept() {
    local(async {
        let mut test = Test::new();
        test.server.closes.set(true);
        for count in 1..4 {
            test.exchange("").await;
            assert_eq!(test.connections(), (0, 0));
            assert_eq!(test.server.connections.get(), count);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_response_that_ends_with_trailers_gives_its_connection_back() {
    local(async {
        let mut test = Test::new();
        for _ in 0..2 {
            let trailers = [("x-end".parse().unwrap(), "1".parse().unwrap())];
            let frames = [
                http_body::Frame::data(Bytes::from_static(b"hello")),
                http_body::Frame::trailers(trailers.into_iter().collect()),
            ];
            let body = StreamBody::new(futures::stream::iter(frames.map(Ok)));
            let request = Request::post("/")
                .header("host", "test")
                .header("te", "trailers");
            let request = request.header("trailer", "x-end").body(body.boxed_unsync());
            let response = test.client.call(arriving(request.unwrap())).await.unwrap();
            let mut body = response.into_body();
            while let Some(frame) = body.frame().await {
                if frame.unwrap().is_trailers() {
                    break;
                }
            }
            drop(body);
            assert_eq!(test.connections(), (1, 1));
        }
        assert_eq!(test.server.connections.get(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn idle_connections_are_closed_in_time() {
    local(async {
        let mut test = Test::new();
        test.exchange("").await;
        tokio::time::sleep(IDLE - Duration::from_millis(1)).await;
        assert_eq!(test.connections(), (1, 1));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(test.connections(), (0, 0));
        test.exchange("").await;
        assert_eq!(test.server.connections.get(), 2);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn few_connections_are_parked_late() {
    local(async {
        let mut tests = Test::many(limits::HTTP1_WARM_POOLS).await;
        let count = tests.len();
        tokio::time::sleep(limits::HTTP1_PARK - Duration::from_millis(1)).await;
        assert_eq!(tests[0].pools(), (count, count));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(tests[0].pools(), (count, 0));
        tests[0].exchange("").await;
        assert_eq!(tests[0].pools(), (count, 1));
        assert_eq!(tests[0].server.connections.get(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_connections_are_parked_early() {
    local(async {
        let mut tests = Test::many(limits::HTTP1_WARM_POOLS + 1).await;
        let count = tests.len();
        assert_eq!(tests[0].pools(), (count, count));
        tokio::time::sleep(2 * limits::HTTP1_PARK_CROWDED).await;
        assert_eq!(tests[0].pools(), (count, 0));
        for test in &mut tests {
            test.exchange("").await;
            assert_eq!(test.server.connections.get(), 1);
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn many_connections_in_use_are_not_parked() {
    local(async {
        let mut tests = Test::many(limits::HTTP1_WARM_POOLS + 1).await;
        let count = tests.len();
        for _ in 0..20 {
            tokio::time::sleep(limits::HTTP1_PARK_CROWDED / 2).await;
            assert_eq!(tests[0].pools(), (count, count));
            for test in &mut tests {
                test.exchange("").await;
            }
        }
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn pools_that_are_gone_are_not_many() {
    local(async {
        let mut tests = Test::many(limits::HTTP1_WARM_POOLS + 1).await;
        tests.truncate(2);
        assert_eq!(tests[0].pools().1, 2);
        tokio::time::sleep(2 * limits::HTTP1_PARK_CROWDED).await;
        assert_eq!(tests[0].pools(), (2, 2));
        tokio::time::sleep(IDLE).await;
        assert_eq!(tests[0].pools(), (0, 0));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_upload_goes_on_while_nobody_reads_the_response() {
    local(async {
        let mut test = Test::new();
        let (say, said) = mpsc::channel::<Bytes>(1);
        let frames = futures::stream::unfold(said, |mut said| async {
            let data = said.recv().await?;
            Some((Ok(http_body::Frame::data(data)), said))
        });
        let (taken, all_taken) = oneshot::channel();
        spawn_local(async move {
            // More than fits into all buffers on the way back and forth is not taken, but this much is.
            for _ in 0..8 {
                say.send(Bytes::from_static(&[7; 512])).await.unwrap();
            }
            drop(say);
            let _ = taken.send(());
        });
        let response = test.send(StreamBody::new(frames).boxed_unsync()).await;
        tokio::time::timeout(IDLE, all_taken)
            .await
            .unwrap()
            .unwrap();
        let body = response.into_body().collect().await.unwrap();
        assert_eq!(body.to_bytes().len(), 8 * 512);
        test.exchange("again").await;
        assert_eq!(test.server.connections.get(), 1);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn an_exchange_that_is_given_up_takes_its_connection_with_it() {
    local(async {
        let mut test = Test::new();
        let frames = futures::stream::pending::<Result<http_body::Frame<Bytes>, Infallible>>();
        drop(test.send(StreamBody::new(frames).boxed_unsync()).await);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(test.connections(), (0, 0));
    })
    .await;
}

const IDLE: Duration = Duration::from_secs(3);
