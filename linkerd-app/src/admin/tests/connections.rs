//! Limits of the server's connections.

use super::{client::read, *};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::{TokioExecutor, TokioIo};
use linkerd_proxy_core::task::spawn_local;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

async fn connect(addr: SocketAddr) -> TcpStream {
    TcpStream::connect(addr).await.unwrap()
}

/// Whether the peer has closed.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let read = stream.read(&mut [0; 64]).await;
    matches!(read, Ok(0) | Err(_))
}

#[tokio::test]
async fn http2_is_served_too() {
    with(admin(), |addr| async move {
        let io = TokioIo::new(connect(addr).await);
        let (mut client, connection) =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), io)
                .await
                .unwrap();
        tokio::spawn(connection);
        for _ in 0..2 {
            let request = http::Request::get("http://admin/live");
            let request = request.body(Empty::<Bytes>::new()).unwrap();
            let answer = client.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 200);
            assert!(answer.headers().contains_key("date"));
            assert_eq!(answer.headers()["content-length"], "5");
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(&body[..], b"live\n");
        }
    })
    .await;
}

#[tokio::test]
async fn a_connection_is_used_again() {
    with(admin(), |addr| async move {
        let mut stream = connect(addr).await;
        let kept = b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n";
        let last = b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(&[&kept[..], last].concat()).await.unwrap();
        let first = read(&mut stream).await;
        assert!(first.text().starts_with("live\nHTTP/1.1 200 OK\r\n"));
        assert!(first.text().ends_with("ready\n"));
    })
    .await;
}

#[tokio::test]
async fn nonsense_is_refused() {
    with(admin(), |addr| async move {
        let mut stream = connect(addr).await;
        stream
            .write_all(b"\x16\x03\x01 hello\r\n\r\n")
            .await
            .unwrap();
        assert_eq!(read(&mut stream).await.status, 400);
        assert_eq!(get(addr, "/live").await.status, 200);
    })
    .await;
}

#[tokio::test]
async fn silent_and_slow_clients_are_closed_in_time() {
    for beginning in ["", "GET /li", "GET /live HTTP/1.1\r\nho"] {
        with(admin(), |addr| async move {
            let mut slow = connect(addr).await;
            slow.write_all(beginning.as_bytes()).await.unwrap();
            // Once another client was served, the slow one's bytes have been read.
            assert_eq!(get(addr, "/live").await.status, 200);
            tokio::time::pause();
            let start = tokio::time::Instant::now();
            let mut answer = Vec::new();
            let _ = slow.read_to_end(&mut answer).await;
            // A client with an incomplete request gets a response.
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 408"));
            let waited = start.elapsed();
            assert!(waited <= READ_TIMEOUT * 2, "{beginning:?}: {waited:?}");
            tokio::time::resume();
        })
        .await;
    }
}

#[tokio::test]
async fn one_too_many_closes_the_one_used_least_recently() {
    with(admin(), |addr| async move {
        let mut used = connect(addr).await;
        let mut idle = Vec::new();
        for _ in 1..MAX_CONNECTIONS {
            idle.push(connect(addr).await);
        }
        // It is the oldest one, but was used after all others were accepted.
        used.write_all(b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert!(!is_closed(&mut used).await);
        for _ in 0..MAX_CONNECTIONS {
            assert_eq!(get(addr, "/live").await.status, 200);
        }
        assert!(is_closed(&mut idle[0]).await);
        used.write_all(b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert!(!is_closed(&mut used).await);
    })
    .await;
}

#[tokio::test]
async fn the_drain_ends_idle_connections_and_finishes_others() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let (begun, mut begins) = mpsc::channel(1);
    let (release, released) = tokio::sync::watch::channel(false);
    let collect = move || {
        let (begun, mut released) = (begun.clone(), released.clone());
        let collected = async move {
            begun.send(()).await.unwrap();
            released.wait_for(|released| *released).await.unwrap();
            json!("done")
        };
        Box::pin(collected) as futures::future::BoxFuture<'static, Value>
    };
    let slow = StateSection {
        name: "slow",
        collect: Box::new(collect),
    };
    let admin = AdminContext {
        sections: vec![slow],
        ..admin()
    };
    let (signal, watch) = drain::channel();
    let test = async {
        let server = spawn_local(serve(listener, Rc::new(admin), watch.watch()));
        let mut idle = connect(addr).await;
        idle.write_all(b"GET /live HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        assert!(!is_closed(&mut idle).await);
        let mut silent = connect(addr).await;
        let mut busy = connect(addr).await;
        busy.write_all(b"GET /state?slow HTTP/1.1\r\nhost: localhost\r\n\r\n")
            .await
            .unwrap();
        begins.recv().await.unwrap();
        let drained = spawn_local(signal.drain());
        while !is_closed(&mut idle).await {}
        assert!(is_closed(&mut silent).await);
        assert!(
            TcpStream::connect(addr).await.is_err(),
            "the port is closed"
        );
        release.send_replace(true);
        let answer = read(&mut busy).await;
        assert_eq!(answer.header("connection"), Some("close"));
        assert_eq!(answer.json(), json!({"slow": "done"}));
        server.await.unwrap();
        drained.await.unwrap();
    };
    let local = LocalSet::new();
    let test = local.run_until(async { tokio::time::timeout(SOON, test).await });
    test.await.expect("in time");
}
