//! Handshakes between proxies, over streams in memory.

mod authority;
mod probe;
mod svid;
mod trust;

use super::*;
use crate::{
    Error, Reason, drain,
    endpoint::ServerTls,
    transport::{Duplex, TransportStream},
};
use authority::{Authority, HOUR};
use std::{
    num::NonZeroU16,
    time::{Duration, SystemTime},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const WEB: &str = "web.shop.serviceaccount.identity.linkerd.cluster.local";
const API: &str = "api.shop.serviceaccount.identity.linkerd.cluster.local";

/// A proxy of the mesh.
struct Proxy {
    publisher: CredentialsPublisher,
    credentials: CredentialsWatch,
}

impl Proxy {
    fn new(authority: &Authority, name: &str) -> Self {
        Self::certified(authority, name, SystemTime::now())
    }

    /// A proxy that got a certificate at `from`, valid for an hour from then.
    fn certified(authority: &Authority, name: &str, from: SystemTime) -> Self {
        let mut proxy = Self::uncertified(authority, name);
        let (key, chain) = authority.certified(name, from, HOUR);
        proxy.publisher.certify(&key, chain, from).unwrap();
        proxy
    }

    fn uncertified(authority: &Authority, name: &str) -> Self {
        let local = LocalIdentity {
            identity: name.parse().unwrap(),
            server_name: name.into(),
        };
        let published = CredentialsPublisher::new(local, authority.anchors.clone());
        let (publisher, credentials) = published.unwrap();
        Self {
            publisher,
            credentials,
        }
    }

    fn client(&self, server: &str) -> MeshClient {
        MeshClient::new(self.credentials.clone(), &server_tls(server, server))
    }

    fn server(&self) -> MeshServer {
        MeshServer::new(self.publisher.local().clone(), self.credentials.clone())
    }
}

fn server_tls(identity: &str, server_name: &str) -> ServerTls {
    ServerTls {
        identity: identity.parse().unwrap(),
        server_name: server_name.to_owned().try_into().unwrap(),
    }
}

/// Connects a client to a server, which may ask for a transport header.
async fn connect(
    client: &MeshClient,
    server: &MeshServer,
    asks_for_header: bool,
) -> (Result<TransportStream, Error>, Result<Terminated, Error>) {
    let (near, far) = tokio::io::duplex(1 << 16);
    let accept = async {
        let mut stream = TransportStream::from(far);
        let hello = hello(&mut stream).await;
        assert!(server.is_asked_for(&hello));
        server.terminate(hello, stream, asks_for_header).await
    };
    tokio::join!(client.encrypt(near.into()), accept)
}

async fn hello(stream: &mut TransportStream) -> ClientHello {
    let (_signal, drain) = drain::channel();
    let first = read_client_hello(
        stream,
        Duration::from_secs(1),
        &mut drain.watch(),
        std::future::pending,
    )
    .await;
    first.unwrap().hello.unwrap()
}

#[tokio::test]
async fn two_proxies_know_one_another() {
    let authority = Authority::new();
    let (web, api) = (Proxy::new(&authority, WEB), Proxy::new(&authority, API));
    let client = web.client(API);
    for _resumed in [false, true] {
        let (near, far) = connect(&client, &api.server(), false).await;
        let (mut near, far) = (near.unwrap(), far.unwrap());
        assert_eq!(far.status, TlsStatus::Meshed(Some(WEB.parse().unwrap())));
        assert!(!far.has_header);
        let mut far = far.stream;
        near.write_all(b"hello").await.unwrap();
        near.flush().await.unwrap();
        far.write_all(b"welcome").await.unwrap();
        far.shutdown().await.unwrap();
        let (mut sent, mut answered) = ([0; 5], String::new());
        far.read_exact(&mut sent).await.unwrap();
        assert_eq!(&sent, b"hello");
        near.read_to_string(&mut answered).await.unwrap();
        assert_eq!(answered, "welcome");
        assert!(!near.is_socket() && near.peek().is_none());
    }
}

#[tokio::test]
async fn a_transport_header_comes_first_if_both_agree() {
    let authority = Authority::new();
    let (web, api) = (Proxy::new(&authority, WEB), Proxy::new(&authority, API));
    let header = TransportHeader {
        port: NonZeroU16::new(8080).unwrap(),
        name: None,
        protocol: Some(SessionProtocol::Http1),
    };
    let client = web.client(API).with_header(Some(header.clone()));
    let (near, far) = connect(&client, &api.server(), true).await;
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    assert!(far.has_header);
    near.write_all(b"GET /").await.unwrap();
    near.shutdown().await.unwrap();
    let (read, after) = TransportHeader::read(&mut far.stream).await.unwrap();
    assert_eq!(read, header);
    let mut rest = after.to_vec();
    far.stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"GET /");

    // An older peer does not know the header.
    let (near, far) = connect(&client, &api.server(), false).await;
    let (mut near, mut far) = (near.unwrap(), far.unwrap());
    assert!(!far.has_header);
    near.write_all(b"GET /").await.unwrap();
    near.shutdown().await.unwrap();
    let mut rest = Vec::new();
    far.stream.read_to_end(&mut rest).await.unwrap();
    assert_eq!(rest, b"GET /");

    // A client that does not offer the header is refused where it is required, by an alert.
    let (near, far) = connect(&web.client(API), &api.server(), true).await;
    let has_header = far.map(|terminated| terminated.has_header);
    assert!(near.is_err() || !has_header.unwrap());
}

#[tokio::test]
async fn an_endpoint_with_another_identity_is_refused() {
    let authority = Authority::new();
    let (web, api) = (Proxy::new(&authority, WEB), Proxy::new(&authority, API));
    let other = "other.shop.serviceaccount.identity.linkerd.cluster.local";
    let client = MeshClient::new(web.credentials.clone(), &server_tls(other, API));
    let (near, _) = connect(&client, &api.server(), false).await;
    let error = near.unwrap_err();
    assert_eq!(error.reason(), Reason::IdentityMismatch);
    assert!(error.to_string().contains(API), "{error}");
}

#[tokio::test]
async fn a_peer_of_another_mesh_is_refused_by_either_side() {
    let (authority, stranger) = (Authority::new(), Authority::new());
    let (web, api) = (Proxy::new(&authority, WEB), Proxy::new(&stranger, API));
    let (near, far) = connect(&web.client(API), &api.server(), false).await;
    let error = near.unwrap_err();
    assert_eq!(error.reason(), Reason::TlsFailed);
    assert!(error.to_string().contains("UnknownIssuer"), "{error}");
    assert_eq!(far.unwrap_err().reason(), Reason::ClientTlsFailed);
}

#[tokio::test(start_paused = true)]
async fn without_a_certificate_handshakes_wait_for_it() {
    let authority = Authority::new();
    let web = Proxy::new(&authority, WEB);
    let mut api = Proxy::uncertified(&authority, API);
    let (client, server) = (web.client(API), api.server());
    let handshake = connect(&client, &server, false);
    tokio::pin!(handshake);
    let waited = tokio::time::timeout(Duration::from_secs(1), &mut handshake).await;
    assert!(waited.is_err() && !server.has_certificate());
    let now = SystemTime::now();
    let (key, chain) = authority.certified(API, now, HOUR);
    api.publisher.certify(&key, chain, now).unwrap();
    let (near, far) = handshake.await;
    assert!(near.is_ok() && far.is_ok());
}

#[tokio::test]
async fn an_expired_certificate_is_explained_with_all_three_times() {
    let authority = Authority::new();
    let now = SystemTime::now();
    let past = Proxy::certified(&authority, WEB, now - 2 * HOUR);
    let (near, _far) = tokio::io::duplex(1 << 16);
    let error = past.client(API).encrypt(near.into()).await;
    let error = error.unwrap_err();
    assert_eq!(error.reason(), Reason::NoCertificate);
    let text = error.to_string();
    assert!(
        text.contains("has expired") && text.matches("GMT").count() == 3,
        "{text}"
    );
    // The proxy rejects the certificate at once.
    let issued = authority.issue(WEB, now - 2 * HOUR, HOUR, now).unwrap_err();
    assert!(issued.to_string().contains("has expired"), "{issued}");
    let issued = authority.issue(WEB, now + HOUR, HOUR, now).unwrap_err();
    assert!(issued.to_string().contains("not valid yet"), "{issued}");
}

#[tokio::test]
async fn a_certificate_for_another_name_is_not_taken() {
    let authority = Authority::new();
    let now = SystemTime::now();
    let key = KeyAndRequest::generate(&WEB.parse().unwrap()).unwrap();
    let chain = vec![authority.sign(&key.request, now, HOUR)];
    let issuer = authority.issuer(API);
    let error = issuer.issue(&key.key, chain, now).unwrap_err();
    assert!(
        error
            .to_string()
            .starts_with("certificate does not match TLS identity"),
        "{error}"
    );
    let error = issuer.issue(&key.key, Vec::new(), now).unwrap_err();
    assert!(matches!(error, InvalidCredentials::Missing));
}

#[test]
fn anchors_are_certificates_in_pem() {
    assert_eq!(
        TrustAnchors::from_pem("").unwrap_err().to_string(),
        "no trust roots in PEM file"
    );
    let broken = "-----BEGIN CERTIFICATE-----\n...\n-----END CERTIFICATE-----\n";
    assert!(matches!(
        TrustAnchors::from_pem(broken).unwrap_err(),
        InvalidTrustAnchors::Pem(_)
    ));
}

#[test]
fn a_key_is_never_shown() {
    let key = KeyAndRequest::generate(&WEB.parse().unwrap()).unwrap();
    assert_eq!(format!("{:?}", key.key), "TlsKey(..)");
    let error = TlsKey::from_pkcs8(b"junk").unwrap_err();
    assert!(error.to_string().contains("expected PKCS#8"), "{error}");
}

#[test]
fn spiffe_identities_are_uri_names() {
    let identity: Identity = "spiffe://cluster.local/ns/shop/sa/web".parse().unwrap();
    let key = KeyAndRequest::generate(&identity).unwrap();
    let authority = Authority::new();
    let leaf = authority.sign(&key.request, SystemTime::now(), HOUR);
    let details = CertificateDetails::read(&leaf).unwrap();
    assert_eq!(details.identities, [identity]);
}
