//! The authority of the command `control`: the names that it signs, for which tokens, and its files.

use crate::control_process::{Control, arguments};
use linkerd_api_proto::identity::{
    CertifyRequest, CertifyResponse, identity_client::IdentityClient,
};
use linkerd_tests::{TokenIssuer, binary, identity, soon};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde_json::json;
use std::{fs, io, net::SocketAddr, net::TcpStream, os::unix::fs::PermissionsExt, sync::Arc};
use tokio::process::Command;
use tonic::{Code, Status, transport::Channel};

/// Requests a certificate for the name, by a request for the name.
async fn certify(control: SocketAddr, name: &str, token: &str) -> Result<CertifyResponse, Status> {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let request = params.serialize_request(&key).unwrap();
    let channel = Channel::from_shared(format!("http://{control}")).unwrap();
    let channel = soon(channel.connect()).await.unwrap();
    let request = CertifyRequest {
        identity: name.to_owned(),
        token: token.as_bytes().to_vec(),
        certificate_signing_request: request.der().to_vec(),
    };
    let answer = soon(IdentityClient::new(channel).certify(request)).await;
    Ok(answer?.into_inner())
}

#[tokio::test]
async fn a_token_permits_its_own_name_alone() {
    let (issuer, other) = (TokenIssuer::new(), TokenIssuer::new());
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("keys.json"), issuer.keys()).unwrap();
    let options = [
        "--listen",
        "127.0.0.1:0",
        "--write-trust-anchor",
        "@anchor.pem",
        "--token-keys",
        "@keys.json",
        "--token-issuer",
        "https://issuer.test",
        "--service-account-domain",
        "linkerd.cluster.local",
    ];
    let mut control = Control::with(files, &options).await;
    let web = identity("web");
    let account = "system:serviceaccount:default:web";
    let claims = |name: &str, value: serde_json::Value| {
        let mut claims = json!({
            "aud": "identity.l5d.io", "exp": 4_000_000_000_u64, "iss": "https://issuer.test", "sub": account,
        });
        claims[name] = value;
        issuer.sign(&claims)
    };
    assert!(
        certify(control.addr, &web, &claims("nbf", 0.into()))
            .await
            .is_ok()
    );
    let line = control.line("Certificate issued").await;
    assert!(
        line.contains(&web) && line.contains("127.0.0.1:") && line.contains("serial"),
        "{line}"
    );
    assert!(
        certify(control.addr, &web, &issuer.token(account))
            .await
            .is_ok()
    );
    let own = issuer.token("batch.mesh.test");
    assert!(certify(control.addr, "batch.mesh.test", &own).await.is_ok());

    for (name, token, code) in [
        (&*web, "any text".to_owned(), Code::Unauthenticated),
        (&web, other.token(account), Code::Unauthenticated),
        (&web, claims("exp", 1_000.into()), Code::Unauthenticated),
        (
            &web,
            claims("nbf", 3_999_999_999_u64.into()),
            Code::Unauthenticated,
        ),
        (
            &web,
            claims("aud", "https://kubernetes.default.svc".into()),
            Code::Unauthenticated,
        ),
        (
            &web,
            claims("iss", "https://other.test".into()),
            Code::Unauthenticated,
        ),
        (&web, own, Code::PermissionDenied),
        (
            &identity("api"),
            issuer.token(account),
            Code::PermissionDenied,
        ),
        ("web.default", issuer.token(account), Code::PermissionDenied),
        (
            "*.mesh.test",
            issuer.token("*.mesh.test"),
            Code::PermissionDenied,
        ),
    ] {
        let status = certify(control.addr, name, &token).await.unwrap_err();
        assert_eq!(status.code(), code, "{name}: {status}");
        let line = control.line("Certificate refused").await;
        assert!(line.contains(name), "{line}");
    }

    // The issuer has a new key.
    control.write("keys.json", &other.keys());
    control.line("Key set of tokens read again").await;
    assert!(
        certify(control.addr, &web, &issuer.token(account))
            .await
            .is_err()
    );
    assert!(
        certify(control.addr, &web, &other.token(account))
            .await
            .is_ok()
    );
    control.write("keys.json", "{}");
    control.line("the last good one stays").await;
    assert!(
        certify(control.addr, &web, &other.token(account))
            .await
            .is_ok()
    );
}

#[tokio::test]
async fn a_proxy_gets_a_certificate_for_the_name_of_its_token_alone() {
    let issuer = TokenIssuer::new();
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("keys.json"), issuer.keys()).unwrap();
    let options = [
        "--write-trust-anchor",
        "@anchor.pem",
        "--token-keys",
        "@keys.json",
        "--service-account-domain",
        "linkerd.cluster.local",
    ];
    let mut control = Control::start(files, &options).await;
    let with_token = |control: &Control, name: &str, token: &str| {
        control.write(&format!("{name}.token"), token);
        let path = control.files.path().join(format!("{name}.token"));
        let path = path.display().to_string();
        let proxy = control.proxy(name, "anchor.pem");
        proxy.env("LINKERD2_PROXY_IDENTITY_TOKEN_FILE", path)
    };
    for subject in [
        identity("web"),
        "system:serviceaccount:default:web".to_owned(),
    ] {
        let proxy = with_token(&control, "web", &issuer.token(&subject));
        drop(proxy.start().await);
        let line = control.line("Certificate issued").await;
        assert!(
            line.contains(&identity("web")) && line.contains("serial"),
            "{line}"
        );
        assert!(line.contains("127.0.0.1:"), "{line}");
    }
    let others = issuer.token("system:serviceaccount:default:guest");
    for (name, token) in [
        ("web", &*others),
        // The controller's own name, for which there is a token, too.
        ("control", &issuer.token(&identity("control"))),
    ] {
        let proxy = with_token(&control, name, token).start_unready().await;
        proxy.wait_for_log("PermissionDenied").await;
        control.line("Certificate refused").await;
        assert_eq!(proxy.admin.get("/ready").await.status, 503);
    }
}

#[tokio::test]
async fn names_of_the_controller_and_wildcards_are_never_signed() {
    let options = [
        "--listen",
        "127.0.0.1:0",
        "--write-trust-anchor",
        "@anchor.pem",
    ];
    let files = tempfile::tempdir().unwrap();
    let control = Control::with(files, &options).await;
    assert!(
        certify(control.addr, "web.mesh.local", "token")
            .await
            .is_ok()
    );
    for name in ["*.mesh.local", "*.local", "*"] {
        let status = certify(control.addr, name, "token").await.unwrap_err();
        assert_eq!(status.code(), Code::PermissionDenied, "{name}: {status}");
    }

    let authority = linkerd_control::Authority::generate("root").unwrap();
    let controller = linkerd_control::Controller::new();
    controller.identity().authority(authority);
    controller.identity().reserve(&["control.mesh.local"]);
    let server = controller.spawn().await.unwrap();
    for name in ["control.mesh.local", "Control.Mesh.local"] {
        let status = certify(server.addr(), name, "token").await.unwrap_err();
        assert!(
            status.message().contains("name of this controller"),
            "{status}"
        );
    }
    assert_eq!(controller.identity().counts().refused_name, 2);
}

/// A start that fails, or a second controller, leaves the proxies their trust anchor.
#[tokio::test]
async fn the_trust_anchor_of_a_running_mesh_is_not_replaced() {
    let files = tempfile::tempdir().unwrap();
    let options = [
        "--listen",
        "127.0.0.1:0",
        "--write-trust-anchor",
        "@anchor.pem",
    ];
    let control = Control::with(files, &options).await;
    let anchor = control.files.path().join("anchor.pem");
    let written = fs::read_to_string(&anchor).unwrap();
    let taken = control.addr.to_string();
    let second = async |options: &[&str]| {
        let output = Command::new(binary())
            .args(["control", "--mesh"])
            .arg(control.files.path().join("mesh.yaml"))
            .args(arguments(&control.files, options))
            .env_clear()
            .output();
        let output = soon(output).await.unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    for (listen, problem) in [
        (&*taken, "cannot listen on"),
        ("127.0.0.1:0", "anchor.pem exists"),
    ] {
        let options = ["--listen", listen, "--write-trust-anchor", "@anchor.pem"];
        let error = second(&options).await;
        assert!(error.contains(problem), "{error}");
        assert_eq!(fs::read_to_string(&anchor).unwrap(), written);
    }
    let options = ["--listen", &*taken, "--write-trust-anchor", "@other.pem"];
    second(&options).await;
    assert!(!control.files.path().join("other.pem").exists());
}

#[tokio::test]
async fn a_key_that_all_users_can_read_is_refused() {
    let files = tempfile::tempdir().unwrap();
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    fs::write(files.path().join("ca.pem"), certificate).unwrap();
    let path = files.path().join("ca.key");
    fs::write(&path, key.serialize_pem()).unwrap();
    fs::write(files.path().join("mesh.yaml"), "services: []\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let options = ["--trust-anchor", "@ca.pem", "--trust-anchor-key", "@ca.key"];
    let options = [&options[..], &["--listen", "127.0.0.1:0"]].concat();
    let refused = Command::new(binary())
        .args(["control", "--mesh"])
        .arg(files.path().join("mesh.yaml"))
        .args(arguments(&files, &options))
        .env_clear()
        .output();
    let refused = soon(refused).await.unwrap();
    let error = String::from_utf8(refused.stderr).unwrap();
    assert!(
        !refused.status.success() && error.contains("chmod o= "),
        "{error}"
    );
    fs::set_permissions(&path, fs::Permissions::from_mode(0o440)).unwrap();
    Control::with(files, &options).await;
}

/// grpc-core ends a handshake without a selected protocol.
#[tokio::test]
async fn tls_selects_http2() {
    let files = tempfile::tempdir().unwrap();
    let options = [
        "--write-trust-anchor",
        "@anchor.pem",
        "--insecure-any-identity",
    ];
    let control = Control::start(files, &options).await;
    let mut roots = RootCertStore::empty();
    let anchor = CertificateDer::from_pem_file(control.files.path().join("anchor.pem"));
    roots.add(anchor.unwrap()).unwrap();
    let mut config = ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"grpc-exp".to_vec(), b"h2".to_vec()];
    let addr = control.addr;
    let handshake = tokio::task::spawn_blocking(move || {
        let name: ServerName<'static> = identity("control").try_into().unwrap();
        let mut client = ClientConnection::new(Arc::new(config), name).unwrap();
        let mut socket = TcpStream::connect(addr).unwrap();
        while client.is_handshaking() {
            client.complete_io(&mut socket)?;
        }
        io::Result::Ok(client.alpn_protocol().map(<[u8]>::to_vec))
    });
    let selected = soon(handshake).await.unwrap().unwrap();
    assert_eq!(selected.as_deref(), Some(&b"h2"[..]));
}
