//! The admin server's connections: bounded in number, each served in a separate task.

use super::{
    busy_body::BusyBody,
    context::AdminContext,
    controller::ControllerAdmin,
    request::{AdminClient, READ_TIMEOUT},
    router,
};
use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::{body::Incoming, service::service_fn};
use linkerd_proxy_core::{
    BoxError,
    crowd::source,
    drain,
    http::{Connection, HalfSent, Http2Settings, ServerSettings, serve_http1, serve_http2},
    metrics::{Labels, Registry},
    transport::{Detected, Io, Lookalikes, Socket, TransportMetrics, detect},
};
use std::{
    cell::Cell,
    cmp::Reverse,
    collections::{BTreeMap, HashMap},
    net::{IpAddr, SocketAddr},
    rc::Rc,
    time::Duration,
};
use tokio::{
    net::TcpStream,
    task::{AbortHandle, Id, JoinSet},
    time::Instant,
};

/// The open connections. Dropping it closes them.
pub(super) struct Connections {
    limit: usize,
    tasks: JoinSet<()>,
    open: BTreeMap<Id, OpenConnection>,
}

struct OpenConnection {
    source: IpAddr,
    used: Rc<LastUse>,
    task: AbortHandle,
}

/// The last use of a connection: its beginning, or a request.
struct LastUse {
    at: Cell<Instant>,
    has_asked: Cell<bool>,
}

impl LastUse {
    fn begin() -> Rc<Self> {
        Rc::new(Self {
            at: Cell::new(Instant::now()),
            has_asked: Cell::default(),
        })
    }

    /// Notes a request.
    fn now(&self) {
        self.at.set(Instant::now());
        self.has_asked.set(true);
    }
}

impl Connections {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            tasks: JoinSet::new(),
            open: BTreeMap::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Waits until a connection has ended. Cancel safe.
    pub(super) async fn reap(&mut self) {
        let ended = match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => id,
            Some(Err(error)) => error.id(),
            None => return,
        };
        self.open.remove(&ended);
    }

    /// Serves a connection. At the limit it replaces the least recently used one of the source with the most.
    pub(super) fn serve(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        admin: &Rc<AdminContext>,
        drain: &drain::Watch,
    ) {
        let (admin, drain) = (admin.clone(), drain.clone());
        self.admit(peer, |used| serve(stream, peer, admin, used, drain));
    }

    /// Serves a connection of the controller's admin server.
    pub(super) fn serve_controller(
        &mut self,
        stream: TcpStream,
        peer: SocketAddr,
        admin: &Rc<ControllerAdmin>,
        drain: &drain::Watch,
    ) {
        let (admin, drain) = (admin.clone(), drain.clone());
        self.admit(peer, |used| {
            let answer = move |request: Request<Incoming>| {
                used.now();
                std::future::ready(admin.answer(&request))
            };
            converse(stream, answer, READ_TIMEOUT, drain)
        });
    }

    /// Runs a connection; at the limit it replaces the least recently used one.
    fn admit<F>(&mut self, peer: SocketAddr, serve: impl FnOnce(Rc<LastUse>) -> F)
    where
        F: Future<Output = Result<(), BoxError>> + 'static,
    {
        if self.open.len() >= self.limit
            && let Some(id) = self.least_advanced()
            && let Some(open) = self.open.remove(&id)
        {
            tracing::debug!(client.addr = %peer, "Closing an idle admin connection for a new one");
            open.task.abort();
        }
        let used = LastUse::begin();
        let served = serve(used.clone());
        let task = self.tasks.spawn_local(async move {
            if let Err(error) = served.await {
                tracing::debug!(client.addr = %peer, %error, "Connection closed");
            }
        });
        let source = source(peer.ip());
        self.open
            .insert(task.id(), OpenConnection { source, used, task });
    }

    /// The connection that makes room: of the source with the most, the one that was not used for the longest. A flood must end no
    /// scrape, neither one of silent connections nor one of requests from elsewhere.
    fn least_advanced(&self) -> Option<Id> {
        let mut of_sources = HashMap::<_, usize>::new();
        for open in self.open.values() {
            *of_sources.entry(open.source).or_default() += 1;
        }
        let order = |open: &OpenConnection| {
            let of_source = of_sources.get(&open.source).copied();
            let used = &open.used;
            (Reverse(of_source), used.has_asked.get(), used.at.get())
        };
        let least = self.open.iter().min_by_key(|(_, open)| order(open));
        least.map(|(id, _)| *id)
    }
}

/// Serves a connection by the policy of the port, if there is one. `used` is updated by each request.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    admin: Rc<AdminContext>,
    used: Rc<LastUse>,
    mut drain: drain::Watch,
) -> Result<(), BoxError> {
    let client = AdminClient::new(peer);
    let stalled = client.stalled.clone();
    let served = async {
        let Some(policy) = &admin.policy else {
            let admin = admin.clone();
            let answer = move |request| {
                used.now();
                let (admin, client) = (admin.clone(), client.clone());
                async move { router::route(&admin, client, request).await }
            };
            return converse(stream, answer, READ_TIMEOUT, drain).await;
        };
        stream.set_nodelay(true)?;
        let stream = Socket::from(stream).into();
        let accepting = policy.accept(stream, peer, READ_TIMEOUT, &mut drain);
        let (io, admission) = accepting.await?;
        let parts = Rc::new((admin.clone(), admission));
        let answer = move |request| {
            used.now();
            let (parts, client) = (parts.clone(), client.clone());
            async move {
                let (admin, admission) = &*parts;
                let answer = |request| router::route(admin, client, request);
                admission.answer(request, answer).await
            }
        };
        converse_over(io, answer, READ_TIMEOUT, drain).await
    };
    tokio::select! {
        served = served => served,
        () = stalled.notified() => Err("its reader takes nothing".into()),
    }
}

/// Serves HTTP/1 or HTTP/2 like [`converse_over`], over a connection without metrics: it is not part of the mesh.
pub(crate) async fn converse<A, F, B>(
    stream: TcpStream,
    answer: A,
    read_timeout: Duration,
    drain: drain::Watch,
) -> Result<(), BoxError>
where
    A: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes, Error = hyper::Error> + 'static,
{
    // Responses are small, and written at once.
    stream.set_nodelay(true)?;
    let uncounted = TransportMetrics::register(&Registry::new()).series(Labels::new());
    let io = Io::new(Socket::from(stream).into(), uncounted);
    converse_over(io, answer, read_timeout, drain).await
}

/// Serves HTTP/1 or HTTP/2, as detected. Detection and the head of a request are limited by the timeout; requests in
/// flight are finished after drain is signalled. Must run on a local runtime (`spawn_local`).
async fn converse_over<A, F, B>(
    mut io: Io,
    answer: A,
    read_timeout: Duration,
    mut drain: drain::Watch,
) -> Result<(), BoxError>
where
    A: Fn(Request<Incoming>) -> F + 'static,
    F: Future<Output = Response<B>> + 'static,
    B: Body<Data = Bytes, Error = hyper::Error> + 'static,
{
    let (detected, read) = tokio::select! {
        biased;
        () = drain.signaled() => return Ok(()),
        detected = detect(&mut io, read_timeout, Lookalikes::Opaque) => detected?,
    };
    io.put_back(read);
    let settings = ServerSettings {
        header_timeout: read_timeout,
        http2: Http2Settings {
            max_concurrent_streams: Some(MAX_STREAMS),
            ..Http2Settings::default()
        },
        half_sent: HalfSent::default(),
    };
    let connection = Rc::new(Connection::default());
    let busy = connection.clone();
    let service = service_fn(move |request| {
        let (busy, answer) = (busy.busy(), answer(request));
        async move {
            let response = answer.await;
            Ok::<_, h2::Error>(response.map(|body| BusyBody::new(body, busy)))
        }
    });
    match detected {
        Some(Detected::Http2) => serve_http2(io, service, &settings, connection, drain).await?,
        // hyper answers invalid HTTP with 400.
        Some(Detected::Http1 | Detected::Opaque) => {
            serve_http1(io, service, &settings, connection, drain).await?;
        }
        None => return Err("the client was silent".into()),
    }
    Ok(())
}

/// Scrapers and people have one or two.
const MAX_STREAMS: u32 = 16;
