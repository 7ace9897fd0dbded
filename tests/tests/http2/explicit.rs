//! HTTP/2 to the explicit proxy.

use linkerd_tests::{Mesh, SOON, Server, Tcp, empty, eventually, request, soon};

#[tokio::test]
async fn a_request_that_fails_does_not_end_the_connection_of_others() {
    let server = Server::says("hello").await;
    let mesh = Mesh::builder()
        .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "200ms")
        .start()
        .await;
    mesh.service("web", [server.addr()]);
    mesh.service("empty", []);
    let client = mesh.http2().await;
    for _ in 0..3 {
        let failed = soon(client.get("http://empty/")).await.unwrap();
        assert!(failed.status.is_server_error(), "{failed:?}");
        let reply = soon(client.get("http://web/")).await.unwrap();
        assert_eq!(reply.text(), "hello");
    }
    let accepted = mesh.proxy.metrics().await;
    let client = [("peer", "src"), ("direction", "outbound")];
    assert_eq!(accepted.sum("tcp_open_total", &client), 1.0);
}

#[tokio::test]
async fn an_answer_to_head_has_no_body() {
    let mesh = Mesh::start().await;
    let client = mesh.http2().await;
    let head = request(http::Method::HEAD, "http://nobody/", empty());
    let reply = soon(client.send(head)).await.unwrap();
    assert_eq!((reply.status.as_u16(), reply.body.len()), (502, 0));
}

#[tokio::test]
async fn an_endpoint_that_speaks_http_1_is_told_by_its_answer() {
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n"[..],
        b"<!DOCTYPE HTML>\n<html>505</html>\n",
    ] {
        let server: Tcp = Tcp::answers(answer).await;
        let mesh = Mesh::builder()
            .env("LINKERD2_PROXY_OUTBOUND_HTTP_FAILFAST_TIMEOUT", "500ms")
            .start()
            .await;
        mesh.service("old", [server.addr()]);
        let client = mesh.http2().await;
        eventually(SOON, "the reason is told", || async {
            let reply = soon(client.get("http://old/")).await.unwrap();
            let status = reply.header("proxy-status").unwrap().to_owned();
            let reasons = ["http1_only", "endpoint_speaks_http1"];
            reasons
                .iter()
                .any(|reason| status.contains(reason))
                .then_some(())
        })
        .await;
        let reply = soon(client.get("http://old/")).await.unwrap();
        assert!(reply.text().contains("HTTP/1"), "{reply:?}");
    }
}
