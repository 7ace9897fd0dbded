//! The certifier with a source of the test, and the files.

use super::*;
use crate::{config::IdentityConfig, testing::TestMetrics};
use futures::{FutureExt, future::LocalBoxFuture};
use linkerd_control::Authority;
use linkerd_proxy_core::{
    Readiness,
    tls::{CertificateRequest, CertificateSource, CertifyError, IssuedCertificate, RefreshBounds},
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

/// An authority that signs for a minute, or refuses, and notes when it was asked for with which token.
#[derive(Clone)]
struct Source {
    authority: Rc<Authority>,
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
        let leaf = self
            .authority
            .sign(&request.request, request.identity.as_str(), MINUTE)
            .unwrap();
        let issued = IssuedCertificate {
            chain: vec![leaf.into()],
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
    let config = crate::testing::config(&vars).identity.clone().unwrap();
    IdentityConfig {
        refresh: RefreshBounds {
            min: Duration::from_secs(10),
            max: Duration::from_secs(3600),
        },
        ..config
    }
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_renewed_in_time_and_stays_while_renewal_fails() {
    let files = tempfile::tempdir().unwrap();
    fs::write(files.path().join("token"), "first").unwrap();
    let authority = Rc::new(Authority::generate("root").unwrap());
    let config = config(files.path(), authority.trust_anchors());
    let (mesh, certifier) = prepare(&config).unwrap();
    let source = Source {
        authority,
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

            fs::write(files.path().join("token"), "second").unwrap();
            *source.refuses.borrow_mut() = true;
            tokio::time::sleep(MINUTE).await;
            let requests = source.requests.borrow().clone();
            let at = requests[1].0 - start;
            assert_eq!(at.as_secs(), 42, "seven tenths of a minute");
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
        trust_anchors: "junk".to_owned(),
        ..config.clone()
    };
    let error = prepare(&broken).map(drop).unwrap_err().to_string();
    assert_eq!(error, "no trust roots in PEM file");
}
