//! Requests for certificates, as long as the proxy runs.
//!
//! - **Waits for** the identity controller, 30 s at most for each request.
//! - **Bounds**: one request at a time; the current certificate stays until it has expired.

use super::{
    credentials::{CredentialsParts, ProxyCredentials},
    documents,
    retry_plan::RetryPlan,
};
use crate::{config::ControlAddr, metrics::IdentityFamilies};
use linkerd_proxy_core::{
    readiness::PendingCondition,
    task::spawn_local,
    tls::{CertificateRequest, CertificateSource, KeyAndRequest, RefreshBounds},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
    cell::Cell,
    error::Error,
    path::PathBuf,
    rc::Rc,
    time::{Duration, SystemTime},
};
use tokio::time::{sleep, timeout};

/// Requests certificates of the identity controller.
#[derive(Debug)]
pub struct Certifier {
    /// The credentials that it renews.
    pub(super) credentials: CredentialsParts,
    /// The address of the identity controller.
    pub(super) controller: ControlAddr,
    /// The key, and the request for its certificate.
    pub(super) key: KeyAndRequest,
    /// The file of the token.
    pub(super) token_file: PathBuf,
    /// Bounds of the time between two requests.
    pub(super) refresh: RefreshBounds,
}

/// The task of a [`Certifier`].
struct Renewal<S> {
    credentials: Rc<ProxyCredentials>,
    key: KeyAndRequest,
    token_file: PathBuf,
    refresh: RefreshBounds,
    source: S,
    /// The time of the present request.
    requested_at: Cell<Option<SystemTime>>,
    /// The validity of the last certificate, from its request on.
    lifetime: Cell<Option<Duration>>,
}

type BoxError = Box<dyn Error + Send + Sync>;

impl Certifier {
    /// The address of the identity controller.
    pub fn controller(&self) -> ControlAddr {
        self.controller.clone()
    }

    /// Requests certificates of `source` for as long as the thread runs. `pending` is met by the first one.
    pub fn start(
        self,
        source: impl CertificateSource + 'static,
        families: IdentityFamilies,
        pending: PendingCondition,
    ) -> Rc<ProxyCredentials> {
        let credentials = ProxyCredentials::start(self.credentials, families, pending);
        let renewal = Renewal {
            credentials: credentials.clone(),
            key: self.key,
            token_file: self.token_file,
            refresh: self.refresh,
            source,
            requested_at: Cell::default(),
            lifetime: Cell::default(),
        };
        spawn_local(async move { renewal.run().await });
        credentials
    }
}

impl<S: CertificateSource> Renewal<S> {
    async fn run(self) {
        let mut rng = SmallRng::from_rng(&mut rand::rng());
        let mut failures = 0;
        loop {
            self.credentials.read_anchors();
            self.requested_at.set(Some(SystemTime::now()));
            let certified = timeout(REQUEST_TIMEOUT, self.certify()).await;
            match certified.unwrap_or_else(|_| Err(UNANSWERED.into())) {
                Ok(()) => failures = 0,
                Err(error) => {
                    self.credentials.failed(&*error);
                    failures += 1;
                }
            }
            let now = SystemTime::now();
            let valid = self.credentials.valid_until().filter(|until| *until > now);
            let retry = RetryPlan::new(self.refresh, self.lifetime.get());
            let pause = match (failures, valid) {
                (0, valid) => self.refresh.next(valid, now),
                (failures, None) => retry.without_certificate(failures, &mut rng),
                (_, Some(until)) => retry.before_expiry(until, now),
            };
            self.credentials.next_request(now + pause);
            tokio::select! {
                () = sleep(pause) => {}
                () = self.credentials.untrusted() => {}
            }
        }
    }

    /// Requests one certificate.
    async fn certify(&self) -> Result<(), BoxError> {
        let request = CertificateRequest {
            identity: self.credentials.local().identity,
            token: documents::token(&self.token_file)?,
            request: self.key.request.clone(),
        };
        let issued = self.source.certify(request).await?;
        // A certificate that expired before it was asked for says nothing, but that the clocks differ.
        let lifetime = |at| issued.valid_until.duration_since(at).ok();
        let lifetime = self.requested_at.get().and_then(lifetime);
        self.lifetime.set(lifetime.or(self.lifetime.get()));
        if issued.valid_until <= SystemTime::now() {
            return Err("certificate already expired".into());
        }
        Ok(self.credentials.certified(&self.key.key, issued)?)
    }
}

/// The time for a controller to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

const UNANSWERED: &str = "the identity controller has not answered within 30s";
