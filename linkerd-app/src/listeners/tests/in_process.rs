//! A whole proxy: a listener is added while it runs, serves, and is removed.

use super::{ANY_PORT, env};
use crate::{
    config::Config,
    listeners::{ListenerDrain, ListenerError, ListenerSpec},
    proxy,
};
use linkerd_control::{Controller, Policy};
use std::{io::ErrorKind, net::SocketAddr, sync::Arc, time::Duration};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Notify,
    time::timeout,
};

#[tokio::test]
async fn a_listener_comes_and_goes_while_the_proxy_runs() {
    timeout(SOON, async {
        let gate = Arc::new(Gate::default());
        let controller = Controller::new();
        let control = controller.spawn().await.unwrap();
        let endpoint = start_endpoint(gate.clone()).await;
        controller.policy("web:80").set(Policy::forward(endpoint));
        let config = Config::load(&env(control.addr())).expect("valid");
        let started = proxy::start(config, env(control.addr()), None).await;
        let mut running = started.unwrap();

        let configured = running.outbound[0];
        let mut first = Wire::connect(configured).await;
        assert!(first.get("/").await.ends_with("hello"));

        let taken = running
            .listeners
            .bind(ListenerSpec::outbound("taken"), configured, None)
            .await;
        assert!(
            matches!(taken, Err(ListenerError::Bind { .. })),
            "{taken:?}"
        );
        let extra = running
            .listeners
            .bind(ListenerSpec::outbound("extra"), ANY_PORT, None)
            .await
            .unwrap();
        let mut idle = Wire::connect(extra).await;
        assert!(idle.get("/").await.ends_with("hello"));
        let mut second = Wire::connect(extra).await;
        assert!(second.get("/").await.ends_with("hello"));
        let state = state(running.admin).await;
        assert!(state.contains(&format!("{extra}")), "{state}");

        // The request that is in flight is finished, and its connection closed.
        second.send("/gated").await;
        gate.reached.notified().await;
        let name = "extra".into();
        let rest = async {
            idle.ended().await;
            while TcpStream::connect(extra).await.is_ok() {
                tokio::task::yield_now().await;
            }
            gate.opened.notify_one();
            let response = second.response().await;
            assert!(response.contains("connection: close"), "{response}");
            assert!(response.ends_with("hello"), "{response}");
            second.ended().await;
        };
        let (left, ()) = tokio::join!(
            running.listeners.remove(&name, ListenerDrain::wait(SOON)),
            rest
        );
        assert_eq!(left.unwrap(), 0);

        // At the same address a client finds the old listener or the new one, and never none.
        let replaced = running
            .listeners
            .bind(ListenerSpec::outbound("extra"), ANY_PORT, None)
            .await
            .unwrap();
        let mut cut_off = Wire::connect(replaced).await;
        cut_off.send("/gated").await;
        gate.reached.notified().await;
        let listener = ListenerSpec::outbound("extra");
        let drain = ListenerDrain::cut_off_after(MOMENT);
        let replacing = running.listeners.replace(listener, replaced, None, drain);
        let outcome = replacing.await.unwrap();
        assert_eq!((outcome.addr, outcome.left), (replaced, 1));
        let reset = cut_off.0.read(&mut [0; 1]).await.unwrap_err();
        assert_eq!(reset.kind(), ErrorKind::ConnectionReset);
        let mut later = Wire::connect(replaced).await;
        assert!(later.get("/").await.ends_with("hello"));
        // The proxy does not dial its own listener, whenever that was added.
        later.send_to(&replaced.to_string(), "/").await;
        let response = later.head().await;
        assert!(response.contains("this proxy itself"), "{response}");
        gate.opened.notify_one();

        // The other listener has the same connection as before.
        assert!(first.get("/").await.ends_with("hello"));
        running.end(Duration::ZERO).await;
        first.ended().await;
    })
    .await
    .expect("in time");
}

/// Holds up the response to `/gated`.
#[derive(Default)]
struct Gate {
    reached: Notify,
    opened: Notify,
}

/// An endpoint that says hello.
async fn start_endpoint(gate: Arc<Gate>) -> SocketAddr {
    let listener = TcpListener::bind(ANY_PORT).await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let gate = gate.clone();
            tokio::spawn(async move {
                let mut connection = Wire(stream);
                loop {
                    let head = connection.head().await;
                    if head.is_empty() {
                        return;
                    }
                    if head.starts_with("GET /gated ") {
                        gate.reached.notify_one();
                        gate.opened.notified().await;
                    }
                    let response = b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello";
                    connection.0.write_all(response).await.unwrap();
                }
            });
        }
    });
    addr
}

/// The text of `/state`.
async fn state(admin: SocketAddr) -> String {
    let mut wire = Wire::connect(admin).await;
    let request = format!("GET /state HTTP/1.1\r\nhost: {admin}\r\nconnection: close\r\n\r\n");
    wire.0.write_all(request.as_bytes()).await.unwrap();
    let mut text = String::new();
    wire.0.read_to_string(&mut text).await.unwrap();
    text
}

/// One end of a connection.
struct Wire(TcpStream);

impl Wire {
    async fn connect(addr: SocketAddr) -> Self {
        Self(TcpStream::connect(addr).await.unwrap())
    }

    async fn send(&mut self, path: &str) {
        self.send_to("web", path).await;
    }

    async fn send_to(&mut self, authority: &str, path: &str) {
        let request = format!("GET http://{authority}{path} HTTP/1.1\r\nhost: {authority}\r\n\r\n");
        self.0.write_all(request.as_bytes()).await.unwrap();
    }

    async fn get(&mut self, path: &str) -> String {
        self.send(path).await;
        self.response().await
    }

    /// A response whose body has five bytes.
    async fn response(&mut self) -> String {
        let mut response = self.head().await;
        let mut body = [0; 5];
        self.0.read_exact(&mut body).await.unwrap();
        response.push_str(std::str::from_utf8(&body).unwrap());
        response
    }

    /// The head of a message, or nothing at the end.
    async fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            match self.0.read_u8().await {
                Ok(byte) => head.push(byte),
                Err(_) => return String::new(),
            }
        }
        String::from_utf8(head).unwrap()
    }

    /// Waits until the other side has ended the connection.
    async fn ended(&mut self) {
        assert_eq!(self.0.read(&mut [0; 1]).await.unwrap(), 0);
    }
}

/// Time in which a request that is held up is not answered.
const MOMENT: Duration = Duration::from_millis(10);

/// Enough for a busy machine.
const SOON: Duration = Duration::from_secs(20);
