//! Breakers of gRPC calls, which fail by their codes.

use crate::{LONG, policy};
use linkerd_control::{Breaker, Policy};
use linkerd_tests::{Grpc, Mesh, Message, Server, grpc_handler, soon};
use tonic::Code;

async fn called(policy: Policy) -> (Mesh, Grpc, Server) {
    let server = Server::start(grpc_handler).await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    mesh.policy("web").set(policy);
    let grpc = mesh.grpc("web").await;
    (mesh, grpc, server)
}

fn long(breaker: Breaker) -> Policy {
    policy(breaker.backoff(LONG, LONG))
}

/// The code of a call that asks the server for this code.
async fn call(grpc: &Grpc, code: u32) -> Code {
    let text = match code {
        0 => "hello".to_owned(),
        code => format!("fail:{code}"),
    };
    let answer = soon(grpc.unary(Message::new(&text, 0))).await;
    answer.map_or_else(|status| status.code(), |_| Code::Ok)
}

/// The code of a stream that ends with a failure in its trailers.
async fn stream(grpc: &Grpc) -> Code {
    let messages = [Message::new("hello", 0), Message::new("fail:14", 0)];
    let mut answers = soon(grpc.bidi(futures::stream::iter(messages)))
        .await
        .unwrap();
    loop {
        match soon(answers.message()).await {
            Ok(Some(_)) => {}
            Ok(None) => return Code::Ok,
            Err(status) => return status.code(),
        }
    }
}

#[tokio::test]
async fn codes_of_the_endpoints_failures_eject_it() {
    for code in [2, 4, 7, 13, 14, 15] {
        let (_mesh, grpc, server) = called(long(Breaker::consecutive(2)).grpc()).await;
        for _ in 0..2 {
            assert_eq!(call(&grpc, code).await, Code::from(code as i32));
        }
        assert_eq!(call(&grpc, 0).await, Code::DeadlineExceeded, "{code}");
        assert_eq!(server.requests(), 2);
    }
}

#[tokio::test]
async fn a_call_that_finds_all_ejected_says_so() {
    let (_mesh, grpc, _server) = called(long(Breaker::consecutive(1)).http2()).await;
    call(&grpc, 14).await;
    for (code, reason) in [
        (Code::DeadlineExceeded, "failfast_ejected"),
        (Code::Unavailable, "unavailable_ejected"),
    ] {
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        assert_eq!(status.code(), code);
        let details = status.metadata().get("proxy-status").unwrap();
        let details = details.to_str().unwrap();
        assert!(details.contains(reason), "{details}");
    }
}

#[tokio::test]
async fn a_code_in_trailers_counts_when_the_stream_ends() {
    let (_mesh, grpc, _server) = called(long(Breaker::consecutive(2)).grpc()).await;
    assert_eq!(stream(&grpc).await, Code::Unavailable);
    assert_eq!(call(&grpc, 14).await, Code::Unavailable);
    assert_eq!(call(&grpc, 0).await, Code::DeadlineExceeded);
}

#[tokio::test]
async fn codes_of_the_clients_failures_do_not_eject_it() {
    let (_mesh, grpc, _server) = called(long(Breaker::consecutive(1)).grpc()).await;
    for code in [1, 3, 5, 6, 8, 9, 10, 11, 12, 16] {
        assert_eq!(call(&grpc, code).await, Code::from(code as i32));
    }
    assert_eq!(call(&grpc, 0).await, Code::Ok);
}

#[tokio::test]
async fn exhausted_resources_lower_the_success_rate() {
    let (_mesh, grpc, _server) = called(long(Breaker::success_rate(0.9, 3)).grpc()).await;
    for _ in 0..3 {
        assert_eq!(call(&grpc, 8).await, Code::ResourceExhausted);
    }
    assert_eq!(call(&grpc, 0).await, Code::DeadlineExceeded);
}
