//! Upgraded connections between real sockets: splice(2) cannot be faked.

use super::*;
use crate::{
    Backoff, EndpointStatus, Error, Rejected,
    endpoint::Capacity,
    http::{
        Connection, HalfSent, Http2Settings, HttpRequest, PoolSettings, RequestBody,
        RequestContext, ResponseBody, ServerSettings, Upload,
        client::{Http1Client, Http1Pools},
        serve_http1,
    },
    metrics::{Labels, Registry},
    task::spawn_local,
    transport::{Duplex, Socket, TransportMetrics, TransportSeries},
};
use hyper::{body::Incoming, service::service_fn};
use std::{cell::RefCell, future::ready, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::LocalSet,
};
use tower_service::Service;

/// Both ends of a connection.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap());
    let (near, far) = tokio::join!(near, listener.accept());
    (near.unwrap(), far.unwrap().0)
}

fn series() -> Arc<TransportSeries> {
    TransportMetrics::register(&Registry::new()).series(Labels::new())
}

fn counted(stream: TcpStream) -> Io {
    Io::new(Socket::from(stream).into(), series())
}

/// Serves a client's connection with `answer`.
fn serve<F>(stream: TcpStream, answer: impl Fn(Request<Incoming>) -> F + 'static)
where
    F: Future<Output = Result<Response<ResponseBody>, h2::Error>> + 'static,
{
    let settings = ServerSettings {
        header_timeout: 10 * SECOND,
        http2: Http2Settings::default(),
        half_sent: HalfSent::default(),
    };
    spawn_local(async move {
        let (_signal, drain) = crate::drain::channel();
        let connection = Rc::new(Connection::default());
        let (io, service) = (counted(stream), service_fn(answer));
        serve_http1(io, service, &settings, connection, drain.watch()).await
    });
}

/// Sends requests over one connection to an endpoint.
fn endpoint(
    stream: TcpStream,
) -> impl Service<
    HttpRequest,
    Response = Response<ResponseBody>,
    Error = Rejected<HttpRequest>,
    Future: 'static,
> {
    let connection = Rc::new(RefCell::new(Some(counted(stream))));
    let connect = tower::service_fn(move |()| {
        let io = connection.borrow_mut().take().expect("one is enough");
        ready(Ok::<_, Error>(io))
    });
    let pools = Http1Pools::new(PoolSettings {
        max_idle: 1,
        idle_timeout: 10 * SECOND,
    });
    let status = EndpointStatus::new(Capacity::OnDemand);
    let backoff = Backoff::new(SECOND, SECOND, 0.0).unwrap();
    Http1Client::new(connect, &pools, backoff, status)
}

/// Reads the head of a message.
async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.unwrap());
    }
    String::from_utf8(head).unwrap()
}

const ASK: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: t\r\n\r\nearly";

const AGREE: &[u8] =
    b"HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: t\r\n\r\nfirst";

#[tokio::test]
async fn bulk_through_an_upgraded_connection_is_spliced() {
    let test = async {
        let ((mut client, server), (near, mut far)) = (pair().await, pair().await);
        let (endpoint, pipes) = (RefCell::new(endpoint(near)), Rc::new(Pipes::default()));
        let relaying = pipes.clone();
        serve(server, move |request| {
            let version = request.version();
            let upload = || Upload::new(None);
            let request = request.map(|body| RequestBody::new(body, version, upload));
            let request = HttpRequest::new(request, RequestContext::arriving(None));
            let upgrade = Upgrade::of(&request).expect("it asks for one");
            let (sent, pipes) = (endpoint.borrow_mut().call(request), relaying.clone());
            async move {
                let mut response = sent.await.map_err(|_| h2::Reason::INTERNAL_ERROR)?;
                let joined = upgrade.join(&mut response, &pipes, None, std::future::pending());
                joined.map_err(|_| h2::Reason::INTERNAL_ERROR)?;
                Ok(response)
            }
        });
        client.write_all(ASK).await.unwrap();
        head(&mut far).await;
        far.write_all(AGREE).await.unwrap();
        assert!(head(&mut client).await.starts_with("HTTP/1.1 101"));
        let mut early = [0; 5];
        client.read_exact(&mut early).await.unwrap();
        assert_eq!(&early, b"first");
        far.read_exact(&mut early).await.unwrap();
        assert_eq!(&early, b"early");

        let bulk = vec![7; 10_000_000];
        let (sent, received) = tokio::join!(
            async {
                client.write_all(&bulk).await.unwrap();
                client.shutdown().await
            },
            async {
                let mut received = Vec::new();
                far.read_to_end(&mut received).await.unwrap();
                received
            }
        );
        sent.unwrap();
        assert!(received == bulk);
        let state = pipes.inspect();
        assert_eq!(state["open"], 1, "{state}");
    };
    LocalSet::new().run_until(test).await;
}

#[tokio::test]
async fn bytes_that_were_read_ahead_come_before_those_of_the_socket() {
    let test = async {
        let (mut client, server) = pair().await;
        let (opened, mut tunnels) = tokio::sync::mpsc::unbounded_channel();
        serve(server, move |mut request| {
            let (side, opened) = (hyper::upgrade::on(&mut request), opened.clone());
            spawn_local(async move { opened.send(upgraded(side).await.unwrap()) });
            let response = Response::builder().status(StatusCode::SWITCHING_PROTOCOLS);
            ready(Ok(response.body(ResponseBody::empty()).unwrap()))
        });
        client.write_all(ASK).await.unwrap();
        head(&mut client).await;
        let mut tunnel = tunnels.recv().await.unwrap();
        assert!(!tunnel.is_socket(), "bytes are before those of the socket");
        client.write_all(b" late").await.unwrap();
        let mut read = [0; 10];
        tunnel.read_exact(&mut read).await.unwrap();
        assert_eq!(&read, b"early late");
        assert!(tunnel.is_socket() && tunnel.peek().is_some());
    };
    LocalSet::new().run_until(test).await;
}

const SECOND: Duration = Duration::from_secs(1);
