//! Handshakes that check a server.

use super::*;

/// Probes `server` with trust in `anchors`, expecting `expected`.
async fn probe(server: &MeshServer, anchors: &TrustAnchors, expected: &ServerTls) -> ServerProbe {
    let (near, far) = tokio::io::duplex(1 << 16);
    let accept = async {
        let mut stream = TransportStream::from(far);
        let hello = hello(&mut stream).await;
        // The client may leave: its own result is of interest.
        let _ = server.terminate(hello, stream, false).await;
    };
    let (probed, ()) = tokio::join!(ServerProbe::handshake(near, anchors, expected), accept);
    probed
}

#[tokio::test]
async fn a_trusted_server_is_verified_without_a_certificate_of_the_client() {
    let authority = Authority::new();
    let api = Proxy::new(&authority, API);
    let probed = probe(&api.server(), &authority.anchors, &server_tls(API, API)).await;
    probed.verified.unwrap();
    let certificate = probed.certificate.unwrap();
    assert_eq!(certificate.identities, [API.parse().unwrap()]);
}

#[tokio::test]
async fn the_cause_of_mistrust_is_named() {
    let (authority, other) = (Authority::new(), Authority::new());
    let api = Proxy::new(&authority, API);
    let wrong = probe(&api.server(), &authority.anchors, &server_tls(WEB, API)).await;
    let error = wrong.verified.unwrap_err();
    assert!(matches!(&error, ProbeError::Name { .. }), "{error}");
    let text = error.to_string();
    assert_eq!(
        text,
        format!("the server has shown {API}, and {WEB} is expected")
    );

    let unknown = probe(&api.server(), &other.anchors, &server_tls(API, API)).await;
    let error = unknown.verified.unwrap_err();
    assert!(matches!(&error, ProbeError::Untrusted(_)), "{error}");
    assert!(unknown.certificate.is_some(), "it is shown all the same");
}

#[tokio::test]
async fn a_peer_without_tls_fails_the_handshake() {
    let (near, mut far) = tokio::io::duplex(1 << 16);
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        .await
        .unwrap();
    let anchors = Authority::new().anchors;
    let probed = ServerProbe::handshake(near, &anchors, &server_tls(API, API)).await;
    assert!(probed.certificate.is_none());
    let error = probed.verified.unwrap_err();
    assert!(matches!(&error, ProbeError::Handshake(_)), "{error}");
}
