//! Traffic that is redirected to the proxy, transparently for clients and servers.

#![allow(clippy::unwrap_used, missing_docs)]

use linkerd_control::{EndpointSet, Policy};
use linkerd_tests::{
    Http1, Http2, SOON, Server, Tcp, Wire, echo,
    netns::{ELSEWHERE, PEER, POD, Pod, SERVICE, isolated},
    reply, soon,
};
use std::net::{IpAddr, SocketAddr};
use tokio::io::AsyncWriteExt;

const ENDPOINTS: &str = "web.default.svc.cluster.local:80";

fn free(ip: IpAddr) -> SocketAddr {
    (ip, 0).into()
}

async fn server(ip: IpAddr) -> Server {
    Server::builder()
        .at(free(ip))
        .start(|_| async { reply("hello") })
        .await
}

fn describe(pod: &Pod, policy: Policy, endpoint: SocketAddr) {
    pod.controller.policy(SERVICE.to_string()).set(policy);
    pod.controller
        .destination(ENDPOINTS)
        .set(EndpointSet::new([endpoint]));
}

async fn greets(mut socket: tokio::net::TcpStream) {
    let _ = socket.write_all(b"220 ready\r\n").await;
    echo(socket).await;
}

#[test]
fn http_1_to_a_service_reaches_an_endpoint() {
    isolated("http_1_to_a_service_reaches_an_endpoint", async {
        let pod = Pod::start(|proxy| proxy).await;
        let server = server(PEER).await;
        describe(&pod, Policy::balance("web", 80), server.addr());
        let mut client = Http1::connect(SERVICE).await.host_form();
        for _ in 0..3 {
            let reply = soon(client.get("http://web.example/a")).await.unwrap();
            assert_eq!(reply.text(), "hello");
        }
        let seen = server.last();
        assert_eq!(
            (seen.uri.to_string().as_str(), &seen.headers["host"]),
            ("/a", &"web.example".parse().unwrap())
        );
        pod.proxy
            .metric_reaches("request_total", &[("direction", "outbound")], 3.0)
            .await;
    });
}

#[test]
fn http_2_to_a_service_reaches_an_endpoint() {
    isolated("http_2_to_a_service_reaches_an_endpoint", async {
        let pod = Pod::start(|proxy| proxy).await;
        let server = server(PEER).await;
        describe(&pod, Policy::balance("web", 80), server.addr());
        let client = Http2::connect(SERVICE).await;
        let replies = futures::future::join_all((0..20).map(|_| client.get("http://web.example/")));
        for reply in soon(replies).await {
            assert_eq!(reply.unwrap().text(), "hello");
        }
        assert_eq!(server.last().version, http::Version::HTTP_2);
    });
}

#[test]
fn other_bytes_to_a_service_reach_an_endpoint() {
    isolated("other_bytes_to_a_service_reach_an_endpoint", async {
        let pod = Pod::start(|proxy| proxy).await;
        let server = Tcp::start_at(free(PEER), echo).await;
        describe(&pod, Policy::balance("web", 80), server.addr());
        let mut wire = Wire::connect(SERVICE).await;
        wire.send(b"\x00\x01 not HTTP\n").await;
        assert_eq!(wire.bytes(12).await, b"\x00\x01 not HTTP\n");
        wire.finish().await;
        assert_eq!(wire.rest().await, "");
    });
}

#[test]
fn a_server_that_speaks_first_is_heard_on_an_opaque_port() {
    isolated(
        "a_server_that_speaks_first_is_heard_on_an_opaque_port",
        async {
            let pod = Pod::start(|proxy| proxy).await;
            let server = Tcp::start_at(free(PEER), greets).await;
            describe(&pod, Policy::balance("web", 80).opaque(), server.addr());
            let mut wire = Wire::connect(SERVICE).await;
            assert_eq!(wire.until(b"\n").await, "220 ready\r\n");
        },
    );
}

#[test]
fn a_server_that_speaks_first_at_an_unknown_address_is_heard() {
    isolated(
        "a_server_that_speaks_first_at_an_unknown_address_is_heard",
        async {
            let pod = Pod::start(|proxy| proxy.env(DETECT_TIMEOUT, "300ms")).await;
            let server = Tcp::start_at(free(ELSEWHERE), greets).await;
            for _ in 0..3 {
                let mut wire = Wire::connect(server.addr()).await;
                assert_eq!(wire.until(b"\n").await, "220 ready\r\n");
                wire.send("QUIT\r\n").await;
                assert_eq!(wire.until(b"\n").await, "QUIT\r\n");
            }
            // The proxy waited for the first client only.
            let metrics = pod.proxy.metrics().await;
            let waited = [("result", "read_timeout")];
            assert_eq!(metrics.sum(DETECT_RESULTS, &waited), 1.0);
            let server_first = [("outcome", "server_first")];
            assert_eq!(metrics.sum(DETECT_SILENT, &server_first), 3.0);
            let log = pod.proxy.wait_for_log("protocol detection timed out").await;
            assert!(log.contains("config.linkerd.io/opaque-ports"), "{log}");
        },
    );
}

#[test]
fn a_silent_client_does_not_make_the_requests_of_others_opaque() {
    isolated(
        "a_silent_client_does_not_make_the_requests_of_others_opaque",
        async {
            let pod = Pod::start(|proxy| proxy.env(DETECT_TIMEOUT, "300ms")).await;
            let server = server(ELSEWHERE).await;
            let mut late = Wire::connect(server.addr()).await;
            let waited = [("result", "read_timeout")];
            pod.proxy.metric_reaches(DETECT_RESULTS, &waited, 1.0).await;
            for _ in 0..2 {
                let mut client = Http1::connect(server.addr()).await.host_form();
                let reply = soon(client.get("http://elsewhere.example/")).await.unwrap();
                assert_eq!(reply.text(), "hello");
            }
            late.send("GET / HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n")
                .await;
            assert!(late.head().await.starts_with("HTTP/1.1 200"));
            let requests = [("direction", "outbound")];
            pod.proxy
                .metric_reaches("request_total", &requests, 3.0)
                .await;
            // The silent client and the next one.
            let http = [("outcome", "client_http")];
            let metrics = pod.proxy.metrics().await;
            assert_eq!(metrics.sum(DETECT_SILENT, &http), 2.0);
        },
    );
}

#[test]
fn only_the_first_client_of_an_application_that_speaks_first_is_waited_for() {
    isolated(
        "only_the_first_client_of_an_application_that_speaks_first_is_waited_for",
        async {
            let timeout = "LINKERD2_PROXY_INBOUND_DETECT_TIMEOUT";
            let pod = Pod::start(|proxy| proxy.env(timeout, "300ms")).await;
            let application = Tcp::start_at(free(POD), greets).await;
            for _ in 0..3 {
                let mut wire = Wire::connect(application.addr()).await;
                assert_eq!(wire.until(b"\n").await, "220 ready\r\n");
            }
            let metrics = pod.proxy.metrics().await;
            let results = "inbound_tcp_detect_http_results_total";
            assert_eq!(metrics.sum(results, &[("result", "read_timeout")]), 1.0);
            let silent = "inbound_tcp_detect_silent_total";
            assert_eq!(metrics.sum(silent, &[("outcome", "server_first")]), 3.0);
        },
    );
}

const DETECT_TIMEOUT: &str = "LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT";
const DETECT_RESULTS: &str = "outbound_tcp_detect_http_results_total";
const DETECT_SILENT: &str = "outbound_tcp_detect_silent_total";

#[test]
fn http_to_an_unknown_address_goes_there() {
    isolated("http_to_an_unknown_address_goes_there", async {
        let pod = Pod::start(|proxy| proxy).await;
        let server = server(ELSEWHERE).await;
        let mut client = Http1::connect(server.addr()).await.host_form();
        let reply = soon(client.get("http://elsewhere.example/")).await.unwrap();
        assert_eq!(reply.text(), "hello");
        assert_eq!(server.last().headers["host"], "elsewhere.example");
        pod.proxy
            .metric_reaches("request_total", &[("direction", "outbound")], 1.0)
            .await;
    });
}

#[test]
fn a_proxy_that_gets_its_own_traffic_says_which_rule_is_missing() {
    isolated(
        "a_proxy_that_gets_its_own_traffic_says_which_rule_is_missing",
        async {
            let pod = Pod::start_without_exception(|proxy| proxy).await;
            let server = server(ELSEWHERE).await;
            for _ in 0..3 {
                let mut client = Http1::connect(server.addr()).await.host_form();
                let reply = soon(client.get("http://elsewhere.example/")).await.unwrap();
                assert_eq!(reply.status, 502);
                let status = reply.header("proxy-status").unwrap();
                assert!(status.contains("details=\"loop\""), "{status}");
            }
            assert_eq!(server.connections(), 0);
            let log = pod.proxy.wait_for_log("--uid-owner 2102").await;
            assert!(log.contains("WARN"), "{log}");
            assert_eq!(pod.proxy.log().matches("--uid-owner").count(), 1);
            // Three clients, and few returned connections for each: as many as there are healthy connections, here those to the
            // control plane.
            let accepted = pod.proxy.metrics().await;
            let open = accepted.sum(
                "tcp_open_total",
                &[("peer", "src"), ("direction", "outbound")],
            );
            assert!(open <= 12.0, "{open}");
        },
    );
}

#[test]
fn nobody_at_an_unknown_address_is_an_answer() {
    isolated("nobody_at_an_unknown_address_is_an_answer", async {
        let _pod = Pod::start(|proxy| proxy).await;
        let mut client = Http1::connect((ELSEWHERE, 9).into()).await.host_form();
        let reply = soon(client.get("http://elsewhere.example/")).await.unwrap();
        assert_eq!(reply.status, 502);
        assert!(
            reply
                .header("proxy-status")
                .unwrap()
                .contains("connect_refused"),
            "{reply:?}"
        );
    });
}

#[test]
fn http_from_a_peer_reaches_the_application() {
    isolated("http_from_a_peer_reaches_the_application", async {
        let pod = Pod::start(|proxy| proxy).await;
        let application = server(POD).await;
        let mut old = Http1::connect(application.addr()).await.host_form();
        let new = Http2::connect(application.addr()).await;
        for _ in 0..2 {
            assert_eq!(soon(old.get("http://app/")).await.unwrap().text(), "hello");
            assert_eq!(soon(new.get("http://app/")).await.unwrap().text(), "hello");
        }
        let versions: Vec<_> = application.seen().iter().map(|seen| seen.version).collect();
        assert!(
            versions.contains(&http::Version::HTTP_11) && versions.contains(&http::Version::HTTP_2)
        );
        let port = application.addr().port().to_string();
        let inbound = [("direction", "inbound"), ("target_port", &*port)];
        pod.proxy
            .metric_reaches("request_total", &inbound, 4.0)
            .await;
    });
}

#[test]
fn http_2_from_a_peer_stays_http_2_without_an_authority() {
    isolated(
        "http_2_from_a_peer_stays_http_2_without_an_authority",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = server(POD).await;
            let socket = tokio::net::TcpStream::connect(application.addr()).await;
            let (send, connection) = h2::client::handshake(socket.unwrap()).await.unwrap();
            tokio::spawn(connection);
            // A version other than HTTP/2 lets the codec leave the authority out.
            let request = http::Request::get("/").version(http::Version::HTTP_11);
            let request = request.header("host", "app").body(()).unwrap();
            let (response, _) = send
                .ready()
                .await
                .unwrap()
                .send_request(request, true)
                .unwrap();
            assert_eq!(soon(response).await.unwrap().status(), 200);
            assert_eq!(application.last().version, http::Version::HTTP_2);
        },
    );
}

#[test]
fn an_application_sees_no_identity_that_a_client_claims() {
    isolated(
        "an_application_sees_no_identity_that_a_client_claims",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let application = server(POD).await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send(
                "GET / HTTP/1.1\r\nhost: app\r\nl5d-client-id: admin.default\r\n\
                 l5d-dst-canonical: app:80\r\nl5d-other: 1\r\n\r\n",
            )
            .await;
            assert!(wire.head().await.starts_with("HTTP/1.1 200"));
            let seen = application.last().headers;
            assert_eq!(seen["l5d-other"], "1");
            assert!(!seen.contains_key("l5d-client-id"), "{seen:?}");
            assert!(!seen.contains_key("l5d-dst-canonical"), "{seen:?}");
        },
    );
}

#[test]
fn other_bytes_from_a_peer_reach_the_application() {
    isolated("other_bytes_from_a_peer_reach_the_application", async {
        let application: SocketAddr = (POD, 7025).into();
        let ports = "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION";
        let _pod = Pod::start(|proxy| proxy.env(ports, application.port())).await;
        let _first = Tcp::start_at(application, greets).await;
        let mut wire = Wire::connect(application).await;
        assert_eq!(wire.until(b"\n").await, "220 ready\r\n");

        let other = Tcp::start_at(free(POD), echo).await;
        let mut wire = Wire::connect(other.addr()).await;
        wire.send(b"\x00\x01 not HTTP\n").await;
        assert_eq!(wire.bytes(12).await, b"\x00\x01 not HTTP\n");
    });
}

#[test]
fn an_application_that_does_not_listen_is_an_answer_without_details() {
    isolated(
        "an_application_that_does_not_listen_is_an_answer_without_details",
        async {
            let _pod = Pod::start(|proxy| proxy).await;
            let mut client = Http1::connect((POD, 9).into()).await.host_form();
            let reply = soon(client.get("http://app/")).await.unwrap();
            assert_eq!(reply.status, 502, "{reply:?}");
            assert!(reply.header("l5d-proxy-error").is_none(), "{reply:?}");
        },
    );
}

#[test]
fn the_proxys_own_ports_are_no_destinations() {
    isolated("the_proxys_own_ports_are_no_destinations", async {
        let pod = Pod::start(|proxy| proxy).await;
        let inbound = pod.proxy.inbound.port();
        // Connections to the proxy's own ports, without redirection and redirected.
        let itself = [
            pod.proxy.outbound,
            ([127, 0, 0, 1], inbound).into(),
            (POD, inbound).into(),
        ];
        for addr in itself {
            let mut wire = Wire::connect(addr).await;
            wire.send("GET / HTTP/1.1\r\nhost: web\r\n\r\n").await;
            assert!(wire.closes_within(SOON).await, "{addr}");
        }
        // The proxy's own ports are no endpoints, either.
        for addr in [pod.proxy.outbound, (POD, inbound).into()] {
            describe(&pod, Policy::balance("web", 80), addr);
            let mut client = Http1::connect(SERVICE).await.host_form();
            let reply = soon(client.get("http://web/")).await.unwrap();
            assert!(reply.status.is_server_error(), "{addr}: {reply:?}");
        }
        let metrics = pod.proxy.metrics().await;
        let admin = [("target_addr", &*pod.proxy.admin.addr.to_string())];
        let open = metrics.sum("tcp_open_total", &[]) - metrics.sum("tcp_open_total", &admin);
        assert!(open < 40.0, "it runs in circles: {open} connections");
    });
}

#[test]
fn inbound_traffic_for_another_address_is_refused() {
    isolated("inbound_traffic_for_another_address_is_refused", async {
        let pod = Pod::start(|proxy| proxy.env("LINKERD2_PROXY_INBOUND_IPS", "10.77.9.9")).await;
        let application = server(POD).await;
        let mut wire = Wire::connect(application.addr()).await;
        wire.send("GET / HTTP/1.1\r\nhost: app\r\n\r\n").await;
        assert!(wire.closes_within(SOON).await);
        assert_eq!(application.connections(), 0);
        pod.proxy
            .wait_for_log("not allowed on this IP address")
            .await;
    });
}
