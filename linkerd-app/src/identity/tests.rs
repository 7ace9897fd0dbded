//! The certifier with a source of the test, and the files.

use super::*;
use crate::{
    config::{AnchorsConfig, IdentityConfig},
    testing::TestMetrics,
};
use futures::{FutureExt, future::LocalBoxFuture};
use linkerd_control::Authority;
use linkerd_proxy_core::{
    Readiness,
    tls::{CertificateRequest, CertificateSource, CertifyError, IssuedCertificate},
};
use std::{
    cell::RefCell,
    fs,
    path::Path,
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::{task::LocalSet, time::Instant};

const NAME: &str = "web.test";
const MINUTE: Duration = Duration::from_secs(60);

/// An authority that signs for a minute, or refuses, and notes the time and the token of each request.
#[derive(Clone)]
struct Source {
    authority: Rc<RefCell<Rc<Authority>>>,
    refuses: Rc<RefCell<bool>>,
    requests: Rc<RefCell<Vec<Noted>>>,
}

/// The time and the token of a request.
type Noted = (Instant, Vec<u8>);

impl CertificateSource for Source {
    fn certify(
        &self,
        request: CertificateRequest,
    ) -> LocalBoxFuture<'_, Result<IssuedCertificate, CertifyError>> {
        let noted = (Instant::now(), request.token);
        self.requests.borrow_mut().push(noted);
        if *self.refuses.borrow() {
            let refused = CertifyError::Refused("not now".to_owned());
            return std::future::ready(Err(refused)).boxed_local();
        }
        let authority = self.authority.borrow().clone();
        let leaf = authority
            .sign(&request.request, request.identity.as_str(), MINUTE)
            .unwrap();
        let issued = IssuedCertificate {
            chain: vec![leaf.der.into()],
            valid_until: SystemTime::now() + MINUTE,
        };
        std::future::ready(Ok(issued)).boxed_local()
    }
}

fn config(files: &Path, anchors: &str) -> IdentityConfig {
    let vars = [
        ("LINKERD2_PROXY_IDENTITY_LOCAL_NAME", NAME.to_owned()),
        ("LINKERD2_PROXY_IDENTITY_TRUST_ANCHORS", anchors.to_owned()),
        ("LINKERD2_PROXY_IDENTITY_DIR", files.display().to_string()),
        (
            "LINKERD2_PROXY_IDENTITY_TOKEN_FILE",
            files.join("token").display().to_string(),
        ),
        ("LINKERD2_PROXY_IDENTITY_SVC_ADDR", "127.0.0.1:1".to_owned()),
    ];
    let vars = vars.iter().map(|(name, value)| (*name, value.as_str()));
    let vars: Vec<_> = vars.collect();
    crate::testing::config(&vars).identity.clone().unwrap()
}

/// The identity, and its renewal by an identity controller.
fn certifier(config: &IdentityConfig) -> (MeshIdentity, Certifier) {
    match prepare(config).unwrap() {
        (mesh, CertificateRenewal::Certify(certifier)) => (mesh, *certifier),
        (_, other) => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_in_time_and_stays_while_renewal_fails() {
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("token"), "first").unwrap();
    let authority = Rc::new(Authority::generate("root").unwrap());
    let config = config(files.path(), authority.trust_anchors());
    let (mesh, certifier) = certifier(&config);
    let source = Source {
        authority: Rc::new(RefCell::new(authority)),
        refuses: Rc::default(),
        requests: Rc::default(),
    };
    let readiness = Readiness::new();
    let pending = readiness.wait_for("a certificate");
    let metrics = TestMetrics::new();
    let families = metrics.families.control.certificates.clone();
    LocalSet::new()
        .run_until(async {
            let start = Instant::now();
            let state = certifier.start(source.clone(), families, pending);
            assert!(!readiness.is_ready() && !mesh.server().has_certificate());
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(readiness.is_ready() && mesh.server().has_certificate());
            assert_eq!(state.inspect()["issued"], 1);
            let expires = metrics.sum("control_identity_cert_expiration_timestamp_seconds", &[]);
            let renewed = metrics.sum("control_identity_cert_refresh_timestamp_seconds", &[]);
            assert_eq!(expires - renewed, MINUTE.as_secs_f64());

            fs::write(files.path().join("token"), "second").unwrap();
            *source.refuses.borrow_mut() = true;
            tokio::time::sleep(MINUTE).await;
            let requests = source.requests.borrow().clone();
            let at = requests[1].0 - start;
            let at = at.as_secs_f64().round();
            assert!(at == 42.0, "{at}: seven tenths of a minute");
            assert_eq!(
                (&*requests[0].1, &*requests[1].1),
                (&b"first"[..], &b"second"[..])
            );
            assert_eq!(state.inspect()["last_error"], "not now");
            assert!(
                mesh.server().has_certificate(),
                "the first one is still valid"
            );

            *source.refuses.borrow_mut() = false;
            tokio::time::sleep(MINUTE).await;
            assert!(state.inspect()["last_error"].is_null());
        })
        .await;
    let refreshes = "control_identity_cert_refreshes_total";
    assert!(metrics.sum(refreshes, &[r#"result="error""#]) >= 1.0);
    assert!(metrics.sum(refreshes, &[r#"result="ok""#]) >= 2.0);
}

#[tokio::test(start_paused = true)]
async fn the_first_certificate_is_requested_again_soon() {
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("token"), "token").unwrap();
    let authority = Authority::generate("root").unwrap();
    let config = config(files.path(), authority.trust_anchors());
    let (mesh, certifier) = certifier(&config);
    let source = Source {
        authority: Rc::new(RefCell::new(Rc::new(authority))),
        refuses: Rc::new(RefCell::new(true)),
        requests: Rc::default(),
    };
    let readiness = Readiness::new();
    let pending = readiness.wait_for("a certificate");
    let families = TestMetrics::new().families.control.certificates.clone();
    LocalSet::new()
        .run_until(async {
            let _credentials = certifier.start(source.clone(), families, pending);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let requests = source.requests.borrow().len();
            assert!((3..=5).contains(&requests), "{requests}");
            // Ten seconds apart, in the end.
            tokio::time::sleep(5 * MINUTE).await;
            let requests = source.requests.borrow().len();
            assert!((30..=37).contains(&requests), "{requests}");
            *source.refuses.borrow_mut() = false;
            tokio::time::sleep(Duration::from_secs(10)).await;
            assert!(mesh.server().has_certificate());
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn trust_anchors_of_a_file_are_replaced_while_the_proxy_runs() {
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("token"), "token").unwrap();
    let anchors = files.path().join("anchors.pem");
    let [old, new] = ["old", "new"].map(|name| Authority::generate(name).unwrap());
    fs::write(&anchors, old.trust_anchors()).unwrap();
    let config = IdentityConfig {
        trust_anchors: AnchorsConfig::File(anchors.clone()),
        ..config(files.path(), "in the file")
    };
    let (_mesh, certifier) = certifier(&config);
    let source = Source {
        authority: Rc::new(RefCell::new(Rc::new(old))),
        refuses: Rc::default(),
        requests: Rc::default(),
    };
    let readiness = Readiness::new();
    let pending = readiness.wait_for("a certificate");
    let families = TestMetrics::new().families.control.certificates.clone();
    LocalSet::new()
        .run_until(async {
            let second = Duration::from_secs(1);
            let credentials = certifier.start(source.clone(), families, pending);
            let present = || credentials.inspect()["trust_anchors"].clone();
            tokio::time::sleep(second).await;
            assert_eq!(
                (&present()["number"], &present()["replaced"]),
                (&1.into(), &0.into())
            );

            fs::write(&anchors, "half a file").unwrap();
            tokio::time::sleep(2 * second).await;
            assert_eq!(present()["number"], 1);
            let error = present()["last_error"].to_string();
            assert!(error.contains("no trust roots"), "{error}");

            // The certificate is of the old authority: another one is requested at once.
            fs::write(&anchors, new.trust_anchors()).unwrap();
            source.authority.replace(Rc::new(new));
            let requests = source.requests.borrow().len();
            tokio::time::sleep(2 * second).await;
            assert_eq!(source.requests.borrow().len(), requests + 1);
            assert!(present()["last_error"].is_null());
            assert_eq!(
                (&present()["replaced"], &present()["trust_own_certificate"]),
                (&1.into(), &true.into())
            );
        })
        .await;
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let files = tempfile::tempdir().unwrap();
    let authority = Authority::generate("root").unwrap();
    let config = config(files.path(), authority.trust_anchors());
    let error = |expected: &str| {
        let error = prepare(&config).map(drop).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    error("token: No such file");
    fs::write(files.path().join("token"), "").unwrap();
    error("token is empty");
    fs::write(files.path().join("token"), "token").unwrap();
    assert!(prepare(&config).is_ok());
    fs::write(files.path().join("key.p8"), "junk").unwrap();
    error("csr.der is missing beside");
    fs::write(files.path().join("csr.der"), "junk").unwrap();
    error("key.p8: the private key cannot be used");
    let broken = IdentityConfig {
        trust_anchors: AnchorsConfig::Pem("junk".to_owned()),
        ..config.clone()
    };
    let error = prepare(&broken).map(drop).unwrap_err().to_string();
    assert_eq!(error, "no trust roots in PEM file");
}
