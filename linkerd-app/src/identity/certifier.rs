//! Requests for certificates, as long as the proxy runs.
//!
//! - **Waits for** the identity controller, 30 s at most for each request.
//! - **Bounds**: one request at a time; the current certificate stays until it has expired.
//! - **Metrics**: `control_identity_cert_*`.

use super::documents;
use crate::{config::IdentityConfig, metrics::IdentityFamilies};
use linkerd_proxy_core::{
    readiness::PendingCondition,
    task::spawn_local,
    tls::{
        CertificateRequest, CertificateSource, Credentials, CredentialsIssuer, KeyAndRequest,
        RefreshBounds, Validity,
    },
};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    error::Error,
    path::PathBuf,
    rc::Rc,
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{
    sync::watch,
    time::{sleep, timeout},
};

/// Requests certificates of the identity controller.
#[derive(Debug)]
pub struct Certifier {
    issuer: Arc<CredentialsIssuer>,
    key: KeyAndRequest,
    token_file: PathBuf,
    refresh: RefreshBounds,
    publish: watch::Sender<Option<Arc<Credentials>>>,
}

/// The state of the requests, for `/state`. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CertifierState(Rc<RefCell<Requests>>);

#[derive(Debug, Default)]
struct Requests {
    validity: Option<Validity>,
    valid_until: Option<SystemTime>,
    issued: u64,
    failed: u64,
    last_error: Option<String>,
    next: Option<SystemTime>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Certifier {
    pub(super) fn new(
        config: &IdentityConfig,
        issuer: Arc<CredentialsIssuer>,
        key: KeyAndRequest,
        publish: watch::Sender<Option<Arc<Credentials>>>,
    ) -> Self {
        Self {
            issuer,
            key,
            token_file: config.token_file.clone(),
            refresh: config.refresh,
            publish,
        }
    }

    /// Requests certificates of `source` for as long as the thread runs. `pending` is met by the first one.
    pub fn start(
        self,
        source: impl CertificateSource + 'static,
        families: IdentityFamilies,
        pending: PendingCondition,
    ) -> CertifierState {
        let state = CertifierState::default();
        let running = state.clone();
        spawn_local(async move { self.run(source, families, pending, running).await });
        state
    }

    async fn run(
        self,
        source: impl CertificateSource,
        families: IdentityFamilies,
        pending: PendingCondition,
        state: CertifierState,
    ) {
        let mut pending = Some(pending);
        loop {
            let certified = timeout(REQUEST_TIMEOUT, self.certify(&source)).await;
            let certified = certified.unwrap_or_else(|_| Err(UNANSWERED.into()));
            let now = SystemTime::now();
            match certified {
                Ok((credentials, valid_until)) => {
                    tracing::info!(
                        id = %credentials.local.identity,
                        validity = %credentials.validity,
                        "Certified identity"
                    );
                    families.certified(valid_until, now);
                    state.issued(&credentials, valid_until);
                    self.publish.send_replace(Some(Arc::new(credentials)));
                    pending.take();
                }
                Err(error) => {
                    let present = self.publish.borrow();
                    let left = present.as_ref().map(|it| it.expires_in(now));
                    match left {
                        Some(left) => tracing::error!(
                            %error,
                            "Failed to obtain identity; the current certificate is used for {left:.0?} more"
                        ),
                        None => tracing::error!(%error, "Failed to obtain identity"),
                    }
                    families.failed();
                    state.failed(&*error);
                }
            }
            let pause = {
                let mut state = state.0.borrow_mut();
                let pause = self.refresh.next(state.valid_until, now);
                state.next = Some(now + pause);
                pause
            };
            sleep(pause).await;
        }
    }

    /// Requests one certificate. Returns the credentials, and the time until which the controller says that they are valid.
    async fn certify(
        &self,
        source: &impl CertificateSource,
    ) -> Result<(Credentials, SystemTime), BoxError> {
        let token = documents::token(&self.token_file)?;
        let request = CertificateRequest {
            identity: self.issuer.local.identity.clone(),
            token,
            request: self.key.request.clone(),
        };
        let issued = source.certify(request).await?;
        let now = SystemTime::now();
        if issued.valid_until <= now {
            return Err("certificate already expired".into());
        }
        let credentials = self.issuer.issue(&self.key.key, issued.chain, now)?;
        Ok((credentials, issued.valid_until))
    }
}

impl CertifierState {
    fn issued(&self, credentials: &Credentials, valid_until: SystemTime) {
        let mut state = self.0.borrow_mut();
        state.validity = Some(credentials.validity);
        state.valid_until = Some(valid_until);
        state.issued += 1;
        state.last_error = None;
    }

    fn failed(&self, error: &dyn Error) {
        let mut state = self.0.borrow_mut();
        state.failed += 1;
        state.last_error = Some(error.to_string());
    }

    /// The certificate and the requests, for `/state`. There is no key and no token in it.
    pub fn inspect(&self) -> Value {
        let state = self.0.borrow();
        json!({
            "valid_from": state.validity.map(|validity| seconds(validity.not_before)),
            "valid_until": state.validity.map(|validity| seconds(validity.not_after)),
            "next_request": state.next.map(seconds),
            "issued": state.issued,
            "failed": state.failed,
            "last_error": state.last_error,
        })
    }
}

/// A time in seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// The time for a controller to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const UNANSWERED: &str = "the identity controller has not answered within 30s";
