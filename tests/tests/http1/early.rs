//! Endpoints that answer an upload early, and close.

use futures::future::join_all;
use linkerd_tests::{Mesh, Meshed, Tcp, soon};
use std::net::SocketAddr;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// Answers 413 at the first bytes, and closes while more are on their way, so that they are answered with a reset.
async fn refuses_uploads() -> Tcp {
    Tcp::start(|mut socket| async move {
        let _ = socket.read(&mut [0; 1024]).await;
        let answer = "HTTP/1.1 413 Content Too Large\r\ncontent-length: 9\r\n\r\ntoo large";
        let _ = socket.write_all(answer.as_bytes()).await;
    })
    .await
}

/// Uploads a megabyte through a proxy, and returns the answer.
async fn upload(proxy: SocketAddr, host: &str, is_chunked: bool) -> String {
    let mut client = TcpStream::connect(proxy).await.unwrap();
    let (mut read, mut write) = client.split();
    let framing = match is_chunked {
        true => "transfer-encoding: chunked",
        false => "content-length: 1048576",
    };
    let head = format!("POST / HTTP/1.1\r\nhost: {host}\r\n{framing}\r\n\r\n");
    let piece = match is_chunked {
        true => [&b"4000\r\n"[..], &[b'x'; 0x4000], b"\r\n"].concat(),
        false => vec![b'x'; 0x4000],
    };
    let sends = async {
        write.write_all(head.as_bytes()).await?;
        for _ in 0..64 {
            write.write_all(&piece).await?;
        }
        std::io::Result::Ok(())
    };
    let receives = async {
        let mut answer = Vec::new();
        while !answer.ends_with(b"too large") {
            match read.read_buf(&mut answer).await {
                Ok(1..) => {}
                Ok(0) | Err(_) => break,
            }
        }
        answer
    };
    // The proxy may close before the upload has ended.
    let (_, answer) = soon(async { tokio::join!(sends, receives) }).await;
    String::from_utf8(answer).unwrap()
}

async fn all_get_the_answer(proxy: SocketAddr, host: &str) {
    for is_chunked in [false, true] {
        let uploads = (0..20).map(|_| upload(proxy, host, is_chunked));
        for answer in join_all(uploads).await {
            assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
            assert!(answer.ends_with("too large"), "{answer}");
        }
    }
}

#[tokio::test]
async fn the_answer_of_an_endpoint_that_closes_during_an_upload_arrives() {
    let endpoint = refuses_uploads().await;
    let mesh = Mesh::start().await;
    mesh.service("web", [endpoint.addr()]);
    all_get_the_answer(mesh.proxy.outbound, "web").await;
}

#[tokio::test]
async fn the_answer_of_an_application_that_closes_during_an_upload_arrives() {
    let application = refuses_uploads().await;
    let mesh = Meshed::start(|web| web, |api| api).await;
    mesh.serve_api(application.addr(), |endpoint| endpoint);
    all_get_the_answer(mesh.web.outbound, "api").await;
}
