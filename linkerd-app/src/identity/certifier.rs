//! Requests for certificates, as long as the proxy runs.
//!
//! - **Waits for** the identity controller, 30 s at most for each request.
//! - **Bounds**: one request at a time; the current certificate stays until it has expired.

use super::{
    credentials::{CredentialsParts, ProxyCredentials},
    documents,
};
use crate::{config::ControlAddr, metrics::IdentityFamilies};
use linkerd_proxy_core::{
    Backoff,
    readiness::PendingCondition,
    task::spawn_local,
    tls::{CertificateRequest, CertificateSource, KeyAndRequest, RefreshBounds},
};
use rand::{SeedableRng, rngs::SmallRng};
use std::{
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
        };
        spawn_local(async move { renewal.run().await });
        credentials
    }
}

impl<S: CertificateSource> Renewal<S> {
    async fn run(self) {
        let mut rng = SmallRng::from_rng(&mut rand::rng());
        let longest = self.refresh.min.max(FIRST_RETRY);
        let backoff = Backoff::new(FIRST_RETRY, longest, JITTER).expect("its bounds are in order");
        let mut failures = 0;
        loop {
            self.credentials.read_anchors();
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
            let pause = match valid {
                // Connections wait for the certificate.
                None if failures > 0 => backoff.delay(failures - 1, &mut rng),
                valid => self.refresh.next(valid, now),
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
        if issued.valid_until <= SystemTime::now() {
            return Err("certificate already expired".into());
        }
        Ok(self.credentials.certified(&self.key.key, issued)?)
    }
}

/// The time for a controller to answer.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// The time until the second request for the first certificate. The times until further requests grow to the shortest time
/// between two renewals.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const JITTER: f64 = 0.1;

const UNANSWERED: &str = "the identity controller has not answered within 30s";
