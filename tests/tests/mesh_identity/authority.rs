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

/// Runs `openssl` in the directory, with the words of `line` as arguments.
fn openssl(files: &tempfile::TempDir, line: &str) {
    let mut command = std::process::Command::new("openssl");
    command.args(line.split_whitespace()).current_dir(files);
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "openssl {line}: {error}");
}

#[tokio::test]
async fn keys_are_taken_in_the_forms_that_tools_write() {
    for make in [
        // openssl: PKCS #8; SEC 1 with and without a section of parameters before it; PKCS #1.
        "genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-384 -out ca.key",
        "genpkey -algorithm ED25519 -out ca.key",
        "genpkey -algorithm RSA -out ca.key",
        "ecparam -name prime256v1 -genkey -out ca.key",
        "ecparam -name secp521r1 -genkey -out ca.key",
        // The form of step and cert-manager for ECDSA, and that of cert-manager for RSA.
        "ecparam -name prime256v1 -genkey -noout -out ca.key",
        "ecparam -name secp384r1 -genkey -noout -out ca.key",
        "genrsa -traditional -out ca.key 2048",
    ] {
        let files = tempfile::tempdir().unwrap();
        openssl(&files, make);
        openssl(
            &files,
            "req -x509 -key ca.key -days 9 -subj /CN=root.test -out ca.pem",
        );
        let options = [
            "--trust-anchor",
            "@ca.pem",
            "--trust-anchor-key",
            "@ca.key",
            "--listen",
            "127.0.0.1:0",
            "--insecure-any-identity",
        ];
        let control = Control::with(files, &options).await;
        let web = certify(control.addr, &identity("web"), "any")
            .await
            .unwrap();
        fs::write(control.files.path().join("web.der"), web.leaf_certificate).unwrap();
        openssl(&control.files, "x509 -inform DER -in web.der -out web.pem");
        openssl(&control.files, "verify -CAfile ca.pem web.pem");
    }
}

#[tokio::test]
async fn the_form_of_a_key_that_cannot_be_used_is_named_with_its_conversion() {
    let files = tempfile::tempdir().unwrap();
    openssl(&files, "ecparam -name prime256v1 -genkey -out plain.key");
    openssl(
        &files,
        "req -x509 -key plain.key -days 9 -subj /CN=root.test -out ca.pem",
    );
    fs::write(files.path().join("mesh.yaml"), "services: []\n").unwrap();
    for (make, expected) in [
        (
            "pkcs8 -topk8 -in plain.key -passout pass:secret -out ca.key",
            "is encrypted; decrypt it with `openssl pkey",
        ),
        (
            "ec -in plain.key -aes128 -passout pass:secret -out ca.key",
            "is encrypted; decrypt it with `openssl pkey",
        ),
        ("ec -in plain.key -outform DER -out ca.key", "-inform DER"),
        (
            "ecparam -name secp256k1 -genkey -noout -out ca.key",
            "(SEC 1, EC PRIVATE KEY) cannot be used",
        ),
        (
            "genrsa -traditional -out ca.key 1024",
            "(PKCS #1, RSA PRIVATE KEY) cannot be used",
        ),
        ("ec -in plain.key -pubout -out ca.key", "only PUBLIC KEY"),
        ("x509 -in ca.pem -out ca.key", "only CERTIFICATE"),
        (
            "ecparam -name prime256v1 -genkey -out ca.key",
            "belongs to none of the certificates",
        ),
    ] {
        openssl(&files, make);
        let path = files.path().join("ca.key");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let options = ["--trust-anchor", "@ca.pem", "--trust-anchor-key", "@ca.key"];
        let refused = Command::new(binary())
            .args(["control", "--mesh", "mesh.yaml", "--listen", "127.0.0.1:0"])
            .args(arguments(&files, &options))
            .current_dir(&files)
            .env_clear()
            .output();
        let refused = soon(refused).await.unwrap();
        let error = String::from_utf8(refused.stderr).unwrap();
        assert!(
            !refused.status.success() && error.contains(expected),
            "{make}: {error}"
        );
        fs::remove_file(path).unwrap();
    }
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
