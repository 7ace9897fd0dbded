//! Protocols that are not HTTP are relayed at once.

use linkerd_tests::{
    Builder, Tcp, Wire,
    netns::{ELSEWHERE, POD, Pod, isolated},
};
use parking_lot::Mutex;
use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// The first bytes of real clients.
const FIRST: &[(&str, &[u8])] = &[
    (
        "LDAP",
        b"\x30\x0c\x02\x01\x01\x60\x07\x02\x01\x03\x04\x00\x80\x00",
    ),
    (
        "RTSP",
        b"OPTIONS rtsp://camera:554/1 RTSP/1.0\r\nCSeq: 1\r\n\r\n",
    ),
    (
        "SIP",
        b"REGISTER sip:example.com SIP/2.0\r\nCSeq: 1 REGISTER\r\n\r\n",
    ),
    ("Hazelcast", b"HZX"),
    ("Hazelcast's clients", b"CP2"),
    (
        "a log",
        b"192.0.2.1 - - [25/Nov/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 5\n",
    ),
    ("Redis", b"*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n"),
    ("memcached", b"get /key\r\n"),
    ("PostgreSQL", b"\0\0\0\x08\x04\xd2\x16\x2f"),
    ("AMQP", b"AMQP\0\0\x09\x01"),
    ("MQTT", b"\x10\x0c\0\x04MQTT\x04\x02\0\x3c\0\0"),
    ("Kafka", b"\0\0\0\x14\0\x12\0\x03\0\0\0\x01\0\x04test"),
    ("STOMP", b"CONNECT\naccept-version:1.2\n\n\0"),
    ("SSH", b"SSH-2.0-OpenSSH_9.6\r\n"),
    ("NATS", b"CONNECT {\"verbose\":false}\r\nPING\r\n"),
    ("Cassandra", b"\x04\0\0\0\x05\0\0\0\0"),
    ("Zookeeper", b"ruok"),
    ("Graphite", b"servers.web.cpu 0.5 1764064800\n"),
    ("TLS", b"\x16\x03\x01\0\x05\x01\0\0\x01\x03"),
    ("one byte", b"\x01"),
    ("a word", b"PING"),
    ("two words", b"EHLO client"),
];

/// Speaks all protocols with a server at this address, through a proxy that would wait for the rest of a request line.
async fn speak_with(server: IpAddr) {
    let timeout = |direction| format!("LINKERD2_PROXY_{direction}_DETECT_TIMEOUT");
    let patient = |proxy: Builder| {
        let proxy = proxy.env(&timeout("INBOUND"), "600s");
        proxy.env(&timeout("OUTBOUND"), "600s")
    };
    let _pod = Pod::start(patient).await;
    for (protocol, first) in FIRST {
        let wanted = first.len();
        let application = Tcp::start_at(SocketAddr::new(server, 0), move |mut socket| async move {
            let mut read = vec![0; wanted];
            socket.read_exact(&mut read).await.unwrap();
            let _ = socket.write_all(b"answer").await;
        })
        .await;
        let mut wire = Wire::connect(application.addr()).await;
        wire.send(first).await;
        let answer = wire.rest().await;
        assert_eq!(answer, "answer", "{protocol}");
    }
}

#[test]
fn other_protocols_are_relayed_to_the_application_at_once() {
    isolated(
        "protocols::other_protocols_are_relayed_to_the_application_at_once",
        speak_with(POD),
    );
}

#[test]
fn other_protocols_are_relayed_to_servers_at_once() {
    isolated(
        "protocols::other_protocols_are_relayed_to_servers_at_once",
        speak_with(ELSEWHERE),
    );
}

/// A word that might become a request is waited for once.
#[test]
fn a_word_that_never_becomes_a_request_is_waited_for_once() {
    isolated(
        "protocols::a_word_that_never_becomes_a_request_is_waited_for_once",
        async {
            let timeout = "LINKERD2_PROXY_OUTBOUND_DETECT_TIMEOUT";
            let pod = Pod::start(|proxy| proxy.env(timeout, "300ms")).await;
            let answers = |mut socket: tokio::net::TcpStream| async move {
                let _ = socket.read_exact(&mut [0; 3]).await;
                let _ = socket.write_all(b"answer").await;
            };
            let server = Tcp::start_at(SocketAddr::new(ELSEWHERE, 0), answers).await;
            for _ in 0..3 {
                let mut wire = Wire::connect(server.addr()).await;
                wire.send("PUT").await;
                assert_eq!(wire.rest().await, "answer");
            }
            let metrics = pod.proxy.metrics().await;
            let results = "outbound_tcp_detect_http_results_total";
            let waited = [("result", "read_timeout")];
            assert_eq!(metrics.sum(results, &waited), 1.0);
        },
    );
}

#[test]
fn a_port_may_take_http_alone() {
    isolated("protocols::a_port_may_take_http_alone", async {
        let only = "LINKERD_PROXY_INBOUND_DETECTED_HTTP_ONLY";
        let opaque = "LINKERD2_PROXY_INBOUND_PORTS_DISABLE_PROTOCOL_DETECTION";
        let answering = |mut socket: tokio::net::TcpStream| async move {
            let mut read = [0; 16];
            let _ = socket.read(&mut read).await;
            let _ = socket
                .write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
                .await;
        };
        let detected = Tcp::start_at(SocketAddr::from((POD, 0)), answering).await;
        let declared = Tcp::start_at(SocketAddr::from((POD, 0)), answering).await;
        let port = declared.addr().port();
        let pod = Pod::start(|proxy| proxy.env(only, "1").env(opaque, port)).await;
        for (application, passes) in [(&detected, false), (&declared, true)] {
            let mut wire = Wire::connect(application.addr()).await;
            wire.send("\x01\x02\x03").await;
            wire.finish().await;
            let answer = wire.rest().await;
            assert_eq!(answer.starts_with("HTTP/1.1 200"), passes, "{answer}");
        }
        assert_eq!(detected.connections(), 0);
        let mut wire = Wire::connect(detected.addr()).await;
        wire.send("GET / HTTP/1.1\r\nhost: app\r\n\r\n").await;
        assert!(wire.head().await.starts_with("HTTP/1.1 200"));
        let state = pod.proxy.admin.state().await.to_string();
        assert!(state.contains("http_required"), "{state}");
    });
}

#[test]
fn a_request_behind_another_protocol_ends_the_connection() {
    isolated(
        "protocols::a_request_behind_another_protocol_ends_the_connection",
        async {
            let pod = Pod::start(|proxy| proxy).await;
            let seen = Arc::new(Mutex::new(Vec::new()));
            let noted = seen.clone();
            let application = Tcp::start_at(SocketAddr::from((POD, 0)), move |mut socket| {
                let noted = noted.clone();
                async move {
                    let mut read = [0; 1024];
                    while let Ok(count @ 1..) = socket.read(&mut read).await {
                        noted.lock().extend_from_slice(&read[..count]);
                        let _ = socket.write_all(b"go on\n").await;
                    }
                }
            })
            .await;
            let mut wire = Wire::connect(application.addr()).await;
            wire.send("hello\n").await;
            assert_eq!(wire.until(b"\n").await, "go on\n");
            wire.send("GET / HTTP/1.1").await;
            assert_eq!(wire.until(b"\n").await, "go on\n");
            wire.send("\r\nhost: app\r\n\r\n").await;
            assert_eq!(wire.rest().await, "");
            assert_eq!(*seen.lock(), b"hello\nGET / HTTP/1.1");
            let reason = [("reason", "hidden_request")];
            pod.proxy
                .metric_reaches("proxy_failures_total", &reason, 1.0)
                .await;
        },
    );
}
