//! The trust in a peer after its handshake: anchors are removed, and certificates expire, while connections are open.

use super::{Credentials, CredentialsWatch, certificate::CertificateDetails};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::{
    hash::{Hash, Hasher},
    sync::Arc,
    time::SystemTime,
};

/// The certificates of a peer that were verified in a handshake. Equal if they are the same certificates.
#[derive(Clone, Debug)]
pub struct PeerChain {
    chain: Arc<[CertificateDer<'static>]>,
}

/// Whether the certificates of a peer are trusted, as anchors and time change.
#[derive(Debug)]
pub struct PeerTrust {
    peer: PeerChain,
    role: PeerRole,
    /// The credentials by which they were verified.
    verified_by: Arc<Credentials>,
    /// The first end of a certificate after the last verification.
    valid_until: SystemTime,
}

/// The peer's part in the handshake, for which its certificate must be made.
#[derive(Clone, Copy, Debug)]
enum PeerRole {
    Client,
    Server,
}

impl PeerChain {
    /// The certificates of a peer, the leaf first; `None` if it has shown none.
    pub(super) fn new(chain: &[CertificateDer<'_>]) -> Option<Self> {
        let chain = chain
            .iter()
            .map(|certificate| certificate.clone().into_owned());
        let chain: Arc<[_]> = chain.collect();
        (!chain.is_empty()).then_some(Self { chain })
    }

    /// The first moment after `now` at which one of the certificates ends.
    fn next_end(&self, now: SystemTime) -> SystemTime {
        let details = self.chain.iter().map(|it| CertificateDetails::read(it));
        let ends = details.flatten().map(|details| details.validity.not_after);
        let next = ends.filter(|end| *end >= now).min();
        next.unwrap_or(now)
    }
}

impl PartialEq for PeerChain {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.chain, &other.chain) || self.chain == other.chain
    }
}

impl Eq for PeerChain {}

impl Hash for PeerChain {
    fn hash<H: Hasher>(&self, hasher: &mut H) {
        // The leaf is enough: it has a serial number and a signature.
        self.chain.first().map(|leaf| &**leaf).hash(hasher);
    }
}

impl PeerTrust {
    /// The trust in a client whose handshake was verified at `now` by the present credentials; `None` if there are none.
    pub fn new(peer: PeerChain, credentials: &CredentialsWatch, now: SystemTime) -> Option<Self> {
        Self::in_role(peer, PeerRole::Client, credentials, now)
    }

    /// The trust in a server.
    pub(super) fn of_server(
        peer: PeerChain,
        credentials: &CredentialsWatch,
        now: SystemTime,
    ) -> Option<Self> {
        Self::in_role(peer, PeerRole::Server, credentials, now)
    }

    fn in_role(
        peer: PeerChain,
        role: PeerRole,
        credentials: &CredentialsWatch,
        now: SystemTime,
    ) -> Option<Self> {
        Some(Self {
            valid_until: peer.next_end(now),
            verified_by: credentials.borrow().credentials.clone()?,
            peer,
            role,
        })
    }

    /// The first end of a certificate after the last verification.
    pub(super) fn valid_until(&self) -> SystemTime {
        self.valid_until
    }

    /// Whether the certificates have to be verified again: the anchors have changed, or one of the certificates has ended.
    pub fn is_due(&self, credentials: &CredentialsWatch, now: SystemTime) -> bool {
        let present = credentials.borrow();
        let present = present.credentials.as_ref();
        now > self.valid_until
            || present.is_some_and(|present| !present.trusts_like(&self.verified_by))
    }

    /// Verifies the certificates again. Fails with the reason why they lead to no trust anchor.
    pub fn verify(
        &mut self,
        credentials: &CredentialsWatch,
        now: SystemTime,
    ) -> Result<(), String> {
        let present = credentials.borrow().credentials.clone();
        let present = present.ok_or_else(|| "there is no certificate".to_owned())?;
        let since_epoch = now.duration_since(SystemTime::UNIX_EPOCH);
        let unix_now = UnixTime::since_unix_epoch(since_epoch.unwrap_or_default());
        let (leaf, intermediates) = self
            .peer
            .chain
            .split_first()
            .ok_or_else(|| "there is no certificate".to_owned())?;
        let verified = match self.role {
            PeerRole::Client => {
                let verifier = present.clients();
                let verified = verifier.verify_client_cert(leaf, intermediates, unix_now);
                verified.map(drop)
            }
            PeerRole::Server => present.verify_server(leaf, intermediates, unix_now),
        };
        verified.map_err(|error| error.to_string())?;
        self.valid_until = self.peer.next_end(now);
        self.verified_by = present;
        Ok(())
    }
}
