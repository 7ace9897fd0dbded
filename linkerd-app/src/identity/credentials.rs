//! The credentials of the proxy while it runs: certificate, trust anchors, and the record of both for `/state`.
//!
//! Lives on the control thread; the other threads see the published credentials.
//!
//! - **Bounds**: one certificate, one set of anchors.
//! - **Metrics**: `control_identity_cert_*`.

use super::anchors::{AnchorsLook, ConfiguredAnchors};
use crate::metrics::IdentityFamilies;
use linkerd_proxy_core::{
    readiness::PendingCondition,
    task::spawn_local,
    tls::{
        AnchorsChange, CredentialsPublisher, InvalidCredentials, IssuedCertificate, LocalIdentity,
        SvidContents, TlsKey, TrustAnchors, Validity,
    },
};
use serde_json::{Value, json};
use std::{
    cell::RefCell,
    error::Error,
    rc::Rc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};
use tokio::{sync::Notify, time::interval};

/// The parts of the credentials before the control thread runs.
#[derive(Debug)]
pub struct CredentialsParts {
    /// Publishes them.
    pub publisher: CredentialsPublisher,
    /// The configured trust anchors.
    pub anchors: ConfiguredAnchors,
    /// The issuer of the certificate, for `/state`.
    pub issuer: String,
}

/// The credentials of the proxy, shared by the tasks that renew them.
#[derive(Debug)]
pub struct ProxyCredentials {
    parts: RefCell<CredentialsParts>,
    /// The trust bundle of the last SVID.
    bundle: RefCell<TrustAnchors>,
    record: RefCell<CertificateRecord>,
    families: IdentityFamilies,
    pending: RefCell<Option<PendingCondition>>,
    untrusted: Notify,
}

/// The history of the certificate, for `/state`.
#[derive(Debug, Default)]
struct CertificateRecord {
    valid_until: Option<SystemTime>,
    issued: u64,
    failed: u64,
    last_error: Option<String>,
    next_request: Option<SystemTime>,
    anchors_replaced: u64,
    /// Whether the trust anchors trust the certificate.
    is_untrusted: bool,
}

impl ProxyCredentials {
    /// Takes the parts over, and follows the file of the trust anchors, if there is one. `pending` is met by the first
    /// certificate. Must be called on the control thread.
    pub fn start(
        parts: CredentialsParts,
        families: IdentityFamilies,
        pending: PendingCondition,
    ) -> Rc<Self> {
        let has_file = parts.anchors.file().is_some();
        let credentials = Rc::new(Self {
            parts: parts.into(),
            bundle: TrustAnchors::none().into(),
            record: RefCell::default(),
            families,
            pending: RefCell::new(Some(pending)),
            untrusted: Notify::new(),
        });
        if has_file {
            spawn_local(follow_file(credentials.clone()));
        }
        credentials
    }

    /// The names of this proxy.
    pub fn local(&self) -> LocalIdentity {
        self.parts.borrow().publisher.local().clone()
    }

    /// Verifies and publishes a certificate.
    pub fn certified(
        &self,
        key: &TlsKey,
        issued: IssuedCertificate,
    ) -> Result<(), InvalidCredentials> {
        let now = SystemTime::now();
        let mut parts = self.parts.borrow_mut();
        let validity = parts.publisher.certify(key, issued.chain, now)?;
        drop(parts);
        self.record_certificate(validity, issued.valid_until, now);
        Ok(())
    }

    /// Verifies and publishes an SVID. Its bundle is trusted beside the configured trust anchors.
    pub fn replaced(&self, svid: SvidContents) -> Result<(), InvalidCredentials> {
        let now = SystemTime::now();
        let mut parts = self.parts.borrow_mut();
        let anchors = parts.anchors.anchors().and(&svid.bundle);
        let are_new = anchors != *parts.publisher.anchors();
        let replaced = parts.publisher.replace(anchors, &svid.key, svid.chain, now);
        drop(parts);
        let validity = replaced?;
        self.bundle.replace(svid.bundle);
        self.record.borrow_mut().anchors_replaced += u64::from(are_new);
        self.record_certificate(validity, validity.not_after, now);
        Ok(())
    }

    /// Records that no certificate was issued. The present one stays.
    pub fn failed(&self, error: &dyn Error) {
        self.families.failed();
        let text = error.to_string();
        let mut record = self.record.borrow_mut();
        record.failed += 1;
        record.last_error = Some(text);
        drop(record);
        self.log_failure(error);
    }

    /// Whether the last request failed with this error.
    pub fn has_failed_with(&self, error: &dyn Error) -> bool {
        let record = self.record.borrow();
        let last = record.last_error.as_ref();
        last.is_some_and(|last| *last == error.to_string())
    }

    /// Counts a failure with the same error as the last one, which is logged already.
    pub fn failed_again(&self) {
        self.families.failed();
        self.record.borrow_mut().failed += 1;
    }

    /// The issuer and the last error, as long as there is no certificate.
    pub fn unissued(&self) -> Option<String> {
        let (record, parts) = (self.record.borrow(), self.parts.borrow());
        let error = record.last_error.as_ref()?;
        let is_missing = parts.publisher.validity().is_none();
        is_missing.then(|| format!("{} ({error})", parts.issuer))
    }

    fn log_failure(&self, error: &dyn Error) {
        let present = self.parts.borrow().publisher.validity();
        let left = present.map(|validity| validity.left(SystemTime::now()));
        match left {
            Some(left) => tracing::error!(
                %error,
                "Failed to obtain identity; the current certificate is used for {left:.0?} more"
            ),
            None => tracing::error!(%error, "Failed to obtain identity"),
        }
    }

    /// The end of the validity of the certificate, as stated by its issuer; `None` without one that the trust anchors trust.
    pub fn valid_until(&self) -> Option<SystemTime> {
        let record = self.record.borrow();
        record.valid_until.filter(|_| !record.is_untrusted)
    }

    /// Records the time of the next request for a certificate.
    pub fn next_request(&self, at: SystemTime) {
        self.record.borrow_mut().next_request = Some(at);
    }

    /// Waits until new trust anchors do not trust the certificate. Cancel safe.
    pub async fn untrusted(&self) {
        self.untrusted.notified().await;
    }

    /// Reads the file of the trust anchors again, and applies them.
    pub fn read_anchors(&self) {
        let look = self.parts.borrow_mut().anchors.read();
        self.apply(look);
    }

    /// Reads the file of the trust anchors if it has changed, and applies them.
    fn look_at_anchors(&self) {
        let look = self.parts.borrow_mut().anchors.look();
        self.apply(look);
    }

    fn apply(&self, look: AnchorsLook) {
        let anchors = match look {
            AnchorsLook::Same => return,
            AnchorsLook::Changed(anchors) => anchors,
            AnchorsLook::Failed(error) => {
                tracing::warn!(%error, "The trust anchors cannot be read again; the last ones stay");
                return;
            }
        };
        let anchors = anchors.and(&self.bundle.borrow());
        let number = anchors.len();
        let publisher = &mut self.parts.borrow_mut().publisher;
        let changed = publisher.trust(anchors, SystemTime::now());
        match &changed {
            Ok(AnchorsChange::Same) => return,
            Ok(AnchorsChange::Applied) => tracing::info!(number, "Trust anchors replaced"),
            Ok(AnchorsChange::OwnCertificateUntrusted(error)) => tracing::warn!(
                number,
                error,
                "Trust anchors replaced; they do not trust the certificate of this proxy, and another one is requested"
            ),
            Err(error) => {
                tracing::error!(%error, "The trust anchors cannot be used; the last ones stay");
                return;
            }
        }
        let mut record = self.record.borrow_mut();
        record.anchors_replaced += 1;
        record.is_untrusted = matches!(changed, Ok(AnchorsChange::OwnCertificateUntrusted(_)));
        if record.is_untrusted {
            self.untrusted.notify_one();
        }
    }

    fn record_certificate(&self, validity: Validity, valid_until: SystemTime, now: SystemTime) {
        tracing::info!(id = %self.local().identity, %validity, "Certified identity");
        self.families.certified(valid_until, now);
        let mut record = self.record.borrow_mut();
        record.valid_until = Some(valid_until);
        record.issued += 1;
        record.last_error = None;
        record.is_untrusted = false;
        self.pending.take();
    }

    /// The certificate, the requests for it and the trust anchors, for `/state`. There is no key and no token in it.
    pub fn inspect(&self) -> Value {
        let (record, parts) = (self.record.borrow(), self.parts.borrow());
        let validity = parts.publisher.validity();
        json!({
            "identity": parts.publisher.local().identity.as_str(),
            "server_name": &*parts.publisher.local().server_name,
            "issuer": parts.issuer,
            "valid_from": validity.map(|validity| seconds(validity.not_before)),
            "valid_until": validity.map(|validity| seconds(validity.not_after)),
            "next_request": record.next_request.map(seconds),
            "issued": record.issued,
            "failed": record.failed,
            "last_error": record.last_error,
            "trust_anchors": {
                "number": parts.publisher.anchors().len(),
                "file": parts.anchors.file(),
                "replaced": record.anchors_replaced,
                "trust_own_certificate": validity.map(|_| !record.is_untrusted),
                "last_error": parts.anchors.last_error(),
            },
        })
    }
}

/// Looks at the file of the trust anchors, for as long as the thread runs.
async fn follow_file(credentials: Rc<ProxyCredentials>) {
    let mut looks = interval(LOOK_EVERY);
    loop {
        looks.tick().await;
        credentials.look_at_anchors();
    }
}

/// A time in seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

/// A look is one system call; anchors are replaced with an overlap of hours.
const LOOK_EVERY: Duration = Duration::from_secs(1);
