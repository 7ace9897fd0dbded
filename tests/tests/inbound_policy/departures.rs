//! Controllers that leave: an orderly end is no warning.

use bytes::{BufMut, Bytes, BytesMut};
use h2::{Reason, SendStream, server::Connection};
use http::{HeaderMap, Response};
use linkerd_control::{Authorization, ServerPolicy};
use linkerd_tests::{Proxy, SOON, eventually};
use prost::Message;
use std::{future::poll_fn, time::Duration};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

/// The end of a controller's first connection.
#[derive(Clone, Copy, Debug)]
enum Departure {
    /// The streams end with a status, and the connection after them.
    Status(&'static str),
    /// GOAWAY with NO_ERROR, and the end of the connection.
    GoAway,
    /// GOAWAY with NO_ERROR, after which the streams are reset with a code.
    GoAwayAndReset(Reason),
    /// A stream is reset with a code.
    Reset(Reason),
    /// The end of the connection alone.
    Close,
}

/// A controller that sends the policy of ports. Connections that are open when it is told to leave end so.
async fn controller(listener: TcpListener, departure: Departure, leave: watch::Receiver<bool>) {
    loop {
        let (socket, _) = listener.accept().await.unwrap();
        tokio::spawn(connection(socket, departure, leave.clone()));
    }
}

async fn connection(socket: TcpStream, departure: Departure, mut leave: watch::Receiver<bool>) {
    let is_first = !*leave.borrow();
    let mut connection = h2::server::handshake(socket).await.unwrap();
    let mut streams = Vec::new();
    loop {
        tokio::select! {
            call = connection.accept() => {
                let Some(Ok((request, mut respond))) = call else { return };
                let response = Response::builder().header("content-type", "application/grpc");
                if !request.uri().path().ends_with("/WatchPort") {
                    let response = response.header("grpc-status", "12").body(()).unwrap();
                    respond.send_response(response, true).unwrap();
                    continue;
                }
                let mut stream = respond.send_response(response.body(()).unwrap(), false).unwrap();
                stream.send_data(policy(), false).unwrap();
                streams.push(stream);
            }
            Ok(()) = leave.changed(), if is_first => break,
        }
    }
    departs(connection, streams, departure).await;
}

async fn departs(
    mut connection: Connection<TcpStream, Bytes>,
    mut streams: Vec<SendStream<Bytes>>,
    departure: Departure,
) {
    match departure {
        Departure::Status(code) => {
            for mut stream in streams.drain(..) {
                let mut trailers = HeaderMap::new();
                trailers.insert("grpc-status", code.parse().unwrap());
                stream.send_trailers(trailers).unwrap();
            }
            connection.graceful_shutdown();
        }
        Departure::GoAway => connection.graceful_shutdown(),
        Departure::GoAwayAndReset(reason) => {
            connection.graceful_shutdown();
            flushed(&mut connection).await;
            streams
                .iter_mut()
                .for_each(|stream| stream.send_reset(reason));
        }
        Departure::Reset(reason) => streams
            .iter_mut()
            .for_each(|stream| stream.send_reset(reason)),
        Departure::Close => {}
    }
    flushed(&mut connection).await;
}

/// Writes the frames that wait, and reads for a moment, as a PING precedes the last GOAWAY.
async fn flushed(connection: &mut Connection<TcpStream, Bytes>) {
    let ended = poll_fn(|cx| connection.poll_closed(cx));
    let _ = tokio::time::timeout(Duration::from_millis(200), ended).await;
}

/// The message of a policy that admits all clients.
fn policy() -> Bytes {
    let policy = ServerPolicy::new("all")
        .authorize(Authorization::all("all"))
        .build();
    let mut message = BytesMut::new();
    message.put_u8(0);
    message.put_u32(u32::try_from(policy.encoded_len()).unwrap());
    policy.encode(&mut message).unwrap();
    message.freeze()
}

/// The log of a proxy whose controller leaves so, after it has found the controller again.
async fn log_after(departure: Departure) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (leave, told) = watch::channel(false);
    tokio::spawn(controller(listener, departure, told));
    let proxy = Proxy::builder(addr)
        .env("LINKERD2_PROXY_INBOUND_PORTS", "8080")
        .env("LINKERD2_PROXY_INBOUND_DEFAULT_POLICY", "deny")
        .start()
        .await;
    applied(&proxy, 1).await;
    leave.send(true).unwrap();
    applied(&proxy, 2).await;
    proxy.log()
}

/// Waits until a port has the policy of its stream of this number.
async fn applied(proxy: &Proxy, streams: u32) {
    eventually(SOON, "the policy is applied", || async {
        let state = proxy.admin.state().await;
        let ports = state["server_policies"]["ports"].as_array().unwrap();
        let mut ports = ports.iter().map(|port| &port["freshness"]);
        let is_applied =
            ports.all(|port| port["streams_opened"] == streams && port["generation"] == streams);
        is_applied.then_some(())
    })
    .await;
}

#[tokio::test]
async fn an_orderly_end_of_the_controller_is_no_warning() {
    for departure in [
        Departure::Status("0"),
        Departure::GoAway,
        Departure::GoAwayAndReset(Reason::CANCEL),
        Departure::Close,
    ] {
        let log = log_after(departure).await;
        assert!(
            !log.contains("WARN") && !log.contains("Unexpected"),
            "{departure:?}: {log}"
        );
    }
}

#[tokio::test]
async fn a_controller_that_fails_is_a_warning() {
    for departure in [
        Departure::Reset(Reason::INTERNAL_ERROR),
        Departure::Status("13"),
    ] {
        let log = log_after(departure).await;
        assert!(
            log.contains("Unexpected policy controller response"),
            "{departure:?}: {log}"
        );
    }
}
