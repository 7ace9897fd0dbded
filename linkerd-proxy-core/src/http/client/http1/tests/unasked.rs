//! A response without a request, which the runtime has not noticed yet when the next request is sent.

use super::*;
use crate::transport::Socket;
use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::mpsc,
};

/// Dials a server at an address.
#[derive(Clone)]
struct DialAddr(SocketAddr);

impl Service<()> for DialAddr {
    type Response = Socket;
    type Error = Error;
    type Future = LocalBoxFuture<'static, Result<Socket, Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, (): ()) -> Self::Future {
        let addr = self.0;
        Box::pin(async move {
            let stream = tokio::net::TcpStream::connect(addr).await;
            Ok(stream.expect("the test listens").into())
        })
    }
}

/// Reads a request and answers it.
fn answer(stream: &mut TcpStream, text: &str) {
    let mut read = Vec::new();
    while !read.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        read.push(byte[0]);
    }
    respond(stream, text);
}

fn respond(stream: &mut TcpStream, text: &str) {
    let length = text.len();
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n{text}");
    stream.write_all(response.as_bytes()).unwrap();
}

#[tokio::test]
async fn a_response_that_nobody_asked_for_does_not_answer_the_next_request() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let (ask, asked) = mpsc::channel();
    let (tell, sent) = mpsc::channel();
    let server = std::thread::spawn(move || {
        let (mut first, _) = listener.accept().unwrap();
        answer(&mut first, "one");
        asked.recv().unwrap();
        respond(&mut first, "unasked");
        tell.send(()).unwrap();
        let (mut second, _) = listener.accept().unwrap();
        answer(&mut second, "two");
    });
    let test = async {
        let pools = Http1Pools::new(PoolSettings {
            max_idle: 8,
            idle_timeout: IDLE,
        });
        let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 0.0);
        let status = EndpointStatus::new(Capacity::OnDemand);
        let mut client = Http1Client::new(DialAddr(addr), &pools, backoff.unwrap(), status);
        for expected in ["one", "two"] {
            let body = Full::from("").boxed_unsync();
            let request = Request::get("/").header("host", "test").body(body);
            let response = client.call(arriving(request.unwrap())).await.unwrap();
            let body = response.into_body().collect().await.unwrap();
            assert_eq!(body.to_bytes(), expected);
            if expected == "one" {
                // The thread waits here, so that its runtime does not poll the system meanwhile.
                ask.send(()).unwrap();
                sent.recv().unwrap();
            }
        }
    };
    LocalSet::new().run_until(test).await;
    server.join().unwrap();
}
