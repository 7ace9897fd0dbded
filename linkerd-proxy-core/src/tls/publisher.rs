//! The present credentials of the proxy, as its certificate and its trust anchors change.

use super::{
    Credentials, CredentialsIssuer, InvalidCredentials, LocalIdentity, TlsError, TlsKey,
    TrustAnchors, Validity,
};
use crate::{Error, Reason};
use rustls::{ClientConfig, pki_types::CertificateDer};
use std::{sync::Arc, time::SystemTime};
use tokio::sync::watch;

/// The credentials of the proxy, as they change.
pub type CredentialsWatch = watch::Receiver<PresentCredentials>;

/// The credentials of the proxy at one time.
#[derive(Clone, Debug)]
pub struct PresentCredentials {
    /// The certificate and TLS with it; `None` before the first certificate.
    pub(super) credentials: Option<Arc<Credentials>>,
    /// TLS to trusted servers, without a certificate of this proxy.
    pub(super) anonymous: Arc<ClientConfig>,
}

/// Publishes credentials: each handshake that begins later uses the latest ones.
///
/// New trust anchors end the resumption of sessions that were verified with the old ones.
#[derive(Debug)]
pub struct CredentialsPublisher {
    issuer: CredentialsIssuer,
    certified: Option<CertifiedProxy>,
    publish: watch::Sender<PresentCredentials>,
}

/// The key and the certificate of the proxy.
#[derive(Clone, Debug)]
struct CertifiedProxy {
    key: TlsKey,
    chain: Vec<CertificateDer<'static>>,
    validity: Validity,
}

/// The effect of new trust anchors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnchorsChange {
    /// The anchors are the same as before.
    Same,
    /// The anchors are in use.
    Applied,
    /// The anchors are in use, but do not trust the certificate of this proxy itself, for this reason. The certificate is still
    /// shown: peers may still trust it.
    OwnCertificateUntrusted(String),
}

impl CredentialsPublisher {
    /// A publisher without a certificate, and its first state.
    pub fn new(
        local: LocalIdentity,
        anchors: TrustAnchors,
    ) -> Result<(Self, CredentialsWatch), TlsError> {
        let issuer = CredentialsIssuer::new(local, anchors)?;
        let (publish, watch) = watch::channel(PresentCredentials {
            credentials: None,
            anonymous: issuer.anonymous_client()?,
        });
        let publisher = Self {
            issuer,
            certified: None,
            publish,
        };
        Ok((publisher, watch))
    }

    /// The names of this proxy.
    pub fn local(&self) -> &LocalIdentity {
        &self.issuer.local
    }

    /// The trust anchors in use.
    pub fn anchors(&self) -> &TrustAnchors {
        &self.issuer.anchors
    }

    /// The period of validity of the present certificate; `None` before the first one.
    pub fn validity(&self) -> Option<Validity> {
        self.certified.as_ref().map(|certified| certified.validity)
    }

    /// Verifies `chain`, the leaf first, and replaces the certificate by it. On failure nothing changes.
    pub fn certify(
        &mut self,
        key: &TlsKey,
        chain: Vec<CertificateDer<'static>>,
        now: SystemTime,
    ) -> Result<Validity, InvalidCredentials> {
        let anchors = self.issuer.anchors.clone();
        self.replace(anchors, key, chain, now)
    }

    /// Verifies the certificate by the new anchors, and replaces trust anchors, key and certificate together. On failure nothing
    /// changes.
    pub fn replace(
        &mut self,
        anchors: TrustAnchors,
        key: &TlsKey,
        chain: Vec<CertificateDer<'static>>,
        now: SystemTime,
    ) -> Result<Validity, InvalidCredentials> {
        let issuer = self.other_issuer(anchors)?;
        let present = issuer.as_ref().unwrap_or(&self.issuer);
        let validity = present.verify(&chain, now)?;
        let certified = CertifiedProxy {
            key: key.clone(),
            chain,
            validity,
        };
        let credentials = certified.credentials(present)?;
        let anonymous = present.anonymous_client()?;
        if let Some(issuer) = issuer {
            self.issuer = issuer;
        }
        self.certified = Some(certified);
        self.publish.send_replace(PresentCredentials {
            credentials: Some(credentials),
            anonymous,
        });
        Ok(validity)
    }

    /// Replaces the trust anchors. The certificate stays.
    pub fn trust(
        &mut self,
        anchors: TrustAnchors,
        now: SystemTime,
    ) -> Result<AnchorsChange, InvalidCredentials> {
        let Some(issuer) = self.other_issuer(anchors)? else {
            return Ok(AnchorsChange::Same);
        };
        let certified = self.certified.as_ref();
        let credentials = certified.map(|certified| certified.credentials(&issuer));
        let present = PresentCredentials {
            credentials: credentials.transpose()?,
            anonymous: issuer.anonymous_client()?,
        };
        let verified = certified.map_or(Ok(()), |it| issuer.verify(&it.chain, now).map(drop));
        self.issuer = issuer;
        self.publish.send_replace(present);
        Ok(match verified {
            Ok(()) => AnchorsChange::Applied,
            Err(error) => AnchorsChange::OwnCertificateUntrusted(error.to_string()),
        })
    }

    /// An issuer for other anchors; `None` if they are the present ones.
    fn other_issuer(
        &self,
        anchors: TrustAnchors,
    ) -> Result<Option<CredentialsIssuer>, InvalidCredentials> {
        if anchors == self.issuer.anchors {
            return Ok(None);
        }
        let issuer = CredentialsIssuer::new(self.issuer.local.clone(), anchors)?;
        Ok(Some(issuer))
    }
}

impl CertifiedProxy {
    fn credentials(
        &self,
        issuer: &CredentialsIssuer,
    ) -> Result<Arc<Credentials>, InvalidCredentials> {
        let assembled = issuer.assemble(&self.key, self.chain.clone(), self.validity);
        assembled.map(Arc::new)
    }
}

/// The credentials of the proxy, once there are any. Cancel safe. Fails as `NoCertificate` if there never will be.
pub(super) async fn first_credentials(watch: &CredentialsWatch) -> Result<Arc<Credentials>, Error> {
    let mut watch = watch.clone();
    let present = watch
        .wait_for(|present| present.credentials.is_some())
        .await;
    let none = || Error::new(Reason::NoCertificate);
    let present = present.map_err(|_| none())?;
    present.credentials.clone().ok_or_else(none)
}
