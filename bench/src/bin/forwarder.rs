//! The floor: a minimal forwarder on hyper.
//!
//! One thread, no metrics, no routing, no error handling beyond closing; connections to the backends are reused, and
//! backends take turns. `forwarder LISTEN BACKEND…` serves HTTP/1, and HTTP/2 with `--http2` first. Two of them make the
//! floor of two proxies of a mesh: `--tls-in` and `--tls-out` encrypt, and `--http2-in` and `--http2-out` are HTTP/2 on one
//! side only.

#[path = "floor/tls.rs"]
mod tls;

use hyper::{
    HeaderMap, Request, Response, Uri, Version,
    body::Incoming,
    client::conn::{http1 as client1, http2 as client2},
    header::{HOST, HeaderValue},
    http::uri,
    server::conn::{http1 as server1, http2 as server2},
    service::service_fn,
};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::{
    cell::{Cell, RefCell},
    error::Error,
    net::SocketAddr,
    rc::Rc,
};
use tls::{Stream, Tls};
use tokio::{net::TcpListener, task::spawn_local};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

#[derive(Clone)]
struct LocalExec;

impl<F: Future + 'static> hyper::rt::Executor<F> for LocalExec {
    fn execute(&self, task: F) {
        spawn_local(async move {
            task.await;
        });
    }
}

/// The connections to one backend.
struct Backend {
    addr: SocketAddr,
    tls: Tls,
    http1: RefCell<Vec<client1::SendRequest<Incoming>>>,
    http2: RefCell<Option<client2::SendRequest<Incoming>>>,
}

struct Backends {
    all: Vec<Rc<Backend>>,
    next: Cell<usize>,
    protocols: Protocols,
}

/// Whether HTTP/2 is used with clients, and with backends.
#[derive(Clone, Copy)]
struct Protocols {
    clients_http2: bool,
    backends_http2: bool,
}

impl Backends {
    fn next(&self) -> Rc<Backend> {
        let next = self.next.get();
        self.next.set((next + 1) % self.all.len());
        self.all[next].clone()
    }
}

impl Backend {
    async fn http1(&self) -> Result<client1::SendRequest<Incoming>> {
        while let Some(sender) = self.http1.borrow_mut().pop() {
            if sender.is_ready() {
                return Ok(sender);
            }
        }
        let stream = self.tls.connect(self.addr).await?;
        let (sender, connection) = client1::handshake(TokioIo::new(stream)).await?;
        spawn_local(connection);
        Ok(sender)
    }

    async fn http2(&self) -> Result<client2::SendRequest<Incoming>> {
        // A load that ends resets its streams, and a peer ends a connection with too many resets.
        let open = self.http2.borrow().clone();
        if let Some(sender) = open.filter(|sender| !sender.is_closed()) {
            return Ok(sender);
        }
        let stream = self.tls.connect(self.addr).await?;
        let (sender, connection) = client2::Builder::new(LocalExec)
            .timer(TokioTimer::new())
            .initial_stream_window_size(65_535)
            .initial_connection_window_size(1_048_576)
            .handshake(TokioIo::new(stream))
            .await?;
        spawn_local(connection);
        *self.http2.borrow_mut() = Some(sender.clone());
        Ok(sender)
    }
}

async fn forward1(
    backends: Rc<Backends>,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    if backends.protocols.clients_http2 {
        as_http1(&mut request)?;
    }
    let backend = backends.next();
    let mut sender = backend.http1().await?;
    let response = sender.send_request(request).await?;
    // The connection is reused once it is ready again; bodies here arrive with their heads.
    spawn_back(backend, sender);
    Ok(response)
}

fn spawn_back(backend: Rc<Backend>, mut sender: client1::SendRequest<Incoming>) {
    if sender.is_ready() {
        backend.http1.borrow_mut().push(sender);
        return;
    }
    spawn_local(async move {
        if sender.ready().await.is_ok() {
            backend.http1.borrow_mut().push(sender);
        }
    });
}

async fn forward2(
    backends: Rc<Backends>,
    mut request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    if !backends.protocols.clients_http2 {
        as_http2(&mut request)?;
    }
    let mut sender = backends.next().http2().await?;
    let mut response = sender.send_request(request).await?;
    if !backends.protocols.clients_http2 {
        *response.version_mut() = Version::HTTP_11;
    }
    Ok(response)
}

/// A request with a host instead of an authority.
fn as_http1(request: &mut Request<Incoming>) -> Result<()> {
    let target = std::mem::take(request.uri_mut()).into_parts();
    if let Some(authority) = target.authority {
        let host = HeaderValue::from_str(authority.as_str())?;
        request.headers_mut().insert(HOST, host);
    }
    let mut path = uri::Parts::default();
    path.path_and_query = target.path_and_query;
    *request.uri_mut() = Uri::from_parts(path)?;
    *request.version_mut() = Version::HTTP_11;
    Ok(())
}

/// A request with an authority instead of a host.
fn as_http2(request: &mut Request<Incoming>) -> Result<()> {
    let host = take_host(request.headers_mut())?;
    let mut target = std::mem::take(request.uri_mut()).into_parts();
    target.scheme = Some(uri::Scheme::HTTP);
    target.authority = Some(host);
    *request.uri_mut() = Uri::from_parts(target)?;
    *request.version_mut() = Version::HTTP_2;
    Ok(())
}

fn take_host(headers: &mut HeaderMap) -> Result<uri::Authority> {
    let host = headers.remove(HOST).ok_or("a request has no host")?;
    Ok(host.as_bytes().try_into()?)
}

async fn serve(listener: TcpListener, tls: Tls, backends: Rc<Backends>) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        let (tls, backends) = (tls.clone(), backends.clone());
        spawn_local(async move {
            if let Ok(stream) = tls.accept(stream).await {
                serve_connection(stream, backends).await;
            }
        });
    }
}

/// A disconnect of a client is no failure.
async fn serve_connection(stream: Stream, backends: Rc<Backends>) {
    let io = TokioIo::new(stream);
    let protocols = backends.protocols;
    let service = service_fn(move |request| {
        let backends = backends.clone();
        async move {
            match protocols.backends_http2 {
                true => forward2(backends, request).await,
                false => forward1(backends, request).await,
            }
        }
    });
    if protocols.clients_http2 {
        let connection = server2::Builder::new(LocalExec)
            .timer(TokioTimer::new())
            .max_concurrent_streams(None)
            .initial_stream_window_size(65_535)
            .initial_connection_window_size(1_048_576)
            .serve_connection(io, service);
        drop(connection.await);
    } else {
        drop(server1::Builder::new().serve_connection(io, service).await);
    }
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let tls = Tls::take(&mut args)?;
    let mut flag = |name: &str| {
        let found = args.iter().position(|arg| arg == name);
        found.map(|at| args.remove(at)).is_some()
    };
    let both = flag("--http2");
    let protocols = Protocols {
        clients_http2: both || flag("--http2-in"),
        backends_http2: both || flag("--http2-out"),
    };
    let mut addrs = args.iter().map(|arg| arg.parse::<SocketAddr>());
    let listen = addrs
        .next()
        .ok_or("usage: forwarder [--http2] LISTEN BACKEND…")??;
    let backend = |addr| Backend {
        addr,
        tls: tls.clone(),
        http1: RefCell::default(),
        http2: RefCell::default(),
    };
    let all: Vec<_> = addrs
        .map(|addr| addr.map(|addr| Rc::new(backend(addr))))
        .collect::<std::result::Result<_, _>>()?;
    let backends = Rc::new(Backends {
        all,
        next: Cell::new(0),
        protocols,
    });
    tokio::runtime::LocalRuntime::new()?
        .block_on(async { serve(TcpListener::bind(listen).await?, tls, backends).await })
}
