//! Two tests of one's own: a real proxy, a control plane of the test, and an endpoint or a policy that changes.

use linkerd_control::{Controller, LookupKind, Policy, ProxyBuilder};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

const SOON: Duration = Duration::from_secs(20);
const WEB: &str = "web.default.svc.cluster.local:80";

#[tokio::test]
async fn requests_follow_the_endpoints() -> Result<(), Box<dyn std::error::Error>> {
    let (old, new) = (serve("old").await?, serve("new").await?);
    let controller = Controller::new();
    let control = controller.spawn().await?;
    controller.policy("web:80").set(Policy::balance("web", 80));
    controller.destination(WEB).add([old]);

    // Returns when the proxy is ready.
    let proxy = ProxyBuilder::new(control.addr()).start().await?;
    assert_eq!(get(proxy.outbound, "http://web/").await?, "old");

    controller.destination(WEB).add([new]).remove([old]);
    proxy.wait_for_endpoints(WEB, &[new], SOON).await?;
    assert_eq!(get(proxy.outbound, "http://web/").await?, "new");

    // SIGTERM; a proxy that is dropped is killed.
    assert!(proxy.stop(SOON).await?.status.success());
    Ok(())
}

#[tokio::test]
async fn requests_follow_the_policy() -> Result<(), Box<dyn std::error::Error>> {
    let (old, new) = (serve("old").await?, serve("new").await?);
    let controller = Controller::new();
    let control = controller.spawn().await?;
    controller.policy("web:80").set(Policy::forward(old));
    let proxy = ProxyBuilder::new(control.addr()).start().await?;
    assert_eq!(get(proxy.outbound, "http://web/").await?, "old");

    // For changes of any kind: makes one, and waits until it applies.
    let change = || {
        controller.policy("web:80").set(Policy::forward(new));
    };
    let policy = LookupKind::Policy;
    proxy
        .wait_for_change(policy, "web:80", SOON, change)
        .await?;
    assert_eq!(get(proxy.outbound, "http://web/").await?, "new");
    Ok(())
}

/// An application: answers each connection with its name.
async fn serve(name: &'static str) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let addr = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let mut request = [0; 4096];
            let _ = client.read(&mut request).await;
            let answer = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{name}",
                name.len()
            );
            let _ = client.write_all(answer.as_bytes()).await;
        }
    });
    Ok(addr)
}

/// The body of an answer, through an HTTP proxy.
async fn get(proxy: SocketAddr, url: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(proxy).await?;
    let request = format!("GET {url} HTTP/1.0\r\nHost: web\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let body = answer.split_once("\r\n\r\n").map(|(_, body)| body);
    Ok(body.unwrap_or_default().to_owned())
}
