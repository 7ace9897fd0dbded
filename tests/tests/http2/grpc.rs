//! gRPC calls of every kind, and their failures.

use futures::StreamExt;
use linkerd_tests::{Grpc, Mesh, Message, Server, grpc_handler, refused, soon};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

async fn mesh() -> (Server, Mesh, Grpc) {
    let server = Server::start(grpc_handler).await;
    let mesh = Mesh::with(&server).await;
    let grpc = mesh.grpc("web").await;
    (server, mesh, grpc)
}

#[tokio::test]
async fn a_unary_call_is_answered() {
    let (_server, _mesh, grpc) = mesh().await;
    let answer = soon(grpc.unary(Message::new("hello", 1))).await.unwrap();
    assert_eq!(answer, Message::new("hello", 1));
}

#[tokio::test]
async fn a_status_of_the_service_arrives() {
    let (_server, _mesh, grpc) = mesh().await;
    let status = soon(grpc.unary(Message::new("fail:9", 0)))
        .await
        .unwrap_err();
    assert_eq!(
        (status.code(), status.message()),
        (Code::FailedPrecondition, "as asked")
    );
}

#[tokio::test]
async fn a_server_streams() {
    let (_server, _mesh, grpc) = mesh().await;
    let mut stream = soon(grpc.stream(Message::new("n", 500))).await.unwrap();
    for n in 0..500 {
        let message = soon(stream.message()).await.unwrap().unwrap();
        assert_eq!(message.count, n);
    }
    assert!(soon(stream.message()).await.unwrap().is_none());
}

#[tokio::test]
async fn a_stream_that_fails_in_the_middle_tells_its_status() {
    let (_server, _mesh, grpc) = mesh().await;
    let (say, texts) = mpsc::channel(1);
    let mut stream = soon(grpc.bidi(ReceiverStream::new(texts))).await.unwrap();
    say.send(Message::new("one", 1)).await.unwrap();
    assert_eq!(soon(stream.message()).await.unwrap().unwrap().text, "one");
    say.send(Message::new("fail:10", 1)).await.unwrap();
    let status = soon(stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Aborted);
}

#[tokio::test]
async fn both_sides_stream() {
    let (_server, _mesh, grpc) = mesh().await;
    let (say, texts) = mpsc::channel(1);
    let mut stream = soon(grpc.bidi(ReceiverStream::new(texts))).await.unwrap();
    for n in 0..20 {
        say.send(Message::new("n", n)).await.unwrap();
        assert_eq!(soon(stream.message()).await.unwrap().unwrap().count, n);
    }
    drop(say);
    assert!(soon(stream.next()).await.is_none());
}

#[tokio::test]
async fn a_service_that_nobody_knows_is_unavailable() {
    let mesh = Mesh::start().await;
    let grpc = mesh.grpc("nowhere").await;
    let status = soon(grpc.unary(Message::default())).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
    assert!(
        status.message().contains("no service at nowhere:80"),
        "{status:?}"
    );
}

#[tokio::test]
async fn a_service_without_endpoints_exceeds_the_deadline_and_then_is_unavailable() {
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("web", []).no_endpoints(true);
    let codes = [Code::DeadlineExceeded, Code::Unavailable];
    for code in codes {
        // The proxy ends the connection after this answer.
        let grpc = mesh.grpc("web").await;
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
    }
}

#[tokio::test]
async fn a_server_that_refuses_is_waited_for_and_then_unavailable() {
    let (addr, _refused) = refused();
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "300ms")
        .start()
        .await;
    mesh.service("web", [addr]);
    let codes = [Code::DeadlineExceeded, Code::Unavailable];
    for code in codes {
        let grpc = mesh.grpc("web").await;
        let status = soon(grpc.unary(Message::default())).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
    }
}

#[tokio::test]
async fn a_server_that_dies_during_a_stream_makes_it_unavailable() {
    let (mut server, _mesh, grpc) = mesh().await;
    let (say, texts) = mpsc::channel(1);
    let mut stream = soon(grpc.bidi(ReceiverStream::new(texts))).await.unwrap();
    say.send(Message::new("one", 1)).await.unwrap();
    assert!(soon(stream.message()).await.is_ok());
    server.stop().await;
    let status = soon(stream.message()).await.unwrap_err();
    assert_eq!(status.code(), Code::Unavailable, "{status:?}");
}
