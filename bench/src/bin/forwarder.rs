//! The floor: a minimal forwarder on hyper.
//!
//! One thread, no metrics, no routing, no error handling beyond closing; connections to the backends are reused, and
//! backends take turns. `forwarder LISTEN BACKEND…` serves HTTP/1, and HTTP/2 with `--http2` first.

use hyper::{
    Request, Response,
    body::Incoming,
    client::conn::{http1 as client1, http2 as client2},
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
use tokio::{
    net::{TcpListener, TcpStream},
    task::spawn_local,
};

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
    http1: RefCell<Vec<client1::SendRequest<Incoming>>>,
    http2: RefCell<Option<client2::SendRequest<Incoming>>>,
}

struct Backends {
    all: Vec<Rc<Backend>>,
    next: Cell<usize>,
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
        let stream = TcpStream::connect(self.addr).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = client1::handshake(TokioIo::new(stream)).await?;
        spawn_local(connection);
        Ok(sender)
    }

    async fn http2(&self) -> Result<client2::SendRequest<Incoming>> {
        if let Some(sender) = self.http2.borrow().clone() {
            return Ok(sender);
        }
        let stream = TcpStream::connect(self.addr).await?;
        stream.set_nodelay(true)?;
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
    request: Request<Incoming>,
) -> Result<Response<Incoming>> {
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
    request: Request<Incoming>,
) -> Result<Response<Incoming>> {
    let mut sender = backends.next().http2().await?;
    Ok(sender.send_request(request).await?)
}

async fn serve(listener: TcpListener, backends: Rc<Backends>, http2: bool) -> Result<()> {
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let backends = backends.clone();
        spawn_local(async move {
            let io = TokioIo::new(stream);
            let served = if http2 {
                let service = service_fn(move |request| forward2(backends.clone(), request));
                server2::Builder::new(LocalExec)
                    .timer(TokioTimer::new())
                    .max_concurrent_streams(None)
                    .initial_stream_window_size(65_535)
                    .initial_connection_window_size(1_048_576)
                    .serve_connection(io, service)
                    .await
            } else {
                let service = service_fn(move |request| forward1(backends.clone(), request));
                server1::Builder::new().serve_connection(io, service).await
            };
            // A client that disconnects is no failure.
            drop(served);
        });
    }
}

fn main() -> Result<()> {
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    let http2 = args.first().is_some_and(|arg| arg == "--http2");
    if http2 {
        args.remove(0);
    }
    let mut addrs = args.iter().map(|arg| arg.parse::<SocketAddr>());
    let listen = addrs
        .next()
        .ok_or("usage: forwarder [--http2] LISTEN BACKEND…")??;
    let backend = |addr| Backend {
        addr,
        http1: RefCell::default(),
        http2: RefCell::default(),
    };
    let all: Vec<_> = addrs
        .map(|addr| addr.map(|addr| Rc::new(backend(addr))))
        .collect::<std::result::Result<_, _>>()?;
    let backends = Rc::new(Backends {
        all,
        next: Cell::new(0),
    });
    tokio::runtime::LocalRuntime::new()?
        .block_on(async { serve(TcpListener::bind(listen).await?, backends, http2).await })
}
