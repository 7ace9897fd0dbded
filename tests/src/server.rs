//! A scripted HTTP server, which detects HTTP/1 and HTTP/2 by the preface.

use crate::{
    Body, BoxError, body,
    ports::{addr_of, bound, bound_at},
};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderMap, Method, Request, Response, Uri, Version};
use http_body_util::BodyExt;
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use socket2::Socket;
use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::Duration,
};
use tokio::{
    io::AsyncReadExt,
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{Instant, sleep, sleep_until},
};

/// A response 200 with a text.
pub fn reply(text: impl Into<Bytes>) -> Result<Response<Body>, Fail> {
    Ok(Response::new(body(text)))
}

/// A failure in place of a response.
#[derive(Clone, Copy, Debug)]
pub enum Fail {
    /// Closes the connection.
    Close,
    /// Resets the stream, or with HTTP/1 the connection.
    Reset(h2::Reason),
}

/// A received request.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The method.
    pub method: Method,
    /// The target in its original form.
    pub uri: Uri,
    /// The version of HTTP.
    pub version: Version,
    /// The headers.
    pub headers: HeaderMap,
    /// The number of the connection, from 0.
    pub connection: usize,
}

type Handler =
    dyn Fn(Request<Incoming>) -> BoxFuture<'static, Result<Response<Body>, Fail>> + Send + Sync;

/// A server on a loopback port, which it keeps while stopped.
pub struct Server {
    addr: SocketAddr,
    shared: Arc<Shared>,
    running: Option<JoinHandle<()>>,
    /// Holds the port while the server is stopped.
    placeholder: Option<Socket>,
}

struct Shared {
    handler: Box<Handler>,
    builder: ServerBuilder,
    latency: Mutex<Duration>,
    seen: Mutex<Vec<Seen>>,
    requests: AtomicUsize,
    connections: AtomicUsize,
    open: AtomicUsize,
    in_flight: AtomicUsize,
    goaway: watch::Sender<()>,
}

/// Options of a server.
#[derive(Clone, Debug, Default)]
pub struct ServerBuilder {
    idle_close: Option<Duration>,
    max_streams: Option<u32>,
    addr: Option<SocketAddr>,
}

impl ServerBuilder {
    /// Closes connections after this idle time.
    #[must_use]
    pub fn close_idle_after(mut self, idle: Duration) -> Self {
        self.idle_close = Some(idle);
        self
    }

    /// `SETTINGS_MAX_CONCURRENT_STREAMS`.
    #[must_use]
    pub fn max_streams(mut self, streams: u32) -> Self {
        self.max_streams = Some(streams);
        self
    }

    /// Listens on another address than loopback.
    #[must_use]
    pub fn at(mut self, addr: SocketAddr) -> Self {
        self.addr = Some(addr);
        self
    }

    /// Starts the server.
    pub async fn start<F, R>(self, handler: F) -> Server
    where
        F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Response<Body>, Fail>> + Send + 'static,
    {
        let socket = self.addr.map_or_else(bound, bound_at);
        let mut server = Server {
            addr: addr_of(&socket),
            shared: Arc::new(Shared {
                handler: Box::new(move |request| Box::pin(handler(request))),
                builder: self,
                latency: Mutex::default(),
                seen: Mutex::default(),
                requests: AtomicUsize::new(0),
                connections: AtomicUsize::new(0),
                open: AtomicUsize::new(0),
                in_flight: AtomicUsize::new(0),
                goaway: watch::channel(()).0,
            }),
            running: None,
            placeholder: Some(socket),
        };
        server.restart();
        server
    }
}

impl Server {
    /// A builder of a server.
    pub fn builder() -> ServerBuilder {
        ServerBuilder::default()
    }

    /// Starts a server with default options.
    pub async fn start<F, R>(handler: F) -> Self
    where
        F: Fn(Request<Incoming>) -> R + Send + Sync + 'static,
        R: Future<Output = Result<Response<Body>, Fail>> + Send + 'static,
    {
        Self::builder().start(handler).await
    }

    /// A server that answers with a text.
    pub async fn says(text: &'static str) -> Self {
        Self::start(move |_| async move { reply(text) }).await
    }

    /// A server that answers with the request's body.
    pub async fn echo() -> Self {
        Self::start(|request| async move {
            Ok(Response::new(
                request.into_body().map_err(BoxError::from).boxed_unsync(),
            ))
        })
        .await
    }

    /// The address of the server.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Delays further responses by this time.
    pub fn set_latency(&self, latency: Duration) {
        *self.shared.latency.lock() = latency;
    }

    /// The number of received requests.
    pub fn requests(&self) -> usize {
        self.shared.requests.load(SeqCst)
    }

    /// The number of requests in flight.
    pub fn in_flight(&self) -> usize {
        self.shared.in_flight.load(SeqCst)
    }

    /// The number of accepted connections.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(SeqCst)
    }

    /// The number of open connections.
    pub fn open_connections(&self) -> usize {
        self.shared.open.load(SeqCst)
    }

    /// The received requests.
    pub fn seen(&self) -> Vec<Seen> {
        self.shared.seen.lock().clone()
    }

    /// The last received request.
    pub fn last(&self) -> Seen {
        self.seen().pop().expect("a request came")
    }

    /// Ends all connections after their requests in flight, with GOAWAY or `connection: close`.
    pub fn goaway(&self) {
        self.shared.goaway.send_replace(());
    }

    /// Closes the listener and all connections at once, and keeps the port: connections are refused.
    pub async fn stop(&mut self) {
        if let Some(running) = self.running.take() {
            running.abort();
            let _ = running.await;
            self.placeholder = Some(bound_at(self.addr));
        }
    }

    /// Listens again on the same port.
    pub fn restart(&mut self) {
        let socket = self.placeholder.take().expect("it is stopped");
        socket.listen(1024).unwrap();
        let listener = TcpListener::from_std(socket.into()).unwrap();
        self.running = Some(tokio::spawn(accept(self.shared.clone(), listener)));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

async fn accept(shared: Arc<Shared>, listener: TcpListener) {
    // The tasks of connections end with this task.
    let mut connections = JoinSet::new();
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        let index = shared.connections.fetch_add(1, SeqCst);
        connections.spawn(serve(shared.clone(), socket, index));
        while connections.try_join_next().is_some() {}
    }
}

/// Counts up until dropped.
struct Count(Arc<Shared>, fn(&Shared) -> &AtomicUsize);

impl Count {
    fn new(shared: &Arc<Shared>, of: fn(&Shared) -> &AtomicUsize) -> Self {
        of(shared).fetch_add(1, SeqCst);
        Self(shared.clone(), of)
    }
}

impl Drop for Count {
    fn drop(&mut self) {
        (self.1)(&self.0).fetch_sub(1, SeqCst);
    }
}

async fn serve(shared: Arc<Shared>, socket: TcpStream, index: usize) {
    let _open = Count::new(&shared, |shared| &shared.open);
    socket.set_nodelay(true).unwrap();
    let mut preface = [0; 4];
    while socket
        .peek(&mut preface)
        .await
        .is_ok_and(|read| 0 < read && read < 4)
    {
        tokio::task::yield_now().await;
    }
    // The number of requests in flight, and the time of the last change.
    let activity = watch::channel((0_usize, Instant::now())).0;
    let activity = Arc::new(activity);
    let (kill, mut killed) = watch::channel(false);
    let kill = Arc::new(kill);
    let service = service_fn({
        let (shared, activity) = (shared.clone(), activity.clone());
        move |request| {
            handle(
                shared.clone(),
                activity.clone(),
                kill.clone(),
                request,
                index,
            )
        }
    });
    let io = TokioIo::new(socket);
    let mut goaway = shared.goaway.subscribe();
    let idle = idle(shared.builder.idle_close, &activity);
    macro_rules! drive {
        ($connection:expr) => {{
            let connection = $connection;
            tokio::pin!(connection, idle);
            let mut told = false;
            loop {
                tokio::select! {
                    _ = connection.as_mut() => break,
                    () = idle.as_mut() => break,
                    _ = killed.wait_for(|killed| *killed) => break,
                    _ = goaway.changed(), if !told => {
                        told = true;
                        connection.as_mut().graceful_shutdown();
                    }
                }
            }
        }};
    }
    if &preface == b"PRI " {
        let mut http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(shared.builder.max_streams);
        drive!(http2.serve_connection(io, service));
    } else {
        let mut http1 = hyper::server::conn::http1::Builder::new();
        http1.header_read_timeout(None);
        drive!(http1.serve_connection(io, service).with_upgrades());
    }
}

/// Resolves after this idle time.
async fn idle(limit: Option<Duration>, activity: &watch::Sender<(usize, Instant)>) {
    let Some(limit) = limit else {
        return std::future::pending().await;
    };
    let mut activity = activity.subscribe();
    loop {
        let (in_flight, since) = *activity.borrow_and_update();
        tokio::select! {
            () = sleep_until(since + limit), if in_flight == 0 => return,
            _ = activity.changed() => {}
        }
    }
}

async fn handle(
    shared: Arc<Shared>,
    activity: Arc<watch::Sender<(usize, Instant)>>,
    kill: Arc<watch::Sender<bool>>,
    request: Request<Incoming>,
    connection: usize,
) -> Result<Response<Body>, BoxError> {
    activity.send_modify(|activity| activity.0 += 1);
    let in_flight = Count::new(&shared, |shared| &shared.in_flight);
    shared.requests.fetch_add(1, SeqCst);
    shared.seen.lock().push(Seen {
        method: request.method().clone(),
        uri: request.uri().clone(),
        version: request.version(),
        headers: request.headers().clone(),
        connection,
    });
    let latency = *shared.latency.lock();
    if !latency.is_zero() {
        sleep(latency).await;
    }
    let answer = (shared.handler)(request).await;
    activity.send_modify(|activity| *activity = (activity.0 - 1, Instant::now()));
    drop(in_flight);
    match answer {
        Ok(response) => Ok(response),
        Err(Fail::Close) => {
            // This task ends with the connection.
            kill.send_replace(true);
            std::future::pending().await
        }
        Err(Fail::Reset(reason)) => Err(h2::Error::from(reason).into()),
    }
}

/// Echoes the bytes of an upgraded connection.
pub async fn echo_upgraded(upgrade: hyper::upgrade::OnUpgrade) {
    use tokio::io::AsyncWriteExt;
    let Ok(upgraded) = upgrade.await else { return };
    let mut io = TokioIo::new(upgraded);
    let mut buf = [0; 4096];
    while let Ok(read) = io.read(&mut buf).await {
        if read == 0 || io.write_all(&buf[..read]).await.is_err() {
            return;
        }
    }
}
